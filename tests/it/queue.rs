//! The queue's promises, on both databases.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use rstest::rstest;
use secondlook::clock::Clock;
use secondlook::db::{Backend, Db};
use secondlook::queue::store::{Hold, Outcome, Queue};
use secondlook::queue::{Lease, NewJob, Settings};

use crate::harness::clock::ManualClock;
use crate::harness::database::fresh;

const LEASE: Duration = Duration::from_secs(60);

fn queue(db: &Db, clock: &ManualClock) -> Queue<String> {
    let settings = Settings { lease: LEASE, max_attempts: 3, ..Settings::default() };
    Queue::new(db.clone(), Arc::new(clock.clone()), settings)
}

fn job(clock: &dyn Clock, kind: &'static str, key: &str, text: &str, supersedes: bool) -> NewJob<String> {
    NewJob {
        kind,
        key: key.to_owned(),
        owner: String::new(),
        tenant: String::new(),
        run_at: clock.now(),
        supersedes,
        job: text.to_owned(),
    }
}

/// A review: newer ones replace it.
fn review(clock: &ManualClock, key: &str, text: &str) -> NewJob<String> {
    job(clock, "review", key, text, true)
}

async fn put(db: &Db, queue: &Queue<String>, job: &NewJob<String>) -> String {
    let mut tx = db.begin().await.unwrap();
    let id = queue.enqueue(&mut tx, job).await.unwrap();
    tx.commit().await.unwrap();
    id
}

async fn cancel(db: &Db, queue: &Queue<String>, key: &str) {
    let mut tx = db.begin().await.unwrap();
    queue.cancel(&mut tx, key).await.unwrap();
    tx.commit().await.unwrap();
}

async fn claim(queue: &Queue<String>) -> Lease<String> {
    queue.claim("w").await.unwrap().unwrap()
}

async fn nothing_due(queue: &Queue<String>) -> bool {
    queue.claim("w").await.unwrap().is_none()
}

#[rstest]
#[case::sqlite(Backend::Sqlite)]
#[case::postgres(Backend::Postgres)]
#[tokio::test]
async fn a_job_exists_exactly_when_its_transaction_does(#[case] backend: Backend) {
    let Some(db) = fresh(backend).await else { return };
    let clock = ManualClock::default();
    let queue = queue(&db, &clock);
    let mut tx = db.begin().await.unwrap();
    queue.enqueue(&mut tx, &review(&clock, "pr:1:1", "lost")).await.unwrap();
    let too_long = queue.enqueue(&mut tx, &review(&clock, &"k".repeat(1_001), "never claimed")).await;
    assert!(too_long.unwrap_err().to_string().contains("1000 bytes"));
    drop(tx);
    assert!(nothing_due(&queue).await);
    assert_eq!(queue.next_due().await.unwrap(), None);

    put(&db, &queue, &review(&clock, "pr:1:1", "kept")).await;
    clock.advance(Duration::from_millis(1_500));
    let depth = queue.depth().await.unwrap();
    assert_eq!((depth.queued, depth.running, depth.dead, depth.oldest_due_ms), (1, 0, 0, 1_500));
    let lease = claim(&queue).await;
    assert_eq!(
        (lease.job.as_str(), lease.kind.as_str(), lease.key.as_str(), lease.attempt),
        ("kept", "review", "pr:1:1", 1)
    );
    assert_eq!(queue.depth().await.unwrap().running, 1);
    assert!(queue.finish(&lease, &Outcome::Finished).await.unwrap());
    assert_eq!(queue.depth().await.unwrap(), Default::default());
}

#[rstest]
#[case::sqlite(Backend::Sqlite)]
#[case::postgres(Backend::Postgres)]
#[tokio::test]
async fn jobs_wait_for_their_time_and_for_their_key(#[case] backend: Backend) {
    let Some(db) = fresh(backend).await else { return };
    let clock = ManualClock::default();
    let queue = queue(&db, &clock);
    let later = NewJob { run_at: clock.now() + jiff::SignedDuration::from_secs(30), ..review(&clock, "b", "later") };
    put(&db, &queue, &later).await;
    let depth = queue.depth().await.unwrap();
    assert_eq!((depth.queued, depth.planned), (0, 1), "what is meant for later is no work left");
    assert!(nothing_due(&queue).await);
    assert_eq!(queue.next_due().await.unwrap(), Some(later.run_at));

    put(&db, &queue, &review(&clock, "a", "first")).await;
    put(&db, &queue, &job(&clock, "close", "a", "second", false)).await;
    let first = claim(&queue).await;
    assert_eq!(first.job, "first");
    assert!(nothing_due(&queue).await, "its key is running");
    clock.advance(Duration::from_secs(30));
    let other = claim(&queue).await;
    assert_eq!(other.job, "later", "another key is not held up");
    assert!(queue.finish(&first, &Outcome::Finished).await.unwrap());
    assert_eq!(claim(&queue).await.job, "second");
}

