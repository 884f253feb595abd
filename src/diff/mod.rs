//! What changed in a file, line by line, and which of those lines GitHub lets a comment stand on.
//!
//! Nothing here assumes an encoding, a line separator other than `\n`, or a sane file name: `\r`, U+2028 and friends
//! are content.

pub mod follow;
pub mod interdiff;
pub mod make;
pub mod parse;

use serde::{Deserialize, Serialize};

/// Which version of a file a line number counts in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum Side {
    /// The old version: only removed lines can be commented on there.
    Left,
    /// The new version: added and context lines.
    Right,
}

/// What happened to a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LineKind {
    /// Unchanged, shown around a change.
    Context,
    /// Only in the new version.
    Added,
    /// Only in the old version.
    Removed,
}

/// One line of a hunk. `text` is without the marker column and without the final `\n`; a `\r` stays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiffLine {
    /// What happened to the line.
    pub kind: LineKind,
    /// Its 1-based number in the old file; `None` for added lines.
    pub old: Option<u32>,
    /// Its 1-based number in the new file; `None` for removed lines.
    pub new: Option<u32>,
    /// The line's content.
    pub text: String,
    /// True when the file ends here without a final newline.
    pub no_newline: bool,
}

/// A run of neighbouring lines with their numbers, as between two `@@` headers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hunk {
    /// First line in the old file (0 when the old side is empty).
    pub old_start: u32,
    /// Number of lines on the old side.
    pub old_count: u32,
    /// First line in the new file (0 when the new side is empty).
    pub new_start: u32,
    /// Number of lines on the new side.
    pub new_count: u32,
    /// The lines in order.
    pub lines: Vec<DiffLine>,
}

/// How a file as a whole changed, in GitHub's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileStatus {
    /// New file.
    Added,
    /// Deleted file.
    Removed,
    /// Content changed in place.
    Modified,
    /// Moved, with or without edits.
    Renamed,
    /// Copied from another file.
    Copied,
    /// Its type changed (file, symlink, submodule).
    Changed,
    /// Listed, but nothing changed.
    Unchanged,
}

/// The change of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileDiff {
    /// The path in the new version (in the old one for a removed file), exactly as GitHub spells it.
    pub path: String,
    /// The path before a rename or copy.
    pub old_path: Option<String>,
    /// How the file changed.
    pub status: FileStatus,
    /// The hunks in order; empty when there is no textual change to show.
    pub hunks: Vec<Hunk>,
}

impl FileDiff {
    /// Every line a comment may stand on: added and context lines on the right, removed lines on the left.
    /// A context line on the left is not documented by GitHub, so it is not offered.
    pub fn commentable(&self) -> impl Iterator<Item = Commentable<'_>> {
        self.hunks.iter().enumerate().flat_map(|(hunk, h)| {
            h.lines.iter().filter_map(move |line| {
                let (side, number) = match line.kind {
                    LineKind::Removed => (Side::Left, line.old?),
                    LineKind::Added | LineKind::Context => (Side::Right, line.new?),
                };
                Some(Commentable { hunk, side, line: number, kind: line.kind, text: &line.text })
            })
        })
    }

    /// Numbers of added and removed lines.
    pub fn counts(&self) -> (usize, usize) {
        let lines = || self.hunks.iter().flat_map(|h| &h.lines);
        let added = lines().filter(|l| l.kind == LineKind::Added).count();
        let removed = lines().filter(|l| l.kind == LineKind::Removed).count();
        (added, removed)
    }
}

/// A line that GitHub accepts a comment on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Commentable<'a> {
    /// Index of the hunk: a range must stay within one.
    pub hunk: usize,
    /// The side its number counts on.
    pub side: Side,
    /// The 1-based line number on that side.
    pub line: u32,
    /// What happened to it.
    pub kind: LineKind,
    /// Its content.
    pub text: &'a str,
}
