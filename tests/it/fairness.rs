//! Who is served next: no repository and no installation starves another, on both databases.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use rstest::rstest;
use secondlook::clock::Stopwatch;
use secondlook::db::{Backend, Db};
use secondlook::ids::new_id;
use secondlook::queue::store::{Outcome, Queue};
use secondlook::queue::{Lease, NewJob, Settings};

use crate::harness::clock::ManualClock;
use crate::harness::database::fresh;

fn queue(db: &Db, clock: &ManualClock, settings: Settings) -> Queue<String> {
    Queue::new(db.clone(), Arc::new(clock.clone()), settings)
}

/// Puts jobs of one repository in, all in one transaction.
async fn put(db: &Db, queue: &Queue<String>, owner: &str, tenant: &str, jobs: std::ops::Range<usize>) {
    let mut tx = db.begin().await.unwrap();
    for n in jobs {
        let job = NewJob {
            kind: "test",
            key: format!("{tenant} {n}"),
            owner: owner.to_owned(),
            tenant: tenant.to_owned(),
            run_at: queue.clock().now(),
            supersedes: n % 2 == 0,
            job: tenant.to_owned(),
        };
        queue.enqueue(&mut tx, &job).await.unwrap();
    }
    tx.commit().await.unwrap();
}

async fn claim(queue: &Queue<String>) -> Option<Lease<String>> {
    queue.claim("w").await.unwrap()
}

/// Claims and finishes so many jobs, one after the other; whose they were.
async fn serve(queue: &Queue<String>, jobs: usize) -> Vec<String> {
    let mut served = Vec::new();
    for _ in 0..jobs {
        let Some(lease) = claim(queue).await else { break };
        assert!(queue.finish(&lease, &Outcome::Finished).await.unwrap());
        served.push(lease.job);
    }
    served
}

#[rstest]
#[case::sqlite(Backend::Sqlite)]
#[case::postgres(Backend::Postgres)]
#[tokio::test]
async fn a_single_job_is_served_next_beside_five_hundred(#[case] backend: Backend) {
    let Some(db) = fresh(backend).await else { return };
    let clock = ManualClock::default();
    let queue = queue(&db, &clock, Settings::default());
    for (owner, tenant) in [("acme", "acme/quiet"), ("other", "other/quiet")] {
        put(&db, &queue, "acme", "acme/noisy", 0..500).await;
        assert_eq!(serve(&queue, 3).await, ["acme/noisy"; 3]);
        clock.advance(Duration::from_secs(60));
        put(&db, &queue, owner, tenant, 0..1).await;
        assert_eq!(serve(&queue, 2).await, [tenant, "acme/noisy"]);

        // The same when all workers have been busy with the noisy one.
        let busy = [claim(&queue).await.unwrap(), claim(&queue).await.unwrap()];
        put(&db, &queue, owner, tenant, 0..1).await;
        put(&db, &queue, "acme", "acme/noisy", 500..510).await;
        assert!(queue.finish(&busy[0], &Outcome::Finished).await.unwrap());
        assert_eq!(serve(&queue, 2).await, [tenant, "acme/noisy"]);
        assert!(queue.finish(&busy[1], &Outcome::Finished).await.unwrap());
        while !serve(&queue, 100).await.is_empty() {}
    }
}

#[rstest]
#[case::sqlite(Backend::Sqlite)]
#[case::postgres(Backend::Postgres)]
#[tokio::test]
async fn owners_take_turns_and_their_repositories_among_themselves(#[case] backend: Backend) {
    let Some(db) = fresh(backend).await else { return };
    let clock = ManualClock::default();
    let queue = queue(&db, &clock, Settings::default());
    for repository in 0..5 {
        put(&db, &queue, "big", &format!("big/{repository}"), 0..4).await;
    }
    put(&db, &queue, "small", "small/0", 0..10).await;
    let served = serve(&queue, 12).await;
    let expected = ["big/0", "big/1", "big/2", "big/3", "big/4", "big/0"];
    let expected: Vec<&str> = expected.into_iter().flat_map(|big| [big, "small/0"]).collect();
    assert_eq!(served, expected);
}

#[rstest]
#[case::sqlite(Backend::Sqlite)]
#[case::postgres(Backend::Postgres)]
#[tokio::test]
async fn workers_are_shared_out_among_those_who_wait(#[case] backend: Backend) {
    let Some(db) = fresh(backend).await else { return };
    let clock = ManualClock::default();
    let queue = queue(&db, &clock, Settings::default());
    put(&db, &queue, "slow", "slow/0", 0..50).await;
    put(&db, &queue, "quick", "quick/0", 0..50).await;
    // Four workers: the slow one's jobs never end, the quick one's at once. By turns alone the slow one would have all.
    let mut running: Vec<Lease<String>> = Vec::new();
    for _ in 0..40 {
        let lease = claim(&queue).await.unwrap();
        running.push(lease);
        if running.len() == 4 {
            let quick = running.iter().position(|lease| lease.job == "quick/0").expect("a worker for the quick one");
            let lease = running.remove(quick);
            assert!(queue.finish(&lease, &Outcome::Finished).await.unwrap());
        }
    }
    assert!(running.iter().filter(|lease| lease.job == "slow/0").count() <= 2);
}

