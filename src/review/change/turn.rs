//! The turns of the files of a change, or of groups of small ones: side by side, each with its share of what the change
//! may spend.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio_util::sync::CancellationToken;

use super::{Change, ChangedFile, Engine, Progress, ProgressSink};
use crate::agent::graph::RunError;
use crate::agent::limits::Budget;
use crate::diff::FileDiff;
use crate::review::file_review::together::review_together;
use crate::review::file_review::{self, FileReview, Stopped};
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

/// Gives every group of files its turn, in this order. What comes back is of each file, in the order in which they ended.
pub(super) async fn take_turns(
    order: Vec<Vec<usize>>,
    scene: &Scene<'_>,
    progress: &ProgressSink,
) -> Vec<(usize, Turn)> {
    let mut turns = Vec::with_capacity(order.len());
    let mut waiting = order.into_iter();
    let mut running: FuturesUnordered<BoxFuture<'_, Vec<(usize, Turn)>>> = FuturesUnordered::new();
    let side_by_side = scene.engine.limits.concurrent_files.max(1);
    loop {
        // A review is made when its turn comes: thousands of them at once would take more room than the change.
        while running.len() < side_by_side
            && let Some(group) = waiting.next()
        {
            let after = waiting.as_slice().iter().map(Vec::len).sum();
            running.push(Box::pin(take_turn(group, after, scene, progress)));
        }
        match running.next().await {
            Some(ended) => turns.extend(ended),
            None => return turns,
        }
    }
}

/// `after` is how many files have not begun yet when these have.
async fn take_turn(group: Vec<usize>, after: usize, scene: &Scene<'_>, progress: &ProgressSink) -> Vec<(usize, Turn)> {
    let files: Vec<&ChangedFile> = group.iter().filter_map(|at| scene.change.files.get(*at)).collect();
    let all = |turn: fn() -> Turn| group.iter().map(|at| (*at, turn())).collect();
    if scene.stop.is_cancelled() {
        return all(|| Turn::Stopped);
    }
    if scene.budget.time_left(scene.engine.clock.now()).is_zero() {
        return all(|| Turn::OutOf("the time for this review was used up"));
    }
    let left = scene.budget.tokens_left();
    if left == 0 {
        return all(|| Turn::OutOf("the token budget of this review was used up"));
    }
    files.iter().for_each(|file| progress(Progress::Started(file.file.diff.path.clone())));
    let reviews = match files.as_slice() {
        [file] => vec![file_review::review_file(file, scene, share(left, after, 1)).await],
        files => review_together(files, scene, share(left, after, files.len())).await,
    };
    files.iter().for_each(|file| progress(Progress::Finished(file.file.diff.path.clone())));
    let turn = |review| match review {
        Ok(review) => Turn::Reviewed(review),
        Err(Stopped::Asked) => Turn::Stopped,
        Err(Stopped::Later(error)) => Turn::Later(error),
    };
    group.into_iter().zip(reviews.into_iter().map(turn)).collect()
}

/// What the files of a turn may spend together of the tokens that are `left` when `after` files wait behind them: no
/// single one can use up what the others need, and one that is alone may use it all.
fn share(left: u64, after: usize, files: usize) -> u64 {
    let count = |files: usize| u64::try_from(files).unwrap_or(u64::MAX);
    let each = (left / count(after).saturating_add(count(files)).max(1)).saturating_mul(SHARES).max(LEAST_SHARE);
    left.min(each.saturating_mul(count(files)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_file_uses_up_what_the_others_need() {
        assert_eq!(share(5_000_000, 0, 1), 5_000_000);
        assert_eq!(share(5_000_000, 3, 1), 5_000_000);
        assert_eq!(share(5_000_000, 49, 1), 400_000);
        assert_eq!(share(5_000_000, 2_999, 1), LEAST_SHARE);
        assert_eq!(share(1_000, 49, 1), 1_000);
        assert_eq!(share(0, usize::MAX, 1), 0);
        assert_eq!(share(5_000_000, 42, 8), 8 * 400_000, "those of a group have what each of them would");
    }
}
