//! Drafts, retargets, closing, merge queues, renames.

use insta::assert_snapshot;

use super::{CACHE, CACHE_FAULT};
use crate::harness::bot::{Setup, run_test};
use crate::harness::github::actions::PullSpec;
use crate::harness::github::files;

#[test]
fn a_draft_waits_until_it_is_ready() {
    run_test(Setup::default(), async |bot| {
        let pr = bot.github.open_pull(PullSpec::new(CACHE).draft());
        bot.settle().await;
        assert_snapshot!(bot.github.page(&pr), @r"#1 Change something [draft] by alice");
        bot.github.ready_for_review(&pr);
        bot.model.on_file("src/cache.rs").finds(CACHE_FAULT, "Panics when the key is missing");
        bot.settle().await;
        assert_snapshot!(bot.github.page(&pr), @r"
        #1 Change something [open] by alice
        check secondlook: neutral: 1 problem (major)

        secondlook[bot] reviewed head1
          Found 1 problem (major).

          src/cache.rs:4
          | +    *map.get(key).unwrap()
            **Panics when the key is missing** · major · correctness

            Panics when the key is missing. Handle the case where this does not hold, or say why it always does.

            <details><summary>Evidence</summary>

            - `critic`: Confirmed in round 1: The code does this.
            - Found by `scripted`, confidence 90 %

            </details>
        ");
    });
}

#[test]
fn a_retarget_is_another_diff_and_says_nothing_twice() {
    run_test(Setup::default(), async |bot| {
        bot.github.repo("acme/app");
        bot.github.commit_main("acme/app", "//- README.md\nHello.\n");
        bot.github.commit("acme/app", "release", files::files("//- README.md\nHello.\n"));
        let pr = bot.github.open_pull(PullSpec::new(CACHE));
        bot.model.on_file("src/cache.rs").finds(CACHE_FAULT, "Panics when the key is missing");
        bot.settle().await;
        let before = bot.github.page(&pr);
        bot.github.retarget(&pr, "release");
        // On `release` the whole file is new, so it is reviewed again; the model finds the same.
        bot.model.on_file("src/cache.rs").finds_again(CACHE_FAULT, "Panics when the key is missing");
        bot.settle().await;
        assert_eq!(bot.github.reviews(&pr).len(), 1, "{before}\n{}", bot.github.page(&pr));
    });
}

#[test]
fn closed_while_it_is_reviewed() {
    use std::sync::Arc;

    use crate::harness::model::Reply;

    run_test(Setup::default(), async |bot| {
        let pr = bot.github.open_pull(PullSpec::new(CACHE));
        let (github, closing) = (bot.github.clone(), pr.clone());
        let close = Arc::new(move || github.close(&closing));
        let found = serde_json::json!({"findings": [], "summary": ""}).to_string();
        bot.model.on_file("src/cache.rs").then(Reply::After(close, found));
        bot.settle().await;
        assert_snapshot!(bot.github.page(&pr), @r"
        #1 Change something [closed] by alice
        check secondlook: cancelled: Overtaken
        ");
    });
}

#[test]
fn a_merge_queue_never_waits_for_us() {
    run_test(Setup::default(), async |bot| {
        let pr = bot.github.open_pull(PullSpec::new(CACHE));
        bot.model.on_file("src/cache.rs").finds_nothing();
        bot.settle().await;
        let before = bot.github.count("POST /repos/*/*/check-runs");
        bot.github.enqueue(&pr);
        bot.settle().await;
        assert_eq!(bot.github.count("POST /repos/*/*/check-runs"), before + 1);
    });
}

#[test]
fn a_renamed_repository_keeps_its_memory() {
    run_test(Setup::default(), async |bot| {
        let mut pr = bot.github.open_pull(PullSpec::new(CACHE));
        bot.model.on_file("src/cache.rs").finds(CACHE_FAULT, "Panics when the key is missing");
        bot.settle().await;
        bot.github.rename("acme/app", "service");
        pr.repo = "acme/service".into();
        bot.settle().await;
        bot.github.push(&pr, "//- README.md\n+Hello.");
        bot.model.on_file("README.md").finds_nothing();
        bot.settle().await;
        assert_eq!(bot.github.reviews(&pr).len(), 1, "{}", bot.github.page(&pr));
    });
}

#[test]
fn an_app_that_is_removed_stops_without_a_trace() {
    run_test(Setup::default(), async |bot| {
        let pr = bot.github.open_pull(PullSpec::new(CACHE));
        bot.github.uninstall("acme");
        bot.settle().await;
        assert_snapshot!(bot.github.page(&pr), @r"#1 Change something [open] by alice");
    });
}

#[test]
fn a_close_that_arrives_after_the_reopening_loses_no_review() {
    run_test(Setup::default(), async |bot| {
        let pr = bot.github.open_pull(PullSpec::new(CACHE));
        bot.github.close(&pr);
        bot.github.reopen(&pr);
        let [opened, closed, reopened] = &bot.github.take_deliveries()[..] else { panic!("three events") };
        bot.model.on_file("src/cache.rs").finds(CACHE_FAULT, "Panics when the key is missing");
        for delivery in [opened, reopened, closed] {
            bot.deliver(delivery).await;
        }
        bot.settle().await;
        assert_eq!(bot.github.reviews(&pr).len(), 1, "{}", bot.github.page(&pr));
    });
}
