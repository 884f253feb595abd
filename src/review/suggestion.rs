//! Whether a replacement can be offered as a committable suggestion, and its Markdown.

use super::anchor::Placed;

/// The suggestion block for a placed finding, or `None` when it would not apply cleanly: it needs the right side, the
/// replaced lines equal to the head file's text, the same indentation style, no diff markers, a real change, LF only,
/// and code that parses at least as well as before. `head` is the whole file at the head commit.
pub fn suggestion(placed: &Placed, head: &str) -> Option<String> {
    todo!("{placed:?}{head}")
}
