//! Compares two diffs of the same pull request with each other, so that a push, a rebase or a force-push is reviewed
//! only where it brought something new.

use std::collections::BTreeSet;

use super::FileDiff;

/// The identity of a hunk: its path and changed lines, wherever it stands. Survives rebases.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct HunkKey(pub String);

/// The keys of a file's hunks, in order.
pub fn hunk_keys(file: &FileDiff) -> Vec<HunkKey> {
    todo!("{file:?}")
}

/// Indices of the hunks of `file` that are not among those already reviewed.
pub fn new_hunks(file: &FileDiff, reviewed: &BTreeSet<HunkKey>) -> Vec<usize> {
    todo!("{file:?}{reviewed:?}")
}
