//! The quality gate: what a draft lacks, decided in code before a critic is paid and after. Pure.
//!
//! It asks for what only the model can mend. What code can settle by itself (other files' findings, repetitions, what
//! was said before) never reaches it, see [`super::draft`].

use super::anchor::Unplaced;
use super::draft::{Draft, UnderReview, place};
use super::finding::{Finding, Severity, fingerprint};
use crate::agent::strategy::{Missing, Verdict};
use crate::diff::{FileDiff, Side};

/// In what a draft can fall short.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dimension {
    /// The finding quotes code, and that code exists.
    Quote,
    /// The quote says which of several places is meant.
    Place,
    /// The claim is about what the change did.
    Change,
    /// It says what to do.
    Action,
    /// Its severity follows from its text.
    Severity,
    /// Nothing is left out.
    Completeness,
}

impl Dimension {
    /// The name in states and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Quote => "quote",
            Self::Place => "place",
            Self::Change => "change",
            Self::Action => "action",
            Self::Severity => "severity",
            Self::Completeness => "completeness",
        }
    }
}

/// What a draft lacks, and how good it is: the share of its claims that lack nothing.
pub fn evaluate(draft: &Draft, files: &[UnderReview<'_>]) -> Verdict {
    let mut missing = Vec::new();
    let mut flawed = 0_u32;
    for candidate in &draft.candidates {
        let path = &candidate.finding.path;
        let Some(under) = files.iter().find(|under| under.diff().path == *path) else { continue };
        let mut found = flaws(&candidate.finding, under.diff(), under.head);
        flawed += u32::from(!found.is_empty());
        if files.len() > 1 {
            // Two files may be told the same under one title.
            found.iter_mut().for_each(|missing| missing.say.insert_str(0, &format!("In {path:?}: ")));
        }
        missing.extend(found);
    }
    let all = u32::try_from(draft.candidates.len()).unwrap_or(u32::MAX).max(1);
    Verdict { missing, score: 1.0 - f64::from(flawed) / f64::from(all) }
}

/// A shortcoming, with its sentence for the next prompt.
pub fn missing(dimension: Dimension, finding: &Finding, say: String) -> Missing {
    Missing {
        dimension: dimension.name().to_owned(),
        key: format!("{}:{}", dimension.name(), fingerprint(finding)),
        say,
    }
}

fn flaws(finding: &Finding, diff: &FileDiff, head: Option<&str>) -> Vec<Missing> {
    let title = &finding.title;
    let mut found = Vec::new();
    match place(finding, diff) {
        // Where GitHub shows no diff, no better quote can help.
        Ok(_) | Err(Unplaced::NoDiff | Unplaced::OtherFile) => {}
        Err(Unplaced::NoQuote) => found.push(missing(
            Dimension::Quote,
            finding,
            format!("\"{title}\" quotes no code: copy the line or lines of the hunks it is about into `quote`."),
        )),
        Err(Unplaced::Ambiguous) => found.push(missing(
            Dimension::Place,
            finding,
            format!(
                "The quote of \"{title}\" stands several times ({}): set `line` to the one you mean, or quote more lines.",
                places(&finding.quote, diff)
            ),
        )),
        Err(Unplaced::QuoteNotFound) if head.is_some_and(|head| stands_in(&finding.quote, head)) => found.push(missing(
            Dimension::Change,
            finding,
            format!(
                "\"{title}\" quotes code that the change does not show: quote the line of the hunks that causes it, or \
                 leave the finding out if the change has nothing to do with it."
            ),
        )),
        Err(Unplaced::QuoteNotFound) => found.push(missing(
            Dimension::Quote,
            finding,
            format!(
                "The quote of \"{title}\" stands nowhere in the hunks: copy it character by character, or leave the \
                 finding out if there is no such code."
            ),
        )),
    }
    if !actionable(finding) {
        found.push(missing(
            Dimension::Action,
            finding,
            format!("\"{title}\" does not say what goes wrong and what to do: say both, or leave it out."),
        ));
    }
    if finding.severity >= Severity::Major && words(&finding.body) + words(&finding.title) < 4 {
        found.push(missing(
            Dimension::Severity,
            finding,
            format!(
                "\"{title}\" is called serious without saying in which case it hurts: say so, or lower `severity`."
            ),
        ));
    }
    found
}

/// A finding without a replacement has to say something beyond a wish that somebody look.
fn actionable(finding: &Finding) -> bool {
    const WISHES: &[&str] =
        &["consider ", "ensure ", "make sure ", "verify ", "double-check ", "check that ", "please "];
    let body = finding.body.trim();
    if finding.replacement.is_some() {
        return true;
    }
    let wish = words(body) < 12 && WISHES.iter().any(|wish| body.to_lowercase().starts_with(wish));
    !(body.is_empty() || wish)
}

fn words(text: &str) -> usize {
    text.split_whitespace().count()
}

/// Whether all lines of a quote stand in a text, whatever their indentation.
fn stands_in(quote: &str, text: &str) -> bool {
    let wanted: Vec<_> = quote.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    !wanted.is_empty() && wanted.iter().all(|line| text.lines().any(|other| other.trim() == *line))
}

/// The lines a quote may begin on, for people and models.
fn places(quote: &str, diff: &FileDiff) -> String {
    let first = quote.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let lines = diff.commentable().filter(|c| c.text.trim() == first).map(|c| match c.side {
        Side::Right => format!("line {}", c.line),
        Side::Left => format!("removed line {}", c.line),
    });
    lines.take(10).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::diff::parse::parse_patch;
    use crate::diff::{FileStatus, Hunk};
    use crate::github::PullFile;
    use crate::review::change::ChangedFile;
    use crate::review::draft::Candidate;
    use crate::review::finding::parse_finding;
    use serde_json::{Value, json};

    const PATCH: &str = "@@ -1,3 +1,4 @@\n a\n+let key = load();\n b\n a";
    const HEAD: &str = "a\nlet key = load();\nb\na\nfn far() {}\n";
    const BODY: &str = "It returns nothing when the file is gone, so the worker stops. Return the error.";

    fn file(hunks: Vec<Hunk>) -> ChangedFile {
        let diff = FileDiff { path: "a.rs".to_owned(), old_path: None, status: FileStatus::Modified, hunks };
        let file = PullFile { diff: Arc::new(diff), blob_sha: None, no_patch: None, self_made: false };
        ChangedFile { file, new_hunks: vec![0], known: Vec::new() }
    }

    fn dimensions(change: Value) -> Vec<String> {
        let mut item = json!({
            "quote": "let key = load();", "severity": "minor", "title": "The key may be missing", "body": BODY,
        });
        item.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let finding = parse_finding(&item, "a.rs").unwrap();
        let draft = Draft { candidates: vec![Candidate { finding, settled: false }], ..Draft::default() };
        let hunks = parse_patch(PATCH).0;
        let verdict = evaluate(&draft, &[UnderReview { file: &file(hunks), head: Some(HEAD) }]);
        assert_eq!(verdict.accepted(), (verdict.score - 1.0).abs() < 1e-9);
        verdict.missing.into_iter().map(|m| m.dimension).collect()
    }

    #[test]
    fn names_what_only_the_model_can_mend() {
        for (change, expected) in [
            (json!({}), vec![]),
            (json!({"quote": ""}), vec!["quote"]),
            (json!({"quote": "let nothing = 1;"}), vec!["quote"]),
            (json!({"quote": "fn far() {}"}), vec!["change"]),
            (json!({"quote": "a", "line": 9}), vec!["place"]),
            (json!({"quote": "a", "line": 4}), vec![]),
            (json!({"body": ""}), vec!["action"]),
            (json!({"body": "Ensure the key exists."}), vec!["action"]),
            (json!({"body": "Ensure the key exists.", "replacement": "let key = load()?;"}), vec![]),
            (json!({"title": "Bad", "body": "Wrong here.", "severity": "critical"}), vec!["severity"]),
            (json!({"severity": "critical"}), vec![]),
        ] {
            assert_eq!(dimensions(change.clone()), expected, "{change}");
        }
    }

    #[test]
    fn an_ambiguous_quote_is_asked_for_by_its_lines() {
        let finding = parse_finding(&json!({"quote": "a", "title": "t", "body": BODY}), "a.rs").unwrap();
        let hunks = parse_patch(PATCH).0;
        let draft = Draft { candidates: vec![Candidate { finding, settled: true }], ..Draft::default() };
        let verdict = evaluate(&draft, &[UnderReview { file: &file(hunks), head: None }]);
        assert!(verdict.missing[0].say.contains("line 1, line 4"), "{verdict:?}");
    }

    #[test]
    fn nothing_claimed_is_nothing_missing() {
        let verdict = evaluate(&Draft::default(), &[UnderReview { file: &file(Vec::new()), head: None }]);
        assert!(verdict.accepted() && (verdict.score - 1.0).abs() < 1e-9);
    }
}
