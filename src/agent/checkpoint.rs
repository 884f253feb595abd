//! Where a run is saved after every node.

use sqlx::Row;

use crate::clock::SharedClock;
use crate::db::{Db, DbError};

/// A saved run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// The graph's name, so that a state is never read by another graph.
    pub graph: String,
    /// The node to visit next; `None` when the run has ended.
    pub next: Option<String>,
    /// The state, JSON.
    pub state: String,
}

/// Saved runs: in the database, or nowhere (the command line, where a run does not outlive its process).
#[derive(Clone, Default)]
pub struct Checkpoints {
    store: Option<(Db, SharedClock)>,
}

impl Checkpoints {
    /// In `db`.
    pub fn new(db: Db, clock: SharedClock) -> Self {
        Self { store: Some((db, clock)) }
    }

    /// Whether a run can go on from here later.
    pub fn are_kept(&self) -> bool {
        self.store.is_some()
    }

    /// Saves a run, replacing what was there.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn save(&self, run_id: &str, checkpoint: &Checkpoint) -> Result<(), DbError> {
        let Some((db, clock)) = &self.store else { return Ok(()) };
        sqlx::query(
            "INSERT INTO checkpoints (run_id, graph, next, state, updated_at) VALUES ($1, $2, $3, $4, $5)
             ON CONFLICT (run_id) DO UPDATE SET graph = excluded.graph, next = excluded.next, state = excluded.state,
               updated_at = excluded.updated_at",
        )
        .bind(run_id)
        .bind(&checkpoint.graph)
        .bind(checkpoint.next.as_deref())
        .bind(&checkpoint.state)
        .bind(clock.now().as_millisecond())
        .execute(db.writer())
        .await?;
        Ok(())
    }

    /// The saved run, if any.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn load(&self, run_id: &str) -> Result<Option<Checkpoint>, DbError> {
        let Some((db, _)) = &self.store else { return Ok(None) };
        let row = sqlx::query("SELECT graph, next, state FROM checkpoints WHERE run_id = $1")
            .bind(run_id)
            .fetch_optional(db.reader())
            .await?;
        let Some(row) = row else { return Ok(None) };
        Ok(Some(Checkpoint { graph: row.try_get(0)?, next: row.try_get(1)?, state: row.try_get(2)? }))
    }

    /// Forgets the runs whose id begins with `prefix`.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn forget(&self, prefix: &str) -> Result<(), DbError> {
        let Some((db, _)) = &self.store else { return Ok(()) };
        sqlx::query("DELETE FROM checkpoints WHERE substr(run_id, 1, length($1)) = $1")
            .bind(prefix)
            .execute(db.writer())
            .await?;
        Ok(())
    }
}
