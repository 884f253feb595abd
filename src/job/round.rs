//! Rounds: work that is done again and again, by one instance at a time. A round is a row that waits for its time, like
//! any other job, so whichever instance lives takes the next one.
//!
//! A round calls for its successor before it begins, and sees to it that the others wait too: whatever becomes of one
//! round, the next comes. Without an App a round asks nobody anything; it finds the App when set-up has made one.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::Job;
use crate::db::{Db, DbError};
use crate::queue::store::Queue;

/// Deliveries are looked for so often: an outage is over for people when its events have come in, and a round costs one
/// request when nothing was missed.
const DELIVERIES: Duration = Duration::from_secs(3 * 60);
/// Open pull requests are compared with our records so often: it is for what no delivery will tell any more.
const PULLS: Duration = Duration::from_secs(6 * 60 * 60);
/// Old rows are deleted so often.
const FORGETTING: Duration = Duration::from_secs(24 * 60 * 60);

/// The next round comes so soon where one was not enough.
pub const SOON: Duration = Duration::from_secs(10);

/// How long after a round the next one comes; `None` for jobs that are no rounds.
pub fn every(job: &Job) -> Option<Duration> {
    match job {
        Job::FetchMissedDeliveries => Some(DELIVERIES),
        Job::ReconcilePulls => Some(PULLS),
        Job::ForgetOldDeliveries => Some(FORGETTING),
        _ => None,
    }
}

fn all() -> [Job; 3] {
    [Job::FetchMissedDeliveries, Job::ReconcilePulls, Job::ForgetOldDeliveries]
}

/// Begins all rounds now, each once, however many instances start.
///
/// # Errors
/// When a statement fails.
pub async fn begin(db: &Db, queue: &Queue<Job>, now: Timestamp) -> Result<(), DbError> {
    let mut tx = db.begin().await?;
    for job in all() {
        queue.ensure(&mut tx, &job.due(now)).await?;
    }
    tx.commit().await?;
    queue.announce();
    Ok(())
}

/// Calls for the next rounds: `job` after `wait`, the others at their times, should they have got lost.
///
/// # Errors
/// When a statement fails.
pub async fn call(db: &Db, queue: &Queue<Job>, job: &Job, wait: Duration, now: Timestamp) -> Result<(), DbError> {
    let mut tx = db.begin().await?;
    for each in all() {
        let wait = if each == *job { wait } else { every(&each).unwrap_or(FORGETTING) };
        queue.ensure(&mut tx, &each.due(after(now, wait))).await?;
    }
    tx.commit().await?;
    Ok(())
}

fn after(now: Timestamp, wait: Duration) -> Timestamp {
    let wait = SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX);
    now.checked_add(wait).unwrap_or(Timestamp::MAX)
}
