//! The workers' promises, on both databases.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::{BoxFuture, join, join_all};
use jiff::SignedDuration;
use rstest::rstest;
use secondlook::clock::{Clock, SharedClock, SystemClock};
use secondlook::db::{Backend, Db};
use secondlook::queue::store::{Outcome, Queue};
use secondlook::queue::worker::{Handler, Stop, run_forever, run_next, run_until_idle};
use secondlook::queue::{Lease, NewJob, Settings};
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::harness::clock::ManualClock;
use crate::harness::database::{TestDb, fresh};

/// A handler from a function.
struct Does<F>(F);

#[async_trait]
impl<F> Handler<String> for Does<F>
where
    F: Fn(Lease<String>, Stop) -> BoxFuture<'static, Outcome> + Send + Sync,
{
    async fn handle(&self, lease: &Lease<String>, stop: &Stop) -> Outcome {
        (self.0)(lease.clone(), stop.clone()).await
    }

    async fn give_up(&self, lease: &Lease<String>, _: &str, stop: &Stop) -> Outcome {
        (self.0)(lease.clone(), stop.clone()).await
    }
}

fn does<F, R>(f: F) -> Arc<dyn Handler<String>>
where
    F: Fn(Lease<String>, Stop) -> R + Send + Sync + 'static,
    R: Future<Output = Outcome> + Send + 'static,
{
    Arc::new(Does(move |lease, stop| -> BoxFuture<'static, Outcome> { Box::pin(f(lease, stop)) }))
}

fn queue(db: &Db, clock: SharedClock, settings: Settings) -> Queue<String> {
    Queue::new(db.clone(), clock, settings)
}

async fn put(db: &Db, queue: &Queue<String>, key: &str, text: &str, supersedes: bool) {
    let run_at = queue.clock().now();
    let (owner, tenant) = (String::new(), String::new());
    let job = NewJob { kind: "test", key: key.to_owned(), owner, tenant, run_at, supersedes, job: text.to_owned() };
    let mut tx = db.begin().await.unwrap();
    queue.enqueue(&mut tx, &job).await.unwrap();
    tx.commit().await.unwrap();
    queue.announce();
}

#[rstest]
#[case::sqlite(Backend::Sqlite)]
#[case::postgres(Backend::Postgres)]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn eight_workers_do_every_job_once_and_no_key_overlaps(#[case] backend: Backend) {
    const JOBS: usize = 300;
    let Some(db) = fresh(backend).await else { return };
    let settings = Settings { workers: 4, ..Settings::default() };
    let clock: SharedClock = Arc::new(SystemClock);
    // Two processes, as far as the database can tell.
    let here = queue(&db, clock.clone(), settings.clone());
    let other_db = Db::connect(db.url()).await.unwrap();
    let there = queue(&other_db, clock, settings);

    let busy: Arc<Mutex<HashSet<String>>> = Arc::default();
    // Counted, not asserted in the handler: its panic would be caught and tried again.
    let overlaps = Arc::new(AtomicUsize::new(0));
    let done: Arc<Mutex<HashMap<String, usize>>> = Arc::default();
    let left = Arc::new(AtomicUsize::new(JOBS));
    let shutdown = CancellationToken::new();
    let handler = {
        let (done, overlaps, shutdown) = (done.clone(), overlaps.clone(), shutdown.clone());
        does(move |lease, _| {
            let (busy, overlaps, done) = (busy.clone(), overlaps.clone(), done.clone());
            let (left, shutdown) = (left.clone(), shutdown.clone());
            async move {
                if !busy.lock().unwrap().insert(lease.key.clone()) {
                    overlaps.fetch_add(1, Ordering::SeqCst);
                }
                for _ in 0..20 {
                    tokio::task::yield_now().await;
                }
                busy.lock().unwrap().remove(&lease.key);
                *done.lock().unwrap().entry(lease.job).or_default() += 1;
                if left.fetch_sub(1, Ordering::SeqCst) == 1 {
                    shutdown.cancel();
                }
                Outcome::Finished
            }
        })
    };
    let wake = Arc::new(Notify::new());
    let workers = [here.clone(), there]
        .map(|queue| tokio::spawn(run_forever(queue, handler.clone(), wake.clone(), shutdown.clone())));
    join_all((0..JOBS).map(|n| {
        let (db, here) = (&db, &here);
        async move { put(db, here, &format!("key {}", n % 40), &n.to_string(), false).await }
    }))
    .await;
    for worker in workers {
        worker.await.unwrap();
    }
    assert_eq!(here.depth().await.unwrap(), Default::default());
    assert_eq!(overlaps.load(Ordering::SeqCst), 0);
    let done = done.lock().unwrap();
    assert_eq!(done.len(), JOBS);
    assert!(done.values().all(|times| *times == 1), "{done:?}");
}

#[rstest]
#[case::sqlite(Backend::Sqlite)]
#[case::postgres(Backend::Postgres)]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_newest_of_many_pushes_is_always_worked_on(#[case] backend: Backend) {
    const PUSHES: usize = 25;
    let Some(db) = fresh(backend).await else { return };
    let queue = queue(&db, Arc::new(SystemClock), Settings { workers: 8, ..Settings::default() });
    let last: Arc<Mutex<HashMap<String, usize>>> = Arc::default();
    let handler = {
        let last = last.clone();
        does(move |lease, stop| {
            let last = last.clone();
            async move {
                for _ in 0..50 {
                    if stop.token.is_cancelled() {
                        return Outcome::Released;
                    }
                    tokio::task::yield_now().await;
                }
                last.lock().unwrap().insert(lease.key, lease.job.parse().unwrap());
                Outcome::Finished
            }
        })
    };
    let shutdown = CancellationToken::new();
    let workers = tokio::spawn(run_forever(queue.clone(), handler.clone(), Arc::new(Notify::new()), shutdown.clone()));
    join_all((0..12).map(|key| {
        let (db, queue) = (&db, &queue);
        async move {
            for n in 0..PUSHES {
                put(db, queue, &format!("pr {key}"), &n.to_string(), true).await;
            }
        }
    }))
    .await;
    shutdown.cancel();
    workers.await.unwrap();
    run_until_idle(&queue, handler.as_ref(), "w").await.unwrap();
    assert_eq!(queue.depth().await.unwrap(), Default::default());
    let last = last.lock().unwrap();
    assert_eq!(last.len(), 12);
    assert!(last.values().all(|n| *n == PUSHES - 1), "{last:?}");
}

