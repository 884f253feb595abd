//! Heads that move, and what was reviewed of them.

use std::sync::Arc;

use secondlook::chat::ModelRole;
use serde_json::json;

use super::{REVIEWS, all_done, fault, faulty, nothing, places};
use crate::harness::bot::{Setup, run_test};
use crate::harness::github::actions::PullSpec;
use crate::harness::github::fault::Fault;
use crate::harness::github::files;
use crate::harness::model::Reply;

/// D1, max-sixty/tend#884: what was reviewed is our own memory; GitHub points old reviews at the new head.
#[test]
fn a_review_that_github_points_at_a_new_head_does_not_count_for_it() {
    run_test(Setup::default(), async |bot| {
        let pr = bot.github.open_pull(PullSpec::new("//- src/a.rs\n fn a() -> u32 {\n-    0\n+    1\n }\n"));
        bot.model.on_file("src/a.rs").finds_nothing();
        all_done(bot).await;
        bot.github.force_push(&pr, &files::change(&faulty("src/a.rs")));
        // The old review, as it looks after a force-push.
        bot.github.leave_review(&pr, "secondlook[bot]", "APPROVED", "Nothing to say.");
        bot.model.on_file("src/a.rs").finds_all(&[fault("src/a.rs")]);
        all_done(bot).await;
        assert_eq!(places(bot, &pr), ["src/a.rs:2"]);
    });
}

/// D2, ultralytics/actions#862: a head that moved during the review costs no review.
#[test]
fn a_head_that_moved_is_reviewed_in_its_place() {
    run_test(Setup::default(), async |bot| {
        let pr = bot.github.open_pull(PullSpec::new(&faulty("src/a.rs")));
        let (github, moving) = (bot.github.clone(), pr.clone());
        let push = Arc::new(move || drop(github.push(&moving, &faulty("src/b.rs"))));
        let found = json!({"findings": [fault("src/a.rs")], "summary": ""}).to_string();
        bot.model.on_file("src/a.rs").then(Reply::After(push, found));
        let keep = json!({"index": 0, "verdict": "keep", "reason": "So it is.", "confidence": 0.9});
        bot.model.on_critic("src/a.rs").says(json!({"verdicts": [keep], "missed": []}));
        bot.model.on_file("src/b.rs").finds_all(&[fault("src/b.rs")]);
        all_done(bot).await;
        assert_eq!(places(bot, &pr), ["src/a.rs:2", "src/b.rs:2"]);
        let reviews = bot.github.reviews(&pr);
        assert!(reviews.iter().all(|review| review.commit == bot.github.head(&pr)), "{}", bot.github.page(&pr));
    });
}

/// D3, reviewdog/reviewdog#434: a review is of the head of the pull request, not of GitHub's merge of it.
#[test]
fn a_review_is_of_the_head_commit() {
    run_test(Setup::default(), async |bot| {
        let pr = bot.github.open_pull(PullSpec::new(&faulty("src/a.rs")));
        bot.github.move_base(&pr, files::files("//- other.txt\nSomething else.\n"));
        bot.model.on_file("src/a.rs").finds_all(&[fault("src/a.rs")]);
        all_done(bot).await;
        assert_eq!(bot.github.reviews(&pr)[0].commit, bot.github.head(&pr));
        assert_eq!(bot.github.checks(&pr)[0].head_sha, bot.github.head(&pr));
    });
}

/// D4, JSONbored/loopover#9055: another base is another change, also of the same head.
#[test]
fn another_base_of_the_same_head_is_reviewed() {
    run_test(Setup::default(), async |bot| {
        bot.github.repo("acme/app");
        bot.github.commit("acme/app", "release", files::files("//- README.md\nHello.\n"));
        let pr = bot.github.open_pull(PullSpec::new(&faulty("src/a.rs")));
        bot.model.on_file("src/a.rs").finds_nothing();
        all_done(bot).await;
        let asked = bot.model.asked(ModelRole::Reviewer);
        bot.github.retarget(&pr, "release");
        // On `release` the file is new.
        bot.model.on_file("src/a.rs").finds_all(&[fault("src/a.rs")]);
        all_done(bot).await;
        assert_eq!(
            (bot.model.asked(ModelRole::Reviewer), places(bot, &pr)),
            (asked + 1, vec!["src/a.rs:2".to_owned()])
        );
    });
}

/// D6, rust-lang/homu#174: a push whose event was lost is seen, because the head is read before anything is done.
#[test]
fn a_push_whose_event_was_lost_is_reviewed() {
    run_test(Setup::default(), async |bot| {
        let pr = bot.github.open_pull(PullSpec::new(&faulty("src/a.rs")));
        let opened = bot.github.take_deliveries();
        bot.github.push(&pr, &faulty("src/b.rs"));
        drop(bot.github.take_deliveries());
        for delivery in &opened {
            bot.deliver(delivery).await;
        }
        bot.model.on_file("src/a.rs").finds_nothing();
        bot.model.on_file("src/b.rs").finds_all(&[fault("src/b.rs")]);
        all_done(bot).await;
        assert_eq!((places(bot, &pr), bot.github.count(REVIEWS)), (vec!["src/b.rs:2".to_owned()], 1));
        assert_eq!(bot.github.reviews(&pr)[0].commit, bot.github.head(&pr));
    });
}

/// D7, home-assistant/service-hub#394: a commit of a fork that cannot be reached yet is tried again.
#[test]
fn a_commit_that_is_not_there_yet_is_tried_again() {
    run_test(Setup::default(), async |bot| {
        let pr = bot.github.open_pull(PullSpec::new(&faulty("src/a.rs")).fork("bob").author("bob"));
        bot.model.on_file("src/a.rs").finds_all(&[fault("src/a.rs")]);
        let missing = "No commit found for SHA: 0123456789";
        bot.github.fault(Fault::status("POST /repos/*/*/check-runs", 422, missing).times(2));
        all_done(bot).await;
        assert_eq!(places(bot, &pr), ["src/a.rs:2"], "{}", bot.github.page(&pr));
    });
}

/// D8, langchain-ai/open-swe#1336: ready for review means a review exactly when there was none of that head.
#[test]
fn a_draft_that_was_reviewed_is_not_reviewed_again_when_it_is_ready() {
    run_test(Setup::default(), async |bot| {
        bot.github.commit_main("acme/app", "//- .github/secondlook.yml\nreview:\n  drafts: true\n");
        let pr = bot.github.open_pull(PullSpec::new(&faulty("src/a.rs")).draft());
        bot.model.on_file("src/a.rs").finds_all(&[fault("src/a.rs")]);
        all_done(bot).await;
        bot.github.ready_for_review(&pr);
        all_done(bot).await;
        assert_eq!((bot.github.reviews(&pr).len(), bot.model.asked(ModelRole::Reviewer)), (1, 1));
    });
    run_test(Setup::default(), async |bot| {
        let pr = bot.github.open_pull(PullSpec::new(&faulty("src/a.rs")).draft());
        all_done(bot).await;
        bot.github.ready_for_review(&pr);
        bot.model.on_file("src/a.rs").says(nothing());
        all_done(bot).await;
        assert_eq!(bot.model.asked(ModelRole::Reviewer), 1, "one that was not reviewed is");
    });
}
