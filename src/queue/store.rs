//! The queue's SQL.
//!
//! A row is `queued`, `running` or `dead`. One that is given up is queued once more first, to say so where people look
//! (see [`letter`]), and dead after that; in either state its `given_up` is above 0. Two partial unique indexes carry the promises: one waiting job per kind and key
//! among those that supersede each other, and one running job per key. Every statement that ends or extends a lease names
//! the row, its holder and its attempt, so a worker that lost its lease writes nothing.
//!
//! # Races that are known, and why they are harmless
//!
//! - A push may arrive while the older job is just being claimed, so that there is nothing to interrupt yet. Therefore an
//!   extension looks for a newer waiting job itself instead of trusting the flag alone.
//! - Whoever touches a running row and a queued row of its key takes the running one first, so that PostgreSQL never
//!   finds a deadlock.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Serialize, de::DeserializeOwned};
use sqlx::any::{AnyArguments, AnyRow};
use sqlx::query::Query;
use sqlx::{Any, Row};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{Lease, NewJob, Settings};
use crate::clock::SharedClock;
use crate::db::{Db, DbError, Tx};
use crate::ids::new_id;
use tenure::Tenure;

/// A claim that lost against others this often leaves the rest for the next look.
const CLAIM_TRIES: u32 = 8;

/// Longest key in bytes: an entry of a PostgreSQL index holds about 2,700, and a key that can be queued and never be
/// claimed would stand in everybody's way.
const LONGEST_KEY: usize = 1_000;

/// On which instances tell each other that something was enqueued or cancelled.
pub(super) const CHANNEL: &str = "secondlook_jobs";

/// Bytes kept of a reason.
const REASON_BYTES: usize = 2_000;

/// Takes one waiting row, if nobody changed it since it was picked.
const TAKE: &str = "
    UPDATE jobs SET state = 'running', worker = $1, lease_until = $2, attempt = attempt + 1, interrupted = 0
    WHERE id = $4 AND state = 'queued' AND run_at <= $3
    RETURNING id, kind, key, attempt, worker, enqueued_at, payload, given_up, reason";

/// Only the row of one lease, and only while it holds.
macro_rules! fence {
    () => {
        " WHERE id = $1 AND worker = $2 AND attempt = $3 AND state = 'running'"
    };
}

/// Whether a newer job waits in the place of a row.
macro_rules! replaced {
    () => {
        "(supersedes = 1 AND EXISTS (SELECT 1 FROM jobs newer WHERE newer.kind = jobs.kind AND newer.key = jobs.key
           AND newer.state = 'queued' AND newer.supersedes = 1))"
    };
}

// After the macros, which they use.
mod ending;
mod jump;
pub mod letter;
mod overview;
mod standing;
pub mod tenure;
mod turn;

/// Extends a lease and says whether a newer job waits in its place.
const EXTEND: &str = concat!(
    "UPDATE jobs SET lease_until = $4, interrupted = CASE WHEN interrupted = 0 AND ",
    replaced!(),
    " THEN 1 ELSE interrupted END",
    fence!(),
    " RETURNING interrupted"
);

/// A queue of jobs `J` in the database. Cheap to clone.
pub struct Queue<J> {
    db: Db,
    clock: SharedClock,
    settings: Settings,
    changed: Arc<watch::Sender<()>>,
    watched: Arc<jump::Watched>,
    job: std::marker::PhantomData<fn() -> J>,
}

impl<J> Clone for Queue<J> {
    fn clone(&self) -> Self {
        Self {
            db: self.db.clone(),
            clock: self.clock.clone(),
            settings: self.settings.clone(),
            changed: self.changed.clone(),
            watched: self.watched.clone(),
            job: self.job,
        }
    }
}

/// What an extension of a lease says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// Still ours; go on.
    Held,
    /// Still ours, but stop at the next checkpoint: a newer job wants its place.
    Interrupted,
    /// Somebody else has it: stop, and write nothing more.
    Lost,
}

/// How a job's try ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Done; the row goes away.
    Finished,
    /// Try again at this instant, counted as an attempt.
    RetryAt(Timestamp, String),
    /// Go on at this instant, not counted: nothing failed, but what the job needs is not to be had before. However long
    /// that takes, the job is not given up for it.
    Postponed(Timestamp, String),
    /// Back to the queue at once and not counted: the process is stopping or a newer job interrupts. Where a newer job
    /// waits, or this one was cancelled, it goes away instead.
    Released,
    /// Cannot succeed: becomes a dead letter with this reason.
    Failed(String),
}

/// What came of one try to claim.
enum Claimed {
    /// Nothing may run now.
    Nothing,
    /// The job was taken or changed in between.
    Changed,
    /// This row.
    Row(AnyRow),
}

