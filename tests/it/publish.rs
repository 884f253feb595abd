//! A planned round is written on GitHub once, whatever happens on the way.

use std::sync::Arc;
use std::time::Duration;

use rstest::rstest;
use secondlook::chat::TokenUsage;
use secondlook::clock::SharedClock;
use secondlook::db::Backend;
use secondlook::diff::Side;
use secondlook::github::client::{GitHubApp, RepositoryClient};
use secondlook::github::{CheckRun, CheckStatus, Conclusion};
use secondlook::retry::Retry;
use secondlook::review::anchor::Anchor;
use secondlook::review::coverage::Coverage;
use secondlook::review::finding::{Category, Finding, Severity, fingerprint};
use secondlook::review::ledger::Fate;
use secondlook::review::policy::Policy;
use secondlook::review::publish::plan::{RoundPlan, reviews};
use secondlook::review::publish::store::OpenRound;
use secondlook::review::publish::{Carried, PublishError, Publisher};
use secondlook::review::report::{Report, Reported};
use secondlook::review::score::score;
use secondlook::review::store::{PullKey, PullStore};
use tokio_util::sync::CancellationToken;

use crate::harness::clock::ManualClock;
use crate::harness::database::{TestDb, fresh};
use crate::harness::github::actions::PullSpec;
use crate::harness::github::fault::Fault;
use crate::harness::github::files::{Change, File};
use crate::harness::github::{FakeGitHub, Pr};

const REVIEWS: &str = "POST /repos/*/*/pulls/*/reviews";

struct Bench {
    gh: FakeGitHub,
    app: GitHubApp,
    client: RepositoryClient,
    store: PullStore,
    clock: ManualClock,
    pr: Pr,
    pull: PullKey,
    base: String,
    _db: TestDb,
}

impl Bench {
    /// A pull request that adds `a.rs` with these lines.
    async fn with_lines(backend: Backend, lines: usize, author: &str) -> Option<Self> {
        let db = fresh(backend).await?;
        let manual = ManualClock::default();
        let clock: SharedClock = Arc::new(manual.clone());
        let gh = FakeGitHub::start(clock.clone()).await;
        let app = GitHubApp::new(&gh.credentials(), &gh.settings(), clock.clone()).unwrap();
        let text: String = (1..=lines).map(|n| format!("let v{n} = load({n});\n")).collect();
        let change = Change::of("a.rs", None, Some(File::new(text)));
        let pr = gh.open_pull(PullSpec::of(change).author(author));
        let client = app.repository(gh.installation(&pr.repo), &gh.repo(&pr.repo));
        let base = client.pull_request(pr.number).await.unwrap().base_sha;
        let pull =
            PullKey { repository: gh.repo(&pr.repo).id, number: pr.number, installation: gh.installation(&pr.repo) };
        let store = PullStore::new(db.clone(), clock);
        Some(Self { gh, app, client, store, clock: manual, pr, pull, base, _db: db })
    }

    async fn new(backend: Backend) -> Option<Self> {
        Self::with_lines(backend, 4, "alice").await
    }

    fn head(&self) -> String {
        self.gh.head(&self.pr)
    }

    async fn plan(&self, findings: Vec<Reported>, policy: &Policy) -> OpenRound {
        let report = report(findings);
        let planned = reviews(&report, policy, &self.base, &self.head());
        let check = CheckRun {
            head_sha: self.head(),
            status: CheckStatus::Completed,
            conclusion: Some(Conclusion::Neutral),
            title: "T".into(),
            summary: "S".into(),
            external_id: "x".into(),
            details_url: None,
        };
        let plan = RoundPlan {
            job: "job".into(),
            base_ref: "main".into(),
            base: self.base.clone(),
            head: self.head(),
            check: Some((1, check)),
            hunks: vec![],
        };
        self.store.plan_round(self.pull, &plan, &planned, &report.findings).await.unwrap()
    }

