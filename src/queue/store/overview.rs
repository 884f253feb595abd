//! What people and programs see of the queue without working on it.

use jiff::Timestamp;
use sqlx::Row;

use super::{DeadLetter, Depth, Queue, attempts, instant};
use crate::db::DbError;

/// Dead letters shown at once.
const DEAD_LETTERS_SHOWN: i64 = 500;

impl<J> Queue<J> {
    /// When the queue next needs a look: the earliest time at which a waiting job is due or a running one's lease ends.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn next_due(&self) -> Result<Option<Timestamp>, DbError> {
        let row = sqlx::query(
            "SELECT min(CASE WHEN state = 'queued' THEN run_at ELSE lease_until END) FROM jobs
             WHERE state IN ('queued', 'running')",
        )
        .fetch_one(self.db.pool())
        .await?;
        row.try_get::<Option<i64>, _>(0)?.map(|at| instant("time", at)).transpose()
    }

    /// Numbers for health and metrics.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn depth(&self) -> Result<Depth, DbError> {
        let rows = sqlx::query("SELECT state, CAST(count(*) AS BIGINT), min(run_at) FROM jobs GROUP BY state")
            .fetch_all(self.db.pool())
            .await?;
        let mut depth = Depth::default();
        for row in rows {
            let count = u64::try_from(row.try_get::<i64, _>(1)?).unwrap_or(0);
            match row.try_get::<&str, _>(0)? {
                "queued" => {
                    depth.queued = count;
                    depth.oldest_due_ms = self.now().saturating_sub(row.try_get(2)?).max(0);
                }
                "running" => depth.running = count,
                _ => depth.dead = count,
            }
        }
        Ok(depth)
    }

    /// The dead letters, newest first, 500 at most.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn dead_letters(&self) -> Result<Vec<DeadLetter>, DbError> {
        let rows = sqlx::query(
            "SELECT id, kind, key, attempt, COALESCE(reason, '') FROM jobs WHERE state = 'dead'
             ORDER BY enqueued_at DESC, id DESC LIMIT $1",
        )
        .bind(DEAD_LETTERS_SHOWN)
        .fetch_all(self.db.pool())
        .await?;
        rows.iter()
            .map(|row| {
                Ok(DeadLetter {
                    id: row.try_get(0)?,
                    kind: row.try_get(1)?,
                    key: row.try_get(2)?,
                    attempts: attempts(row.try_get(3)?),
                    reason: row.try_get(4)?,
                })
            })
            .collect()
    }

    /// Puts a dead letter back to work with its attempts forgotten; where a newer job already waits in its place, that one
    /// does the work and the letter goes. False when there is no such letter.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn requeue(&self, id: &str) -> Result<bool, DbError> {
        let back = sqlx::query(
            "UPDATE jobs SET state = 'queued', attempt = 0, interrupted = 0, run_at = $2, reason = NULL
             WHERE id = $1 AND state = 'dead'",
        )
        .bind(id)
        .bind(self.now())
        .execute(self.db.pool())
        .await
        .map_err(DbError::from);
        let back = match back {
            Err(error) if error.is_unique_violation() => {
                sqlx::query("DELETE FROM jobs WHERE id = $1 AND state = 'dead'")
                    .bind(id)
                    .execute(self.db.pool())
                    .await?
            }
            other => other?,
        };
        Ok(back.rows_affected() > 0)
    }
}
