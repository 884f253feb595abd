//! The intake's SQL: a delivery, its jobs and its records exist together or not at all.

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
const KEPT_DAYS: i64 = 35;

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
/// When the transaction fails; nothing is then written.
pub async fn record(
    db: &Db,
    queue: &Queue<Job>,
    delivery: &Delivery,
    plan: &Plan,
    now: Timestamp,
) -> Result<bool, DbError> {
    let mut tries = 0;
    loop {
        match try_record(db, queue, delivery, plan, now).await {
            Err(error) if error.is_conflict() && tries < TRIES => tries += 1,
            done => return done,
        }
    }
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
    let row = sqlx::query("SELECT outcome FROM deliveries WHERE id = $1").bind(id).fetch_optional(db.pool()).await?;
    Ok(row.map(|row| row.try_get(0)).transpose()?)
}

/// Forgets deliveries that nobody can send again.
///
/// # Errors
/// When the statement fails.
pub async fn prune(db: &Db, now: Timestamp) -> Result<(), DbError> {
    let cutoff = now.as_millisecond().saturating_sub(KEPT_DAYS * 24 * 60 * 60 * 1_000);
    sqlx::query("DELETE FROM deliveries WHERE received_at < $1").bind(cutoff).execute(db.pool()).await?;
    Ok(())
}
