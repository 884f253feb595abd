//! The client against the stand-in: what GitHub really does, and what goes wrong on the way.

use std::sync::Arc;
use std::time::Duration;

use rstest::rstest;
use secondlook::clock::Clock;
use secondlook::diff::Side;
use secondlook::github::client::{AppCredentials, GitHubApp, RepositoryClient, Settings, convert_manifest};
use secondlook::github::error::GitHubError;
use secondlook::github::{CheckRun, CheckStatus, Conclusion, FileText, NewComment, NewReview, Permission, ReviewEvent};
use secondlook::retry::Retry;

use crate::harness::clock::ManualClock;
use crate::harness::github::actions::PullSpec;
use crate::harness::github::fault::Fault;
use crate::harness::github::files::{Change, File};
use crate::harness::github::{FakeGitHub, Pr};

mod faults;
mod files;

struct Bench {
    gh: FakeGitHub,
    app: GitHubApp,
    clock: ManualClock,
}

impl Bench {
    async fn new() -> Self {
        Self::with(|_| ()).await
    }

    /// With other settings of the client.
    async fn with(change: impl FnOnce(&mut Settings)) -> Self {
        let clock = ManualClock::default();
        let gh = FakeGitHub::start(Arc::new(clock.clone())).await;
        let mut settings = gh.settings();
        change(&mut settings);
        let app = GitHubApp::new(&gh.credentials(), &settings, Arc::new(clock.clone())).unwrap();
        Self { gh, app, clock }
    }

