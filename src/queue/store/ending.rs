//! How a lease ends: by the word of its holder, or because its time ran out.

use jiff::Timestamp;
use serde::{Serialize, de::DeserializeOwned};
use sqlx::Row;
use sqlx::any::AnyRow;

use super::{Outcome, Queue, attempts, clip, fenced, later, of};
use crate::db::DbError;
use crate::queue::Lease;
use crate::retry;

/// Tries to say that a job was given up. With [`retry::backoff`] between them they last about four hours, longer than
/// an outage of GitHub commonly does.
const MOST_REPORTS: u32 = 30;

/// A newer job or a cancellation may come in between the two statements of an ending: then the second changes nothing,
/// and the first finds it the next time.
const TRIES: u32 = 3;

/// Only a row that nobody wants back.
macro_rules! unwanted {
    () => {
        concat!(" AND (interrupted = 2 OR ", replaced!(), ")")
    };
}

/// The row of a job that is given up just now, for its handler to be told: `$4` is the time and `$5` the reason.
macro_rules! give_up {
    () => {
        "UPDATE jobs SET state = 'queued', worker = NULL, lease_until = NULL, interrupted = 0, given_up = attempt,
           given_up_at = $4, run_at = $4, written_at = $4, attempt = 0, reason = $5"
    };
}

