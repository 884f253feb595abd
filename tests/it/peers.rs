//! Replies and failures of models that break other reviewers, each end to end: what is whole is kept, what is not is
//! named, nothing is green that was not looked at, and spending ends.

mod odd;
mod replies;
mod spending;
mod table;
mod wire;

use secondlook::queue;
use secondlook::review::change::Limits;
use serde_json::{Value, json};

use crate::harness::bot::{Bot, Setup};
use crate::harness::github::Pr;
use crate::harness::github::actions::PullSpec;
use crate::harness::model::finding;

/// Files of one change.
const FILES: usize = 10;

fn path(n: usize) -> String {
    format!("src/f{n}.rs")
}

/// A bot that tries a review once, so that what comes of a fault is seen at once.
fn one_try(limits: Limits) -> Setup {
    Setup { limits, queue: queue::Settings { max_attempts: 1, ..queue::Settings::default() }, ..Setup::default() }
}

/// The second line of the file.
fn fault(n: usize) -> String {
    format!("    risky_{n}()")
}

fn title(n: usize) -> String {
    format!("Fails in case {n}")
}

/// Files with one faulty line each, on line 2.
fn files(count: usize) -> PullSpec {
    let file = |n| format!("//- {}\n fn f{n}() -> u32 {{\n-    0\n+{}\n }}\n", path(n), fault(n));
    PullSpec::new(&(0..count).map(file).collect::<String>())
}

/// The finding on the faulty line of a file.
fn found(n: usize) -> Value {
    finding(&path(n), &fault(n), &title(n))
}

/// A reviewer's answer.
fn answer(findings: &[Value]) -> String {
    json!({"findings": findings, "summary": ""}).to_string()
}

/// A critic that keeps so many findings.
fn keeps(count: usize) -> String {
    let keep = |index| json!({"index": index, "verdict": "keep", "reason": "The code does this.", "confidence": 0.9});
    json!({"verdicts": (0..count).map(keep).collect::<Vec<_>>(), "missed": []}).to_string()
}

/// How the check ended: conclusion, title and summary.
fn check(bot: &Bot, pr: &Pr) -> (String, String, String) {
    let check = bot.github.checks(pr).pop().unwrap();
    (check.conclusion.unwrap_or_default(), check.title.unwrap_or_default(), check.summary.unwrap_or_default())
}

/// `path:line` of every line comment, sorted.
fn places(bot: &Bot, pr: &Pr) -> Vec<String> {
    let mut places: Vec<_> = bot.github.comments(pr).iter().map(|c| format!("{}:{}", c.path, c.line)).collect();
    places.sort();
    places
}

/// The faulty line of every file.
fn all_faults() -> Vec<String> {
    (0..FILES).map(|n| format!("{}:2", path(n))).collect()
}
