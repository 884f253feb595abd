//! Makes hunks from two texts, for files that GitHub sends without a patch.

use super::Hunk;

/// Context lines around a change, as `git diff -U3`.
pub const CONTEXT_LINES: usize = 3;

/// The hunks between two texts, in the form GitHub would show (3 context lines, hunks one line apart are joined).
pub fn make_hunks(old: &str, new: &str) -> Vec<Hunk> {
    todo!("{old}{new}")
}
