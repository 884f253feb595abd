//! The event log's SQL.

use sqlx::Row;

use super::RunEvent;
use crate::db::{Db, DbError};

/// Events kept of one run.
const KEPT: i64 = 100;

/// How often an append tries to get a number of its own beside other appends to the same run.
const TRIES: u32 = 10;

/// The log of run events. Without a database (the command line) nothing is kept.
#[derive(Debug, Clone, Default)]
pub struct EventLog {
    db: Option<Db>,
}

impl EventLog {
    /// A log in `db`.
    pub fn new(db: Db) -> Self {
        Self { db: Some(db) }
    }

    /// Appends an event and keeps the last 100 of its run.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn append(&self, event: &RunEvent) -> Result<(), DbError> {
        let Some(db) = &self.db else { return Ok(()) };
        let text = serde_json::to_string(event)
            .map_err(|error| DbError::Corrupt { what: "event", reason: error.to_string() })?;
        let mut tries = 0;
        loop {
            match insert(db, &event.run_id, &text).await {
                Err(error) if error.is_unique_violation() && tries < TRIES => tries += 1,
                done => return done,
            }
        }
    }

    /// Events of a run after the given event number, oldest first, each with its number.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn after(&self, run_id: &str, number: i64) -> Result<Vec<(i64, RunEvent)>, DbError> {
        let Some(db) = &self.db else { return Ok(Vec::new()) };
        let rows =
            sqlx::query("SELECT number, event FROM run_events WHERE run_id = $1 AND number > $2 ORDER BY number")
                .bind(run_id)
                .bind(number)
                .fetch_all(db.reader())
                .await?;
        rows.iter()
            .map(|row| {
                let event = serde_json::from_str(row.try_get(1)?)
                    .map_err(|error| DbError::Corrupt { what: "event", reason: error.to_string() })?;
                Ok((row.try_get(0)?, event))
            })
            .collect()
    }
}

/// One try: another append to the same run may take the number in the meantime.
async fn insert(db: &Db, run_id: &str, text: &str) -> Result<(), DbError> {
    let mut tx = db.begin().await?;
    let row = sqlx::query(
        "INSERT INTO run_events (run_id, number, event)
         VALUES ($1, (SELECT COALESCE(max(number), 0) + 1 FROM run_events WHERE run_id = $1), $2) RETURNING number",
    )
    .bind(run_id)
    .bind(text)
    .fetch_one(&mut *tx)
    .await?;
    let number: i64 = row.try_get(0)?;
    sqlx::query("DELETE FROM run_events WHERE run_id = $1 AND number <= $2")
        .bind(run_id)
        .bind(number - KEPT)
        .execute(&mut *tx)
        .await?;
    tx.commit().await?;
    Ok(())
}
