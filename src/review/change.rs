//! A change under review, wherever it came from: a pull request, a git range, a diff file.

use std::sync::Arc;

use crate::agent::checkpoint::Checkpoints;
use crate::chat::router::Router;
use crate::clock::SharedClock;
use crate::event::store::EventLog;
use crate::github::PullFile;
use crate::review::finding::Finding;
use crate::review::policy::Policy;
use crate::review::report::Report;
use crate::tool::source::SourceTree;
use tokio_util::sync::CancellationToken;

/// One file of a change, and how much of it is to be reviewed.
#[derive(Debug, Clone)]
pub struct ChangedFile {
    /// The file and its hunks.
    pub file: PullFile,
    /// Indices of the hunks to review; the others were reviewed before and are context only.
    pub new_hunks: Vec<usize>,
    /// Findings of earlier rounds on this file, whatever became of them: not to be said again.
    pub known: Vec<Finding>,
}

/// A change.
#[derive(Clone)]
pub struct Change {
    /// Stable for this (pull request, base, head): runs are saved and resumed under it.
    pub id: String,
    /// Title; untrusted.
    pub title: String,
    /// Description; untrusted.
    pub description: String,
    /// Base commit, or what stands for it.
    pub base: String,
    /// Head commit, or what stands for it.
    pub head: String,
    /// Its files.
    pub files: Vec<ChangedFile>,
    /// Files that could not be listed.
    pub unlisted: u64,
    /// The repository at the head.
    pub source: Arc<dyn SourceTree>,
}

/// What a review works with. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    /// Models by role.
    pub models: Arc<Router>,
    /// Where runs are saved.
    pub checkpoints: Checkpoints,
    /// Where their events go.
    pub events: EventLog,
    /// Time.
    pub clock: SharedClock,
    /// Sizes and times.
    pub limits: Limits,
}

/// Sizes and times of a review.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Files reviewed at the same time.
    pub concurrent_files: usize,
    /// Most rounds of draft and critique.
    pub max_rounds: u32,
    /// Whole time of a change.
    pub review_time: std::time::Duration,
    /// Most tokens (input and output) of a change.
    pub review_tokens: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            concurrent_files: 8,
            max_rounds: 5,
            review_time: std::time::Duration::from_secs(20 * 60),
            review_tokens: 5_000_000,
        }
    }
}

/// What a review tells while it works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// A file's review began.
    Started(String),
    /// A file's review ended.
    Finished(String),
}

/// Takes progress; called from many tasks.
pub type ProgressSink = Arc<dyn Fn(Progress) + Send + Sync>;

/// The review was asked to stop at a checkpoint; it can go on from there. Holds what is finished so far.
#[derive(Debug)]
pub struct Interrupted {
    /// The part that was finished, for callers that want it (Ctrl-C on the command line).
    pub partial: Box<Report>,
}

/// Reviews a change: every file by the reflective reviewer with bounded concurrency, then merged, ranked and capped.
/// A file that fails is named in the coverage; it never takes the others with it.
///
/// # Errors
/// [`Interrupted`] when `stop` was cancelled.
pub async fn review_change(
    change: &Change,
    policy: &Policy,
    engine: &Engine,
    stop: &CancellationToken,
    progress: &ProgressSink,
) -> Result<Report, Interrupted> {
    let _ = (change, policy, engine, stop, progress);
    todo!()
}
