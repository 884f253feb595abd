//! The intake's SQL: a delivery, its jobs and its records exist together or not at all.

use std::time::Duration;

use jiff::Timestamp;
use sqlx::Row;

use super::plan::Plan;
use crate::db::{Db, DbError};
use crate::github::store;
use crate::job::Job;
use crate::queue::store::Queue;

/// Times a transaction is done again that lost against another one.
const TRIES: u32 = 4;

/// How long ids of deliveries are kept. GitHub delivers again on request for 3 days, GHES for 7; older copies of it said 30.
/// A delivery is about 150 bytes here, so a thousand events a day come to some 5 MB.
const KEPT_DAYS: i64 = 35;

/// How long jobs that were given up are shown.
const DEAD_LETTER_DAYS: i64 = 90;

/// What identifies a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// `X-GitHub-Delivery`; the same when it is delivered again.
    pub id: String,
    /// `X-GitHub-Event`.
    pub event: String,
    /// The payload's action; empty when it has none.
    pub action: String,
}

/// Writes a delivery down and enqueues what follows from it, in one transaction. False, and nothing is changed, when it
/// was delivered before.
///
/// # Errors
/// When the transaction fails, and nothing is written; or when it is not over within `patience`: then it may have been,
/// and the delivery that comes again is known.
pub async fn record(
    db: &Db,
    queue: &Queue<Job>,
    delivery: &Delivery,
    plan: &Plan,
    now: Timestamp,
    patience: Duration,
) -> Result<bool, DbError> {
    let recorded = async {
        let mut tries = 0;
        loop {
            match try_record(db, queue, delivery, plan, now).await {
                Err(error) if error.is_conflict() && tries < TRIES => tries += 1,
                done => return done,
            }
        }
    };
    tokio::time::timeout(patience, recorded).await.unwrap_or(Err(DbError::Slow(patience)))
}

async fn try_record(
    db: &Db,
    queue: &Queue<Job>,
    delivery: &Delivery,
    plan: &Plan,
    now: Timestamp,
) -> Result<bool, DbError> {
    let mut tx = db.begin().await?;
    let inserted = sqlx::query(
        "INSERT INTO deliveries (id, event, action, outcome, received_at) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (id) DO NOTHING",
    )
    .bind(&delivery.id)
    .bind(&delivery.event)
    .bind(&delivery.action)
    .bind(plan.outcome)
    .bind(now.as_millisecond())
    .execute(&mut *tx)
    .await?;
    if inserted.rows_affected() == 0 {
        return Ok(false);
    }
    store::apply(&mut tx, &plan.records, now).await?;
    for key in &plan.cancels {
        queue.cancel(&mut tx, key).await?;
    }
    for job in &plan.jobs {
        queue.enqueue(&mut tx, job).await?;
    }
    tx.commit().await?;
    Ok(true)
}

/// What was made of a delivery, if it ever came.
///
/// # Errors
/// When the statement fails.
pub async fn outcome(db: &Db, id: &str) -> Result<Option<String>, DbError> {
    let row = sqlx::query("SELECT outcome FROM deliveries WHERE id = $1").bind(id).fetch_optional(db.reader()).await?;
    Ok(row.map(|row| row.try_get(0)).transpose()?)
}

/// How far GitHub's list of deliveries was looked through. Times are GitHub's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Progress {
    /// Of deliveries that somebody took, those up to here are not expected in our records.
    pub since: Timestamp,
    /// Everything delivered up to here was looked at.
    pub looked_until: Timestamp,
    /// A look that is not over.
    pub walk: Option<Walk>,
    /// Whether it was said that there is no list.
    pub told: bool,
}

/// A look through the list that goes over several rounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Walk {
    /// The newest delivery when it began.
    pub from: Timestamp,
    /// Its next page.
    pub cursor: String,
}

/// How far the list of this App was looked through; `None` when it never was.
///
/// # Errors
/// When the statement fails.
pub async fn progress(db: &Db, app: u64) -> Result<Option<Progress>, DbError> {
    let row =
        sqlx::query("SELECT since, looked_until, walk_from, walk_cursor, told FROM delivery_progress WHERE app = $1")
            .bind(app.cast_signed())
            .fetch_optional(db.reader())
            .await?;
    let Some(row) = row else { return Ok(None) };
    let from = row.try_get::<Option<i64>, _>(2)?.map(instant).transpose()?;
    let cursor: Option<String> = row.try_get(3)?;
    Ok(Some(Progress {
        since: instant(row.try_get(0)?)?,
        looked_until: instant(row.try_get(1)?)?,
        walk: from.zip(cursor).map(|(from, cursor)| Walk { from, cursor }),
        told: row.try_get::<i64, _>(4)? != 0,
    }))
}

/// Keeps how far the list was looked through.
///
/// # Errors
/// When the statement fails.
pub async fn keep_progress(db: &Db, app: u64, progress: &Progress) -> Result<(), DbError> {
    sqlx::query(
        "INSERT INTO delivery_progress (app, since, looked_until, walk_from, walk_cursor, told)
         VALUES ($1, $2, $3, $4, $5, $6)
         ON CONFLICT (app) DO UPDATE SET since = excluded.since, looked_until = excluded.looked_until,
           walk_from = excluded.walk_from, walk_cursor = excluded.walk_cursor, told = excluded.told",
    )
    .bind(app.cast_signed())
    .bind(progress.since.as_millisecond())
    .bind(progress.looked_until.as_millisecond())
    .bind(progress.walk.as_ref().map(|walk| walk.from.as_millisecond()))
    .bind(progress.walk.as_ref().map(|walk| walk.cursor.clone()))
    .bind(i64::from(progress.told))
    .execute(db.writer())
    .await?;
    Ok(())
}

/// Forgets deliveries that nobody can send again, and jobs that were given up so long ago that nobody will mend them.
///
/// # Errors
/// When a statement fails.
pub async fn prune(db: &Db, queue: &Queue<Job>, now: Timestamp) -> Result<(), DbError> {
    let before = |days: i64| now.as_millisecond().saturating_sub(days * 24 * 60 * 60 * 1_000);
    let forgotten = sqlx::query("DELETE FROM deliveries WHERE received_at < $1")
        .bind(before(KEPT_DAYS))
        .execute(db.writer())
        .await?
        .rows_affected();
    let dropped = queue.drop_dead_letters(before(DEAD_LETTER_DAYS)).await?;
    tracing::info!(deliveries = forgotten, dead_letters = dropped, "Old deliveries and dead letters were forgotten");
    Ok(())
}

fn instant(milliseconds: i64) -> Result<Timestamp, DbError> {
    Timestamp::from_millisecond(milliseconds)
        .map_err(|error| DbError::Corrupt { what: "time of a delivery", reason: error.to_string() })
}
