//! The holding of one lease, without the job: what a heartbeat and a write to another system ask the database.
//!
//! A process that was frozen past its lease (a suspended machine, a stopped container) wakes up in the middle of a
//! statement and knows nothing of it, while another has taken its job over. So nothing outside may be written on the
//! strength of what the process remembers: [`Tenure::ensure`] asks right before each such write, and
//! [`Tenure::ensure_in`] does within the transaction of one of our own.
//!
//! Known race: a process frozen between the answer and the write still writes once. A write to another system and a row
//! here cannot be one; whoever takes over therefore looks there first for what its predecessor may have left.

use std::time::Duration;

use sqlx::Row;
use tokio_util::sync::CancellationToken;

use super::{EXTEND, Hold, fenced, later};
use crate::clock::SharedClock;
use crate::db::{Db, DbError, Tx};

/// The holding of one lease. Cheap to clone.
#[derive(Clone)]
pub struct Tenure {
    pub(super) db: Db,
    pub(super) clock: SharedClock,
    pub(super) lease: Duration,
    pub(super) id: String,
    pub(super) worker: String,
    pub(super) attempt: u32,
    /// Asks the job to stop at its next checkpoint.
    pub(super) stop: CancellationToken,
}

/// Why a write was not made.
#[derive(Debug, thiserror::Error)]
pub enum NotHeld {
    /// The lease ran out, and the job is another worker's now.
    #[error("another worker has taken this job over")]
    Lost,
    /// Nobody can say whose it is.
    #[error("the queue cannot say whether this job is still ours: {0}")]
    Unknown(#[from] DbError),
}

impl std::fmt::Debug for Tenure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tenure").field("id", &self.id).field("attempt", &self.attempt).finish_non_exhaustive()
    }
}

impl Tenure {
    /// Extends the lease and learns whether to go on; unless it is simply held, the job is asked to stop.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn look(&self) -> Result<Hold, DbError> {
        let hold = match self.extend().fetch_optional(self.db.writer()).await? {
            None => Hold::Lost,
            Some(row) if row.try_get::<i64, _>(0)? == 0 => Hold::Held,
            Some(_) => Hold::Interrupted,
        };
        if hold != Hold::Held {
            self.stop.cancel();
        }
        Ok(hold)
    }

    /// Right before a write elsewhere: the lease is still ours. A job that is only asked to stop may finish its write.
    ///
    /// # Errors
    /// When it is not, or the database cannot say; nothing may then be written.
    pub async fn ensure(&self) -> Result<(), NotHeld> {
        match self.look().await? {
            Hold::Held | Hold::Interrupted => Ok(()),
            Hold::Lost => Err(NotHeld::Lost),
        }
    }

    /// Within a transaction: the lease is ours until its end, as nobody can take the row before.
    ///
    /// # Errors
    /// [`DbError::Fenced`] when the lease is lost, or when the statement fails; drop the transaction then.
    pub async fn ensure_in(&self, tx: &mut Tx<'_>) -> Result<(), DbError> {
        if self.extend().fetch_optional(&mut **tx).await?.is_some() {
            return Ok(());
        }
        self.stop.cancel();
        Err(DbError::Fenced)
    }

    /// Whether the job is asked to stop already.
    pub fn stop_asked(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// Asks the job to stop at its next checkpoint.
    pub fn ask_to_stop(&self) {
        self.stop.cancel();
    }

    fn extend(&self) -> sqlx::query::Query<'_, sqlx::Any, sqlx::any::AnyArguments> {
        fenced(EXTEND, (&self.id, &self.worker, self.attempt)).bind(later(self.clock.now(), self.lease))
    }
}