    async fn carry_out(&self, round: &mut OpenRound) -> Result<Carried, PublishError> {
        let publisher = Publisher { client: &self.client, app: Some(&self.app), number: self.pr.number };
        publisher.carry_out(&self.store, self.pull, round, &CancellationToken::new()).await
    }

    /// As after a restart: only what the database knows.
    async fn carry_out_afresh(&self) -> Result<Carried, PublishError> {
        let mut round = self.store.open_round(self.pull).await.unwrap().unwrap();
        self.carry_out(&mut round).await
    }

    async fn fates(&self) -> Vec<Fate> {
        self.store.ledger(self.pull).await.unwrap().entries.iter().map(|entry| entry.fate).collect()
    }

    /// The lines people see comments on.
    fn lines(&self) -> Vec<u64> {
        let mut lines: Vec<u64> = self.gh.comments(&self.pr).iter().map(|comment| comment.line).collect();
        lines.sort_unstable();
        lines
    }
}

fn on_line(n: u32) -> Reported {
    placed(&format!("let v{n} = load({n});"), n)
}

fn placed(quote: &str, line: u32) -> Reported {
    let finding = Finding {
        path: "a.rs".into(),
        quote: quote.into(),
        line: Some(line),
        end_line: None,
        side: None,
        severity: Severity::Major,
        category: Category::Correctness,
        title: format!("Problem with {quote}"),
        body: "It fails.".into(),
        replacement: None,
        confidence: 0.9,
        source: "model".into(),
        evidence: vec![],
    };
    let place = Ok(Anchor { side: Side::Right, start_line: line, line });
    Reported { fingerprint: fingerprint(&finding), finding, place, suggestion: None }
}

fn report(findings: Vec<Reported>) -> Report {
    Report {
        score: score(findings.iter().map(|f| &f.finding)),
        findings,
        capped: vec![],
        coverage: Coverage::default(),
        usage: TokenUsage::default(),
        summary: String::new(),
        trace_id: String::new(),
    }
}

#[rstest]
#[case::sqlite(Backend::Sqlite)]
#[case::postgres(Backend::Postgres)]
#[tokio::test]
async fn a_round_is_written_with_one_request_and_remembered(#[case] backend: Backend) {
    let Some(bench) = Bench::new(backend).await else { return };
    bench.gh.forget_requests();
    let mut round = bench.plan(vec![on_line(2), on_line(3)], &Policy::default()).await;
    assert_eq!(bench.fates().await, [Fate::Planned; 2]);
    assert_eq!(bench.carry_out(&mut round).await.unwrap(), Carried::Out);
    assert_eq!(bench.lines(), [2, 3]);
    assert_eq!(bench.gh.count("* /repos/**"), 1);
    assert_eq!(bench.fates().await, [Fate::Posted; 2]);
    // Until it is settled it is gone on with, which writes nothing again.
    assert_eq!(bench.carry_out_afresh().await.unwrap(), Carried::Out);
    bench.store.settle_round(bench.pull, &round).await.unwrap();
    assert_eq!(bench.store.open_round(bench.pull).await.unwrap(), None);
    let state = bench.store.state(bench.pull).await.unwrap();
    assert_eq!(state.reviewed, Some((bench.base.clone(), bench.head())));
    assert_eq!(bench.gh.reviews(&bench.pr).len(), 1);
    bench.gh.reckon();
}

#[rstest]
#[case::cut(Fault::apply_then_drop(REVIEWS))]
#[case::bad_gateway(Fault::apply_then_status(REVIEWS, 502))]
#[case::truncated(Fault::truncated(REVIEWS))]
#[tokio::test]
async fn a_doubtful_answer_is_looked_into_before_anything_is_sent_again(#[case] fault: Fault) {
    let Some(bench) = Bench::new(Backend::Sqlite).await else { return };
    bench.gh.fault(fault);
    let mut round = bench.plan(vec![on_line(2)], &Policy::default()).await;
    let error = bench.carry_out(&mut round).await.unwrap_err();
    assert_eq!(error.retry(), Retry::Backoff);
    assert_eq!(bench.carry_out_afresh().await.unwrap(), Carried::Out);
    assert_eq!(bench.gh.reviews(&bench.pr).len(), 1);
    assert_eq!(bench.gh.count(REVIEWS), 1);
    assert_eq!(bench.fates().await, [Fate::Posted]);
    bench.gh.reckon();
}