#[rstest]
#[case::sqlite(Backend::Sqlite)]
#[case::postgres(Backend::Postgres)]
#[tokio::test]
async fn a_panic_costs_one_attempt(#[case] backend: Backend) {
    let Some(db) = fresh(backend).await else { return };
    let clock = ManualClock::default();
    let queue = queue(&db, Arc::new(clock.clone()), Settings::default());
    put(&db, &queue, "a", "bad", false).await;
    put(&db, &queue, "b", "good", false).await;
    let handler = does(|lease, _| async move {
        assert!(lease.job != "bad" || lease.attempt > 1, "the handler panics at its first try");
        Outcome::Finished
    });
    assert_eq!(run_until_idle(&queue, handler.as_ref(), "w").await.unwrap(), 2);
    assert_eq!(queue.depth().await.unwrap().queued, 1);
    assert_eq!(queue.next_due().await.unwrap(), Some(clock.now() + SignedDuration::from_secs(2)));
    clock.advance(Duration::from_secs(2));
    assert!(run_next(&queue, handler.as_ref(), "w").await.unwrap());
    assert_eq!(queue.depth().await.unwrap(), Default::default());
}

#[rstest]
#[case::sqlite(Backend::Sqlite)]
#[case::postgres(Backend::Postgres)]
#[tokio::test]
async fn a_newer_job_stops_the_running_one_and_runs_in_its_place(#[case] backend: Backend) {
    let Some(db) = fresh(backend).await else { return };
    let queue = queue(&db, Arc::new(ManualClock::default()), Settings::default());
    let started = Arc::new(Notify::new());
    let shutdown = CancellationToken::new();
    let handler = {
        let (started, shutdown) = (started.clone(), shutdown.clone());
        does(move |lease, stop| {
            let (started, shutdown) = (started.clone(), shutdown.clone());
            async move {
                if lease.job == "old" {
                    started.notify_one();
                    stop.token.cancelled().await;
                    return Outcome::Released;
                }
                shutdown.cancel();
                Outcome::Finished
            }
        })
    };
    put(&db, &queue, "pr", "old", true).await;
    let push = async {
        started.notified().await;
        put(&db, &queue, "pr", "new", true).await;
    };
    join(run_forever(queue.clone(), handler, Arc::new(Notify::new()), shutdown), push).await;
    assert_eq!(queue.depth().await.unwrap(), Default::default());
}