/// Numbers for health and metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Depth {
    /// Jobs that wait for a worker or for another try; none when all work is done.
    pub queued: u64,
    /// Jobs that were meant for later and whose time has not come, such as the next rounds: there are always some.
    pub planned: u64,
    /// Jobs with a lease.
    pub running: u64,
    /// Jobs that are given up.
    pub dead: u64,
    /// Age in milliseconds of the oldest job that is due.
    pub oldest_due_ms: i64,
}

impl<J> Queue<J> {
    /// A queue over `db`.
    pub fn new(db: Db, clock: SharedClock, settings: Settings) -> Self {
        let changed = Arc::new(watch::Sender::new(()));
        Self { db, clock, settings, changed, watched: Arc::default(), job: std::marker::PhantomData }
    }

    /// Its times and counts.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The clock that decides what is due.
    pub fn clock(&self) -> &SharedClock {
        &self.clock
    }

    /// Tells the workers of this process that something was enqueued or cancelled. To be called after the commit; without
    /// it they find out at their next look. Those of other processes are told by the commit itself, on PostgreSQL.
    pub fn announce(&self) {
        self.changed.send_replace(());
    }

    /// The database it is in.
    pub(super) fn db(&self) -> &Db {
        &self.db
    }

    /// Sees every later [`Queue::announce`].
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    fn now(&self) -> i64 {
        self.clock.now().as_millisecond()
    }

    fn lease_end(&self) -> i64 {
        later(self.clock.now(), self.settings.lease)
    }

    /// The holding of a lease, which asks the job to stop through `stop` when another wants its place.
    pub fn tenure<T>(&self, lease: &Lease<T>, stop: CancellationToken) -> Tenure {
        Tenure {
            db: self.db.clone(),
            clock: self.clock.clone(),
            lease: self.settings.lease,
            id: lease.id.clone(),
            worker: lease.worker.clone(),
            attempt: lease.attempt,
            stop,
        }
    }
}

impl<J: Serialize + DeserializeOwned + Send + Sync> Queue<J> {
    /// Puts a job in within the caller's transaction, so that it exists exactly when what caused it does. A job that
    /// supersedes takes the row of a waiting one of its kind and key and keeps that one's turn, so that a stream of
    /// pushes cannot put a review off for ever. Returns the row's id.
    ///
    /// # Errors
    /// When the statement fails, or the key is longer than 1,000 bytes; the caller's transaction is then to be dropped.
    pub async fn enqueue(&self, tx: &mut Tx<'_>, job: &NewJob<J>) -> Result<String, DbError> {
        if [&job.key, &job.owner, &job.tenant].iter().any(|name| name.len() > LONGEST_KEY) {
            return Err(DbError::Corrupt { what: "key of a job", reason: format!("over {LONGEST_KEY} bytes") });
        }
        let payload = serde_json::to_string(&job.job)
            .map_err(|error| DbError::Corrupt { what: "job", reason: error.to_string() })?;
        if job.supersedes {
            sqlx::query(
                "UPDATE jobs SET interrupted = 1
                 WHERE kind = $1 AND key = $2 AND state = 'running' AND supersedes = 1 AND interrupted = 0",
            )
            .bind(job.kind)
            .bind(&job.key)
            .execute(&mut **tx)
            .await?;
            // What was given up before is done by this one, so nobody has to look after it any more.
            sqlx::query("DELETE FROM jobs WHERE kind = $1 AND key = $2 AND given_up > 0 AND state = 'dead'")
                .bind(job.kind)
                .bind(&job.key)
                .execute(&mut **tx)
                .await?;
        }
        let row = sqlx::query(
            "INSERT INTO jobs (id, kind, key, state, payload, run_at, enqueued_at, supersedes, owner, tenant, written_at)
             VALUES ($1, $2, $3, 'queued', $4, $5, $6, $7, $8, $9, $6)
             ON CONFLICT (kind, key) WHERE state = 'queued' AND supersedes = 1 DO UPDATE SET
               payload = excluded.payload, owner = excluded.owner, tenant = excluded.tenant,
               run_at = CASE WHEN jobs.attempt = 0 AND jobs.run_at < excluded.run_at
                             THEN jobs.run_at ELSE excluded.run_at END,
               enqueued_at = excluded.enqueued_at, written_at = excluded.written_at, attempt = 0, reason = NULL,
               given_up = 0, given_up_at = NULL
             RETURNING id",
        )
        .bind(new_id())
        .bind(job.kind)
        .bind(&job.key)
        .bind(payload)
        .bind(job.run_at.as_millisecond())
        .bind(self.now())
        .bind(i64::from(job.supersedes))
        .bind(&job.owner)
        .bind(&job.tenant)
        .fetch_one(&mut **tx)
        .await?;
        self.db.notify(tx, CHANNEL).await?;
        Ok(row.try_get(0)?)
    }

