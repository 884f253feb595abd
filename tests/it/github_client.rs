//! The client against the stand-in: what GitHub really does, and what goes wrong on the way.

use std::sync::Arc;
use std::time::Duration;

use secondlook::diff::Side;
use secondlook::github::client::{GitHubApp, RepositoryClient};
use secondlook::github::error::GitHubError;
use secondlook::github::{CheckRun, CheckStatus, Conclusion, FileText, NewComment, NewReview, ReviewEvent};
use secondlook::retry::Retry;

use crate::harness::clock::ManualClock;
use crate::harness::github::actions::PullSpec;
use crate::harness::github::{FakeGitHub, Pr};

struct Bench {
    gh: FakeGitHub,
    app: GitHubApp,
    clock: ManualClock,
}

impl Bench {
    async fn new() -> Self {
        let clock = ManualClock::default();
        let gh = FakeGitHub::start(Arc::new(clock.clone())).await;
        let app = GitHubApp::new(&gh.credentials(), &gh.settings(), Arc::new(clock.clone())).unwrap();
        Self { gh, app, clock }
    }
}

impl Bench {
    fn client(&self, repo: &str) -> RepositoryClient {
        self.app.repository(self.gh.installation(repo), &self.gh.repo(repo))
    }

    /// A pull request of `acme/app`, and the client for it.
    fn open(&self, spec: PullSpec) -> (Pr, RepositoryClient) {
        let pr = self.gh.open_pull(spec);
        let client = self.client(&pr.repo);
        (pr, client)
    }
}

/// A small change.
const SMALL: &str = "
//- src/cache.rs
 fn look_up(key: &str) -> u32 {
-    0
+    MAP.get(key).copied().unwrap()
 }
";

