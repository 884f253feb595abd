//! The jobs, from a row in the queue to what stands on GitHub: what they cost, and how they go on after an accident.

mod interleaved;

use std::sync::Arc;

use insta::assert_snapshot;
use rstest::rstest;
use secondlook::agent::checkpoint::Checkpoints;
use secondlook::agent::spending::Purse;
use secondlook::app::{App, GitHubHandle};
use secondlook::chat::ModelRole;
use secondlook::chat::router::Router;
use secondlook::clock::{Clock, SharedClock};
use secondlook::db::Backend;
use secondlook::event::store::EventLog;
use secondlook::github::client::GitHubApp;
use secondlook::job::worker::Worker;
use secondlook::job::{Job, PullRef, Trigger};
use secondlook::memory::store::ChatHistory;
use secondlook::queue;
use secondlook::queue::store::Queue;
use secondlook::queue::worker::run_until_idle;
use secondlook::review::change::{Engine, Limits};
use serde_json::{Value, json};

use crate::harness::clock::ManualClock;
use crate::harness::database::{TestDb, fresh};
use crate::harness::github::actions::PullSpec;
use crate::harness::github::fault::{Fault, Gate};
use crate::harness::github::{FakeGitHub, Pr};
use crate::scripted::{Reply, Scripted, says};

const CHANGE: &str = "
//- src/cache.rs
 fn look_up(key: &str) -> u32 {
-    0
+    MAP.get(key).copied().unwrap()
 }
";
const FILES: &str = "GET /repos/*/*/pulls/*/files";
const REVIEWS: &str = "POST /repos/*/*/pulls/*/reviews";

struct Bench {
    gh: FakeGitHub,
    clock: ManualClock,
    db: TestDb,
    model: Arc<Scripted>,
    app: GitHubApp,
}

impl Bench {
    async fn new(backend: Backend, model: Scripted) -> Option<Self> {
        let db = fresh(backend).await?;
        let clock = ManualClock::default();
        let gh = FakeGitHub::start(Arc::new(clock.clone())).await;
        let app = GitHubApp::new(&gh.credentials(), &gh.settings(), Arc::new(clock.clone())).unwrap();
        Some(Self { gh, clock, db, model: Arc::new(model), app })
    }

    fn queue(&self) -> Queue<Job> {
        Queue::new((*self.db).clone(), Arc::new(self.clock.clone()), queue::Settings::default())
    }

    fn worker(&self) -> Worker {
        let clock: SharedClock = Arc::new(self.clock.clone());
        let db = (*self.db).clone();
        let engine = Engine {
            models: Arc::new(Router::single(self.model.clone())),
            checkpoints: Checkpoints::new(db.clone(), clock.clone()),
            events: EventLog::new(db.clone()),
            clock: clock.clone(),
            limits: Limits { group_files: 1, ..Limits::default() },
            purse: Purse::default(),
        };
        let app = App {
            history: ChatHistory::new(db.clone(), clock.clone()),
            github: GitHubHandle::new(Some(self.app.clone()), db.clone()),
            db,
            clock,
            engine,
            public_url: None,
        };
        Worker::new(app, self.queue())
    }

    fn pull(&self, pr: &Pr) -> PullRef {
        PullRef { installation: self.gh.installation(&pr.repo), repository: self.gh.repo(&pr.repo), number: pr.number }
    }

    async fn enqueue(&self, job: Job) {
        let mut tx = self.db.begin().await.unwrap();
        self.queue().enqueue(&mut tx, &job.due(self.clock.now())).await.unwrap();
        tx.commit().await.unwrap();
    }

    /// Does a job and everything it leads to, until nothing is due.
    async fn run(&self, job: Job) {
        self.enqueue(job).await;
        self.work().await;
    }

    async fn work(&self) {
        run_until_idle(&self.queue(), &self.worker(), "test").await.unwrap();
    }

    async fn review(&self, pr: &Pr, trigger: Trigger) {
        self.run(Job::ReviewPullRequest { pull: self.pull(pr), trigger }).await;
    }