    /// Removes waiting jobs of this key, and asks running ones to stop at their next checkpoint; those are then dropped
    /// and not put back.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn cancel(&self, tx: &mut Tx<'_>, key: &str) -> Result<(), DbError> {
        // The flag first, on both states: a row that a worker is claiming right now is running when this gets at it.
        sqlx::query("UPDATE jobs SET interrupted = 2 WHERE key = $1 AND state IN ('queued', 'running')")
            .bind(key)
            .execute(&mut **tx)
            .await?;
        sqlx::query("DELETE FROM jobs WHERE key = $1 AND state = 'queued'").bind(key).execute(&mut **tx).await?;
        self.db.notify(tx, CHANNEL).await?;
        Ok(())
    }

    /// Takes the due job whose turn it is (see [`turn`]) and whose key is not running, or one whose lease ran out. The
    /// holder's name in the lease is `worker` and an id of this claim, so that even the same worker is fenced from its own
    /// earlier claims.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn claim(&self, worker: &str) -> Result<Option<Lease<J>>, DbError> {
        if self.trusts_the_time().await? {
            self.settle_expired().await?;
        }
        let mut tries = 0;
        while tries < CLAIM_TRIES && self.anything_due().await? {
            let row = match self.try_claim(worker).await {
                Ok(Claimed::Nothing) => return Ok(None),
                Ok(Claimed::Row(row)) => row,
                Ok(Claimed::Changed) => {
                    tries += 1;
                    continue;
                }
                // An older version claims without taking turns.
                Err(error) if error.is_unique_violation() || error.is_conflict() => {
                    tries += 1;
                    continue;
                }
                Err(error) => return Err(error),
            };
            match read_lease(&row) {
                Err(DbError::Corrupt { what, reason }) => self.put_aside(&row, what, &reason).await?,
                lease => return lease.map(Some),
            }
        }
        Ok(None)
    }

    async fn try_claim(&self, worker: &str) -> Result<Claimed, DbError> {
        let mut tx = self.begin_claim().await?;
        let Some(next) = self.next(&mut tx).await? else {
            // By word and not by the drop, which would hold the right to claim a little longer.
            tx.rollback().await?;
            return Ok(Claimed::Nothing);
        };
        let row = sqlx::query(TAKE)
            .bind(format!("{worker}/{}", new_id()))
            .bind(self.lease_end())
            .bind(self.now())
            .bind(&next.id)
            .fetch_optional(&mut *tx)
            .await?;
        let Some(row) = row else {
            tx.rollback().await?;
            return Ok(Claimed::Changed);
        };
        self.note_served(&mut tx, &next).await?;
        tx.commit().await?;
        Ok(Claimed::Row(row))
    }

    /// Extends a lease and learns whether to go on. Writes nothing when the lease is lost.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn extend<T>(&self, lease: &Lease<T>) -> Result<Hold, DbError> {
        self.tenure(lease, CancellationToken::new()).look().await
    }
}

/// A statement with [`fence`] in it and its three values bound: row, holder, attempt.
fn fenced<'q>(sql: &'static str, (id, worker, attempt): (&'q str, &'q str, u32)) -> Query<'q, Any, AnyArguments> {
    sqlx::query(sql).bind(id).bind(worker).bind(i64::from(attempt))
}

/// The three values of a lease that [`fenced`] wants.
fn of<J>(lease: &Lease<J>) -> (&str, &str, u32) {
    (&lease.id, &lease.worker, lease.attempt)
}

/// An instant `wait` after `now`, as rows keep it.
fn later(now: Timestamp, wait: Duration) -> i64 {
    now.as_millisecond().saturating_add(i64::try_from(wait.as_millis()).unwrap_or(i64::MAX))
}

fn read_lease<J: DeserializeOwned>(row: &AnyRow) -> Result<Lease<J>, DbError> {
    let payload: &str = row.try_get("payload")?;
    Ok(Lease {
        id: row.try_get("id")?,
        kind: row.try_get("kind")?,
        key: row.try_get("key")?,
        attempt: attempts(row.try_get("attempt")?),
        worker: row.try_get("worker")?,
        enqueued_at: instant("time", row.try_get("enqueued_at")?)?,
        given_up: match row.try_get::<i64, _>("given_up")? {
            0 => None,
            _ => Some(row.try_get::<Option<String>, _>("reason")?.unwrap_or_default()),
        },
        job: serde_json::from_str(payload)
            .map_err(|error| DbError::Corrupt { what: "payload", reason: error.to_string() })?,
    })
}

fn instant(what: &'static str, milliseconds: i64) -> Result<Timestamp, DbError> {
    Timestamp::from_millisecond(milliseconds).map_err(|error| DbError::Corrupt { what, reason: error.to_string() })
}

fn attempts(stored: i64) -> u32 {
    u32::try_from(stored).unwrap_or(0)
}

/// A reason as it is kept: not endless, and without the one character that PostgreSQL refuses in a text.
fn clip(reason: &str) -> String {
    let mut end = reason.len().min(REASON_BYTES);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    reason.get(..end).unwrap_or_default().replace('\0', "")
}
