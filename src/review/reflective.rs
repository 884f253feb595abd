//! The review of one file, or of several small ones together, as the task that the reflective reviewer works on. Pure.

use super::context::{self, FilePage, Revise};
use super::draft::{Draft, UnderReview, tidy};
use super::evidence;
use super::finding::{answer_schema, parse_findings};
use super::{critic, gate};
use crate::agent::react::Said;
use crate::agent::strategy::{Attempt, Judged, Parsed, Task, Verdict};
use crate::chat::{ChatMessage, ResponseSchema};

/// What one conversation is about.
pub struct FileTask<'a> {
    /// The files; the first is the one that tools look at where nobody names one.
    pub files: Vec<UnderReview<'a>>,
    /// Their paths, for logs.
    pub subject: String,
    /// What the models are told of them.
    pub page: FilePage,
    /// The name of the model that drafts, for findings that no rule stands behind.
    pub model: String,
}

impl Task for FileTask<'_> {
    type Answer = Draft;

    fn subject(&self) -> &str {
        &self.subject
    }

    fn prompt(&self, attempt: &Attempt<'_, Draft>) -> Vec<ChatMessage> {
        let now: Vec<&str> = attempt.missing.iter().map(|m| m.say.as_str()).collect();
        // What is asked for now stands at the end of the prompt; the lessons before are kept in mind by the system prompt.
        let lessons: Vec<&str> = attempt.lessons.iter().map(|l| l.text.as_str()).filter(|l| !now.contains(l)).collect();
        let revise = attempt.before.map(|before| Revise {
            settled: before.settled().collect(),
            open: before.open().collect(),
            missing: now,
        });
        context::reviewer(&self.page, &lessons, revise.as_ref())
    }

    fn schema(&self) -> Option<ResponseSchema> {
        Some(ResponseSchema { name: "findings".to_owned(), schema: answer_schema() })
    }

    fn parse(&self, said: &Said) -> Parsed<Draft> {
        let parsed = parse_findings(&said.text, "");
        let whole = parsed.findings.len();
        let mut complaints: Vec<_> = parsed.rejected.into_iter().map(|rejected| rejected.reason).collect();
        if said.cut {
            complaints
                .insert(0, format!("It was cut off at the length limit after {whole} whole findings: be briefer."));
        } else if !parsed.complete && complaints.is_empty() {
            complaints.push("It is not whole.".to_owned());
        }
        let mut draft = tidy(parsed.findings, parsed.summary, &self.files, &self.model);
        let default = self.files.first().map_or("", |under| &under.diff().path);
        evidence::attach(&mut draft, &said.transcript, default);
        Parsed { answer: draft, complaints }
    }

    fn merge(&self, first: Draft, second: Draft) -> Draft {
        Draft::merge(first, second)
    }

    fn carry(&self, before: &Draft, answer: Draft) -> Draft {
        Draft::carry(before, answer)
    }

    fn evaluate(&self, answer: &Draft) -> Verdict {
        gate::evaluate(answer, &self.files)
    }

    fn similarity(&self, a: &Draft, b: &Draft) -> f64 {
        Draft::similarity(a, b)
    }

    fn refute(&self, answer: &Draft) -> Option<Vec<ChatMessage>> {
        let open: Vec<_> = answer.open().collect();
        (!open.is_empty()).then(|| context::critic(&self.page, &open))
    }

    fn critic_schema(&self) -> Option<ResponseSchema> {
        Some(ResponseSchema { name: "verdicts".to_owned(), schema: critic::answer_schema() })
    }

    fn judge(&self, answer: Draft, said: &Said, round: u32) -> Judged<Draft> {
        critic::judge(answer, &said.text, round, &self.files, &self.model)
    }

    fn unjudged(&self, answer: Draft, why: &str) -> Draft {
        tracing::warn!(subject = self.subject, why, "findings are kept without a second look");
        critic::unconfirmed(answer)
    }
}
