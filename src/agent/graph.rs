//! StateGraph: a run is a path through a graph, saved after every node.

use tokio_util::sync::CancellationToken;

use super::checkpoint::Checkpoints;
use crate::chat::ChatError;
use crate::clock::SharedClock;
use crate::db::DbError;
use crate::event::store::EventLog;

/// What a run works with besides its graph.
#[derive(Clone)]
pub struct RunContext {
    /// The run's stable id.
    pub run_id: String,
    /// Where it is saved.
    pub checkpoints: Checkpoints,
    /// Where its events go.
    pub events: EventLog,
    /// Time.
    pub clock: SharedClock,
    /// Asks it to stop at the next checkpoint.
    pub stop: CancellationToken,
}

/// Why a run has no result.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Stopped at a checkpoint, to go on later.
    #[error("the run was interrupted")]
    Interrupted,
    /// The model gave no usable answer.
    #[error(transparent)]
    Model(#[from] ChatError),
    /// A limit of time, tokens, rounds or calls was reached.
    #[error("{0}")]
    Limit(String),
    /// The run could not be saved.
    #[error(transparent)]
    Store(#[from] DbError),
}
