//! What goes wrong between GitHub and the client, and what the client makes of it.

use std::time::Duration;

use secondlook::github::error::GitHubError;
use secondlook::retry::Retry;
use serde_json::json;

use super::{Bench, SMALL, comment, review};
use crate::harness::github::actions::PullSpec;
use crate::harness::github::fault::{Fault, Gate};

const PULL: &str = "GET /repos/*/*/pulls/*";
const REVIEW: &str = "POST /repos/*/*/pulls/*/reviews";

#[tokio::test]
async fn every_fault_has_its_meaning() {
    let bench = Bench::new().await;
    let (pr, client) = bench.open(PullSpec::new(SMALL));
    client.pull_request(pr.number).await.unwrap();
    for (fault, kind, retry) in [
        (Fault::status(PULL, 500, "Server Error"), "failed", Retry::Backoff),
        (Fault::status(PULL, 503, "Service Unavailable"), "failed", Retry::Backoff),
        (Fault::status(PULL, 403, "Resource not accessible by integration"), "forbids", Retry::Never),
        (Fault::status(PULL, 404, "Not Found"), "knows no pull request 1 of acme/app", Retry::Never),
        (Fault::status(PULL, 406, "Sorry, the diff exceeded"), "406", Retry::Never),
        (Fault::status(PULL, 418, "I'm a teapot"), "418", Retry::Never),
        (Fault::drop(PULL), "no answer", Retry::Backoff),
        (Fault::truncated(PULL), "broke off", Retry::Backoff),
        (Fault::not_json(PULL), "cannot be read", Retry::Backoff),
        (Fault::answer(PULL, 200, json!([1, 2])), "cannot be read", Retry::Backoff),
        (Fault::answer(PULL, 200, json!({ "number": "seven" })), "cannot be read", Retry::Backoff),
        (Fault::secondary_limit(PULL, Some("17")), "17 s", Retry::After(Duration::from_secs(17))),
        (Fault::secondary_limit(PULL, None), "60 s", Retry::After(Duration::from_secs(60))),
    ] {
        // A secondary limit holds for all that is asked meanwhile, and is forgotten an hour after.
        bench.clock.advance(Duration::from_secs(2 * 3_600));
        bench.gh.fault(fault);
        let error = client.pull_request(pr.number).await.expect_err(kind);
        assert!(error.to_string().contains(kind), "{kind}: {error}");
        assert_eq!(error.retry(), retry, "{error}");
    }
    let error = client.file_texts(&bench.gh.head(&pr), &["x".into()]).await.unwrap_err();
    assert_eq!(error, GitHubError::RateLimited { wait: Duration::from_secs(60) }, "not even asked");
    bench.gh.reckon();
}

#[tokio::test]
async fn an_exhausted_budget_is_not_asked_again_before_its_reset() {
    let bench = Bench::new().await;
    let (pr, client) = bench.open(PullSpec::new(SMALL));
    let reset = bench.now().as_second() + 600;
    bench.gh.fault(Fault::primary_limit(PULL, reset));
    for _ in 0..3 {
        let error = client.pull_request(pr.number).await.unwrap_err();
        assert_eq!(error, GitHubError::RateLimited { wait: Duration::from_secs(600) });
    }
    assert_eq!(bench.gh.count(PULL), 1);
    bench.clock.advance(Duration::from_secs(600));
    client.pull_request(pr.number).await.unwrap();
    bench.gh.reckon();
}

#[tokio::test]
async fn a_stuck_answer_is_given_up() {
    let bench = Bench::with(|settings| settings.timeout = Duration::from_secs(2)).await;
    let (pr, client) = bench.open(PullSpec::new(SMALL));
    client.pull_request(pr.number).await.unwrap();
    let gate = Gate::new();
    bench.gh.fault(Fault::hold(PULL, &gate));
    let error = client.pull_request(pr.number).await.unwrap_err();
    assert!(matches!(&error, GitHubError::Unavailable(text) if text.contains("within")), "{error}");
    gate.open();
    client.pull_request(pr.number).await.unwrap();
}

