//! What an agent run is doing, as events that people can watch and resume from.

pub mod store;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The explicit state of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// Not begun.
    Idle,
    /// A model is asked.
    Thinking,
    /// Tools run.
    ToolCalling,
    /// A person has to decide.
    WaitingApproval,
    /// The result is being written.
    Responding,
    /// Ended well.
    Done,
    /// Ended with an error.
    Error,
}

/// Something that happened in a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunEvent {
    /// The run it belongs to.
    pub run_id: String,
    /// When.
    pub at: Timestamp,
    /// The state after it.
    pub state: RunState,
    /// The node of the graph.
    pub node: String,
    /// A short text for people; never code, prompts or secrets.
    pub detail: String,
}
