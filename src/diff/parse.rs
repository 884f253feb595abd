//! Reads patches. Total: what cannot be read becomes a complaint, never an error and never a guess.

use super::{FileDiff, Hunk};

/// Something in a patch that could not be read, and was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint {
    /// 1-based line of the patch text.
    pub line: usize,
    /// What is wrong, in a sentence.
    pub message: String,
}

/// The hunks of a GitHub `patch` field: no file header, no final newline.
pub fn parse_patch(patch: &str) -> (Vec<Hunk>, Vec<Complaint>) {
    todo!("{patch}")
}

/// The files of a unified diff as `git diff` prints it (file headers, renames, quoted names, binary notices).
pub fn parse_unified(diff: &[u8]) -> (Vec<FileDiff>, Vec<Complaint>) {
    todo!("{diff:?}")
}
