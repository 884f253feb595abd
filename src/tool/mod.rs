//! Functions a model may call, and the box that validates, limits and clips them.

pub mod source;
pub mod checkout;
pub mod remote;
pub mod parameters;
pub mod read_file;
pub mod list_files;
pub mod search_code;
pub mod read_diff;
pub mod parse_code;
pub mod check;
pub mod toolbox;

use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::chat::ToolSpecification;
use crate::diff::FileDiff;
use source::SourceTree;

/// What a call can do to the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Risk {
    /// Looks. Runs at once.
    ReadOnly,
    /// Writes. Runs, audited, idempotent by key.
    Write,
    /// Cannot be taken back. Waits for a person.
    Destructive,
}

/// What a tool works on: one pull request, at one commit, for one file under review.
#[derive(Clone)]
pub struct ToolContext {
    /// The repository at the head commit, read-only.
    pub source: Arc<dyn SourceTree>,
    /// The files of the change.
    pub files: Arc<Vec<Arc<FileDiff>>>,
    /// The path under review, which `path` arguments default to; empty in threads about no file.
    pub path: String,
}

/// What a call brought: text for the model. Tools of secondlook answer with JSON text, so that the embedded model and
/// people's own eyes can read it too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    /// The text.
    pub text: String,
}

/// Why a call brought nothing. The text goes to the model, which may mend its call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolError {
    /// The arguments do not fit; says how they should be.
    #[error("bad arguments: {0}")]
    BadArguments(String),
    /// A passing fault: the toolbox tries up to 3 times itself.
    #[error("failed for now: {0}")]
    Transient(String),
    /// Not allowed, or not possible here.
    #[error("refused: {0}")]
    Refused(String),
}

/// A function a model may call.
#[async_trait]
pub trait Tool: Send + Sync {
    /// What a model is told of it.
    fn specification(&self) -> &ToolSpecification;

    /// What it can do to the world.
    fn risk(&self) -> Risk {
        Risk::ReadOnly
    }

    /// Does it. `arguments` fit the schema already.
    ///
    /// # Errors
    /// See [`ToolError`].
    async fn call(&self, arguments: &Value, cx: &ToolContext) -> Result<Observation, ToolError>;
}