#[rstest]
#[case::sqlite(Backend::Sqlite)]
#[case::postgres(Backend::Postgres)]
#[tokio::test]
async fn a_worker_that_lost_its_lease_stops_and_its_outcome_is_not_kept(#[case] backend: Backend) {
    let Some(db) = fresh(backend).await else { return };
    let clock = ManualClock::default();
    let queue = queue(&db, Arc::new(clock.clone()), Settings::default());
    let started = Arc::new(Notify::new());
    let handler = {
        let started = started.clone();
        does(move |_, stop| {
            let started = started.clone();
            async move {
                started.notify_one();
                stop.token.cancelled().await;
                Outcome::Finished
            }
        })
    };
    put(&db, &queue, "pr", "x", true).await;
    let take_over = async {
        started.notified().await;
        clock.advance(queue.settings().lease);
        let lease = queue.claim("another").await.unwrap().unwrap();
        queue.announce();
        lease
    };
    let (ran, lease) = join(run_next(&queue, handler.as_ref(), "w"), take_over).await;
    assert!(ran.unwrap());
    assert_eq!((queue.depth().await.unwrap().running, lease.attempt), (1, 2));
    assert!(queue.finish(&lease, &Outcome::Finished).await.unwrap());
}

#[rstest]
#[case::sqlite(Backend::Sqlite)]
#[case::postgres(Backend::Postgres)]
#[tokio::test]
async fn a_stopping_process_hands_its_jobs_back(#[case] backend: Backend) {
    let Some(db) = fresh(backend).await else { return };
    let settings = Settings { grace: Duration::from_millis(50), workers: 2, ..Settings::default() };
    let queue = queue(&db, Arc::new(ManualClock::default()), settings);
    let running = Arc::new(Semaphore::new(0));
    let handler = {
        let running = running.clone();
        does(move |lease, stop| {
            let running = running.clone();
            async move {
                running.add_permits(1);
                stop.token.cancelled().await;
                match lease.job.as_str() {
                    "polite" => Outcome::Released,
                    // Never reaches a checkpoint: the grace period ends it.
                    _ => std::future::pending().await,
                }
            }
        })
    };
    for job in ["polite", "stuck", "not begun"] {
        put(&db, &queue, job, job, false).await;
    }
    let shutdown = CancellationToken::new();
    let stop = async {
        running.acquire_many(2).await.unwrap().forget();
        shutdown.cancel();
    };
    join(run_forever(queue.clone(), handler, Arc::new(Notify::new()), shutdown.clone()), stop).await;
    assert_eq!(running.available_permits(), 0, "nothing was claimed after the signal");
    let depth = queue.depth().await.unwrap();
    assert_eq!((depth.queued, depth.running), (3, 0));
    for _ in 0..3 {
        assert_eq!(queue.claim("w").await.unwrap().unwrap().attempt, 1, "a hand-back is not counted");
    }
}