    /// Lets time pass until the next try is due, and does it.
    async fn try_again(&self) {
        let due = self.queue().next_due().await.unwrap().expect("a job waits");
        self.clock.advance(due.duration_since(self.clock.now()).try_into().unwrap_or_default());
        self.work().await;
    }

    async fn settled(&self) {
        let depth = self.queue().depth().await.unwrap();
        assert_eq!((depth.queued, depth.running, depth.dead), (0, 0, 0), "{:?}", self.queue().dead_letters().await);
        assert_eq!(self.model.unused(), 0, "scripted answers were not asked for");
        self.gh.reckon();
    }
}

fn finding() -> Value {
    json!({
        "path": "src/cache.rs", "quote": "MAP.get(key).copied().unwrap()", "line": 2, "severity": "major",
        "category": "correctness", "title": "Panics when the key is missing",
        "body": "A key that was never put in panics here. Return the default instead.", "confidence": 0.9,
    })
}

fn found(findings: &[Value]) -> Reply {
    says(json!({"findings": findings, "summary": "Looks keys up."}).to_string())
}

fn kept() -> Reply {
    let verdict = json!({"index": 0, "verdict": "keep", "reason": "The map is filled lazily.", "confidence": 0.9});
    says(json!({"verdicts": [verdict], "missed": []}).to_string())
}

/// A reviewer who finds one fault in the first round, and a critic who keeps it.
fn one_finding() -> Scripted {
    Scripted::reviewer([found(&[finding()])]).and(ModelRole::Critic, [kept()])
}

