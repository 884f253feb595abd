//! What a run came to: the pages, and which model calls were paid twice.
//!
//! A call is **finished** when its whole answer was handed to the connection and, before its process died, either a step
//! was seen that needs the answer (the next turn of the same conversation, the critic's, a write on that pull request)
//! or ten seconds passed. A finished call must never be made again. A call that was cut off may be; so may one whose
//! answer was on its way when the process died: those are counted, with the time that had passed.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::github::FakeGitHub;
use crate::model::Call;
use crate::story::Story;
use crate::wire::{Passed, Step};
use crate::world::{Life, World};

/// After so long an answer counts as taken in, whatever was seen.
const TAKEN_IN: Duration = Duration::from_secs(10);

/// What stands on GitHub in the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pages(pub(crate) Vec<Page>);

/// A pull request as people see it, and every check run of its repository, of older heads too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) page: String,
    pub(crate) checks: String,
}

impl std::fmt::Display for Page {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}\n{}", self.page, self.checks)
    }
}

impl Pages {
    pub(crate) fn of(world: &World, story: &Story) -> Self {
        let page = |pull| Page {
            page: world.github.page(&world.pr(pull)),
            checks: checks(&world.github, &story.repository(pull)),
        };
        Self((0..story.pulls).map(page).collect())
    }
}

fn checks(github: &FakeGitHub, repository: &str) -> String {
    let mut lines: Vec<String> = github
        .all_checks(repository)
        .iter()
        .map(|check| {
            let title = check.title.as_deref().unwrap_or_default();
            format!("{} {} {:?} {title}", &check.head_sha[..8], check.status, check.conclusion)
        })
        .collect();
    lines.sort();
    lines.join("\n")
}

/// What became of the model calls.
#[derive(Debug, Clone, Default)]
pub(crate) struct Paid {
    /// Calls made.
    pub(crate) calls: usize,
    /// Calls made again because their process died or stood still before the answer was whole.
    pub(crate) cut_off: usize,
    /// Calls made again whose answer had just been sent: how long before the process died.
    pub(crate) just_said: Vec<Duration>,
    /// Finished calls that were made again.
    pub(crate) twice: Vec<String>,
}

impl Paid {
    pub(crate) fn add(&mut self, other: Self) {
        self.calls += other.calls;
        self.cut_off += other.cut_off;
        self.just_said.extend(other.just_said);
        self.twice.extend(other.twice);
    }
}

/// Looks through the calls of a run.
pub(crate) fn paid(calls: &[Call], lives: &[Life], steps: &[Passed]) -> Paid {
    let mut paid = Paid { calls: calls.len(), ..Paid::default() };
    let mut by_label: BTreeMap<(&str, usize), Vec<&Call>> = BTreeMap::new();
    for call in calls {
        by_label.entry((&call.subject, call.turn)).or_default().push(call);
    }
    for ((subject, turn), made) in by_label {
        for pair in made.windows(2) {
            let [first, again] = pair else { continue };
            let lived = |life: &&Life| {
                life.door == first.door && life.from <= first.asked && life.to.is_none_or(|to| to >= first.asked)
            };
            let died = lives.iter().find(lived).and_then(|life| life.to).filter(|died| *died <= again.asked);
            match (died, first.said) {
                (None, said) => paid.twice.push(format!(
                    "{subject} turn {turn} was asked again after {:?} although its process lives (answered: {})",
                    again.asked.duration_since(first.asked),
                    said.is_some()
                )),
                (Some(_), None) => paid.cut_off += 1,
                (Some(died), Some(said)) => match taken_in(first, said, died, calls, steps) {
                    Some(why) => paid.twice.push(format!("{subject} turn {turn} was finished ({why}) and asked again")),
                    None => paid.just_said.push(died.saturating_duration_since(said)),
                },
            }
        }
    }
    paid
}

/// Why an answer counts as taken in, if it does.
fn taken_in(call: &Call, said: Instant, died: Instant, calls: &[Call], steps: &[Passed]) -> Option<String> {
    let within = |at: Instant| at > said && at < died;
    if died.saturating_duration_since(said) >= TAKEN_IN {
        return Some(format!("{:?} before its process died", died.saturating_duration_since(said)));
    }
    let critic = call.subject.replacen("reviewer:", "critic:", 1);
    let next = calls.iter().find(|other| {
        let later = other.subject == call.subject && other.turn > call.turn;
        let judged = other.subject == critic && critic != call.subject;
        other.door == call.door && within(other.asked) && (later || judged)
    });
    if let Some(next) = next {
        return Some(format!("{} turn {} followed", next.subject, next.turn));
    }
    let writes = ["/reviews", "/replies", "/comments", "/check-runs/*"];
    let pull = pull_of(&call.subject)?;
    let wrote = steps.iter().find(|passed| {
        passed.door == call.door
            && passed.step == Step::Asked
            && within(passed.at)
            && passed.pull == Some(pull)
            && !passed.what.starts_with("GET ")
            && writes.iter().any(|end| passed.what.ends_with(end))
    });
    wrote.map(|wrote| format!("{} followed", wrote.what))
}

/// The pull request a call is about, from its file's name or its question.
fn pull_of(subject: &str) -> Option<usize> {
    let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok();
    let after = |mark: &str| subject.split_once(mark).and_then(|(_, rest)| digits(rest));
    after("app/p").or_else(|| after(" to p")).or_else(|| after(" is p"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(turn: usize, asked: Instant, said: Option<Instant>) -> Call {
        Call { subject: "reviewer:app/p0h0f0_t1.py:k".into(), turn, door: 0, asked, said }
    }

    #[test]
    fn a_finished_call_is_told_from_one_that_was_cut_off() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let lives = [Life { door: 0, from: start, to: Some(at(100)) }, Life { door: 0, from: at(101), to: None }];
        let look = |calls: &[Call]| {
            let paid = paid(calls, &lives, &[]);
            (paid.cut_off, paid.just_said.len(), paid.twice.len())
        };
        let again = call(0, at(200), Some(at(210)));
        assert_eq!(look(&[call(0, at(10), None), again.clone()]), (1, 0, 0));
        assert_eq!(look(&[call(0, at(10), Some(at(99))), again.clone()]), (0, 1, 0));
        let followed = call(1, at(60), None);
        assert_eq!(look(&[call(0, at(10), Some(at(50))), followed, again.clone()]), (0, 0, 1));
        assert_eq!(look(&[call(0, at(150), None), again]), (0, 0, 1), "its process lives");
        assert_eq!(pull_of("answer:Why does this matter to p1? (2)"), Some(1));
    }

    #[test]
    fn an_answer_that_was_written_down_is_finished() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let lives = [Life { door: 0, from: start, to: Some(at(100)) }];
        let wrote = Passed {
            door: 0,
            step: Step::Asked,
            what: "POST /repos/*/*/pulls/*/reviews".into(),
            pull: Some(0),
            at: at(70),
        };
        let calls = [call(0, at(10), Some(at(50))), call(0, at(200), None)];
        assert_eq!(paid(&calls, &lives, &[wrote]).twice.len(), 1);
    }
}