#[rstest]
#[case::sqlite(Backend::Sqlite)]
#[case::postgres(Backend::Postgres)]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_claims_at_the_same_moment_one_gets_the_key(#[case] backend: Backend) {
    const JOBS: usize = 40;
    let Some(db) = fresh(backend).await else { return };
    let clock = ManualClock::default();
    let queue = queue(&db, &clock);
    for n in 0..JOBS {
        put(&db, &queue, &job(&clock, "reply", "thread", &n.to_string(), false)).await;
    }
    for round in 0..JOBS {
        let claims = (0..8).map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.claim("w").await.unwrap() })
        });
        let claims = futures_util::future::join_all(claims).await;
        let got: Vec<Lease<String>> = claims.into_iter().filter_map(Result::unwrap).collect();
        assert_eq!(got.len(), 1, "in round {round}");
        assert!(queue.finish(&got[0], &Outcome::Finished).await.unwrap());
    }
}

#[rstest]
#[case::sqlite(Backend::Sqlite)]
#[case::postgres(Backend::Postgres)]
#[tokio::test]
async fn only_jobs_that_supersede_replace_a_waiting_one(#[case] backend: Backend) {
    let Some(db) = fresh(backend).await else { return };
    let clock = ManualClock::default();
    let queue = queue(&db, &clock);
    put(&db, &queue, &job(&clock, "reply", "thread", "one", false)).await;
    put(&db, &queue, &job(&clock, "reply", "thread", "two", false)).await;
    let old = put(&db, &queue, &review(&clock, "pr", "old")).await;
    clock.advance(Duration::from_secs(1));
    put(&db, &queue, &review(&clock, "other", "between")).await;
    clock.advance(Duration::from_secs(1));
    assert_eq!(put(&db, &queue, &review(&clock, "pr", "new")).await, old, "the newer takes the older one's row");
    assert_eq!(queue.depth().await.unwrap().queued, 4);

    let mut order = Vec::new();
    while let Some(lease) = queue.claim("w").await.unwrap() {
        order.push(lease.job.clone());
        assert!(queue.finish(&lease, &Outcome::Finished).await.unwrap());
    }
    assert_eq!(order, ["one", "two", "new", "between"], "the newer keeps the older one's turn");
}

#[rstest]
#[case::sqlite(Backend::Sqlite)]
#[case::postgres(Backend::Postgres)]
#[tokio::test]
async fn a_newer_job_interrupts_a_running_one_which_never_comes_back_beside_it(#[case] backend: Backend) {
    let Some(db) = fresh(backend).await else { return };
    let clock = ManualClock::default();
    let queue = queue(&db, &clock);
    for ending in [Outcome::Released, Outcome::RetryAt(clock.now(), "busy".to_owned())] {
        put(&db, &queue, &review(&clock, "pr", "old")).await;
        let old = claim(&queue).await;
        assert_eq!(queue.extend(&old).await.unwrap(), Hold::Held);
        put(&db, &queue, &job(&clock, "other kind", "pr", "beside", true)).await;
        assert_eq!(queue.extend(&old).await.unwrap(), Hold::Held, "another kind interrupts nothing");
        put(&db, &queue, &review(&clock, "pr", "new")).await;
        // As if the old one had been claimed while the new one was being put in, so that there was nothing to flag.
        sqlx::query("UPDATE jobs SET interrupted = 0").execute(db.writer()).await.unwrap();
        assert_eq!(queue.extend(&old).await.unwrap(), Hold::Interrupted);
        assert_eq!(queue.extend(&old).await.unwrap(), Hold::Interrupted);
        assert!(nothing_due(&queue).await, "the old one still runs");
        assert!(queue.finish(&old, &ending).await.unwrap());
        let mut rest = Vec::new();
        while let Some(lease) = queue.claim("w").await.unwrap() {
            assert_eq!(queue.extend(&lease).await.unwrap(), Hold::Held);
            rest.push(lease.job.clone());
            assert!(queue.finish(&lease, &Outcome::Finished).await.unwrap());
        }
        rest.sort();
        assert_eq!(rest, ["beside", "new"]);
    }
}