#[tokio::test]
async fn a_review_goes_through_its_calls() {
    let bench = Bench::new().await;
    let (pr, client) = bench.open(PullSpec::new(SMALL).title("Look it up"));
    let pull = client.pull_request(pr.number).await.unwrap();
    assert_eq!((pull.title.as_str(), pull.open, pull.draft, pull.from_fork), ("Look it up", true, false, false));
    assert_eq!(pull.author.as_ref().unwrap().login, "alice");
    let files = client.pull_files(&pull).await.unwrap();
    assert_eq!((files.files.len(), files.unlisted), (1, 0));
    assert_eq!(files.files[0].diff.counts(), (1, 1));
    let check = CheckRun {
        head_sha: pull.head_sha.clone(),
        status: CheckStatus::InProgress,
        conclusion: None,
        title: "Reading".into(),
        summary: "…".into(),
        external_id: "1".into(),
        details_url: None,
    };
    let run = client.create_check_run(&check).await.unwrap();
    let texts = client.file_texts(&pull.head_sha, &["src/cache.rs".into(), "none".into()]).await.unwrap();
    assert_eq!(texts[1], FileText::Missing);
    assert!(matches!(&texts[0], FileText::Text(text) if text.contains("MAP.get")));
    let review = NewReview {
        commit_id: pull.head_sha.clone(),
        body: "One thing.\n<!-- secondlook:head -->".into(),
        event: ReviewEvent::Comment,
        comments: vec![comment("src/cache.rs", 2, "This panics.")],
    };
    let id = client.create_review(pr.number, &review).await.unwrap();
    let done = CheckRun {
        status: CheckStatus::Completed,
        conclusion: Some(Conclusion::Neutral),
        title: "1 finding".into(),
        ..check
    };
    client.update_check_run(run, &done).await.unwrap();

    let reviews = client.reviews(pr.number).await.unwrap();
    assert_eq!((reviews[0].id, reviews[0].pending), (id, false));
    assert_eq!(reviews[0].author.as_ref().unwrap(), &bench.app.identity().await.unwrap().bot);
    let comments = client.review_comments(pr.number).await.unwrap();
    assert_eq!((comments[0].line, comments[0].side, comments[0].review_id), (Some(2), Some(Side::Right), Some(id)));
    assert_eq!(client.review_comment(comments[0].id).await.unwrap(), comments[0]);
    let reply = client.reply(pr.number, comments[0].id, "Indeed.").await.unwrap();
    assert_eq!(client.review_comment(reply).await.unwrap().in_reply_to, Some(comments[0].id));
    let said = bench.gh.comment(&pr, "bob", "Nice.");
    for _ in 0..2 {
        client.react_to_issue_comment(said, "eyes").await.unwrap();
        client.react_to_review_comment(comments[0].id, "+1").await.unwrap();
    }
    client.create_issue_comment(pr.number, "Thanks.").await.unwrap();
    let talk = client.issue_comments(pr.number).await.unwrap();
    assert_eq!(client.issue_comment(said).await.unwrap(), talk[0]);
    assert_eq!(client.pulls_of_commit(&pull.head_sha).await.unwrap(), [pr.number]);
    let (paths, cut) = client.paths(&pull.head_sha).await.unwrap();
    assert_eq!((paths, cut), (vec!["src/cache.rs".to_owned()], false));
    insta::assert_snapshot!(bench.gh.page(&pr), @r"
    #1 Look it up [open] by alice
    check secondlook: neutral: 1 finding

    secondlook[bot] reviewed head1
      One thing.

      src/cache.rs:2
      | +    MAP.get(key).copied().unwrap()
        This panics.
        [+1 secondlook[bot]]
        > secondlook[bot]:
          Indeed.

    bob said [eyes secondlook[bot]]
      Nice.

    secondlook[bot] said
      Thanks.
    ");
    bench.gh.reckon();
}

fn comment(path: &str, line: u32, body: &str) -> NewComment {
    NewComment { path: path.into(), line, side: Side::Right, start_line: None, body: body.into() }
}

/// How often a token was asked for.
const TOKENS: &str = "POST /app/installations/*/access_tokens";

#[tokio::test]
async fn tokens_are_kept_narrowed_and_renewed() {
    let bench = Bench::new().await;
    let (pr, client) = bench.open(PullSpec::new(SMALL));
    for _ in 0..3 {
        client.pull_request(pr.number).await.unwrap();
        bench.client("acme/app").pull_request(pr.number).await.unwrap();
    }
    assert_eq!(bench.gh.count(TOKENS), 1, "all clients of a repository share a token");
    bench.clock.advance(Duration::from_secs(59 * 60 + 1));
    client.pull_request(pr.number).await.unwrap();
    assert_eq!(bench.gh.count(TOKENS), 2, "it is renewed in its last minute");
    bench.gh.revoke_tokens();
    client.create_issue_comment(pr.number, "Still here.").await.unwrap();
    assert_eq!((bench.gh.count(TOKENS), bench.gh.timeline(&pr).len()), (3, 1), "and once after a 401");

    let other = bench.gh.open_pull(PullSpec::new(SMALL).repo("acme/other"));
    bench.client("acme/other").pull_request(other.number).await.unwrap();
    assert_eq!(bench.gh.count(TOKENS), 4, "another repository has a token of its own");
    bench.gh.reckon();
}

#[tokio::test]
async fn an_uninstalled_app_is_told_so() {
    let bench = Bench::new().await;
    let (pr, client) = bench.open(PullSpec::new(SMALL));
    client.pull_request(pr.number).await.unwrap();
    bench.gh.uninstall("acme");
    let error = client.pull_request(pr.number).await.unwrap_err();
    assert!(matches!(&error, GitHubError::Unauthorized(text) if text.contains("uninstalled")), "{error}");
    assert_eq!(error.retry(), Retry::Never);
}

#[tokio::test]
async fn concurrent_requests_share_one_new_token() {
    let bench = Bench::new().await;
    let (pr, client) = bench.open(PullSpec::new(SMALL));
    let all = futures_util::future::join_all((0..8).map(|_| client.pull_request(pr.number))).await;
    assert!(all.iter().all(Result::is_ok));
    assert_eq!(bench.gh.count(TOKENS), 1);
}
