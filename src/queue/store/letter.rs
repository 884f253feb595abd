//! Dead letters: jobs that are given up, until a person requeues or discards them, or a newer job does their work.

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use sqlx::Row;
use sqlx::any::AnyRow;

use super::{Queue, attempts, instant};
use crate::db::DbError;

/// Dead letters shown at once.
const SHOWN: i64 = 500;

/// A job that was given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter<J> {
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
    /// When it was given up.
    pub given_up_at: Option<Timestamp>,
    /// Whether the handler was told, so that people can read of it where they look.
    pub told: bool,
    /// What was to be done; none when this version cannot read it.
    pub job: Option<J>,
}

impl<J: DeserializeOwned> Queue<J> {
    /// The dead letters, newest first, 500 at most.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn dead_letters(&self) -> Result<Vec<DeadLetter<J>>, DbError> {
        let rows = sqlx::query(
            "SELECT id, kind, key, given_up, COALESCE(reason, ''), given_up_at, state, payload FROM jobs
             WHERE given_up > 0 ORDER BY given_up_at DESC, id DESC LIMIT $1",
        )
        .bind(SHOWN)
        .fetch_all(self.db.pool())
        .await?;
        rows.iter().map(read).collect()
    }
}

impl<J> Queue<J> {
    /// Puts a dead letter back to work with its attempts forgotten; where a newer job already waits in its place, that one
    /// does the work and the letter goes. False when there is no such letter, or its handler is being told just now.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn requeue(&self, id: &str) -> Result<bool, DbError> {
        let back = sqlx::query(
            "UPDATE jobs SET state = 'queued', attempt = 0, interrupted = 0, run_at = $2, reason = NULL, given_up = 0,
               given_up_at = NULL
             WHERE id = $1 AND given_up > 0 AND state <> 'running'",
        )
        .bind(id)
        .bind(self.now())
        .execute(self.db.pool())
        .await
        .map_err(DbError::from);
        match back {
            Err(error) if error.is_unique_violation() => self.discard(id).await,
            other => Ok(other?.rows_affected() > 0),
        }
    }

    /// Deletes a dead letter. False when there is no such letter, or its handler is being told just now.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn discard(&self, id: &str) -> Result<bool, DbError> {
        let gone = sqlx::query("DELETE FROM jobs WHERE id = $1 AND given_up > 0 AND state <> 'running'")
            .bind(id)
            .execute(self.db.pool())
            .await?;
        Ok(gone.rows_affected() > 0)
    }
}

fn read<J: DeserializeOwned>(row: &AnyRow) -> Result<DeadLetter<J>, DbError> {
    let at: Option<i64> = row.try_get(5)?;
    let state: &str = row.try_get(6)?;
    Ok(DeadLetter {
        id: row.try_get(0)?,
        kind: row.try_get(1)?,
        key: row.try_get(2)?,
        attempts: attempts(row.try_get(3)?),
        reason: row.try_get(4)?,
        given_up_at: at.map(|at| instant("time", at)).transpose()?,
        told: state == "dead",
        job: serde_json::from_str(row.try_get(7)?).ok(),
    })
}
