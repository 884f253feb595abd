//! Puts findings on lines that GitHub accepts, or says why not. Cannot fail, and never guesses.

use serde::{Deserialize, Serialize};

use super::finding::Finding;
use crate::diff::{FileDiff, Side};

/// The place on the diff of a finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Anchor {
    /// The side both lines count on.
    pub side: Side,
    /// First line; equal to `line` for a single one.
    pub start_line: u32,
    /// Last line.
    pub line: u32,
}

/// A finding with its place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Placed {
    /// The finding.
    pub finding: Finding,
    /// Its place.
    pub anchor: Anchor,
}

/// Why a finding has no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unplaced {
    /// It names another file.
    OtherFile,
    /// It quotes nothing.
    NoQuote,
    /// The quote stands nowhere on the commentable lines.
    QuoteNotFound,
    /// The quote stands several times and the line is none of them.
    Ambiguous,
    /// GitHub shows no diff of this file, so that no line of it can be commented on.
    NoDiff,
}

/// Findings with and without a place.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Anchored {
    /// With one.
    pub comments: Vec<Placed>,
    /// Without, and why.
    pub unanchored: Vec<(Finding, Unplaced)>,
}

/// Places findings of one file. A quote that stands once on the commentable lines is its own anchor, whatever `line`
/// says; one that stands several times is placed only where `line` is one of them; anything else is not placed.
pub fn anchor(findings: Vec<Finding>, diff: &FileDiff) -> Anchored {
    todo!("{findings:?}{diff:?}")
}
