//! Faults that users reported of other bots, each driven through this one: the name says what is right here, the line
//! above names the case and where it was reported.

mod anchors;
mod events;
mod files;
mod heads;
mod limits;
mod text;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::harness::bot::Bot;
use crate::harness::github::Pr;
use crate::harness::github::actions::PullSpec;
use crate::harness::github::files::{Change, File};
use crate::harness::material::material;
use crate::harness::model::finding;

const REVIEWS: &str = "POST /repos/*/*/pulls/*/reviews";

/// Every file of the cases, to be held against the list of them.
const SOURCES: [&str; 6] = [
    include_str!("cases/anchors.rs"),
    include_str!("cases/events.rs"),
    include_str!("cases/files.rs"),
    include_str!("cases/heads.rs"),
    include_str!("cases/limits.rs"),
    include_str!("cases/text.rs"),
];

/// A change of one file, from one text to another.
fn change(path: &str, before: &str, after: &str) -> PullSpec {
    PullSpec::of(Change::of(path, Some(File::new(before)), Some(File::new(after))))
}

/// A small function that the case is not about, with one faulty line, on line 2.
fn faulty(path: &str) -> String {
    format!("//- {path}\n fn a() -> u32 {{\n-    0\n+    risky()\n }}\n")
}

/// The finding on that line.
fn fault(path: &str) -> Value {
    finding(path, "    risky()", "Fails on Mondays")
}

/// Reviews a pull request in which these findings are made in one file.
async fn reviewed(bot: &Bot, spec: PullSpec, path: &str, findings: &[Value]) -> Pr {
    let pr = bot.github.open_pull(spec);
    bot.model.on_file(path).finds_all(findings);
    all_done(bot).await;
    pr
}

/// Works until nothing waits, today or later.
async fn all_done(bot: &Bot) {
    bot.settle().await;
    while bot.assembled.queue.next_due().await.unwrap().is_some() {
        bot.until_next_due().await;
    }
}

/// `path:line` of every line comment, `path:start-line` of ranges, `!` before the old side.
fn places(bot: &Bot, pr: &Pr) -> Vec<String> {
    let place = |comment: &crate::harness::github::state::Comment| {
        let start = comment.start.map(|start| format!("{start}-")).unwrap_or_default();
        format!("{}{}:{start}{}", if comment.left { "!" } else { "" }, comment.path, comment.line)
    };
    let mut places: Vec<String> = bot.github.comments(pr).iter().map(place).collect();
    places.sort();
    places
}

/// All that was written: bodies of reviews and of line comments.
fn written(bot: &Bot, pr: &Pr) -> Vec<String> {
    let reviews = bot.github.reviews(pr).into_iter().map(|review| review.body);
    reviews.chain(bot.github.comments(pr).into_iter().map(|comment| comment.body)).collect()
}

/// What a model answers that finds nothing.
fn nothing() -> Value {
    json!({"findings": [], "summary": ""})
}

/// `id reference` of every named test: a line `/// ID, reference: …` with a function below.
fn named() -> BTreeSet<String> {
    let mut named = BTreeSet::new();
    for source in SOURCES {
        let lines: Vec<&str> = source.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let Some((id, rest)) = line.strip_prefix("/// ").and_then(|doc| doc.split_once(", ")) else { continue };
            let Some((reference, _)) = rest.split_once(':') else { continue };
            let below: Vec<&&str> = lines[at..].iter().take_while(|line| !line.starts_with("fn ")).collect();
            if below.iter().any(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test]")) {
                named.insert(format!("{id} {reference}"));
            }
        }
    }
    named
}

#[test]
fn every_reported_fault_has_its_test() {
    let named = named();
    assert!(named.len() >= 40, "{named:?}");
    let Some(list) = material("github/cases.json") else { return };
    let cases: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(list).unwrap()).unwrap();
    let text = |case: &Value, name: &str| case[name].as_str().unwrap().to_owned();
    let missing: Vec<String> = cases
        .iter()
        .map(|case| format!("{} {}", text(case, "id"), text(case, "ref")))
        .filter(|case| !named.contains(case))
        .collect();
    assert!(missing.is_empty(), "without a test: {missing:#?}");
}
