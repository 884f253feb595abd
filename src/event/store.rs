//! The event log's SQL.

use super::RunEvent;
use crate::db::{Db, DbError};

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
        let _ = (&self.db, event);
        todo!()
    }

    /// Events of a run after the given event number, oldest first, each with its number.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn after(&self, run_id: &str, number: i64) -> Result<Vec<(i64, RunEvent)>, DbError> {
        todo!("{run_id}{number}")
    }
}
