//! What becomes of deliveries, through the real router and on both databases.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use rstest::rstest;
use secondlook::clock::Clock;
use secondlook::db::Backend;
use secondlook::github::Repository;
use secondlook::github::store as known;
use secondlook::job::Job;
use secondlook::queue::store::{Hold, Queue};
use secondlook::queue::{Lease, Settings};
use secondlook::webhook::{Intake, Secrets, store};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::harness::clock::ManualClock;
use crate::harness::database::{TestDb, fresh};
use crate::harness::delivery::{SECRET, Server, fixture};

/// A server over a fresh database.
struct Bot {
    db: TestDb,
    clock: ManualClock,
    queue: Queue<Job>,
    server: Server,
    wake: Arc<Notify>,
}

async fn bot(backend: Backend) -> Option<Bot> {
    let db = fresh(backend).await?;
    let clock = ManualClock::default();
    let queue = Queue::new(db.clone(), Arc::new(clock.clone()), Settings::default());
    let wake = Arc::new(Notify::new());
    let secrets = Secrets::new(vec![SECRET.into()]);
    let intake = Intake::new(db.clone(), queue.clone(), Arc::new(clock.clone()), secrets, wake.clone());
    let server = Server::start(intake).await;
    Some(Bot { db, clock, queue, server, wake })
}

impl Bot {
    /// Delivers a payload, and says what was made of it.
    async fn deliver(&self, id: &str, event: &str, payload: &Value) -> String {
        let (status, text) = self.server.deliver(id, event, payload.to_string().as_bytes()).await;
        assert_eq!(status, 202, "{event}: {text}");
        text
    }

    /// All jobs that are due, taken.
    async fn due(&self) -> Vec<Lease<Job>> {
        let mut due = Vec::new();
        while let Some(lease) = self.queue.claim("w").await.unwrap() {
            due.push(lease);
        }
        due
    }
}