#[tokio::test]
async fn what_did_not_arrive_is_sent_again() {
    let Some(bench) = Bench::new(Backend::Sqlite).await else { return };
    bench.gh.fault(Fault::drop(REVIEWS));
    let mut round = bench.plan(vec![on_line(2)], &Policy::default()).await;
    bench.carry_out(&mut round).await.unwrap_err();
    assert_eq!(bench.carry_out_afresh().await.unwrap(), Carried::Out);
    assert_eq!((bench.gh.reviews(&bench.pr).len(), bench.gh.count(REVIEWS)), (1, 2));
    bench.gh.reckon();
}

#[tokio::test]
async fn a_rate_limit_is_waited_for_and_needs_no_look() {
    let Some(bench) = Bench::new(Backend::Sqlite).await else { return };
    bench.gh.fault(Fault::secondary_limit(REVIEWS, Some("72")));
    let mut round = bench.plan(vec![on_line(2)], &Policy::default()).await;
    let error = bench.carry_out(&mut round).await.unwrap_err();
    assert_eq!(error.retry(), Retry::After(Duration::from_secs(72)));
    assert_eq!(bench.gh.count("GET /repos/*/*/pulls/*/reviews"), 0);
    assert_eq!(bench.fates().await, [Fate::Planned]);
}

#[rstest]
#[case::sqlite(Backend::Sqlite)]
#[case::postgres(Backend::Postgres)]
#[tokio::test]
async fn a_comment_off_the_diff_is_said_in_the_body_and_costs_the_others_nothing(#[case] backend: Backend) {
    let Some(bench) = Bench::new(backend).await else { return };
    let mut round = bench.plan(vec![on_line(2), placed("gone();", 77), on_line(3)], &Policy::default()).await;
    assert_eq!(bench.carry_out(&mut round).await.unwrap(), Carried::Out);
    assert_eq!(bench.lines(), [2, 3]);
    let reviews = bench.gh.reviews(&bench.pr);
    assert_eq!(reviews.len(), 1);
    assert!(reviews[0].body.contains("GitHub takes no comment"), "{}", reviews[0].body);
    assert!(reviews[0].body.contains("**Problem with gone();**"), "{}", reviews[0].body);
    let mut fates = bench.fates().await;
    fates.sort_by_key(|fate| *fate == Fate::Summary);
    assert_eq!(fates, [Fate::Posted, Fate::Posted, Fate::Summary]);
    bench.gh.reckon();
}

#[tokio::test]
async fn a_comment_whose_code_moved_is_put_where_the_code_is_now() {
    let Some(bench) = Bench::new(Backend::Sqlite).await else { return };
    let mut moved = on_line(3);
    moved.place = Ok(Anchor { side: Side::Right, start_line: 90, line: 90 });
    let mut round = bench.plan(vec![on_line(2), moved], &Policy::default()).await;
    assert_eq!(bench.carry_out(&mut round).await.unwrap(), Carried::Out);
    assert_eq!(bench.lines(), [2, 3]);
    bench.gh.reckon();
}