#[tokio::test]
async fn a_write_with_a_doubtful_answer_is_sent_once() {
    let bench = Bench::new().await;
    let (pr, client) = bench.open(PullSpec::new(SMALL));
    let pull = client.pull_request(pr.number).await.unwrap();
    for (fault, times) in
        [(Fault::apply_then_drop(REVIEW), 1), (Fault::apply_then_status(REVIEW, 502), 2), (Fault::truncated(REVIEW), 3)]
    {
        bench.gh.fault(fault);
        let error = client.create_review(pr.number, &review(&pull.head_sha, "Once.", vec![])).await.unwrap_err();
        assert!(error.doubtful(), "{error}");
        assert_eq!(bench.gh.reviews(&pr).len(), times, "{error}");
    }
    bench.gh.reckon();
}

#[tokio::test]
async fn a_review_with_one_bad_comment_is_refused_whole() {
    let bench = Bench::new().await;
    let (pr, client) = bench.open(PullSpec::new(SMALL));
    let pull = client.pull_request(pr.number).await.unwrap();
    let comments =
        vec![comment("src/cache.rs", 2, "good"), comment("src/cache.rs", 99, "off"), comment("no.rs", 1, "no")];
    let error = client.create_review(pr.number, &review(&pull.head_sha, "x", comments)).await.unwrap_err();
    let GitHubError::Unprocessable(text) = &error else { panic!("{error}") };
    assert_eq!(text, "Unprocessable Entity: Line could not be resolved: Path could not be resolved");
    let error = client.create_review(pr.number, &review(&"0".repeat(40), "x", vec![])).await.unwrap_err();
    assert!(error.to_string().contains("not part of the pull request"), "{error}");
    assert!(bench.gh.reviews(&pr).is_empty() && bench.gh.comments(&pr).is_empty());
    bench.gh.reckon();
}

#[tokio::test]
async fn a_missing_permission_is_named() {
    let bench = Bench::new().await;
    let (pr, client) = bench.open(PullSpec::new(SMALL));
    bench.gh.set_app_permission("pull_requests", Some("read"));
    let error = client.create_review(pr.number, &review(&bench.gh.head(&pr), "x", vec![])).await.unwrap_err();
    assert!(matches!(&error, GitHubError::Forbidden(text) if text.contains("pull_requests=write")), "{error}");
}

#[tokio::test]
async fn texts_that_graphql_cannot_give_come_another_way() {
    let bench = Bench::new().await;
    let (pr, client) = bench.open(PullSpec::new(SMALL));
    let head = bench.gh.head(&pr);
    let paths = ["src/cache.rs".to_owned()];
    // One alias failed: the file is read by its path.
    let body = json!({
        "data": { "repository": { "commit": { "oid": head }, "f0": null } },
        "errors": [{ "message": "Timed out", "path": ["repository", "f0"] }],
    });
    bench.gh.fault(Fault::answer("POST /graphql", 200, body));
    let texts = client.file_texts(&head, &paths).await.unwrap();
    assert_eq!(bench.gh.count("GET /repos/*/*/git/blobs/*"), 1);
    assert_eq!(texts, client.file_texts(&head, &paths).await.unwrap());
    // A commit that is not there yet is waited for.
    let error = client.file_texts(&"0".repeat(40), &paths).await.unwrap_err();
    assert_eq!(error.retry(), Retry::Backoff, "{error}");
    // GraphQL has limits of its own.
    let limited = json!({ "errors": [{ "type": "RATE_LIMITED", "message": "API rate limit exceeded" }] });
    bench.gh.fault(Fault::answer("POST /graphql", 200, limited));
    let error = client.file_texts(&head, &paths).await.unwrap_err();
    assert!(matches!(error, GitHubError::RateLimited { .. }), "{error}");
    bench.gh.reckon();
}
