//! The review of one file: the task that the reflective reviewer works on.

use tokio_util::sync::CancellationToken;

use super::change::{Change, ChangedFile, Engine};
use super::finding::Finding;
use super::policy::Policy;
use crate::chat::TokenUsage;

/// What the review of one file came to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FileReview {
    /// What survived the second look.
    pub findings: Vec<Finding>,
    /// The model's word on the file.
    pub summary: String,
    /// Why the file does not count as reviewed, if it does not: the model failed, its answer was unusable or cut, a
    /// limit was reached. Findings beside it are good all the same.
    pub problem: Option<String>,
    /// What it cost.
    pub usage: TokenUsage,
    /// Rounds of draft and critique.
    pub rounds: u32,
}

/// Reviews one file, from its checkpoint if it has one. `tokens_left` is what the change's budget still holds.
///
/// # Errors
/// When `stop` was cancelled; the run goes on from its checkpoint next time.
pub async fn review_file(
    file: &ChangedFile,
    change: &Change,
    policy: &Policy,
    engine: &Engine,
    tokens_left: u64,
    stop: &CancellationToken,
) -> Result<FileReview, Stopped> {
    let _ = (file, change, policy, engine, tokens_left, stop);
    todo!()
}

/// The review was interrupted at a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped;
