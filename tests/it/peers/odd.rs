//! Replies in every shape, one file for each: what can be read is kept, the rest is a gap with a reason.

use serde_json::json;

use super::{answer, check, files, found, keeps, path};
use crate::harness::bot::{Setup, run_test};
use crate::harness::model::Reply;

/// What comes of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Comes {
    /// Its finding is said, and it counts as reviewed.
    Kept,
    /// Its finding is said, and it counts as not reviewed.
    KeptWithGap,
    /// Nothing is said, and it counts as not reviewed.
    Gap,
    /// Nothing is said, and it counts as reviewed.
    Clean,
}

/// Replies about the file `n`, each with its name and what is to come of it.
type Case = (&'static str, fn(usize) -> String, Comes);

const CASES: &[Case] = &[
    ("prose around it", |n| format!("Sure, I looked at it!\n{}\nShall I go on?", answer(&[found(n)])), Comes::Kept),
    ("a fence", |n| format!("```json\n{}\n```", answer(&[found(n)])), Comes::Kept),
    ("as a string", |n| serde_json::to_string(&answer(&[found(n)])).unwrap(), Comes::Kept),
    (
        "a fence in JSON in a fence",
        |n| format!("```\n{}\n```", json!({"answer": format!("```json\n{}\n```", answer(&[found(n)]))})),
        Comes::Gap,
    ),
    ("several objects", |n| format!("{}\n{}", answer(&[]), answer(&[found(n)])), Comes::Kept),
    ("an object for each", |n| format!("{}\n{}", found(n), found(n)), Comes::Kept),
    ("a byte order mark", |n| format!("\u{feff}{}", answer(&[found(n)])), Comes::Kept),
    ("brackets without end", |_| "[".repeat(100_000), Comes::Gap),
    (
        "a field nested a thousand deep",
        |n| with(n, "extra", &format!("{}{}", "[".repeat(1_000), "]".repeat(1_000))),
        Comes::Gap,
    ),
    ("numbers out of range", |n| with(n, "line", "1e300").replace("\"end_line\":null", "\"end_line\":-3"), Comes::Kept),
    ("not a number", |n| with(n, "confidence", "NaN"), Comes::Kept),
    ("a confidence below nothing", |n| with(n, "confidence", "-7"), Comes::Kept),
    (
        "the same key twice",
        |n| format!("{{\"findings\":[{{\"title\":\"old\",{}],\"summary\":\"\"}}", &found(n).to_string()[1..]),
        Comes::Kept,
    ),
    (
        "nulls",
        |n| {
            answer(&[
                json!({"quote": super::fault(n), "title": super::title(n), "path": null, "body": null, "severity": null, "category": null, "confidence": null, "side": null, "replacement": null}),
            ])
        },
        Comes::Kept,
    ),
    ("NUL characters", |n| with(n, "body", "\"Fails\\u0000 when it is empty. Check it first.\\u0000\""), Comes::Kept),
    (
        "half of a surrogate pair",
        |n| with(n, "body", "\"Fails \\ud83d when it is empty. Check it first.\""),
        Comes::Kept,
    ),
    ("another language", |_| "Keine Probleme gefunden; der Code sieht gut aus.".into(), Comes::Gap),
    ("another form", |_| "<findings><finding line=\"2\">It fails</finding></findings>".into(), Comes::Gap),
    ("nothing", |_| String::new(), Comes::Gap),
    ("thoughts only", |_| format!("<think>Could be {} or not", answer(&[])), Comes::Gap),
    ("a word for the list", |_| "{\"findings\":\"none\"}".into(), Comes::Gap),
    ("null as an item", |_| "{\"findings\":[null]}".into(), Comes::Gap),
    ("one item of two broken", |n| format!("{{\"findings\":[{},{{\"title\": ]}}", found(n)), Comes::KeptWithGap),
    ("an empty list alone", |_| "[]".into(), Comes::Clean),
    ("an empty list", |_| answer(&[]), Comes::Clean),
];

/// An answer with another value, raw JSON, in one field of its finding.
fn with(n: usize, field: &str, raw: &str) -> String {
    let mut item = found(n);
    item[field] = json!("@@");
    answer(&[item]).replace("\"@@\"", raw)
}

#[test]
fn every_shape_of_a_reply_has_its_outcome() {
    run_test(Setup::default(), async |bot| {
        bot.github.commit_main("acme/app", "//- .github/secondlook.yml\nreview:\n  max_comments: 100\n");
        let pr = bot.github.open_pull(files(CASES.len()));
        for (n, (_, reply, _)) in CASES.iter().enumerate() {
            bot.model.on_file(&path(n)).always(Reply::Text(reply(n)));
            bot.model.on_critic(&path(n)).always(Reply::Text(keeps(1)));
        }
        bot.settle().await;
        let (_, _, summary) = check(bot, &pr);
        let comments = bot.github.comments(&pr);
        for (n, (name, _, expected)) in CASES.iter().enumerate() {
            let said = comments.iter().any(|comment| comment.path == path(n) && comment.line == 2);
            let gap = summary.contains(&format!("- `{}`: the model's answer was unusable", path(n)));
            let came = match (said, gap) {
                (true, false) => Comes::Kept,
                (true, true) => Comes::KeptWithGap,
                (false, true) => Comes::Gap,
                (false, false) => Comes::Clean,
            };
            assert_eq!(came, *expected, "{name}:\n{summary}");
        }
    });
}

#[test]
fn a_critic_that_cannot_be_read_leaves_findings_unconfirmed_and_loses_none() {
    let replies =
        ["", "All true.", "[[[[", "{\"verdicts\":[{\"index\":99,\"verdict\":\"drop\"}]}", "{\"verdicts\":null}"];
    run_test(Setup::default(), async |bot| {
        let pr = bot.github.open_pull(files(replies.len()));
        for (n, reply) in replies.iter().enumerate() {
            bot.model.on_file(&path(n)).says_text(&answer(&[found(n)]));
            bot.model.on_critic(&path(n)).always(Reply::Text((*reply).to_owned()));
        }
        bot.settle().await;
        let comments = bot.github.comments(&pr);
        assert_eq!(comments.len(), replies.len(), "{}", bot.github.page(&pr));
        assert!(comments.iter().all(|comment| comment.body.contains("Not confirmed")), "{}", bot.github.page(&pr));
    });
}
