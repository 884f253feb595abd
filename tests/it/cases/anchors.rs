//! Where comments stand.

use serde_json::json;

use super::{REVIEWS, all_done, change, fault, faulty, places, reviewed, written};
use crate::harness::bot::{Setup, run_test};
use crate::harness::github::actions::PullSpec;
use crate::harness::github::fault::Fault;
use crate::harness::model::finding;

/// Forty lines of which the tenth and the thirtieth are changed, so that there are two hunks.
fn two_hunks() -> String {
    let line = |n| match n {
        10 | 30 => format!("-line_{n}();\n+line_{n}(1);\n"),
        _ => format!(" line_{n}();\n"),
    };
    format!("//- src/a.rs\n{}", (1..=40).map(line).collect::<String>())
}

/// A1, parkerbxyz/suggest-changes#28: what is outside of the hunks goes into the summary, and the rest is posted.
#[test]
fn a_finding_outside_of_the_hunks_takes_nothing_with_it() {
    run_test(Setup::default(), async |bot| {
        let pr = bot.github.open_pull(PullSpec::new(&two_hunks()));
        let mut outside = finding("src/a.rs", "line_20();", "Is called too late");
        (outside["line"], outside["end_line"]) = (json!(20), json!(20));
        // It begins in one hunk and ends in the other.
        let mut across = finding("src/a.rs", "line_13();\nline_27();", "Belongs together");
        (across["line"], across["end_line"]) = (json!(13), json!(27));
        let good = finding("src/a.rs", "line_10(1);", "Takes the wrong number");
        let all = [outside, across, good];
        bot.model.on_file("src/a.rs").finds_all(&all).says(json!({"findings": all, "summary": ""}));
        all_done(bot).await;
        assert_eq!((places(bot, &pr), bot.github.count(REVIEWS)), (vec!["src/a.rs:10".to_owned()], 1));
        let body = &bot.github.reviews(&pr)[0].body;
        assert!(body.contains("Is called too late") && body.contains("Belongs together"), "{body}");
    });
}

/// A3, ubuntu/WSL#244: a comment on one line has no start line.
#[test]
fn a_comment_on_one_line_has_no_start() {
    run_test(Setup::default(), async |bot| {
        let mut item = fault("src/a.rs");
        (item["line"], item["end_line"]) = (json!(2), json!(2));
        let pr = reviewed(bot, PullSpec::new(&faulty("src/a.rs")), "src/a.rs", &[item]).await;
        // The stand-in refuses a start that is the end, as GitHub does.
        assert_eq!((places(bot, &pr), bot.github.count(REVIEWS)), (vec!["src/a.rs:2".to_owned()], 1));
    });
}

/// A4, warpdotdev/oz-for-oss#310: a file that exists and is no part of the change gets no comment.
#[test]
fn a_file_that_the_change_does_not_touch_gets_no_comment() {
    run_test(Setup::default(), async |bot| {
        bot.github.commit_main("acme/app", "//- src/other.rs\nfn other() {}\n");
        let pr = bot.github.open_pull(PullSpec::new(&faulty("src/a.rs")));
        let elsewhere = finding("src/other.rs", "fn other() {}", "Is never called");
        let answer = json!({"findings": [elsewhere, fault("src/a.rs")], "summary": ""});
        let keep = json!({"index": 0, "verdict": "keep", "reason": "So it is.", "confidence": 0.9});
        bot.model.on_file("src/a.rs").says(answer);
        bot.model.on_critic("src/a.rs").says(json!({"verdicts": [keep], "missed": []}));
        all_done(bot).await;
        assert_eq!((places(bot, &pr), bot.github.count(REVIEWS)), (vec!["src/a.rs:2".to_owned()], 1));
    });
}

