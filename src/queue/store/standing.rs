//! Jobs of which one always waits: rounds that are made again and again.

use serde::{Serialize, de::DeserializeOwned};

use super::Queue;
use crate::db::{DbError, Tx};
use crate::queue::NewJob;

impl<J: Serialize + DeserializeOwned + Send + Sync> Queue<J> {
    /// Sees to it that a job of this kind and key waits and is due at its `run_at` at the latest. One that runs does not
    /// count, so that it can call for its successor.
    ///
    /// Two instances that do so at the same moment may put in two. They run one after the other, the first finds the
    /// second when it calls for its successor, and so they are one again after a round.
    ///
    /// # Errors
    /// As [`Queue::enqueue`].
    pub async fn ensure(&self, tx: &mut Tx<'_>, job: &NewJob<J>) -> Result<(), DbError> {
        let waiting = sqlx::query(
            "UPDATE jobs SET run_at = CASE WHEN run_at > $3 THEN $3 ELSE run_at END
             WHERE kind = $1 AND key = $2 AND state = 'queued' AND given_up = 0",
        )
        .bind(job.kind)
        .bind(&job.key)
        .bind(job.run_at.as_millisecond())
        .execute(&mut **tx)
        .await?;
        if waiting.rows_affected() == 0 {
            self.enqueue(tx, job).await?;
        }
        Ok(())
    }

    /// Whether a job of this key runs, or is due and will run as soon as there is a worker.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn busy(&self, tx: &mut Tx<'_>, key: &str) -> Result<bool, DbError> {
        let found = sqlx::query(
            "SELECT id FROM jobs WHERE key = $1 AND (state = 'running' OR (state = 'queued' AND run_at <= $2)) LIMIT 1",
        )
        .bind(key)
        .bind(self.clock.now().as_millisecond())
        .fetch_optional(&mut **tx)
        .await?;
        Ok(found.is_some())
    }

    /// Drops dead letters of jobs that were given up before `cutoff` (milliseconds since 1970). Returns how many.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn drop_dead_letters(&self, cutoff: i64) -> Result<u64, DbError> {
        let dropped = sqlx::query("DELETE FROM jobs WHERE state = 'dead' AND COALESCE(given_up_at, enqueued_at) < $1")
            .bind(cutoff)
            .execute(self.db.writer())
            .await?;
        Ok(dropped.rows_affected())
    }
}