#[tokio::test]
async fn when_nothing_is_taken_on_lines_everything_is_said_in_the_body() {
    let Some(bench) = Bench::new(Backend::Sqlite).await else { return };
    // The review, and the review placed anew.
    bench.gh.fault(Fault::unprocessable(REVIEWS, &["Line could not be resolved"]).times(2));
    let findings = vec![on_line(1), on_line(2), on_line(3), on_line(4)];
    let mut round = bench.plan(findings, &Policy::default()).await;
    assert_eq!(bench.carry_out(&mut round).await.unwrap(), Carried::Out);
    assert_eq!(bench.lines(), [0_u64; 0]);
    let reviews = bench.gh.reviews(&bench.pr);
    assert_eq!((reviews.len(), bench.gh.count(REVIEWS)), (1, 3));
    for n in 1..=4 {
        assert!(reviews[0].body.contains(&format!("**Problem with let v{n} = load({n});**")), "{}", reviews[0].body);
    }
    assert_eq!(bench.fates().await, [Fate::Summary; 4]);
    bench.gh.reckon();
}

#[rstest]
#[case::limited(Fault::secondary_limit("GET /repos/*/*/pulls/*/reviews", Some("72")))]
#[case::forbidden(Fault::status("GET /repos/*/*/pulls/*/reviews", 403, "Resource not accessible by integration"))]
#[case::gone(Fault::status("GET /repos/*/*/pulls/*/reviews", 404, "Not Found"))]
#[tokio::test]
async fn a_refusal_that_could_not_be_looked_into_stays_in_doubt(#[case] fault: Fault) {
    let Some(bench) = Bench::new(Backend::Sqlite).await else { return };
    bench.app.identity().await.unwrap();
    bench.gh.fault(Fault::apply_then_status(REVIEWS, 422));
    bench.gh.fault(fault);
    let mut round = bench.plan(vec![on_line(2)], &Policy::default()).await;
    bench.carry_out(&mut round).await.unwrap_err();
    bench.clock.advance(Duration::from_secs(72));
    assert_eq!(bench.carry_out_afresh().await.unwrap(), Carried::Out);
    assert_eq!((bench.gh.reviews(&bench.pr).len(), bench.gh.count(REVIEWS)), (1, 1));
    bench.gh.reckon();
}

#[tokio::test]
async fn a_write_that_is_limited_after_a_refusal_stays_in_doubt() {
    let Some(bench) = Bench::new(Backend::Sqlite).await else { return };
    bench.gh.fault(Fault::unprocessable(REVIEWS, &["Line could not be resolved"]));
    bench.gh.fault(Fault::secondary_limit(REVIEWS, Some("72")));
    let mut round = bench.plan(vec![on_line(2)], &Policy::default()).await;
    bench.carry_out(&mut round).await.unwrap_err();
    bench.clock.advance(Duration::from_secs(72));
    bench.gh.forget_requests();
    assert_eq!(bench.carry_out_afresh().await.unwrap(), Carried::Out);
    assert_eq!(bench.gh.count("GET /repos/*/*/pulls/*/reviews"), 1, "it looks first");
    assert_eq!((bench.gh.reviews(&bench.pr).len(), bench.lines()), (1, vec![2]));
    bench.gh.reckon();
}

#[tokio::test]
async fn a_refusal_that_left_a_record_is_not_sent_again() {
    let Some(bench) = Bench::new(Backend::Sqlite).await else { return };
    bench.gh.fault(Fault::apply_then_status(REVIEWS, 422));
    let mut round = bench.plan(vec![on_line(2)], &Policy::default()).await;
    assert_eq!(bench.carry_out(&mut round).await.unwrap(), Carried::Out);
    assert_eq!((bench.gh.reviews(&bench.pr).len(), bench.gh.count(REVIEWS)), (1, 1));
    bench.gh.reckon();
}

#[tokio::test]
async fn a_pending_review_of_ours_is_removed() {
    let Some(bench) = Bench::new(Backend::Sqlite).await else { return };
    bench.gh.leave_pending_review(&bench.pr, "left behind");
    let mut round = bench.plan(vec![on_line(2)], &Policy::default()).await;
    assert_eq!(bench.carry_out(&mut round).await.unwrap(), Carried::Out);
    let reviews = bench.gh.reviews(&bench.pr);
    assert_eq!((reviews.len(), reviews[0].state), (1, "COMMENTED"));
    bench.gh.reckon();
}

