//! Where a run is saved after every node.

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

    /// Saves a run, replacing what was there.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn save(&self, run_id: &str, checkpoint: &Checkpoint) -> Result<(), DbError> {
        let _ = (&self.store, run_id, checkpoint);
        todo!()
    }

    /// The saved run, if any.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn load(&self, run_id: &str) -> Result<Option<Checkpoint>, DbError> {
        todo!("{run_id}")
    }

    /// Forgets the runs whose id begins with `prefix`.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn forget(&self, prefix: &str) -> Result<(), DbError> {
        todo!("{prefix}")
    }
}
