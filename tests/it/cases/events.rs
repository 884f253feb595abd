//! What GitHub sends, and who it is from.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use secondlook::chat::ModelRole;
use secondlook::github::client::GitHubApp;
use tower::ServiceExt;

use super::{all_done, fault, faulty, places};
use crate::harness::bot::{Bot, Setup, run_test};
use crate::harness::delivery::{SECRET, sign};
use crate::harness::github::actions::PullSpec;

/// Delivers these bytes with this signature.
async fn deliver(bot: &Bot, event: &str, body: &str, signature: String) -> StatusCode {
    let request = Request::post("/webhook")
        .header("content-type", "application/json")
        .header("x-github-event", event)
        .header("x-github-delivery", "00000000-0000-4000-8000-999999999999")
        .header("x-hub-signature-256", signature)
        .body(Body::from(body.to_owned()))
        .unwrap();
    bot.assembled.router.clone().oneshot(request).await.unwrap().status()
}

/// E1, octokit/webhooks.js#71: the signature is over the bytes as they came, whatever they would be written as again.
#[test]
fn a_signature_is_over_the_bytes_as_they_came() {
    run_test(Setup::default(), async |bot| {
        let pr = bot.github.open_pull(PullSpec::new(&faulty("src/a.rs")).title("Schöne Grüße 🎉"));
        let delivery = bot.github.take_deliveries().remove(0);
        let plain = serde_json::to_string(&delivery.payload).unwrap();
        let odd = serde_json::to_string_pretty(&delivery.payload)
            .unwrap()
            .replace('ö', "\\u00f6")
            .replace('🎉', "\\ud83c\\udf89")
            .replace('\n', "\r\n");
        let wrong = sign(SECRET, plain.as_bytes());
        assert_eq!(deliver(bot, &delivery.event, &odd, wrong).await, StatusCode::UNAUTHORIZED);
        let right = sign(SECRET, odd.as_bytes());
        assert_eq!(deliver(bot, &delivery.event, &odd, right).await, StatusCode::ACCEPTED);
        bot.model.on_file("src/a.rs").finds_all(&[fault("src/a.rs")]);
        all_done(bot).await;
        assert_eq!(places(bot, &pr), ["src/a.rs:2"]);
    });
}

/// E4, googleapis/repo-automation-bots#1180: a pull request whose fork is gone is reviewed.
#[test]
fn a_pull_request_whose_fork_is_gone_is_reviewed() {
    run_test(Setup::default(), async |bot| {
        let pr = bot.github.open_pull(PullSpec::new(&faulty("src/a.rs")).fork("bob").author("bob"));
        bot.github.delete_fork(&pr);
        bot.model.on_file("src/a.rs").finds_all(&[fault("src/a.rs")]);
        all_done(bot).await;
        assert_eq!(places(bot, &pr), ["src/a.rs:2"]);
    });
}

/// E5, iterwheel/voyager#267: a fork that is gone is a fork still.
#[test]
fn a_fork_that_is_gone_is_a_fork_still() {
    run_test(Setup::default(), async |bot| {
        let pr = bot.github.open_pull(PullSpec::new(&faulty("src/a.rs")).fork("bob"));
        bot.github.delete_fork(&pr);
        drop(bot.github.take_deliveries());
        let clock = Arc::new(bot.clock.clone());
        let app = GitHubApp::new(&bot.github.credentials(), &bot.github.settings(), clock).unwrap();
        let client = app.repository(bot.github.installation(&pr.repo), &bot.github.repo(&pr.repo));
        assert!(client.pull_request(pr.number).await.unwrap().from_fork);
    });
}

/// E6, rust-lang/triagebot#1661: neither our own words nor another bot's are obeyed.
#[test]
fn commands_of_bots_are_not_obeyed() {
    run_test(Setup::default(), async |bot| {
        let pr = bot.github.open_pull(PullSpec::new(&faulty("src/a.rs")));
        bot.model.on_file("src/a.rs").finds_nothing();
        all_done(bot).await;
        bot.github.bot("helper[bot]");
        for author in ["secondlook[bot]", "helper[bot]"] {
            bot.github.permit("acme/app", author, "admin");
            bot.github.comment(&pr, author, "For example:\n\n/secondlook review full");
        }
        all_done(bot).await;
        assert_eq!(bot.model.asked(ModelRole::Reviewer), 1);
        assert!(bot.github.timeline(&pr).iter().all(|talk| talk.reactions.is_empty()));
    });
}

/// E7, alvarocavalcanti/pierre-decheck#74: a comment on an issue is none on a pull request.
#[test]
fn a_comment_on_a_plain_issue_is_left_alone() {
    run_test(Setup::default(), async |bot| {
        let pr = bot.github.open_pull(PullSpec::new(&faulty("src/a.rs")));
        drop(bot.github.take_deliveries());
        bot.github.comment(&pr, "alice", "/secondlook review");
        let mut comment = bot.github.take_deliveries().remove(0);
        comment.payload["issue"].as_object_mut().unwrap().remove("pull_request").unwrap();
        bot.github.forget_requests();
        assert_eq!(bot.deliver(&comment).await, StatusCode::ACCEPTED);
        all_done(bot).await;
        assert_eq!(bot.github.requests(), [], "nothing was asked and nothing done");
    });
}

/// E9, djtelicloud/grok-mcp-server#497: comments and pull requests of deleted accounts are read.
#[test]
fn words_of_deleted_accounts_are_read() {
    run_test(Setup::default(), async |bot| {
        let pr = bot.github.open_pull(PullSpec::new(&faulty("src/a.rs")).author("carol"));
        bot.github.delete_author(&pr);
        bot.model.on_file("src/a.rs").finds_all(&[fault("src/a.rs")]);
        all_done(bot).await;
        assert_eq!(places(bot, &pr), ["src/a.rs:2"]);
        // In the thread stands a comment of somebody who is gone, and a living person asks.
        let root = bot.github.comments(&pr)[0].id;
        let gone = bot.github.reply(&pr, root, "dave", "Is that so?");
        drop(bot.github.take_deliveries());
        bot.github.delete_commenter(&pr, gone);
        bot.clock.advance(std::time::Duration::from_secs(60));
        bot.github.reply(&pr, root, "alice", "When does it fail?");
        bot.model.on_thread().says_text("On Mondays.");
        all_done(bot).await;
        assert!(bot.github.page(&pr).contains("On Mondays."), "{}", bot.github.page(&pr));
    });
}