#[tokio::test]
async fn our_own_pull_request_is_not_blocked() {
    let Some(bench) = Bench::with_lines(Backend::Sqlite, 4, "secondlook[bot]").await else { return };
    let mut policy = Policy::default();
    policy.review.request_changes = Some(Severity::Major);
    let mut round = bench.plan(vec![on_line(2)], &policy).await;
    assert_eq!(bench.carry_out(&mut round).await.unwrap(), Carried::Out);
    assert_eq!(bench.gh.reviews(&bench.pr)[0].state, "COMMENTED");
    bench.gh.reckon();
}

#[rstest]
#[case::sqlite(Backend::Sqlite)]
#[case::postgres(Backend::Postgres)]
#[tokio::test]
async fn a_round_whose_head_was_replaced_is_given_up_and_its_findings_can_be_said_again(#[case] backend: Backend) {
    let Some(bench) = Bench::new(backend).await else { return };
    let mut round = bench.plan(vec![on_line(2)], &Policy::default()).await;
    bench.gh.force_push(&bench.pr, &Change::of("b.rs", None, Some(File::new("fn b() {}\n"))));
    assert_eq!(bench.carry_out(&mut round).await.unwrap(), Carried::Overtaken);
    bench.store.abandon_round(bench.pull, &round).await.unwrap();
    assert_eq!(bench.fates().await, []);
    assert_eq!(bench.store.open_round(bench.pull).await.unwrap(), None);
    assert!(bench.gh.reviews(&bench.pr).is_empty());
    bench.gh.reckon();
}

#[tokio::test]
async fn a_crash_between_two_parts_leaves_the_first_and_sends_the_second() {
    let Some(bench) = Bench::with_lines(Backend::Sqlite, 40, "alice").await else { return };
    bench.gh.fault(Fault::status(REVIEWS, 503, "Unavailable").after(1));
    let findings: Vec<Reported> = (1..=35).map(on_line).collect();
    let mut round = bench.plan(findings, &Policy::default()).await;
    bench.carry_out(&mut round).await.unwrap_err();
    assert_eq!(bench.lines().len(), 30);
    assert_eq!(bench.carry_out_afresh().await.unwrap(), Carried::Out);
    assert_eq!(bench.lines(), (1..=35).collect::<Vec<u64>>());
    assert_eq!(bench.gh.reviews(&bench.pr).len(), 2);
    bench.gh.reckon();
}

#[tokio::test]
async fn a_stopped_job_sends_nothing_more() {
    let Some(bench) = Bench::new(Backend::Sqlite).await else { return };
    let mut round = bench.plan(vec![on_line(2)], &Policy::default()).await;
    let stop = CancellationToken::new();
    stop.cancel();
    let publisher = Publisher { client: &bench.client, app: Some(&bench.app), number: bench.pr.number };
    let carried = publisher.carry_out(&bench.store, bench.pull, &mut round, &stop).await.unwrap();
    assert_eq!((carried, bench.gh.count(REVIEWS)), (Carried::Stopped, 0));
}

#[rstest]
#[case::sqlite(Backend::Sqlite)]
#[case::postgres(Backend::Postgres)]
#[tokio::test]
async fn what_is_kept_of_a_repository_can_be_deleted(#[case] backend: Backend) {
    let Some(bench) = Bench::new(backend).await else { return };
    bench.plan(vec![on_line(2)], &Policy::default()).await;
    bench.store.set_paused(bench.pull, true, "2026-01-05T09:00:00Z").await.unwrap();
    assert!(bench.store.state(bench.pull).await.unwrap().paused);
    bench.store.forget_repository(bench.pull.repository).await.unwrap();
    assert_eq!(bench.fates().await, []);
    assert_eq!(bench.store.open_round(bench.pull).await.unwrap(), None);
    assert!(!bench.store.state(bench.pull).await.unwrap().paused);
}
