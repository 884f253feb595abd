//! Which files are seen, and by which name.

use std::time::Duration;

use http::{HeaderMap, StatusCode};
use secondlook::diff::parse::parse_unified;
use secondlook::github::error::GitHubError;
use secondlook::retry::Retry;
use serde_json::json;

use super::{REVIEWS, all_done, faulty, nothing, places, reviewed, written};
use crate::harness::bot::{Setup, run_test};
use crate::harness::github::actions::PullSpec;
use crate::harness::github::fault::Fault;
use crate::harness::github::files::{Change, File};
use crate::harness::model::{Reply, finding};

/// B2, pascalgn/size-label-action#53: the change is read file by file, and a 406 is not tried again.
#[test]
fn a_change_too_large_for_one_diff_is_read_file_by_file() {
    run_test(Setup::default(), async |bot| {
        let lines = |from: usize| -> String { (from..from + 11_000).map(|n| format!("line {n}\n")).collect() };
        let change = Change::of("big.txt", Some(File::new(lines(0))), Some(File::new(lines(20_000))));
        let pr = bot.github.open_pull(PullSpec::of(change));
        bot.model.on_file("big.txt").always(Reply::Text(nothing().to_string()));
        all_done(bot).await;
        assert!(bot.github.count("GET /repos/*/*/pulls/*/files") >= 1);
        let summary = bot.github.checks(&pr)[0].summary.clone().unwrap_or_default();
        assert!(summary.contains("1 file reviewed") && !summary.contains("not reviewed"), "{summary}");
        let body = br#"{"message":"Sorry, the diff exceeded the maximum number of lines (20000)"}"#;
        let now = jiff::Timestamp::UNIX_EPOCH;
        let error = GitHubError::from_answer(StatusCode::NOT_ACCEPTABLE, &HeaderMap::new(), body, "diff", now);
        assert_eq!(error.retry(), Retry::Never);
    });
}

/// B3, derailed-dash/gemini-review-action#50: a file that GitHub sends no patch for is there all the same, and named.
#[test]
fn a_file_without_a_patch_is_not_missing() {
    run_test(Setup::default(), async |bot| {
        let line = format!("{{\"all\": \"{}\"}}\n", "x".repeat(373_900));
        let pr = bot.github.open_pull(PullSpec::of(Change::of("dump.txt", None, Some(File::new(line)))));
        bot.model.on_file("dump.txt").always(Reply::Text(nothing().to_string()));
        all_done(bot).await;
        let check = bot.github.checks(&pr).remove(0);
        let summary = check.summary.unwrap_or_default();
        assert_eq!(check.conclusion.as_deref(), Some("neutral"), "{summary}");
        assert!(summary.contains("`dump.txt`: 1 added line is too long to be shown whole"), "{summary}");
    });
}

/// B5, danger/danger-js#1383: lists are read to their end, not to the thirtieth item.
#[test]
fn our_own_review_is_found_behind_a_hundred_others() {
    run_test(Setup::default(), async |bot| {
        let pr = bot.github.open_pull(PullSpec::new(&faulty("src/a.rs")));
        for n in 0..110 {
            bot.github.leave_review(&pr, &format!("person-{n}"), "COMMENTED", "Looks good to me.");
        }
        bot.model.on_file("src/a.rs").finds_all(&[super::fault("src/a.rs")]);
        bot.github.fault(Fault::apply_then_drop(REVIEWS));
        all_done(bot).await;
        assert_eq!((bot.github.reviews(&pr).len(), bot.github.count(REVIEWS)), (111, 1));
        assert_eq!(places(bot, &pr), ["src/a.rs:2"]);
    });
}

/// C1, facebookarchive/mention-bot#203: a name beyond ASCII is read, from JSON and from git's quoted form.
#[test]
fn a_name_beyond_ascii_is_a_name() {
    let quoted = b"diff --git \"a/src/gr\\303\\266\\303\\237e.rs\" \"b/src/gr\\303\\266\\303\\237e.rs\"\n\
                   --- \"a/src/gr\\303\\266\\303\\237e.rs\"\n+++ \"b/src/gr\\303\\266\\303\\237e.rs\"\n@@ -1 +1 @@\n-a\n+b\n";
    let (files, complaints) = parse_unified(quoted);
    assert_eq!((files[0].path.as_str(), complaints.len()), ("src/größe.rs", 0));
    run_test(Setup::default(), async |bot| {
        let path = "src/größe-大小.rs";
        let pr = reviewed(bot, PullSpec::new(&faulty(path)), path, &[super::fault(path)]).await;
        assert_eq!(places(bot, &pr), [format!("{path}:2")]);
    });
}

/// C2, frankekn/needlefish#57: names with blanks and quotes keep their comments.
#[test]
fn a_name_with_blanks_and_quotes_keeps_its_comments() {
    run_test(Setup::default(), async |bot| {
        let paths = ["src/with blank.rs", "src/we\"ird'.rs", "src/tail .rs", "src/back\\slash.rs", "src/tab\there.rs"];
        let file = |path: &str| {
            (path.to_owned(), File::new("fn a() -> u32 {\n    0\n}\n"), File::new("fn a() -> u32 {\n    risky()\n}\n"))
        };
        let change = paths
            .iter()
            .map(|path| file(path))
            .fold(Change::default(), |change, (path, before, after)| change.and(&path, Some(before), Some(after)));
        let pr = bot.github.open_pull(PullSpec::of(change));
        for path in paths {
            bot.model.on_file(path).finds_all(&[finding(path, "    risky()", "Fails on Mondays")]);
        }
        bot.clock.advance(Duration::from_secs(1));
        all_done(bot).await;
        let mut expected = paths.map(|path| format!("{path}:2"));
        expected.sort();
        assert_eq!(places(bot, &pr), expected, "{:?} {}", written(bot, &pr), json!(paths));
    });
}