impl<J: Serialize + DeserializeOwned + Send + Sync> Queue<J> {
    /// Ends a lease. Returns false, and changes nothing, when it was lost before. A job that goes back to the queue
    /// vanishes instead when it was cancelled, or when a newer one waits in its place. [`Outcome::Failed`], and
    /// [`Outcome::RetryAt`] of the last attempt, give the job up: it waits once more, for its handler to be told. However
    /// that ends after its own last attempt, the row is then a dead letter.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn finish(&self, lease: &Lease<J>, outcome: &Outcome) -> Result<bool, DbError> {
        let told = lease.given_up.is_some();
        match outcome {
            Outcome::Finished if !told => {
                let done = fenced(concat!("DELETE FROM jobs", fence!()), of(lease)).execute(self.db.writer()).await?;
                Ok(done.rows_affected() > 0)
            }
            Outcome::Released => self.put_back(lease, None, false, "released").await,
            Outcome::Postponed(at, reason) => self.put_back(lease, Some(*at), false, reason).await,
            Outcome::RetryAt(at, reason) if !self.is_last(lease) => self.put_back(lease, Some(*at), true, reason).await,
            Outcome::Finished | Outcome::Failed(_) | Outcome::RetryAt(..) if told => self.lay_to_rest(lease).await,
            Outcome::Failed(reason) | Outcome::RetryAt(_, reason) => self.give_up(lease, reason).await,
            Outcome::Finished => Ok(false),
        }
    }

    /// Whether no further try follows this one.
    pub fn is_last<T>(&self, lease: &Lease<T>) -> bool {
        let most = if lease.given_up.is_some() { MOST_REPORTS } else { self.settings.max_attempts };
        lease.attempt >= most
    }

    /// Ends every lease, so that the jobs are taken over at once. Only for who knows that no other process works on this
    /// queue: a server that has just started on a database of its own.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn end_all_leases(&self) -> Result<(), DbError> {
        let end = "UPDATE jobs SET lease_until = $1 WHERE state = 'running'";
        sqlx::query(end).bind(self.now()).execute(self.db.writer()).await?;
        Ok(())
    }

    /// Takes leases that ran out away from their holders: they count as an attempt, and the job waits again; for its
    /// handler to be told, when that was the last one. It goes when it was cancelled, or when a newer one waits.
    pub(super) async fn settle_expired(&self) -> Result<(), DbError> {
        let now = self.now();
        let expired = sqlx::query("SELECT id FROM jobs WHERE state = 'running' AND lease_until <= $1 LIMIT 1")
            .bind(now)
            .fetch_optional(self.db.reader())
            .await?;
        if expired.is_none() {
            return Ok(());
        }
        sqlx::query(concat!("DELETE FROM jobs WHERE state = 'running' AND lease_until <= $1", unwanted!()))
            .bind(now)
            .execute(self.db.writer())
            .await?;
        sqlx::query(
            "UPDATE jobs SET state = 'dead', worker = NULL, lease_until = NULL
             WHERE state = 'running' AND lease_until <= $1 AND given_up > 0 AND attempt >= $2",
        )
        .bind(now)
        .bind(i64::from(MOST_REPORTS))
        .execute(self.db.writer())
        .await?;
        match self.settle_expired_hopes(now).await {
            // A newer job came in between; the next look drops the old one.
            Err(error) if error.is_unique_violation() => Ok(()),
            other => other,
        }
    }

    async fn settle_expired_hopes(&self, now: i64) -> Result<(), DbError> {
        let given_up = sqlx::query(concat!(
            give_up!(),
            " WHERE state = 'running' AND lease_until <= $1 AND given_up = 0 AND attempt >= $2 AND interrupted <> $3
             RETURNING id, kind, key"
        ))
        .bind(now)
        .bind(i64::from(self.settings.max_attempts))
        .bind(2_i64)
        .bind(now)
        .bind("its worker vanished, and this was the last attempt")
        .fetch_all(self.db.writer())
        .await?;
        for row in &given_up {
            let (id, kind, key) = (row.try_get::<&str, _>(0)?, row.try_get::<&str, _>(1)?, row.try_get::<&str, _>(2)?);
            tracing::error!(job.id = id, job.kind = kind, job.key = key, "A job is given up: its workers vanished");
            metrics::counter!("secondlook_jobs_total", "kind" => kind.to_owned(), "outcome" => "dead").increment(1);
        }
        sqlx::query(
            "UPDATE jobs SET state = 'queued', worker = NULL, lease_until = NULL, interrupted = 0, written_at = $1,
               run_at = CASE WHEN run_at > $1 THEN $1 ELSE run_at END,
               reason = CASE WHEN given_up > 0 THEN reason ELSE 'its worker vanished' END
             WHERE state = 'running' AND lease_until <= $1 AND interrupted <> 2",
        )
        .bind(now)
        .execute(self.db.writer())
        .await?;
        Ok(())
    }

    /// Back to the queue, at `at` or in its old place. The reason of a job that was given up stays the one it was given up
    /// for.
    async fn put_back(
        &self,
        lease: &Lease<J>,
        at: Option<Timestamp>,
        counted: bool,
        reason: &str,
    ) -> Result<bool, DbError> {
        for _ in 0..TRIES {
            if self.drop_unwanted(lease).await? {
                return Ok(true);
            }
            let back = concat!(
                "UPDATE jobs SET state = 'queued', worker = NULL, lease_until = NULL, interrupted = 0,
                   attempt = attempt - $4, run_at = COALESCE($5, CASE WHEN run_at > $7 THEN $7 ELSE run_at END),
                   reason = CASE WHEN given_up > 0 THEN reason ELSE $6 END, written_at = $7",
                fence!(),
                " AND interrupted <> 2"
            );
            let back = fenced(back, of(lease))
                .bind(i64::from(!counted))
                .bind(at.map(Timestamp::as_millisecond))
                .bind(clip(reason))
                .bind(self.now())
                .execute(self.db.writer())
                .await
                .map_err(DbError::from);
            match back {
                Ok(back) if back.rows_affected() > 0 => return Ok(true),
                Err(error) if !error.is_unique_violation() => return Err(error),
                _ => {}
            }
        }
        Ok(false)
    }

    /// Once more into the queue, for the handler to be told that the job is given up.
    async fn give_up(&self, lease: &Lease<J>, reason: &str) -> Result<bool, DbError> {
        for _ in 0..TRIES {
            if self.drop_unwanted(lease).await? {
                return Ok(true);
            }
            let given_up = fenced(concat!(give_up!(), fence!(), " AND interrupted <> 2"), of(lease))
                .bind(self.now())
                .bind(clip(reason))
                .execute(self.db.writer())
                .await
                .map_err(DbError::from);
            match given_up {
                Ok(given_up) if given_up.rows_affected() > 0 => return Ok(true),
                Err(error) if !error.is_unique_violation() => return Err(error),
                _ => {}
            }
        }
        Ok(false)
    }

    /// Makes a dead letter of a job whose handler was told, or cannot be told.
    async fn lay_to_rest(&self, lease: &Lease<J>) -> Result<bool, DbError> {
        if self.drop_unwanted(lease).await? {
            return Ok(true);
        }
        let rest = concat!("UPDATE jobs SET state = 'dead', worker = NULL, lease_until = NULL", fence!());
        Ok(fenced(rest, of(lease)).execute(self.db.writer()).await?.rows_affected() > 0)
    }

    async fn drop_unwanted(&self, lease: &Lease<J>) -> Result<bool, DbError> {
        let dropped = concat!("DELETE FROM jobs", fence!(), unwanted!());
        Ok(fenced(dropped, of(lease)).execute(self.db.writer()).await?.rows_affected() > 0)
    }

    /// Puts a claimed row aside that this process cannot read: it is damaged, or written by a newer version, which may run
    /// beside this one and have it the next time. After the last attempt it is a dead letter at once, because a handler
    /// cannot be told of what cannot be read.
    pub(super) async fn put_aside(&self, row: &AnyRow, what: &str, reason: &str) -> Result<(), DbError> {
        let (id, worker): (String, String) = (row.try_get("id")?, row.try_get("worker")?);
        let attempt = attempts(row.try_get("attempt")?);
        let again = later(self.clock.now(), retry::backoff(attempt));
        tracing::error!(job.id = %id, "A job's {what} cannot be read by this version; it is put aside");
        let aside = concat!(
            "UPDATE jobs SET worker = NULL, lease_until = NULL, reason = $4, run_at = $5, written_at = $7,
               state = CASE WHEN attempt >= $6 THEN 'dead' ELSE 'queued' END,
               given_up = CASE WHEN attempt >= $6 THEN attempt ELSE 0 END,
               given_up_at = CASE WHEN attempt >= $6 THEN $7 ELSE NULL END",
            fence!()
        );
        let aside = fenced(aside, (&id, &worker, attempt))
            .bind(clip(&format!("its {what} cannot be read: {reason}")))
            .bind(again)
            .bind(i64::from(self.settings.max_attempts))
            .bind(self.now())
            .execute(self.db.writer())
            .await
            .map_err(DbError::from);
        match aside {
            // A newer job waits in its place: the lease runs out, and then the row goes.
            Err(error) if error.is_unique_violation() => Ok(()),
            other => other.map(drop),
        }
    }
}
