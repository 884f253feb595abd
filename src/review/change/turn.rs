//! The turns of the files of a change: side by side, each with its share of what the change may spend.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio_util::sync::CancellationToken;

use super::{Change, ChangedFile, Engine, Progress, ProgressSink};
use crate::agent::graph::RunError;
use crate::agent::limits::Budget;
use crate::diff::FileDiff;
use crate::review::file_review::{self, FileReview};
use crate::review::policy::Policy;

/// How many times its even share of what is left one file may spend: most files need far less than theirs.
const SHARES: u64 = 4;

/// Tokens that a file may spend however many others wait: less would not carry a single draft with its tools. The files
/// come in order of risk, so what is missing in the end is missing where it costs least.
const LEAST_SHARE: u64 = 60_000;

/// What the reviews of all files of a change share.
pub struct Scene<'a> {
    /// The change.
    pub change: &'a Change,
    /// How its repository wants to be reviewed.
    pub policy: &'a Policy,
    /// What the review works with.
    pub engine: &'a Engine,
    /// Asks it to stop at the next checkpoint.
    pub stop: &'a CancellationToken,
    /// The changes of all its files, for tools.
    pub diffs: Arc<Vec<Arc<FileDiff>>>,
    /// What all files together may spend.
    pub budget: Budget,
}

impl<'a> Scene<'a> {
    /// The scene of a review that begins now.
    pub fn new(change: &'a Change, policy: &'a Policy, engine: &'a Engine, stop: &'a CancellationToken) -> Self {
        let most = policy.budget.review(engine.limits.review);
        let budget = Budget::new(most, engine.limits.review_time, engine.clock.now()).booked_on(engine.purse.clone());
        Self { change, policy, engine, stop, diffs: Arc::new(change.diffs()), budget }
    }
}

/// What became of one file's turn.
pub(super) enum Turn {
    Reviewed(FileReview),
    OutOf(&'static str),
    Stopped,
    Later(RunError),
}

/// Gives every file its turn, in this order. What comes back is in the order in which they ended.
pub(super) async fn take_turns(order: Vec<usize>, scene: &Scene<'_>, progress: &ProgressSink) -> Vec<(usize, Turn)> {
    let mut turns = Vec::with_capacity(order.len());
    let mut waiting = order.into_iter();
    let mut running: FuturesUnordered<BoxFuture<'_, (usize, Turn)>> = FuturesUnordered::new();
    let side_by_side = scene.engine.limits.concurrent_files.max(1);
    loop {
        // A review is made when its turn comes: thousands of them at once would take more room than the change.
        while running.len() < side_by_side
            && let Some(at) = waiting.next()
        {
            let Some(file) = scene.change.files.get(at) else { continue };
            let after = waiting.len();
            running.push(Box::pin(async move { (at, take_turn(file, after, scene, progress).await) }));
        }
        match running.next().await {
            Some(turn) => turns.push(turn),
            None => return turns,
        }
    }
}

/// `after` is how many files have not begun yet when this one has.
async fn take_turn(file: &ChangedFile, after: usize, scene: &Scene<'_>, progress: &ProgressSink) -> Turn {
    if scene.stop.is_cancelled() {
        return Turn::Stopped;
    }
    if scene.budget.time_left(scene.engine.clock.now()).is_zero() {
        return Turn::OutOf("the time for this review was used up");
    }
    let left = scene.budget.tokens_left();
    if left == 0 {
        return Turn::OutOf("the token budget of this review was used up");
    }
    let path = &file.file.diff.path;
    progress(Progress::Started(path.clone()));
    let turn = match file_review::review_file(file, scene, share(left, after)).await {
        Ok(review) => Turn::Reviewed(review),
        Err(file_review::Stopped::Asked) => Turn::Stopped,
        Err(file_review::Stopped::Later(error)) => Turn::Later(error),
    };
    progress(Progress::Finished(path.clone()));
    turn
}

/// What one file may spend of the tokens that are `left` when `after` files wait behind it: no single file can use up
/// what the others need, and a file that is alone may use it all.
fn share(left: u64, after: usize) -> u64 {
    let files = u64::try_from(after).unwrap_or(u64::MAX).saturating_add(1);
    left.min((left / files).saturating_mul(SHARES).max(LEAST_SHARE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_file_uses_up_what_the_others_need() {
        assert_eq!(share(5_000_000, 0), 5_000_000);
        assert_eq!(share(5_000_000, 3), 5_000_000);
        assert_eq!(share(5_000_000, 49), 400_000);
        assert_eq!(share(5_000_000, 2_999), LEAST_SHARE);
        assert_eq!(share(1_000, 49), 1_000);
        assert_eq!(share(0, usize::MAX), 0);
    }
}