#[rstest]
#[case::sqlite(Backend::Sqlite)]
#[case::postgres(Backend::Postgres)]
#[tokio::test]
async fn an_owner_has_no_more_workers_than_it_may(#[case] backend: Backend) {
    let Some(db) = fresh(backend).await else { return };
    let clock = ManualClock::default();
    let queue = queue(&db, &clock, Settings { per_owner: Some(2), ..Settings::default() });
    put(&db, &queue, "acme", "acme/0", 0..5).await;
    put(&db, &queue, "acme", "acme/1", 0..5).await;
    let first = claim(&queue).await.unwrap();
    let second = claim(&queue).await.unwrap();
    assert_eq!((first.job.as_str(), second.job.as_str()), ("acme/0", "acme/1"));
    assert!(claim(&queue).await.is_none(), "its share is used up");
    put(&db, &queue, "other", "other/0", 0..1).await;
    assert_eq!(claim(&queue).await.unwrap().job, "other/0");
    assert!(queue.finish(&first, &Outcome::Finished).await.unwrap());
    assert_eq!(claim(&queue).await.unwrap().job, "acme/0");
}

#[rstest]
#[case::sqlite(Backend::Sqlite)]
#[case::postgres(Backend::Postgres)]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn claims_at_the_same_moment_share_fairly(#[case] backend: Backend) {
    let Some(db) = fresh(backend).await else { return };
    let clock = ManualClock::default();
    let queue = queue(&db, &clock, Settings::default());
    for repository in 0..4 {
        put(&db, &queue, &format!("o{repository}"), &format!("o{repository}/0"), 0..20).await;
    }
    let claims = (0..8).map(|_| {
        let queue = queue.clone();
        tokio::spawn(async move { claim(&queue).await.unwrap().job })
    });
    let mut shares: HashMap<String, usize> = HashMap::new();
    for served in futures_util::future::join_all(claims).await {
        *shares.entry(served.unwrap()).or_default() += 1;
    }
    assert!(shares.len() == 4 && shares.values().all(|share| *share == 2), "{shares:?}");
}

/// How long a claim takes beside so many waiting jobs. The number of jobs comes from the environment; a small sample
/// is part of the suite and must stay far below what a worker's poll would notice.
#[rstest]
#[case::sqlite(Backend::Sqlite)]
#[case::postgres(Backend::Postgres)]
#[tokio::test]
async fn a_claim_is_quick_beside_many_waiting_jobs(#[case] backend: Backend) {
    const CLAIMS: u32 = 50;
    let jobs: usize = std::env::var("SECONDLOOK_TEST_QUEUED").map_or(4_000, |jobs| jobs.parse().unwrap());
    let Some(db) = fresh(backend).await else { return };
    let clock = ManualClock::default();
    let queue = queue(&db, &clock, Settings::default());
    for repositories in [1, 20, 1_000] {
        sqlx::query("DELETE FROM jobs").execute(db.writer()).await.unwrap();
        let each = (jobs / repositories).max(1);
        for repository in 0..repositories {
            let owner = format!("o{}", repository % 100);
            put(&db, &queue, &owner, &format!("{owner}/{repository}"), 0..each).await;
        }
        let watch = Stopwatch::start();
        for _ in 0..CLAIMS {
            let lease = claim(&queue).await.unwrap();
            assert!(queue.finish(&lease, &Outcome::Finished).await.unwrap());
        }
        let each = watch.elapsed() / CLAIMS;
        eprintln!("{backend:?}: claim and finish take {each:?} beside {jobs} jobs of {repositories} repositories");
        // A claim that looked at every row would take longer than this on any machine.
        assert!(each < Duration::from_millis(250), "{each:?}");
    }
}

/// PostgreSQL's advisory locks are the database's. Two bots may share one, each with a schema of its own.
#[tokio::test]
async fn a_claim_that_stands_still_holds_up_nobody_in_another_schema() {
    let (Some(ours), Some(theirs)) = (fresh(Backend::Postgres).await, fresh(Backend::Postgres).await) else { return };
    let (clock, name) = (ManualClock::default(), new_id());
    let mut url = url::Url::parse(ours.url()).unwrap();
    url.query_pairs_mut().append_pair("application_name", &name);
    let seen = Db::connect(url.as_str()).await.unwrap();
    let (standing, moving) = (queue(&seen, &clock, Settings::default()), queue(&theirs, &clock, Settings::default()));
    put(&ours, &standing, "1", "1/1", 0..1).await;
    put(&theirs, &moving, "1", "1/1", 0..1).await;
    let mut holder = ours.begin().await.unwrap();
    sqlx::query("SELECT id FROM jobs FOR UPDATE").fetch_all(&mut *holder).await.unwrap();
    let stands = tokio::spawn(async move { claim(&standing).await });
    let waits = "SELECT pid FROM pg_stat_activity WHERE application_name = $1 AND wait_event_type = 'Lock'";
    while sqlx::query(waits).bind(&name).fetch_optional(theirs.reader()).await.unwrap().is_none() {
        tokio::task::yield_now().await;
    }
    let claimed = tokio::time::timeout(Duration::from_secs(3), claim(&moving)).await;
    assert!(claimed.expect("nothing of theirs is locked").is_some());
    drop(holder);
    assert!(stands.await.unwrap().is_some());
}