#[rstest]
#[case::sqlite(Backend::Sqlite)]
#[case::postgres(Backend::Postgres)]
#[tokio::test]
async fn a_cancelled_job_is_dropped_at_its_next_checkpoint(#[case] backend: Backend) {
    let Some(db) = fresh(backend).await else { return };
    let clock = ManualClock::default();
    let queue = queue(&db, &clock);
    put(&db, &queue, &review(&clock, "pr", "running")).await;
    put(&db, &queue, &review(&clock, "elsewhere", "untouched")).await;
    let running = claim(&queue).await;
    put(&db, &queue, &job(&clock, "reply", "pr", "waiting", false)).await;
    cancel(&db, &queue, "pr").await;
    assert_eq!(queue.extend(&running).await.unwrap(), Hold::Interrupted);
    // Reopened in the meantime: the new job waits, and the cancelled one still does not come back.
    put(&db, &queue, &review(&clock, "pr", "reopened")).await;
    assert!(queue.finish(&running, &Outcome::Released).await.unwrap());
    let (one, two) = (claim(&queue).await, claim(&queue).await);
    assert_eq!(HashSet::from([one.job.as_str(), two.job.as_str()]), HashSet::from(["untouched", "reopened"]));
    assert!(nothing_due(&queue).await);
}

#[rstest]
#[case::sqlite(Backend::Sqlite)]
#[case::postgres(Backend::Postgres)]
#[tokio::test]
async fn a_lease_that_ran_out_is_taken_over_and_fences_its_old_holder(#[case] backend: Backend) {
    let Some(db) = fresh(backend).await else { return };
    let clock = ManualClock::default();
    let queue = queue(&db, &clock);
    put(&db, &queue, &review(&clock, "pr", "x")).await;
    let first = claim(&queue).await;
    clock.advance(LEASE - Duration::from_secs(1));
    assert_eq!(queue.extend(&first).await.unwrap(), Hold::Held);
    clock.advance(LEASE - Duration::from_secs(1));
    assert!(nothing_due(&queue).await, "extended in time");
    clock.advance(Duration::from_secs(1));
    let second = claim(&queue).await;
    assert_eq!((second.id.as_str(), second.attempt), (first.id.as_str(), 2));
    assert_eq!(queue.extend(&first).await.unwrap(), Hold::Lost);
    for outcome in [
        Outcome::Finished,
        Outcome::Released,
        Outcome::RetryAt(clock.now(), String::new()),
        Outcome::Failed("late".to_owned()),
    ] {
        assert!(!queue.finish(&first, &outcome).await.unwrap(), "{outcome:?}");
    }
    assert_eq!(queue.extend(&second).await.unwrap(), Hold::Held);

    // The same worker's earlier claim, released, is fenced from its later one of the same attempt number.
    assert!(queue.finish(&second, &Outcome::Released).await.unwrap());
    let third = claim(&queue).await;
    assert_eq!(third.attempt, 2, "a release is not counted");
    assert_eq!(queue.extend(&second).await.unwrap(), Hold::Lost);
    assert!(queue.finish(&third, &Outcome::Finished).await.unwrap());
}

#[rstest]
#[case::sqlite(Backend::Sqlite)]
#[case::postgres(Backend::Postgres)]
#[tokio::test]
async fn a_vanished_worker_brings_nothing_back_that_was_replaced_or_cancelled(#[case] backend: Backend) {
    let Some(db) = fresh(backend).await else { return };
    let clock = ManualClock::default();
    let queue = queue(&db, &clock);
    put(&db, &queue, &review(&clock, "replaced", "old")).await;
    put(&db, &queue, &review(&clock, "cancelled", "old")).await;
    put(&db, &queue, &review(&clock, "neither", "goes on")).await;
    for _ in 0..3 {
        claim(&queue).await;
    }
    put(&db, &queue, &review(&clock, "replaced", "new")).await;
    cancel(&db, &queue, "cancelled").await;
    clock.advance(LEASE);
    let mut left = BTreeMap::new();
    while let Some(lease) = queue.claim("w").await.unwrap() {
        left.insert(lease.key.clone(), (lease.job.clone(), lease.attempt));
        assert!(queue.finish(&lease, &Outcome::Finished).await.unwrap());
    }
    let expected = [("neither", ("goes on", 2)), ("replaced", ("new", 1))]
        .map(|(key, (job, attempt))| (key.to_owned(), (job.to_owned(), attempt)));
    assert_eq!(left, BTreeMap::from(expected));
}