#[rstest]
#[case::sqlite(Backend::Sqlite)]
#[case::postgres(Backend::Postgres)]
#[tokio::test]
async fn a_review_is_one_review_a_check_and_ten_requests(#[case] backend: Backend) {
    let Some(bench) = Bench::new(backend, one_finding()).await else { return };
    let pr = bench.gh.open_pull(PullSpec::new(CHANGE).title("Look keys up"));
    bench.review(&pr, Trigger::Opened).await;
    assert_snapshot!(bench.gh.page(&pr), @"
    #1 Look keys up [open] by alice
    check secondlook: neutral: 1 problem (major)

    secondlook[bot] reviewed head1
      Found 1 problem (major).

      src/cache.rs:2
      | +    MAP.get(key).copied().unwrap()
        **Panics when the key is missing** · major · correctness

        A key that was never put in panics here. Return the default instead.

        <details><summary>Evidence</summary>

        - `critic`: Confirmed in round 1: The map is filled lazily.
        - Found by `scripted::model`, confidence 90 %

        </details>
    ");
    // Token, pull request, its reviews, policy, check, one page of files, texts, pull request again, review, check.
    let calls: Vec<String> = bench.gh.requests().iter().map(|r| format!("{} {}", r.method, r.path)).collect();
    assert!(calls.len() <= 10, "{calls:#?}");
    // A redelivery, and the same head made ready, cost nothing and write nothing.
    bench.gh.forget_requests();
    bench.review(&pr, Trigger::Opened).await;
    assert_eq!(bench.gh.reviews(&pr).len(), 1);
    assert_eq!(bench.gh.count("POST /repos/**"), 0);
    bench.settled().await;
}

#[rstest]
#[case::sqlite(Backend::Sqlite)]
#[case::postgres(Backend::Postgres)]
#[tokio::test]
async fn asked_again_everything_is_looked_at_and_nothing_said_twice(#[case] backend: Backend) {
    let model =
        Scripted::reviewer([found(&[finding()]), found(&[finding()]), found(&[])]).and(ModelRole::Critic, [kept()]);
    let Some(bench) = Bench::new(backend, model).await else { return };
    let pr = bench.gh.open_pull(PullSpec::new(CHANGE));
    bench.review(&pr, Trigger::Opened).await;
    bench.review(&pr, Trigger::Asked).await;
    assert_eq!((bench.gh.reviews(&pr).len(), bench.gh.comments(&pr).len()), (1, 1));
    let check = bench.gh.checks(&pr).pop().unwrap();
    assert_eq!(check.title.as_deref(), Some("1 from earlier still open"));
    assert_eq!(check.conclusion.as_deref(), Some("neutral"));
    assert!(bench.model.requests().len() >= 3);
    bench.gh.reckon();
}

#[rstest]
#[case::sqlite(Backend::Sqlite)]
#[case::postgres(Backend::Postgres)]
#[tokio::test]
async fn a_push_is_reviewed_where_it_is_new(#[case] backend: Backend) {
    let model = Scripted::reviewer([found(&[finding()]), found(&[])]).and(ModelRole::Critic, [kept()]);
    let Some(bench) = Bench::new(backend, model).await else { return };
    let pr = bench.gh.open_pull(PullSpec::new(CHANGE));
    bench.review(&pr, Trigger::Opened).await;
    bench.gh.push(&pr, "//- src/other.rs\n+fn other() {}\n");
    bench.review(&pr, Trigger::Push).await;
    let subjects: Vec<String> = bench.model.requests().iter().map(|r| r.conversation.subject.clone()).collect();
    assert_eq!(subjects, ["src/cache.rs", "src/cache.rs", "src/other.rs"]);
    assert_eq!(bench.gh.reviews(&pr).len(), 1);
    let check = bench.gh.checks(&pr).pop().unwrap();
    assert_eq!(check.title.as_deref(), Some("1 from earlier still open"));
    bench.settled().await;
}

#[tokio::test]
async fn a_round_that_broke_off_while_posting_goes_on_without_the_model() {
    let Some(bench) = Bench::new(Backend::Sqlite, one_finding()).await else { return };
    let pr = bench.gh.open_pull(PullSpec::new(CHANGE));
    bench.gh.fault(Fault::apply_then_drop(REVIEWS));
    bench.gh.fault(Fault::status("PATCH /repos/*/*/check-runs/*", 503, "Unavailable"));
    bench.review(&pr, Trigger::Opened).await;
    bench.try_again().await;
    bench.try_again().await;
    assert_eq!((bench.gh.reviews(&pr).len(), bench.gh.count(REVIEWS)), (1, 1));
    assert_eq!(bench.gh.checks(&pr).pop().unwrap().conclusion.as_deref(), Some("neutral"));
    assert_eq!(bench.model.requests().len(), 2);
    bench.settled().await;
}

#[tokio::test]
async fn a_planned_round_of_an_older_head_is_given_up_for_the_newer_one() {
    // The run of the file that the push leaves alone is kept, so the model is not asked about it again.
    let model = Scripted::reviewer([found(&[finding()]), found(&[])]).and(ModelRole::Critic, [kept()]);
    let Some(bench) = Bench::new(Backend::Sqlite, model).await else { return };
    let pr = bench.gh.open_pull(PullSpec::new(CHANGE));
    bench.gh.fault(Fault::drop(REVIEWS));
    bench.review(&pr, Trigger::Opened).await;
    bench.gh.push(&pr, "//- src/other.rs\n+fn other() {}\n");
    bench.review(&pr, Trigger::Push).await;
    bench.clock.advance(std::time::Duration::from_secs(600));
    bench.work().await;
    assert_eq!((bench.gh.reviews(&pr).len(), bench.gh.comments(&pr).len()), (1, 1));
    bench.settled().await;
}

#[tokio::test]
async fn without_the_permission_for_checks_the_review_is_posted_all_the_same() {
    let Some(bench) = Bench::new(Backend::Sqlite, one_finding()).await else { return };
    bench.gh.set_app_permission("checks", None);
    let pr = bench.gh.open_pull(PullSpec::new(CHANGE));
    bench.gh.fault(Fault::status(FILES, 503, "Unavailable"));
    bench.review(&pr, Trigger::Opened).await;
    bench.try_again().await;
    assert_eq!(bench.gh.reviews(&pr).len(), 1);
    bench.settled().await;
}

#[tokio::test]
async fn a_review_that_cannot_be_posted_ends_its_check_with_the_reason() {
    let Some(bench) = Bench::new(Backend::Sqlite, one_finding()).await else { return };
    let pr = bench.gh.open_pull(PullSpec::new(CHANGE));
    bench.gh.fault(Fault::status(REVIEWS, 403, "Resource not accessible by integration"));
    bench.review(&pr, Trigger::Opened).await;
    let check = bench.gh.checks(&pr).pop().unwrap();
    assert_eq!((check.title.as_deref(), check.conclusion.as_deref()), (Some("Not reviewed"), Some("neutral")));
    assert_eq!(bench.queue().depth().await.unwrap().dead, 1);
    bench.gh.reckon();
}

#[rstest]
#[case::sqlite(Backend::Sqlite)]
#[case::postgres(Backend::Postgres)]
#[tokio::test]
async fn a_reply_is_answered_once_and_a_strangers_is_not(#[case] backend: Backend) {
    let model =
        one_finding().and(ModelRole::Answer, [says("The map is filled lazily, @alice, so it may lack the key.")]);
    let Some(bench) = Bench::new(backend, model).await else { return };
    let pr = bench.gh.open_pull(PullSpec::new(CHANGE));
    bench.review(&pr, Trigger::Opened).await;
    let root = bench.gh.comments(&pr)[0].id;
    let question = bench.gh.reply(&pr, root, "alice", "Why would it be missing?");
    let stranger = bench.gh.reply(&pr, root, "mallory", "@secondlook tell me everything");
    bench.gh.fault(Fault::apply_then_status("POST /repos/*/*/pulls/*/comments/*/replies", 502));
    bench.run(Job::ReplyToComment { pull: bench.pull(&pr), comment: stranger }).await;
    bench.run(Job::ReplyToComment { pull: bench.pull(&pr), comment: question }).await;
    bench.try_again().await;
    bench.run(Job::ReplyToComment { pull: bench.pull(&pr), comment: question }).await;
    let answers: Vec<String> =
        bench.gh.comments(&pr).iter().filter(|c| c.reply_to == Some(root)).map(|c| c.body.clone()).collect();
    assert_eq!(answers.len(), 3, "{answers:#?}");
    assert!(answers[2].starts_with("The map is filled lazily, @&#8203;alice, so"), "{}", answers[2]);
    let asked = bench.model.requests().pop().unwrap();
    assert!(asked.messages[0].text().contains("\"title\": \"Panics when the key is missing\""));
    assert_eq!(asked.messages.last().unwrap().text(), "alice wrote:\n\nWhy would it be missing?");
    bench.settled().await;
}

#[rstest]
#[case::sqlite(Backend::Sqlite)]
#[case::postgres(Backend::Postgres)]
#[tokio::test]
async fn commands_are_for_those_who_may(#[case] backend: Backend) {
    let Some(bench) = Bench::new(backend, one_finding()).await else { return };
    let pr = bench.gh.open_pull(PullSpec::new(CHANGE));
    let pull = bench.pull(&pr);
    let command = |comment| Job::RunCommand { pull: pull.clone(), comment };
    let stranger = bench.gh.comment(&pr, "mallory", "/secondlook pause");
    bench.run(command(stranger)).await;
    let pause = bench.gh.comment(&pr, "alice", "/secondlook pause");
    bench.run(command(pause)).await;
    bench.review(&pr, Trigger::Opened).await;
    assert!(bench.gh.reviews(&pr).is_empty());
    assert_eq!(bench.gh.checks(&pr).pop().unwrap().conclusion.as_deref(), Some("skipped"));
    let review = bench.gh.comment(&pr, "alice", "@secondlook review full");
    bench.run(command(review)).await;
    bench.run(command(review)).await;
    assert_eq!(bench.gh.reviews(&pr).len(), 1);
    for text in ["/secondlook dance", "/secondlook sing", "/secondlook fix"] {
        let comment = bench.gh.comment(&pr, "alice", text);
        bench.run(command(comment)).await;
    }
    assert_snapshot!(bench.gh.page(&pr), @"
    #1 Change something [open] by alice
    check secondlook: skipped: Paused
    check secondlook: neutral: 1 problem (major)

    mallory said
      /secondlook pause

    alice said [eyes secondlook[bot]]
      /secondlook pause

    alice said [eyes secondlook[bot]]
      @secondlook review full

    secondlook[bot] reviewed head1
      Found 1 problem (major).

      src/cache.rs:2
      | +    MAP.get(key).copied().unwrap()
        **Panics when the key is missing** · major · correctness

        A key that was never put in panics here. Return the default instead.

        <details><summary>Evidence</summary>

        - `critic`: Confirmed in round 1: The map is filled lazily.
        - Found by `scripted::model`, confidence 90 %

        </details>

    alice said
      /secondlook dance

    secondlook[bot] said
      What there is, each as `/secondlook …` or after a mention of `secondlook` at the start of a line:

      - `review`: review what is new; `review full`: review everything again
      - `ask …`: a question about this change; `explain`: more about the finding of this thread
      - `pause`, `resume`: stop and start reviewing pushes
      - `help`: this list

    alice said
      /secondlook sing

    alice said
      /secondlook fix

    secondlook[bot] said
      `fix` cannot be done by this version. `help` lists what can.
    ");
    bench.settled().await;
}

#[tokio::test]
async fn a_head_that_moves_during_the_review_is_followed_even_without_an_event() {
    let model = Scripted::reviewer([found(&[]), found(&[])]);
    let Some(bench) = Bench::new(Backend::Sqlite, model).await else { return };
    let pr = bench.gh.open_pull(PullSpec::new(CHANGE));
    let gate = Gate::new();
    // The second reading of the pull request, before anything is written, waits.
    bench.gh.fault(Fault::hold("GET /repos/*/*/pulls/*", &gate).after(1));
    let moves = async {
        gate.reached().await;
        bench.gh.push(&pr, "//- src/other.rs\n+fn other() {}\n");
        gate.open();
    };
    futures_util::join!(bench.review(&pr, Trigger::Opened), moves);
    let check = bench.gh.checks(&pr).pop().unwrap();
    assert_eq!((check.title.as_deref(), check.conclusion.as_deref()), (Some("No problems found"), Some("success")));
    bench.settled().await;
}

#[tokio::test]
async fn what_a_repository_does_not_want_reviewed_by_itself_has_a_skipped_check() {
    let Some(bench) = Bench::new(Backend::Sqlite, Scripted::default()).await else { return };
    bench.gh.commit_main("acme/app", "//- .github/secondlook.yml\nreview:\n  trigger: asked\n");
    let pr = bench.gh.open_pull(PullSpec::new(CHANGE));
    bench.review(&pr, Trigger::Opened).await;
    let check = bench.gh.checks(&pr).pop().unwrap();
    assert_eq!(check.conclusion.as_deref(), Some("skipped"));
    let draft = bench.gh.open_pull(PullSpec::new("//- src/draft.rs\n+fn draft() {}\n").branch("draft").draft());
    bench.review(&draft, Trigger::Opened).await;
    assert_eq!(bench.gh.checks(&draft).len(), 0);
    bench.settled().await;
}

#[tokio::test]
async fn the_merge_queue_is_told_at_once() {
    let Some(bench) = Bench::new(Backend::Sqlite, Scripted::default()).await else { return };
    let pr = bench.gh.open_pull(PullSpec::new(CHANGE));
    let PullRef { installation, repository, .. } = bench.pull(&pr);
    let head_sha = bench.gh.enqueue(&pr);
    bench.run(Job::ReportMergeGroup { installation, repository, head_sha }).await;
    bench.settled().await;
    assert_eq!(bench.gh.count("POST /repos/*/*/check-runs"), 1);
}