/// A6, alibaba/open-code-review#624: what survives a refusal is one review, not one for each comment.
#[test]
fn what_survives_a_refusal_is_one_review() {
    run_test(Setup::default(), async |bot| {
        let names = ["src/a.rs", "src/b.rs", "src/c.rs"];
        let pr = bot.github.open_pull(PullSpec::new(&names.map(faulty).concat()));
        for name in names {
            bot.model.on_file(name).finds_all(&[fault(name)]);
        }
        bot.github.fault(Fault::unprocessable(REVIEWS, &["Line could not be resolved"]));
        all_done(bot).await;
        assert_eq!((bot.github.reviews(&pr).len(), places(bot, &pr).len()), (1, 3), "{}", bot.github.page(&pr));
    });
}

/// A10, IstiN/dmtools-agents#413: of a removed and an added line with one number, each is found on its own side.
#[test]
fn a_line_is_looked_up_by_side_and_number() {
    run_test(Setup::default(), async |bot| {
        let mut old = finding("src/a.rs", "    0", "Was right before");
        (old["line"], old["side"]) = (json!(2), json!("LEFT"));
        let mut new = fault("src/a.rs");
        new["line"] = json!(2);
        let pr = reviewed(bot, PullSpec::new(&faulty("src/a.rs")), "src/a.rs", &[old, new]).await;
        assert_eq!(places(bot, &pr), ["!src/a.rs:2", "src/a.rs:2"]);
    });
}

/// A11, MattJColes/lgtmaybe#128: the marker of a missing final newline counts as no line.
#[test]
fn the_marker_of_a_missing_newline_moves_no_number() {
    run_test(Setup::default(), async |bot| {
        let spec = change("a.txt", "one\ntwo", "one\nzwei\nthree\nfour");
        let pr = reviewed(bot, spec, "a.txt", &[finding("a.txt", "four", "Counts one too far")]).await;
        assert_eq!(places(bot, &pr), ["a.txt:4"]);
    });
}

/// A12, sourcegraph/go-diff#20: places are said as lines; `position`, which counts markers and headers too, is not used.
#[test]
fn places_are_lines_and_never_positions() {
    run_test(Setup::default(), async |bot| {
        let before: String = (1..=40).map(|n| format!("line {n}\n")).collect();
        let after = before.replace("line 2\n", "second\n").replace("line 38\n", "another\n");
        let spec = change("a.txt", before.trim_end(), after.trim_end());
        let found = [finding("a.txt", "second", "Names no number"), finding("a.txt", "another", "Says not which one")];
        let pr = reviewed(bot, spec, "a.txt", &found).await;
        // A request with `position` would be a complaint of the stand-in.
        assert_eq!(places(bot, &pr), ["a.txt:2", "a.txt:38"]);
    });
}

/// A13, github/github-mcp-server#2495: comments go out with their review over REST, which refuses what GraphQL would lose.
#[test]
fn comments_go_out_where_a_bad_place_is_refused_and_not_lost() {
    run_test(Setup::default(), async |bot| {
        let pr = bot.github.open_pull(PullSpec::new(&two_hunks()));
        let mut outside = finding("src/a.rs", "line_20();", "Is called too late");
        outside["line"] = json!(20);
        let again = json!({"findings": [outside], "summary": ""});
        bot.model.on_file("src/a.rs").finds_all(&[outside]).says(again);
        all_done(bot).await;
        assert!(written(bot, &pr).iter().any(|body| body.contains("Is called too late")), "{}", bot.github.page(&pr));
        assert_eq!((places(bot, &pr).len(), bot.github.count(REVIEWS)), (0, 1));
    });
}

/// A14, max-sixty/tend#252: after a refusal our reviews on the head are looked at before anything is sent again.
#[test]
fn a_refusal_that_left_a_review_is_not_sent_again() {
    run_test(Setup::default(), async |bot| {
        let pr = bot.github.open_pull(PullSpec::new(&faulty("src/a.rs")));
        bot.model.on_file("src/a.rs").finds_all(&[fault("src/a.rs")]);
        bot.github.fault(Fault::apply_then_status(REVIEWS, 422));
        all_done(bot).await;
        assert_eq!((bot.github.reviews(&pr).len(), bot.github.count(REVIEWS)), (1, 1), "{}", bot.github.page(&pr));
    });
}