#[rstest]
#[case::sqlite(Backend::Sqlite)]
#[case::postgres(Backend::Postgres)]
#[tokio::test]
async fn a_handler_is_told_of_a_job_that_panicked_to_its_end(#[case] backend: Backend) {
    let Some(db) = fresh(backend).await else { return };
    let clock = ManualClock::default();
    let queue = queue(&db, Arc::new(clock.clone()), Settings { max_attempts: 2, ..Settings::default() });
    put(&db, &queue, "a", "bad", false).await;
    let told: Arc<Mutex<Vec<(u32, String)>>> = Arc::default();
    let handler = {
        let told = told.clone();
        does(move |lease, _| {
            let told = told.clone();
            async move {
                let Some(reason) = lease.given_up else { panic!("the job is bad") };
                told.lock().unwrap().push((lease.attempt, reason));
                // The telling may panic too, and is then done again.
                assert!(lease.attempt > 1, "the first telling goes wrong");
                Outcome::Finished
            }
        })
    };
    for _ in 0..3 {
        run_until_idle(&queue, handler.as_ref(), "w").await.unwrap();
        clock.advance(Duration::from_secs(10));
    }
    let told = told.lock().unwrap().clone();
    let [(1, first), (2, second)] = &told[..] else { panic!("{told:?}") };
    assert!(first.contains("panicked") && first == second);
    let letters = queue.dead_letters().await.unwrap();
    assert_eq!((letters.len(), letters[0].attempts, letters[0].told), (1, 2, true));
    assert!(!run_next(&queue, handler.as_ref(), "w").await.unwrap(), "it is told once");
}

/// Two instances on one database, of which the first would look for work by itself only after an hour.
async fn idle_and_busy(backend: Backend) -> Option<(TestDb, Queue<String>, Queue<String>)> {
    let db = fresh(backend).await?;
    let clock: SharedClock = Arc::new(SystemClock);
    let hour = Duration::from_secs(3_600);
    let settings = Settings { poll: hour, look: hour, lease: 4 * hour, workers: 2, ..Settings::default() };
    let idle = queue(&db, clock.clone(), settings);
    let other_db = Db::connect(db.url()).await.unwrap();
    let busy = queue(&other_db, clock, Settings::default());
    Some((db, idle, busy))
}

#[tokio::test]
async fn an_idle_instance_hears_at_once_of_a_job_that_another_enqueued() {
    let Some((db, idle, busy)) = idle_and_busy(Backend::Postgres).await else { return };
    let (did, mut done) = tokio::sync::mpsc::unbounded_channel();
    let shutdown = CancellationToken::new();
    let handler = does(move |lease, _| {
        let did = did.clone();
        async move {
            did.send(lease.job).unwrap();
            Outcome::Finished
        }
    });
    let running = tokio::spawn(run_forever(idle, handler, Arc::new(Notify::new()), shutdown.clone()));
    let limit = Duration::from_secs(20);
    for n in 0..3 {
        put(&db, &busy, "a", &n.to_string(), false).await;
        let job = tokio::time::timeout(limit, done.recv()).await.expect("it is told, or would wait for an hour");
        assert_eq!(job.as_deref(), Some(n.to_string().as_str()));
        // The connection that hears is cut: it is made again, and what came in between is looked for.
        sqlx::query(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE query LIKE 'LISTEN%' AND query LIKE '%' || current_schema() || '%'",
        )
        .execute(db.writer())
        .await
        .unwrap();
    }
    shutdown.cancel();
    running.await.unwrap();
}

#[tokio::test]
async fn a_running_job_hears_at_once_that_another_instance_wants_its_place() {
    let Some((db, idle, busy)) = idle_and_busy(Backend::Postgres).await else { return };
    put(&db, &idle, "pr", "old", true).await;
    let started = Arc::new(Notify::new());
    let shutdown = CancellationToken::new();
    let handler = {
        let (started, shutdown) = (started.clone(), shutdown.clone());
        does(move |lease, stop| {
            let (started, shutdown) = (started.clone(), shutdown.clone());
            async move {
                if lease.job == "old" {
                    started.notify_one();
                    stop.token.cancelled().await;
                    return Outcome::Released;
                }
                shutdown.cancel();
                Outcome::Finished
            }
        })
    };
    let running = tokio::spawn(run_forever(idle, handler, Arc::new(Notify::new()), shutdown));
    started.notified().await;
    put(&db, &busy, "pr", "new", true).await;
    let limit = Duration::from_secs(20);
    tokio::time::timeout(limit, running).await.expect("it is told, or would look after an hour").unwrap();
}