#[rstest]
#[case::sqlite(Backend::Sqlite)]
#[case::postgres(Backend::Postgres)]
#[tokio::test]
async fn the_last_attempt_makes_a_dead_letter_that_can_be_put_back(#[case] backend: Backend) {
    let Some(db) = fresh(backend).await else { return };
    let clock = ManualClock::default();
    let queue = queue(&db, &clock);
    let id = put(&db, &queue, &review(&clock, "pr", "x")).await;
    for attempt in 1..=3 {
        let lease = claim(&queue).await;
        assert_eq!((lease.attempt, &lease.given_up), (attempt, &None));
        assert!(queue.dead_letters().await.unwrap().is_empty());
        let again = clock.now() + jiff::SignedDuration::from_secs(10);
        assert!(queue.finish(&lease, &Outcome::RetryAt(again, format!("fault {attempt}\0"))).await.unwrap());
        if attempt < 3 {
            assert!(nothing_due(&queue).await);
            clock.advance(Duration::from_secs(10));
        }
    }
    assert_eq!(bury(&queue).await, "fault 3");
    let dead = queue.dead_letters().await.unwrap();
    assert_eq!(dead.len(), 1);
    assert_eq!(
        (dead[0].id.as_str(), dead[0].attempts, dead[0].reason.as_deref().unwrap()),
        (id.as_str(), 3, "fault 3")
    );
    assert_eq!((dead[0].given_up_at, dead[0].job.as_deref()), (Some(clock.now()), Some("x")));
    assert_eq!(queue.next_due().await.unwrap(), None);

    assert!(queue.requeue(&id).await.unwrap());
    assert!(!queue.requeue(&id).await.unwrap());
    let lease = claim(&queue).await;
    assert_eq!((lease.attempt, &lease.given_up), (1, &None));
    assert!(queue.finish(&lease, &Outcome::Failed("wrong for ever".to_owned())).await.unwrap());
    assert_eq!(queue.dead_letters().await.unwrap()[0].reason.as_deref(), Some("wrong for ever"));
    assert!(queue.requeue(&id).await.unwrap(), "also before its handler was told");
    assert!(queue.finish(&claim(&queue).await, &Outcome::Failed("still".to_owned())).await.unwrap());
    assert_eq!(bury(&queue).await, "still");
    assert!(queue.discard(&id).await.unwrap());
    assert!(!queue.discard(&id).await.unwrap());
    assert_eq!(queue.depth().await.unwrap(), Default::default());
}

/// Claims what is left of a job that is given up, and says that its handler was told.
async fn bury(queue: &Queue<String>) -> String {
    let lease = claim(queue).await;
    assert_eq!(lease.attempt, 1);
    assert_eq!(queue.depth().await.unwrap().dead, 1, "it is given up whether its handler was told or not");
    assert!(!queue.requeue(&lease.id).await.unwrap(), "not while its handler is being told");
    assert!(!queue.discard(&lease.id).await.unwrap());
    assert!(queue.finish(&lease, &Outcome::Finished).await.unwrap());
    assert!(nothing_due(queue).await);
    lease.given_up.unwrap()
}

#[rstest]
#[case::sqlite(Backend::Sqlite)]
#[case::postgres(Backend::Postgres)]
#[tokio::test]
async fn telling_of_a_given_up_job_survives_a_kill_and_is_bounded(#[case] backend: Backend) {
    let Some(db) = fresh(backend).await else { return };
    let clock = ManualClock::default();
    let queue = queue(&db, &clock);
    put(&db, &queue, &review(&clock, "pr", "x")).await;
    assert!(queue.finish(&claim(&queue).await, &Outcome::Failed("bad input".to_owned())).await.unwrap());
    let mut tries = 0;
    let begun = clock.now();
    while let Some(lease) = queue.claim("w").await.unwrap() {
        tries += 1;
        assert_eq!(lease.given_up.as_deref(), Some("bad input"), "never the reason of the telling");
        match tries % 3 {
            // Killed: the lease runs out.
            0 => clock.advance(LEASE),
            // The process stops: not counted.
            1 => {
                assert!(queue.finish(&lease, &Outcome::Released).await.unwrap());
                let lease = claim(&queue).await;
                assert_eq!(lease.attempt, tries);
                let later = clock.now() + jiff::SignedDuration::from_secs(600);
                assert!(queue.finish(&lease, &Outcome::RetryAt(later, "GitHub is down".to_owned())).await.unwrap());
                clock.advance(Duration::from_secs(600));
            }
            _ => {
                let later = clock.now() + jiff::SignedDuration::from_secs(600);
                assert!(queue.finish(&lease, &Outcome::RetryAt(later, "GitHub is down".to_owned())).await.unwrap());
                clock.advance(Duration::from_secs(600));
            }
        }
    }
    let lasted = clock.now().duration_since(begun);
    assert!((20..=100).contains(&tries) && lasted.as_hours() >= 3, "{tries} tries in {lasted}");
    let dead = queue.dead_letters().await.unwrap();
    assert_eq!((dead[0].reason.as_deref(), dead[0].attempts, dead[0].told), (Some("bad input"), 1, true));
}