    fn now(&self) -> jiff::Timestamp {
        self.clock.now()
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
    assert_eq!(bench.gh.unread_writes().len(), 9);
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
    assert!(bench.gh.unread_writes().is_empty());
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
async fn a_token_that_is_refused_twice_says_what_to_look_at() {
    let bench = Bench::new().await;
    let (pr, client) = bench.open(PullSpec::new(SMALL));
    client.pull_request(pr.number).await.unwrap();
    bench.gh.fault(Fault::status("GET /repos/*/*/pulls/*", 401, "Bad credentials").times(2));
    let error = client.pull_request(pr.number).await.unwrap_err();
    assert!(error.to_string().contains("suspended") && error.to_string().contains("requeue"), "{error}");
    assert_eq!(bench.gh.count(TOKENS), 2);
    client.pull_request(pr.number).await.unwrap();
    bench.gh.reckon();
}

#[rstest]
#[case::as_ours(0, 1)]
#[case::a_minute_ahead(60, 1)]
#[case::a_little_behind(-50, 1)]
#[case::behind(-180, 2)]
#[case::far_behind(-90_000, 2)]
#[case::ahead(1_000, 2)]
#[case::far_ahead(90_000, 2)]
#[tokio::test]
async fn a_clock_that_is_off_locks_nobody_out(#[case] ahead: i64, #[case] asked: usize) {
    let bench = Bench::new().await;
    let (pr, client) = bench.open(PullSpec::new(SMALL));
    bench.gh.set_clock_ahead(jiff::SignedDuration::from_secs(ahead));
    for _ in 0..3 {
        client.pull_request(pr.number).await.unwrap();
    }
    assert_eq!(bench.gh.count(TOKENS), asked, "one is refused and one is kept");
    bench.clock.advance(Duration::from_secs(59 * 60 + 1));
    client.pull_request(pr.number).await.unwrap();
    bench.app.identity().await.unwrap();
    bench.clock.advance(Duration::from_secs(3 * 3_600));
    client.pull_request(pr.number).await.unwrap();
    // Waits are differences: they do not depend on whose clock is right.
    let reset = bench.now().as_second() + ahead + 600;
    bench.gh.fault(Fault::primary_limit("GET /repos/*/*/pulls/*", reset));
    let error = client.pull_request(pr.number).await.unwrap_err();
    assert_eq!(error, GitHubError::RateLimited { wait: Duration::from_secs(600) });
    assert!(client.pull_request(pr.number).await.is_err());
    bench.clock.advance(Duration::from_secs(601));
    client.pull_request(pr.number).await.unwrap();
    bench.gh.reckon();
}

#[tokio::test]
async fn an_app_with_another_key_is_not_asked_for_again_and_again() {
    let bench = Bench::new().await;
    let (pr, client) = bench.open(PullSpec::new(SMALL));
    bench.gh.set_clock_ahead(jiff::SignedDuration::from_secs(90_000));
    bench.gh.fault(Fault::status(TOKENS, 401, "A JSON web token could not be decoded"));
    let error = client.pull_request(pr.number).await.unwrap_err();
    assert!(matches!(error, GitHubError::Unauthorized(_)), "{error}");
    assert_eq!(bench.gh.count(TOKENS), 1);
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

#[tokio::test]
async fn lists_are_read_to_their_end() {
    let bench = Bench::new().await;
    let mut change = Change::default();
    for n in 0..150 {
        change = change.and(&format!("f{n:03}.txt"), None, Some(File::new(format!("{n}\n"))));
    }
    let (pr, client) = bench.open(PullSpec::of(change));
    let pull = client.pull_request(pr.number).await.unwrap();
    bench.gh.forget_requests();
    let files = client.pull_files(&pull).await.unwrap();
    assert_eq!((files.files.len(), files.unlisted), (150, 0));
    assert_eq!(bench.gh.count("* /**"), 2, "a page more for each hundred files");
    for n in 0..250 {
        bench.gh.comment(&pr, "bob", &n.to_string());
    }
    for n in 0..120 {
        bench.gh.comment_on_line(&pr, "bob", &format!("f{n:03}.txt"), 1, "Why?");
    }
    assert_eq!(client.issue_comments(pr.number).await.unwrap().len(), 250);
    assert_eq!(client.review_comments(pr.number).await.unwrap().len(), 120);
    assert_eq!(client.reviews(pr.number).await.unwrap().len(), 120);
    bench.gh.reckon();
}

#[tokio::test]
async fn a_review_of_ten_files_costs_eight_calls_and_one_page() {
    let bench = Bench::new().await;
    let mut change = Change::default();
    for n in 0..10 {
        change = change.and(&format!("f{n}.txt"), Some(File::new("a\n")), Some(File::new(format!("{n}\n"))));
    }
    let (pr, client) = bench.open(PullSpec::of(change));
    let pull = client.pull_request(pr.number).await.unwrap();
    let run = client.create_check_run(&check(&pull.head_sha)).await.unwrap();
    let files = client.pull_files(&pull).await.unwrap();
    let paths: Vec<String> = files.files.iter().map(|file| file.diff.path.clone()).collect();
    client.file_texts(&pull.base_sha, &[".github/secondlook.yml".into(), "AGENTS.md".into()]).await.unwrap();
    client.file_texts(&pull.head_sha, &paths).await.unwrap();
    client.pull_request(pr.number).await.unwrap();
    client.create_review(pr.number, &review(&pull.head_sha, "Fine.", vec![])).await.unwrap();
    client.update_check_run(run, &check(&pull.head_sha)).await.unwrap();
    assert_eq!(bench.gh.count("* /**"), 9);
    bench.gh.reckon();
}

#[tokio::test]
async fn enterprise_server_is_found_below_its_path() {
    let bench = Bench::new().await;
    let pr = bench.gh.open_pull(PullSpec::new(SMALL));
    let settings = Settings { api_url: format!("{}/api/v3/", bench.gh.url()), ..bench.gh.settings() };
    let app = GitHubApp::new(&bench.gh.credentials(), &settings, Arc::new(bench.clock.clone())).unwrap();
    let client = app.repository(bench.gh.installation(&pr.repo), &bench.gh.repo(&pr.repo));
    let pull = client.pull_request(pr.number).await.unwrap();
    client.file_texts(&pull.head_sha, &["src/cache.rs".into()]).await.unwrap();
    let raw: Vec<String> = bench.gh.requests().into_iter().map(|request| request.raw).collect();
    assert!(raw.iter().all(|path| path.starts_with("/api/")), "{raw:?}");
    assert_eq!(raw.last().unwrap(), "/api/graphql");
    bench.gh.reckon();
}

#[tokio::test]
async fn an_unchanged_answer_is_not_sent_again() {
    let bench = Bench::new().await;
    let (pr, client) = bench.open(PullSpec::new(SMALL));
    let first = client.pull_request(pr.number).await.unwrap();
    assert_eq!(client.pull_request(pr.number).await.unwrap(), first);
    let head = bench.gh.push(&pr, "//- more.txt\n+more");
    assert_eq!(client.pull_request(pr.number).await.unwrap().head_sha, head);
    let asked = bench.gh.requests();
    let statuses: Vec<_> =
        asked.iter().filter(|request| request.method == "GET").map(|request| request.status).collect();
    assert_eq!(statuses, [Some(200), Some(304), Some(200)]);
}

#[tokio::test]
async fn a_renamed_repository_is_followed() {
    let bench = Bench::new().await;
    let (pr, client) = bench.open(PullSpec::new(SMALL));
    bench.gh.rename("acme/app", "program");
    let pull = client.pull_request(pr.number).await.unwrap();
    client.file_texts(&pull.head_sha, &["src/cache.rs".into()]).await.unwrap();
    client
        .create_review(pr.number, &review(&pull.head_sha, "Fine.", vec![comment("src/cache.rs", 2, "x")]))
        .await
        .unwrap();
    let statuses: Vec<_> = bench.gh.requests().iter().filter_map(|request| request.status).collect();
    assert_eq!(statuses, [201, 301, 200, 200, 307, 200], "a write is repeated as a write");
    let pr = Pr { repo: "acme/program".into(), ..pr };
    assert_eq!(bench.gh.reviews(&pr).len(), 1);
    bench.gh.reckon();
}

#[tokio::test]
async fn people_may_what_their_role_says() {
    let bench = Bench::new().await;
    let client = bench.client("acme/app");
    bench.gh.repo("acme/other");
    for (login, role) in [("ann", "admin"), ("max", "maintain"), ("tia", "triage"), ("ned", "none")] {
        bench.gh.permit("acme/app", login, role);
    }
    bench.gh.permit("acme/other", "stranger", "read");
    for (login, permission) in [
        ("ann", Permission::Admin),
        ("max", Permission::Maintain),
        ("alice", Permission::Write),
        ("tia", Permission::Triage),
        ("stranger", Permission::Read),
        ("ned", Permission::None),
        ("no/body?x#y", Permission::None),
    ] {
        assert_eq!(client.permission(login).await.unwrap(), permission, "{login}");
    }
    bench.gh.reckon();
}

#[tokio::test]
async fn the_app_knows_itself() {
    let bench = Bench::new().await;
    let identity = bench.app.identity().await.unwrap();
    assert_eq!((identity.slug.as_str(), identity.bot.login.as_str()), ("secondlook", "secondlook[bot]"));
    assert!(identity.bot.is_bot);
    assert_eq!(identity.permissions["pull_requests"], "write");
    bench.app.identity().await.unwrap();
    assert_eq!(bench.gh.count("* /**"), 2, "it asks once");

    // A server in private mode tells strangers nothing.
    let again = GitHubApp::new(&bench.gh.credentials(), &bench.gh.settings(), Arc::new(bench.clock.clone())).unwrap();
    bench.gh.fault(Fault::status("GET /users/*", 401, "Must authenticate to access this API."));
    assert_eq!(again.identity().await.unwrap(), identity);
    bench.gh.reckon();
}

#[tokio::test]
async fn the_manifest_flow_ends_with_the_app() {
    let bench = Bench::new().await;
    let (settings, code) = (bench.gh.settings(), bench.gh.manifest_code());
    let app = convert_manifest(&settings, &code).await.unwrap();
    assert_eq!((app.id, app.slug.as_str(), app.webhook_secret.is_some()), (4711, "secondlook", true));
    let credentials = AppCredentials { app_id: app.id, private_key: app.pem };
    GitHubApp::new(&credentials, &settings, Arc::new(bench.clock.clone())).unwrap().identity().await.unwrap();
    let again = convert_manifest(&settings, &code).await.unwrap_err();
    assert!(matches!(again, GitHubError::NotFound(_)), "{again}");
    bench.gh.reckon();
}

#[tokio::test]
async fn a_person_s_token_reads_and_reviews() {
    let bench = Bench::new().await;
    let pr = bench.gh.open_pull(PullSpec::new(SMALL));
    let token = bench.gh.personal_token("carol").into();
    let clock = Arc::new(bench.clock.clone());
    let client = RepositoryClient::with_token(&token, &bench.gh.repo(&pr.repo), &bench.gh.settings(), clock).unwrap();
    let pull = client.pull_request(pr.number).await.unwrap();
    client.create_review(pr.number, &review(&pull.head_sha, "Fine.", vec![])).await.unwrap();
    assert_eq!(bench.gh.reviews(&pr)[0].author, "carol");
    let refused = client.create_check_run(&check(&pull.head_sha)).await.unwrap_err();
    assert!(matches!(refused, GitHubError::Forbidden(_)), "{refused}");
    bench.gh.reckon();
}

#[tokio::test]
async fn a_pending_review_of_ours_stands_in_the_way_until_it_is_removed() {
    let bench = Bench::new().await;
    let (pr, client) = bench.open(PullSpec::new(SMALL));
    let left = bench.gh.leave_pending_review(&pr, "begun");
    let pull = client.pull_request(pr.number).await.unwrap();
    let wanted = review(&pull.head_sha, "Whole.", vec![]);
    let refused = client.create_review(pr.number, &wanted).await.unwrap_err();
    assert!(refused.to_string().contains("pending review"), "{refused}");
    let pending: Vec<_> =
        client.reviews(pr.number).await.unwrap().into_iter().filter(|review| review.pending).collect();
    assert_eq!(pending[0].id, left);
    client.delete_pending_review(pr.number, left).await.unwrap();
    client.create_review(pr.number, &wanted).await.unwrap();
    bench.gh.reckon();
}

fn check(head: &str) -> CheckRun {
    CheckRun {
        head_sha: head.into(),
        status: CheckStatus::Completed,
        conclusion: Some(Conclusion::Success),
        title: "Nothing to say".into(),
        summary: "…".into(),
        external_id: "1".into(),
        details_url: Some("https://secondlook.example/1".into()),
    }
}

fn review(head: &str, body: &str, comments: Vec<NewComment>) -> NewReview {
    NewReview { commit_id: head.into(), body: body.into(), event: ReviewEvent::Comment, comments }
}
