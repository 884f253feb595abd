//! The rows as people see them, and what they do about dead letters: jobs that are given up, until a person requeues or
//! discards them, or a newer job does their work.

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use sqlx::Row;
use sqlx::any::AnyRow;

use super::{CHANNEL, Queue, attempts, instant};
use crate::db::DbError;

/// Rows shown at once.
const SHOWN: i64 = 500;

/// How a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It waits for its time, its key or its turn.
    Queued,
    /// A worker has it.
    Running,
    /// It is given up, whether its handler was told or not.
    Dead,
}

/// A job as people see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry<J> {
    /// The row.
    pub id: String,
    /// The sort of work.
    pub kind: String,
    /// The key.
    pub key: String,
    /// How it stands.
    pub standing: Standing,
    /// Tries made; of a dead letter, before it was given up.
    pub attempts: u32,
    /// The last error, if there was one.
    pub reason: Option<String>,
    /// When it was enqueued.
    pub enqueued_at: Timestamp,
    /// Not before this instant, while it waits.
    pub run_at: Timestamp,
    /// When it was given up.
    pub given_up_at: Option<Timestamp>,
    /// Whether a dead letter's handler was told, so that people can read of it where they look.
    pub told: bool,
    /// What is to be done; none when this version cannot read it.
    pub job: Option<J>,
}

/// The columns that [`read`] reads.
macro_rules! shown {
    () => {
        "SELECT id, kind, key, state, attempt, reason, enqueued_at, run_at, given_up, given_up_at, payload FROM jobs"
    };
}

impl<J: DeserializeOwned> Queue<J> {
    /// The dead letters, newest first, 500 at most.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn dead_letters(&self) -> Result<Vec<Entry<J>>, DbError> {
        self.entries(Standing::Dead).await
    }

    /// The jobs that stand so, 500 at most: dead letters newest first, others in the order of their time.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn entries(&self, standing: Standing) -> Result<Vec<Entry<J>>, DbError> {
        let sql = match standing {
            Standing::Dead => concat!(shown!(), " WHERE given_up > 0 ORDER BY given_up_at DESC, id DESC LIMIT $1"),
            Standing::Queued => {
                concat!(shown!(), " WHERE state = 'queued' AND given_up = 0 ORDER BY run_at, id LIMIT $1")
            }
            Standing::Running => {
                concat!(shown!(), " WHERE state = 'running' AND given_up = 0 ORDER BY run_at, id LIMIT $1")
            }
        };
        let rows = sqlx::query(sql).bind(SHOWN).fetch_all(self.db.reader()).await?;
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
        let mut tx = self.db.begin().await?;
        let back = sqlx::query(
            "UPDATE jobs SET state = 'queued', attempt = 0, interrupted = 0, run_at = $2, written_at = $2, reason = NULL,
               given_up = 0, given_up_at = NULL
             WHERE id = $1 AND given_up > 0 AND state <> 'running'",
        )
        .bind(id)
        .bind(self.now())
        .execute(&mut *tx)
        .await
        .map_err(DbError::from);
        match back {
            Err(error) if error.is_unique_violation() => {
                tx.rollback().await?;
                self.discard(id).await
            }
            other => {
                let back = other?.rows_affected() > 0;
                self.db.notify(&mut tx, CHANNEL).await?;
                tx.commit().await?;
                self.announce();
                Ok(back)
            }
        }
    }

    /// Deletes a dead letter. False when there is no such letter, or its handler is being told just now.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn discard(&self, id: &str) -> Result<bool, DbError> {
        let gone = sqlx::query("DELETE FROM jobs WHERE id = $1 AND given_up > 0 AND state <> 'running'")
            .bind(id)
            .execute(self.db.writer())
            .await?;
        Ok(gone.rows_affected() > 0)
    }
}

fn read<J: DeserializeOwned>(row: &AnyRow) -> Result<Entry<J>, DbError> {
    let (state, given_up): (&str, i64) = (row.try_get("state")?, row.try_get("given_up")?);
    let given_up_at: Option<i64> = row.try_get("given_up_at")?;
    Ok(Entry {
        id: row.try_get("id")?,
        kind: row.try_get("kind")?,
        key: row.try_get("key")?,
        standing: match state {
            _ if given_up > 0 => Standing::Dead,
            "running" => Standing::Running,
            _ => Standing::Queued,
        },
        attempts: attempts(if given_up > 0 { given_up } else { row.try_get("attempt")? }),
        reason: row.try_get("reason")?,
        enqueued_at: instant("time", row.try_get("enqueued_at")?)?,
        run_at: instant("time", row.try_get("run_at")?)?,
        given_up_at: given_up_at.map(|at| instant("time", at)).transpose()?,
        told: state == "dead",
        job: serde_json::from_str(row.try_get("payload")?).ok(),
    })
}