#[rstest]
#[case::sqlite(Backend::Sqlite)]
#[case::postgres(Backend::Postgres)]
#[tokio::test]
async fn a_newer_job_does_the_work_of_one_that_is_given_up(#[case] backend: Backend) {
    let Some(db) = fresh(backend).await else { return };
    let clock = ManualClock::default();
    let queue = queue(&db, &clock);
    // While its handler is to be told, while it is being told, and when it was told.
    for stage in 0..3 {
        put(&db, &queue, &review(&clock, "pr", "old")).await;
        assert!(queue.finish(&claim(&queue).await, &Outcome::Failed("bad".to_owned())).await.unwrap());
        let told = if stage > 0 { Some(claim(&queue).await) } else { None };
        if let (2, Some(told)) = (stage, &told) {
            assert!(queue.finish(told, &Outcome::Finished).await.unwrap());
        }
        put(&db, &queue, &review(&clock, "pr", "new")).await;
        if let (1, Some(told)) = (stage, &told) {
            assert_eq!(queue.extend(told).await.unwrap(), Hold::Interrupted);
            assert!(queue.finish(told, &Outcome::Finished).await.unwrap());
        }
        let lease = claim(&queue).await;
        assert_eq!((lease.job.as_str(), &lease.given_up, lease.attempt), ("new", &None, 1), "at stage {stage}");
        assert!(queue.finish(&lease, &Outcome::Finished).await.unwrap());
        assert_eq!(queue.depth().await.unwrap(), Default::default(), "at stage {stage}");
    }

    // One that waits already does the work of the one that is given up, and of one that is put back.
    put(&db, &queue, &review(&clock, "pr", "old")).await;
    let old = claim(&queue).await;
    put(&db, &queue, &review(&clock, "pr", "new")).await;
    assert!(queue.finish(&old, &Outcome::Failed("bad".to_owned())).await.unwrap());
    assert_eq!(queue.depth().await.unwrap().dead, 0);
    assert_eq!(claim(&queue).await.job, "new");
}

#[rstest]
#[case::sqlite(Backend::Sqlite)]
#[case::postgres(Backend::Postgres)]
#[tokio::test]
async fn a_job_whose_workers_keep_vanishing_is_given_up(#[case] backend: Backend) {
    let Some(db) = fresh(backend).await else { return };
    let clock = ManualClock::default();
    let queue = queue(&db, &clock);
    put(&db, &queue, &review(&clock, "pr", "x")).await;
    for _ in 0..3 {
        claim(&queue).await;
        assert_eq!(queue.next_due().await.unwrap(), Some(clock.now() + jiff::SignedDuration::from_secs(60)));
        clock.advance(LEASE);
    }
    assert!(bury(&queue).await.contains("vanished"));
    assert_eq!(queue.dead_letters().await.unwrap()[0].attempts, 3);
}

#[rstest]
#[case::sqlite(Backend::Sqlite)]
#[case::postgres(Backend::Postgres)]
#[tokio::test]
async fn a_payload_that_cannot_be_read_is_left_for_another_version_and_then_put_aside(#[case] backend: Backend) {
    let Some(db) = fresh(backend).await else { return };
    let clock = ManualClock::default();
    let queue = queue(&db, &clock);
    put(&db, &queue, &review(&clock, "a", "x")).await;
    sqlx::query("UPDATE jobs SET payload = '{\"of\":\"another version\"}'").execute(db.writer()).await.unwrap();
    put(&db, &queue, &review(&clock, "b", "good")).await;
    let good = claim(&queue).await;
    assert_eq!(good.job, "good", "it stands in nobody's way");
    assert!(queue.finish(&good, &Outcome::Finished).await.unwrap());
    for _ in 0..2 {
        assert_eq!(queue.depth().await.unwrap().dead, 0, "a newer version beside this one may read it");
        clock.advance(Duration::from_secs(60));
        assert!(nothing_due(&queue).await);
    }
    let dead = queue.dead_letters().await.unwrap();
    assert!(dead[0].reason.as_deref().unwrap().contains("payload cannot be read"));
    assert_eq!((dead[0].attempts, &dead[0].job, queue.next_due().await.unwrap()), (3, &None, None));
}
