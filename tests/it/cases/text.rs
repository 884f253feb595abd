//! What is written: suggestions, fences, mentions, sizes.

use secondlook::review::markdown::clip;
use serde_json::json;

use super::{all_done, change, fault, faulty, places, reviewed, written};
use crate::harness::bot::{Setup, run_test};
use crate::harness::github::actions::PullSpec;
use crate::harness::model::finding;

/// How often a fence begins or ends at the margin; every one that is opened is closed when this is even.
fn fences(body: &str) -> usize {
    body.lines().filter(|line| line.trim_start().starts_with("```")).count()
}

/// F1, reviewdog/reviewdog#999: the fence of a suggestion is longer than every run of backticks in it.
#[test]
fn a_suggestion_with_a_fence_in_it_has_a_longer_one_around_it() {
    run_test(Setup::default(), async |bot| {
        let spec = change("a.md", "one\ntwo\n", "one\n```sh\ntwo\n```\n");
        let mut item = finding("a.md", "```sh\ntwo\n```", "Says the wrong language");
        (item["line"], item["end_line"]) = (json!(2), json!(4));
        // As a fence around the whole quote would be taken for one of the model's own.
        (item["quote"], item["replacement"]) = (json!("```sh"), json!("```bash"));
        let pr = reviewed(bot, spec, "a.md", &[item]).await;
        let body = &bot.github.comments(&pr)[0].body;
        assert!(body.contains("````suggestion\n```bash\n````"), "{body}");
    });
}

/// F2, devops-thiago/ThrillhouseBot#462: what is too long is cut on a boundary with its fences closed, and says so.
#[test]
fn what_is_too_long_is_cut_and_says_so() {
    run_test(Setup::default(), async |bot| {
        let pr = bot.github.open_pull(PullSpec::new(&faulty("src/a.rs")));
        let long = |n: usize| {
            let mut item =
                finding("src/a.rs", &format!("nowhere_{n}();"), &format!("Problem number {n} of its kind {n}{n}{n}"));
            item["body"] = json!(format!("It fails in case {n}.\n\n```rust\n{}", format!("word{n} ").repeat(1_000)));
            item
        };
        let items: Vec<_> = (0..12).map(long).collect();
        let again = json!({"findings": items, "summary": ""});
        bot.model.on_file("src/a.rs").finds_all(&items).says(again);
        all_done(bot).await;
        let bodies = written(bot, &pr);
        assert!(!bodies.is_empty());
        for body in bodies {
            assert!(body.chars().count() <= 65_536, "{}", body.len());
            assert_eq!(fences(&body) % 2, 0, "an open fence: …{}", &body[body.len().saturating_sub(300)..]);
        }
        let cut = clip(&"word ".repeat(20_000), 60_000, "*The rest does not fit here.*");
        assert!(cut.len() <= 60_000 && cut.ends_with("*The rest does not fit here.*"));
    });
}

/// F3, dependabot/dependabot-core#427: names in a model's text notify nobody.
#[test]
fn names_in_a_text_notify_nobody() {
    run_test(Setup::default(), async |bot| {
        let mut item = fault("src/a.rs");
        item["title"] = json!("Ask @octocat and @acme/core");
        item["body"] = json!("As @octocat said, it fails; see `@decorator` for why. Do not let it.");
        let pr = reviewed(bot, PullSpec::new(&faulty("src/a.rs")), "src/a.rs", &[item]).await;
        let bodies = written(bot, &pr).join("\n");
        assert!(!bodies.contains("@octocat") && !bodies.contains("@acme/core"), "{bodies}");
        assert!(bodies.contains("octocat") && bodies.contains("`@decorator`"), "{bodies}");
    });
}

/// F5, w3c-fedid/digital-credentials#572: nothing that is written holds a carriage return, and a file with CRLF gets no
/// suggestion.
#[test]
fn no_text_holds_a_carriage_return() {
    run_test(Setup::default(), async |bot| {
        let spec = change("a.txt", "one\r\ntwo\r\n", "one\r\nzwei\r\n");
        let mut item = finding("a.txt", "zwei", "Is another language");
        (item["body"], item["replacement"]) = (json!("It is German.\r\nWrite it\rin English."), json!("two\r\n"));
        let pr = reviewed(bot, spec, "a.txt", &[item]).await;
        assert_eq!(places(bot, &pr), ["a.txt:2"]);
        let bodies = written(bot, &pr).join("\n");
        assert!(!bodies.contains('\r') && !bodies.contains("suggestion"), "{bodies}");
    });
}

/// F6, flowglad/onton#201: a comment without a line is a comment still, whether its line or the whole file is meant.
#[test]
fn a_comment_without_a_line_is_answered_like_any_other() {
    run_test(Setup::default(), async |bot| {
        let pr = reviewed(bot, PullSpec::new(&faulty("src/a.rs")), "src/a.rs", &[fault("src/a.rs")]).await;
        let root = bot.github.comments(&pr)[0].id;
        // The line goes away, so GitHub says `null` for it.
        bot.github.push(&pr, "//- src/a.rs\n fn a() -> u32 {\n-    risky()\n+    careful()\n }\n");
        bot.model.on_file("src/a.rs").finds_nothing();
        all_done(bot).await;
        assert!(bot.github.page(&pr).contains("src/a.rs:2 [outdated]"), "{}", bot.github.page(&pr));
        bot.clock.advance(std::time::Duration::from_secs(60));
        bot.github.reply(&pr, root, "alice", "Is it better now?");
        bot.model.on_thread().says_text("It is.");
        all_done(bot).await;
        assert!(bot.github.page(&pr).contains("It is."), "{}", bot.github.page(&pr));
    });
}

/// F7, max-sixty/worktrunk#1607: a replacement that would silently delete most of its range is not offered.
#[test]
fn a_suggestion_deletes_nothing_that_nobody_said_should_go() {
    run_test(Setup::default(), async |bot| {
        let lines: Vec<String> = (1..=12).map(|n| format!("    step_{n}();")).collect();
        let added: String = lines.iter().map(|line| format!("+{line}\n")).collect();
        let mut item = finding("src/a.rs", &lines.join("\n"), "Steps without checking");
        item["replacement"] = json!("    step_3()?;");
        let spec = PullSpec::new(&format!("//- src/a.rs\n fn a() {{\n{added} }}\n"));
        let pr = reviewed(bot, spec, "src/a.rs", &[item]).await;
        assert_eq!(places(bot, &pr), ["src/a.rs:2-13"]);
        assert!(!written(bot, &pr).join("\n").contains("```suggestion"), "{:?}", written(bot, &pr));
    });
}

/// F8, systemd/systemd#43847: three backticks within a line are no fence.
#[test]
fn backticks_within_a_line_are_no_fence() {
    let text =
        format!("Use ``` to begin a block.\n\n```suggestion\nlet a = 1;\n```\n\n{}", "More words here.\n".repeat(100));
    let cut = clip(&text, 200, "*cut*");
    assert_eq!(fences(&cut), 2, "{cut}");
    run_test(Setup::default(), async |bot| {
        let mut item = fault("src/a.rs");
        item["body"] = json!("It prints ``` when it fails. Print something else.");
        item["replacement"] = json!("    careful()");
        let pr = reviewed(bot, PullSpec::new(&faulty("src/a.rs")), "src/a.rs", &[item]).await;
        let body = &bot.github.comments(&pr)[0].body;
        assert!(body.contains("\n```suggestion\n    careful()\n```\n"), "{body}");
    });
}
