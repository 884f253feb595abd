//! A clock that is set on or back by hours: no job is lost, put off, or run twice at once. On both databases.

use std::sync::Arc;
use std::time::Duration;

use rstest::rstest;
use secondlook::clock::Clock;
use secondlook::db::{Backend, Db};
use secondlook::queue::store::{Hold, Outcome, Queue};
use secondlook::queue::{NewJob, Settings};

use crate::harness::clock::ManualClock;
use crate::harness::database::fresh;

const HOURS: i64 = 5 * 3_600;
const LEASE: Duration = Duration::from_secs(60);

fn queue(db: &Db, clock: &ManualClock) -> Queue<String> {
    Queue::new(db.clone(), Arc::new(clock.clone()), Settings { lease: LEASE, ..Settings::default() })
}

async fn put(db: &Db, queue: &Queue<String>, key: &str, after: i64) {
    let run_at = queue.clock().now() + jiff::SignedDuration::from_secs(after);
    let (owner, tenant) = (String::new(), String::new());
    let job = NewJob { kind: "test", key: key.into(), owner, tenant, run_at, supersedes: true, job: key.into() };
    let mut tx = db.begin().await.unwrap();
    queue.enqueue(&mut tx, &job).await.unwrap();
    tx.commit().await.unwrap();
}

#[rstest]
#[case::sqlite(Backend::Sqlite)]
#[case::postgres(Backend::Postgres)]
#[tokio::test]
async fn a_clock_set_on_takes_no_job_away_from_a_worker_that_lives(#[case] backend: Backend) {
    let Some(db) = fresh(backend).await else { return };
    // Two instances, of which the second one's clock is set on; and then the first one's too.
    let (one_clock, two_clock) = (ManualClock::default(), ManualClock::default());
    let (one, two) = (queue(&db, &one_clock), queue(&db, &two_clock));
    put(&db, &one, "lives", 0).await;
    put(&db, &one, "dies", 0).await;
    let lives = one.claim("one").await.unwrap().unwrap();
    let dies = one.claim("one").await.unwrap().unwrap();
    assert!(two.claim("two").await.unwrap().is_none());
    two_clock.jump(HOURS);
    for _ in 0..5 {
        assert!(two.claim("two").await.unwrap().is_none(), "a lease only looks as if it had run out");
        one_clock.advance(LEASE / 6);
        two_clock.advance(LEASE / 6);
        assert_eq!(one.extend(&lives).await.unwrap(), Hold::Held);
    }
    one_clock.jump(HOURS);
    assert_eq!(one.extend(&lives).await.unwrap(), Hold::Held);
    assert!(one.claim("one").await.unwrap().is_none());
    // What nobody extends is taken over, a lease later.
    one_clock.advance(LEASE / 2);
    two_clock.advance(LEASE / 2);
    let taken = two.claim("two").await.unwrap().unwrap();
    assert_eq!((taken.id.as_str(), taken.attempt), (dies.id.as_str(), 2));
    assert_eq!(one.extend(&lives).await.unwrap(), Hold::Held);
    assert!(two.claim("two").await.unwrap().is_none());
    assert!(one.finish(&lives, &Outcome::Finished).await.unwrap());
    assert!(!one.finish(&dies, &Outcome::Finished).await.unwrap());
    assert!(two.finish(&taken, &Outcome::Finished).await.unwrap());
}

#[rstest]
#[case::sqlite(Backend::Sqlite)]
#[case::postgres(Backend::Postgres)]
#[tokio::test]
async fn a_clock_set_back_puts_nothing_off(#[case] backend: Backend) {
    let Some(db) = fresh(backend).await else { return };
    // Noticed by the process that lives through it, and by one that is started after it.
    for restarted in [false, true] {
        let clock = ManualClock::default();
        let before = queue(&db, &clock);
        for key in ["waits", "again", "dies", "lives"] {
            put(&db, &before, key, 0).await;
        }
        put(&db, &before, "next week", 7 * 24 * 3_600).await;
        let mut held = std::collections::HashMap::new();
        for _ in 0..4 {
            let lease = before.claim("w").await.unwrap().unwrap();
            held.insert(lease.key.clone(), lease);
        }
        let again = clock.now() + jiff::SignedDuration::from_secs(30);
        assert!(before.finish(&held["again"], &Outcome::RetryAt(again, "busy".into())).await.unwrap());
        assert!(before.finish(&held["waits"], &Outcome::Released).await.unwrap());

        clock.jump(-HOURS);
        let after = if restarted { queue(&db, &clock) } else { before.clone() };
        assert_eq!(before.extend(&held["lives"]).await.unwrap(), Hold::Held);
        let waits = after.claim("w").await.unwrap().unwrap();
        assert_eq!(waits.key, "waits", "it was due, and it is");
        assert!(after.finish(&waits, &Outcome::Finished).await.unwrap());
        assert!(after.claim("w").await.unwrap().is_none());
        // Another instance that notices the same changes nothing more.
        assert!(queue(&db, &clock).claim("w").await.unwrap().is_none());
        clock.advance(Duration::from_secs(30));
        assert_eq!(after.claim("w").await.unwrap().unwrap().key, "again", "its wait was 30 seconds");
        assert_eq!(before.extend(&held["lives"]).await.unwrap(), Hold::Held);
        clock.advance(Duration::from_secs(31));
        assert_eq!(before.extend(&held["lives"]).await.unwrap(), Hold::Held);
        let taken = after.claim("w").await.unwrap().unwrap();
        assert_eq!((taken.key.as_str(), taken.attempt), ("dies", 2), "a dead worker's lease does not last for hours");
        assert!(after.claim("w").await.unwrap().is_none());
        let rest = after.next_due().await.unwrap().unwrap();
        assert!(rest <= clock.now() + jiff::SignedDuration::from_secs(60), "{rest}");
        clock.advance(Duration::from_secs(6 * 24 * 3_600));
        for _ in 0..3 {
            if let Some(lease) = after.claim("w").await.unwrap() {
                assert_ne!(lease.key, "next week", "what waits for days still does");
                assert!(after.finish(&lease, &Outcome::Finished).await.unwrap());
            }
        }
        clock.advance(Duration::from_secs(2 * 24 * 3_600));
        let mut last = Vec::new();
        while let Some(lease) = after.claim("w").await.unwrap() {
            assert!(after.finish(&lease, &Outcome::Finished).await.unwrap());
            last.push(lease.key);
        }
        assert_eq!(last.last().map(String::as_str), Some("next week"));
        assert_eq!(after.depth().await.unwrap(), Default::default());
    }
}
