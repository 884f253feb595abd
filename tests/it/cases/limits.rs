//! What GitHub allows: pending reviews, own pull requests, permissions, clocks, tokens, rates.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, StatusCode};
use secondlook::clock::Clock;
use secondlook::github::auth::AppKey;
use secondlook::github::error::GitHubError;
use secrecy::ExposeSecret;
use serde_json::Value;

use super::{REVIEWS, all_done, fault, faulty, places, reviewed};
use crate::harness::bot::{Setup, run_test};
use crate::harness::github::APP_KEY;
use crate::harness::github::actions::PullSpec;
use crate::harness::github::fault::Fault;

/// G1, QwenLM/qwen-code#10088: a pending review of ours that was left behind is removed, and the new one posted.
#[test]
fn a_pending_review_left_behind_stands_in_no_way() {
    run_test(Setup::default(), async |bot| {
        let pr = bot.github.open_pull(PullSpec::new(&faulty("src/a.rs")));
        bot.github.leave_pending_review(&pr, "");
        bot.model.on_file("src/a.rs").finds_all(&[fault("src/a.rs")]);
        all_done(bot).await;
        let states: Vec<_> = bot.github.reviews(&pr).iter().map(|review| review.state).collect();
        assert_eq!((states, places(bot, &pr)), (vec!["COMMENTED"], vec!["src/a.rs:2".to_owned()]));
    });
}

/// G2, Blazity/ai-workflow#180: our own pull request gets a comment where others would get a request for changes.
#[test]
fn our_own_pull_request_gets_a_comment() {
    for (author, state) in [("secondlook[bot]", "COMMENTED"), ("alice", "CHANGES_REQUESTED")] {
        run_test(Setup::default(), async |bot| {
            bot.github.commit_main("acme/app", "//- .github/secondlook.yml\nreview:\n  request_changes: major\n");
            let pr = bot.github.open_pull(PullSpec::new(&faulty("src/a.rs")));
            drop(bot.github.take_deliveries());
            bot.github.close(&pr);
            drop(bot.github.take_deliveries());
            let own = PullSpec::new(&faulty("src/b.rs")).author(author).branch("own");
            // Pull requests of bots are reviewed when somebody asks.
            let own = bot.github.open_pull(own);
            drop(bot.github.take_deliveries());
            bot.github.comment(&own, "alice", "/secondlook review");
            bot.model.on_file("src/b.rs").finds_all(&[fault("src/b.rs")]);
            all_done(bot).await;
            assert_eq!(bot.github.reviews(&own)[0].state, state, "{}", bot.github.page(&own));
        });
    }
}

/// G3, github/gh-aw#35726: nothing depends on a permission to write contents, which resolving threads would need.
#[test]
fn a_fix_is_taken_note_of_without_the_permission_to_write_contents() {
    run_test(Setup::default(), async |bot| {
        bot.github.set_app_permission("contents", Some("read"));
        let pr = reviewed(bot, PullSpec::new(&faulty("src/a.rs")), "src/a.rs", &[fault("src/a.rs")]).await;
        bot.github.push(&pr, "//- src/a.rs\n fn a() -> u32 {\n-    risky()\n+    careful()\n }\n");
        bot.model.on_file("src/a.rs").finds_nothing();
        all_done(bot).await;
        let check = bot.github.checks(&pr).remove(0);
        assert_eq!(check.conclusion.as_deref(), Some("success"), "{}", bot.github.page(&pr));
    });
}

/// G4, octokit/auth-app.js#698: an assertion is good also when our clock is a minute ahead or behind.
#[test]
fn an_assertion_bears_a_clock_that_is_off() {
    let now = "2026-03-04T05:06:07Z".parse().unwrap();
    let assertion = AppKey::new(7, &APP_KEY.into()).unwrap().assertion(now).unwrap();
    let claims = assertion.expose_secret().split('.').nth(1).unwrap();
    let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).unwrap()).unwrap();
    let second = |name: &str| claims[name].as_i64().unwrap() - now.as_second();
    assert!(second("iat") <= -60 && second("exp") <= 9 * 60, "{claims}");
}

/// G6, buildkite/buildkite-gha#88: a token is any text, however long and whatever it holds.
#[test]
fn a_token_of_another_form_is_used_as_it_is() {
    run_test(Setup::default(), async |bot| {
        let token = bot.github.installation_token("acme/app");
        assert!(token.len() > 500 && token.contains('.') && token.contains('-'), "{token}");
        let pr = reviewed(bot, PullSpec::new(&faulty("src/a.rs")), "src/a.rs", &[fault("src/a.rs")]).await;
        assert_eq!(places(bot, &pr), ["src/a.rs:2"]);
    });
}

/// G7, devops-thiago/ThrillhouseBot#723: a secondary limit without a time is waited for at least a minute, whatever the
/// budget's own headers say.
#[test]
fn a_secondary_limit_is_waited_for_a_minute_at_least() {
    let now = "2026-03-04T05:06:07Z".parse().unwrap();
    let mut headers = HeaderMap::new();
    for (name, value) in [("x-ratelimit-remaining", "4771"), ("x-ratelimit-reset", "1")] {
        headers.insert(name, value.parse().unwrap());
    }
    let body = br#"{"message":"You have exceeded a secondary rate limit."}"#;
    let error = GitHubError::from_answer(StatusCode::FORBIDDEN, &headers, body, "review", now);
    assert_eq!(error, GitHubError::RateLimited { wait: Duration::from_secs(60) });
    run_test(Setup::default(), async |bot| {
        let pr = bot.github.open_pull(PullSpec::new(&faulty("src/a.rs")));
        bot.model.on_file("src/a.rs").finds_all(&[fault("src/a.rs")]);
        bot.github.fault(Fault::secondary_limit(REVIEWS, None).times(3));
        bot.settle().await;
        let mut waited = Vec::new();
        while let Some(due) = bot.assembled.queue.next_due().await.unwrap() {
            waited.push(due.duration_since(bot.clock.now()).as_secs());
            bot.until_next_due().await;
        }
        assert_eq!((waited.len(), places(bot, &pr)), (3, vec!["src/a.rs:2".to_owned()]));
        assert!(waited.iter().all(|wait| *wait >= 60), "{waited:?}");
    });
}
