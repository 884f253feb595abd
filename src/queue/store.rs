//! The queue's SQL.

use jiff::Timestamp;
use serde::{Serialize, de::DeserializeOwned};

use super::{Lease, NewJob, Settings};
use crate::clock::SharedClock;
use crate::db::{Db, DbError, Tx};

/// A queue of jobs `J` in the database. Cheap to clone.
pub struct Queue<J> {
    db: Db,
    clock: SharedClock,
    settings: Settings,
    job: std::marker::PhantomData<fn() -> J>,
}

impl<J> Clone for Queue<J> {
    fn clone(&self) -> Self {
        Self { db: self.db.clone(), clock: self.clock.clone(), settings: self.settings.clone(), job: self.job }
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
    /// Back to the queue at once and not counted: the process is stopping or a newer job interrupts.
    Released,
    /// Cannot succeed: becomes a dead letter with this reason.
    Failed(String),
}

/// Numbers for health and metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Depth {
    /// Waiting jobs.
    pub queued: u64,
    /// Jobs with a lease.
    pub running: u64,
    /// Dead letters.
    pub dead: u64,
    /// Age in milliseconds of the oldest job that is due.
    pub oldest_due_ms: i64,
}

/// A job that was given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// The row.
    pub id: String,
    /// The sort of work.
    pub kind: String,
    /// The key.
    pub key: String,
    /// Tries made.
    pub attempts: u32,
    /// The last error.
    pub reason: String,
}

impl<J: Serialize + DeserializeOwned + Send + Sync> Queue<J> {
    /// A queue over `db`.
    pub fn new(db: Db, clock: SharedClock, settings: Settings) -> Self {
        Self { db, clock, settings, job: std::marker::PhantomData }
    }

    /// Its times and counts.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Puts a job in within the caller's transaction, so that it exists exactly when what caused it does.
    ///
    /// # Errors
    /// When the statement fails; the caller's transaction is then to be dropped.
    pub async fn enqueue(&self, tx: &mut Tx<'_>, job: &NewJob<J>) -> Result<String, DbError> {
        let _ = (tx, job);
        todo!()
    }

    /// Asks running jobs of this key to stop at their next checkpoint and removes queued ones.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn cancel(&self, tx: &mut Tx<'_>, key: &str) -> Result<(), DbError> {
        let _ = (tx, key);
        todo!()
    }

    /// Takes the next due job whose key is not running, or one whose lease ran out.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn claim(&self, worker: &str) -> Result<Option<Lease<J>>, DbError> {
        todo!("{worker}")
    }

    /// Extends a lease and learns whether to go on. Writes nothing when the lease is lost.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn extend(&self, lease: &Lease<J>) -> Result<Hold, DbError> {
        let _ = lease;
        todo!()
    }

    /// Ends a lease. Returns false, and changes nothing, when it was lost before.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn finish(&self, lease: &Lease<J>, outcome: &Outcome) -> Result<bool, DbError> {
        let _ = (lease, outcome);
        todo!()
    }

    /// When the next queued job is due, if any waits.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn next_due(&self) -> Result<Option<Timestamp>, DbError> {
        todo!()
    }

    /// Numbers for health and metrics.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn depth(&self) -> Result<Depth, DbError> {
        todo!()
    }

    /// The dead letters, newest first.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn dead_letters(&self) -> Result<Vec<DeadLetter>, DbError> {
        todo!()
    }

    /// Puts a dead letter back to work with its attempts forgotten. False when there is no such one.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn requeue(&self, id: &str) -> Result<bool, DbError> {
        todo!("{id}")
    }
}
