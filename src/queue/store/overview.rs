//! What people and programs see of the queue without working on it.

use jiff::Timestamp;
use sqlx::Row;

use super::{Depth, Queue, instant};
use crate::db::DbError;

impl<J> Queue<J> {
    /// When the queue next needs a look: the earliest time at which a waiting job is due or a running one's lease ends.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn next_due(&self) -> Result<Option<Timestamp>, DbError> {
        let row = sqlx::query(
            "SELECT min(soonest) FROM (
               SELECT min(run_at) AS soonest FROM jobs WHERE state = 'queued'
               UNION ALL SELECT min(lease_until) FROM jobs WHERE state = 'running') AS either",
        )
        .fetch_one(self.db.reader())
        .await?;
        row.try_get::<Option<i64>, _>(0)?.map(|at| instant("time", at)).transpose()
    }

    /// Numbers for health and metrics.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn depth(&self) -> Result<Depth, DbError> {
        let rows = sqlx::query(
            "SELECT CASE WHEN given_up > 0 THEN 'dead'
                         WHEN state = 'queued' AND run_at > $1 AND attempt = 0 AND reason IS NULL THEN 'planned'
                         ELSE state END AS sort, CAST(count(*) AS BIGINT), min(run_at)
             FROM jobs GROUP BY sort",
        )
        .bind(self.now())
        .fetch_all(self.db.reader())
        .await?;
        let mut depth = Depth::default();
        for row in rows {
            let count = u64::try_from(row.try_get::<i64, _>(1)?).unwrap_or(0);
            match row.try_get::<&str, _>(0)? {
                "queued" => {
                    depth.queued = count;
                    depth.oldest_due_ms = self.now().saturating_sub(row.try_get(2)?).max(0);
                }
                "planned" => depth.planned = count,
                "running" => depth.running = count,
                _ => depth.dead = count,
            }
        }
        Ok(depth)
    }
}