#[rstest]
#[case::sqlite(Backend::Sqlite)]
#[case::postgres(Backend::Postgres)]
#[tokio::test]
async fn every_example_is_recorded_and_answered_rightly(#[case] backend: Backend) {
    let Some(bot) = bot(backend).await else { return };
    let mut files: Vec<PathBuf> = std::fs::read_dir(fixture("")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    let (mut table, mut ignored) = (String::new(), 0);
    for path in files {
        let name = path.file_stem().unwrap().to_str().unwrap();
        let (event, _) = name.split_once('.').unwrap();
        let body = std::fs::read(&path).unwrap();
        let (status, outcome) = bot.server.deliver(name, event, &body).await;
        assert_eq!(status, 202, "{name}");
        assert_eq!(store::outcome(&bot.db, name).await.unwrap().unwrap(), outcome);
        let jobs: Vec<String> = bot.due().await.iter().map(|lease| format!(" {} {}", lease.kind, lease.key)).collect();
        // So that the next one of this key is seen too.
        sqlx::query("DELETE FROM jobs WHERE state = 'running'").execute(bot.db.writer()).await.unwrap();
        if outcome == "ignored" {
            assert!(jobs.is_empty(), "{name}");
            ignored += 1;
        } else {
            writeln!(table, "{name}: {outcome}{}", jobs.concat()).unwrap();
        }
    }
    insta::assert_snapshot!(table, @r"
    check_run.requested_action: not_our_check
    check_run.rerequested: not_our_check
    check_suite.rerequested: rerun rerun_check commit:186853002:ec26c3e57ca3a959ca5aad62de7213c562f8c821
    installation.created: installation
    installation.deleted: installation_removed
    installation.new_permissions_accepted: installation
    installation.suspend: suspended
    installation.unsuspend: unsuspended reconcile_pulls pulls
    installation_repositories.added: repositories
    installation_repositories.removed: repositories
    issue_comment.created: not_a_pull_request
    issue_comment.edited: not_a_pull_request
    merge_group.checks_requested: merge_group report_merge_group merge-group:17273051:2ffea6db159f6b6c47a24e778fb9ef40cf6b1c7d
    pull_request.closed: closed close_pull_request pull:186853002:2
    pull_request.opened: review review_pull_request pull:186853002:2
    pull_request.opened.no_installation: no_installation
    pull_request.ready_for_review: review review_pull_request pull:186853002:2
    pull_request.reopened: review review_pull_request pull:186853002:2
    pull_request.synchronize: review_push review_pull_request pull:186853002:2
    pull_request_review_comment.created: not_addressed
    pull_request_review_thread.resolved: thread_resolved
    pull_request_review_thread.unresolved: thread_unresolved
    repository.renamed: repository_moved
    repository.transferred: repository_moved
    ");
    assert_eq!(ignored, 30);
}

#[rstest]
#[case::sqlite(Backend::Sqlite)]
#[case::postgres(Backend::Postgres)]
#[tokio::test]
async fn all_shared_payloads_are_accepted_with_their_signatures(#[case] backend: Backend) {
    let Some(directory) = shared("github/payloads") else { return };
    let Some(bot) = bot(backend).await else { return };
    let index: Vec<Value> = serde_json::from_slice(&std::fs::read(directory.join("INDEX.json")).unwrap()).unwrap();
    assert_eq!(index.len(), 106);
    for entry in index {
        let file = entry["file"].as_str().unwrap();
        let (event, action) = (entry["event"].as_str().unwrap(), entry["action"].as_str().unwrap_or_default());
        let installed = entry["installation"].as_bool().unwrap();
        let body = std::fs::read(directory.join(file)).unwrap();
        let signature = entry["x-hub-signature-256"].as_str().unwrap();
        let (status, outcome) = bot.server.send(Some(signature), Some(file), Some(event), body.clone()).await;
        assert_eq!(status, 202, "{file}");
        let acting = |outcome| if installed { outcome } else { "no_installation" };
        let expected = match (event, action) {
            ("pull_request", "opened" | "reopened" | "ready_for_review") => acting("review"),
            ("pull_request", "synchronize") => acting("review_push"),
            ("pull_request", "closed") => acting("closed"),
            ("pull_request_review_comment", "created") => "not_addressed",
            ("pull_request_review_thread", "resolved") => "thread_resolved",
            ("pull_request_review_thread", "unresolved") => "thread_unresolved",
            ("issue_comment", "created" | "edited") => "not_a_pull_request",
            ("check_run", "rerequested" | "requested_action") => "not_our_check",
            ("check_suite", "rerequested") => acting("rerun"),
            ("merge_group", "checks_requested") => acting("merge_group"),
            ("installation", "created" | "new_permissions_accepted") => "installation",
            ("installation", "deleted") => "installation_removed",
            ("installation", "suspend") => "suspended",
            ("installation", "unsuspend") => "unsuspended",
            ("installation_repositories", "added" | "removed") => "repositories",
            ("repository", "renamed" | "transferred") => "repository_moved",
            _ => "ignored",
        };
        assert_eq!(outcome, expected, "{file}");

        // Delivered again, or with another byte in it, nothing more comes of it.
        let before = bot.queue.depth().await.unwrap();
        let (status, outcome) = bot.server.send(Some(signature), Some(file), Some(event), body.clone()).await;
        assert_eq!((status, outcome.as_str()), (202, "known"));
        let mut other = body;
        other.push(b' ');
        let (status, text) = bot.server.send(Some(signature), Some("x"), Some(event), other).await;
        assert_eq!((status, text.as_str()), (401, ""));
        assert_eq!(bot.queue.depth().await.unwrap(), before);
    }
    assert_eq!(store::outcome(&bot.db, "x").await.unwrap(), None);
}

/// A directory of the material that is shared with the project, where it is there.
fn shared(path: &str) -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared");
    let root = std::env::var_os("SECONDLOOK_SHARED").map_or(beside, PathBuf::from);
    let directory = root.join(path);
    if directory.is_dir() {
        return Some(directory);
    }
    eprintln!("skipped: {} is not there", directory.display());
    None
}

#[rstest]
#[case::sqlite(Backend::Sqlite)]
#[case::postgres(Backend::Postgres)]
#[tokio::test]
async fn a_delivery_twice_is_one_job_also_at_the_same_moment(#[case] backend: Backend) {
    let Some(bot) = bot(backend).await else { return };
    let payload = read("pull_request.opened");
    let answers = futures_util::future::join_all((0..8).map(|_| bot.deliver("one", "pull_request", &payload))).await;
    assert_eq!(answers.iter().filter(|outcome| *outcome == "review").count(), 1, "{answers:?}");
    assert_eq!(answers.iter().filter(|outcome| *outcome == "known").count(), 7, "{answers:?}");
    let leases = bot.due().await;
    assert_eq!(leases.len(), 1);
    assert!(matches!(leases[0].job, Job::ReviewPullRequest { .. }));
    // The worker is woken, without waiting for its next look.
    tokio::time::timeout(Duration::from_secs(5), bot.wake.notified()).await.unwrap();
}

#[rstest]
#[case::sqlite(Backend::Sqlite)]
#[case::postgres(Backend::Postgres)]
#[tokio::test]
async fn a_push_interrupts_a_review_and_closing_ends_it(#[case] backend: Backend) {
    let Some(bot) = bot(backend).await else { return };
    let mut pull = read("pull_request.opened");
    bot.deliver("1", "pull_request", &pull).await;
    let running = bot.due().await.remove(0);
    pull["action"] = json!("synchronize");
    bot.deliver("2", "pull_request", &pull).await;
    bot.deliver("3", "pull_request", &pull).await;
    assert_eq!(bot.queue.extend(&running).await.unwrap(), Hold::Interrupted);
    assert_eq!(bot.queue.depth().await.unwrap().queued, 1);
    pull["action"] = json!("closed");
    bot.deliver("4", "pull_request", &pull).await;
    assert_eq!(bot.queue.depth().await.unwrap().queued, 1, "the waiting review is gone");
    assert!(bot.queue.finish(&running, &secondlook::queue::store::Outcome::Released).await.unwrap());
    let rest = bot.due().await;
    assert_eq!(rest.len(), 1, "the running one does not come back");
    assert!(matches!(rest[0].job, Job::ClosePullRequest { .. }));
}

#[rstest]
#[case::sqlite(Backend::Sqlite)]
#[case::postgres(Backend::Postgres)]
#[tokio::test]
async fn installations_and_repositories_are_kept_in_step(#[case] backend: Backend) {
    let Some(bot) = bot(backend).await else { return };
    let present = |id: u64, owner: &str, name: &str| {
        Some((2_u64, Repository { id, owner: owner.to_owned(), name: name.to_owned() }))
    };
    let list = |ids: &[u64]| -> Value {
        ids.iter().map(|id| json!({ "id": id, "name": format!("r{id}"), "full_name": format!("acme/r{id}") })).collect()
    };
    let installation = |action: &str, ids: &[u64]| {
        let account = json!({ "login": "acme" });
        json!({ "action": action, "installation": { "id": 2, "account": account }, "repositories": list(ids) })
    };
    assert_eq!(bot.deliver("1", "installation", &installation("created", &[7, 5, 6])).await, "installation");
    assert_eq!(known::repository(&bot.db, 5).await.unwrap(), present(5, "acme", "r5"));
    assert!(!known::suspended(&bot.db, 2).await.unwrap());
    bot.deliver("2", "installation", &installation("suspend", &[])).await;
    assert!(known::suspended(&bot.db, 2).await.unwrap());
    bot.deliver("3", "installation", &installation("new_permissions_accepted", &[])).await;
    assert!(known::suspended(&bot.db, 2).await.unwrap(), "accepting permissions does not wake it");
    bot.deliver("4", "installation", &installation("unsuspend", &[])).await;
    assert!(!known::suspended(&bot.db, 2).await.unwrap());
    assert!(!known::suspended(&bot.db, 99).await.unwrap());
    assert_eq!(bot.due().await[0].job, Job::ReconcilePulls, "nothing was told while it slept");
    sqlx::query("DELETE FROM jobs").execute(bot.db.writer()).await.unwrap();

    let mut moved = json!({ "action": "renamed", "installation": { "id": 2 } });
    moved["repository"] = json!({ "id": 5, "name": "new", "owner": { "login": "acme" } });
    bot.deliver("5", "repository", &moved).await;
    assert_eq!(known::repository(&bot.db, 5).await.unwrap(), present(5, "acme", "new"));
    moved["action"] = json!("transferred");
    moved["repository"]["owner"]["login"] = json!("other");
    moved.as_object_mut().unwrap().remove("installation");
    bot.deliver("6", "repository", &moved).await;
    assert_eq!(known::repository(&bot.db, 5).await.unwrap(), present(5, "other", "new"));

    let mut change = json!({ "action": "removed", "installation": { "id": 2, "account": { "login": "acme" } } });
    change["repositories_removed"] = list(&[6, 7]);
    bot.deliver("7", "installation_repositories", &change).await;
    assert_eq!(known::repository(&bot.db, 6).await.unwrap(), None);
    bot.clock.advance(Duration::from_secs(3 * 24 * 60 * 60));
    change = json!({ "action": "added", "installation": { "id": 2, "account": { "login": "acme" } } });
    change["repositories_added"] = list(&[7]);
    bot.deliver("8", "installation_repositories", &change).await;
    assert_eq!(known::repository(&bot.db, 7).await.unwrap(), present(7, "acme", "r7"));

    assert!(bot.due().await.is_empty(), "nothing is forgotten within the grace period");
    bot.clock.advance(Duration::from_secs(4 * 24 * 60 * 60));
    let forget = bot.due().await;
    assert_eq!(forget[0].job, Job::ForgetRepositories { installation: 2, repositories: vec![6, 7] });
    let now = bot.clock.now();
    let cutoff = now - SignedDuration::from_hours(7 * 24);
    assert_eq!(known::removed_before(&bot.db, 2, cutoff).await.unwrap(), [6], "one of them came back");
    bot.deliver("9", "installation", &installation("deleted", &[])).await;
    assert_eq!(known::repository(&bot.db, 7).await.unwrap(), None);
    assert_eq!(known::removed_before(&bot.db, 2, now).await.unwrap(), [5, 6, 7]);
    let mut tx = bot.db.begin().await.unwrap();
    known::forget(&mut tx, 2, &[5, 6, 7], cutoff).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(known::removed_before(&bot.db, 2, now).await.unwrap(), [5, 7], "those are not old enough");
}

#[rstest]
#[case::sqlite(Backend::Sqlite)]
#[case::postgres(Backend::Postgres)]
#[tokio::test]
async fn when_the_queue_fails_the_delivery_can_come_again(#[case] backend: Backend) {
    let Some(bot) = bot(backend).await else { return };
    let payload = read("pull_request.opened");
    sqlx::query("ALTER TABLE jobs RENAME TO jobs_away").execute(bot.db.writer()).await.unwrap();
    let (status, text) = bot.server.deliver("1", "pull_request", payload.to_string().as_bytes()).await;
    assert_eq!(status, 503, "{text}");
    let (status, _) = bot.server.get("/readyz").await;
    assert_eq!(status, 503);
    sqlx::query("ALTER TABLE jobs_away RENAME TO jobs").execute(bot.db.writer()).await.unwrap();
    assert_eq!(store::outcome(&bot.db, "1").await.unwrap(), None, "nothing half-written");
    assert_eq!(bot.deliver("1", "pull_request", &payload).await, "review");
    assert_eq!(bot.due().await.len(), 1);
}

#[rstest]
#[case::sqlite(Backend::Sqlite)]
#[case::postgres(Backend::Postgres)]
#[tokio::test]
async fn old_deliveries_are_forgotten_when_nobody_can_send_them_again(#[case] backend: Backend) {
    let Some(bot) = bot(backend).await else { return };
    bot.deliver("old", "ping", &json!({})).await;
    bot.clock.advance(Duration::from_secs(34 * 24 * 60 * 60));
    bot.deliver("new", "ping", &json!({})).await;
    store::prune(&bot.db, &bot.queue, bot.clock.now()).await.unwrap();
    assert!(store::outcome(&bot.db, "old").await.unwrap().is_some());
    bot.clock.advance(Duration::from_secs(2 * 24 * 60 * 60));
    store::prune(&bot.db, &bot.queue, bot.clock.now()).await.unwrap();
    assert!(store::outcome(&bot.db, "old").await.unwrap().is_none());
    assert!(store::outcome(&bot.db, "new").await.unwrap().is_some());
}

fn read(name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(fixture(&format!("{name}.json"))).unwrap()).unwrap()
}
