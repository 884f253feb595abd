//! What a review of a change came to: the one result that GitHub, the command line and scripts are given.

use serde::{Deserialize, Serialize};

use super::anchor::{Anchor, Unplaced};
use super::coverage::Coverage;
use super::finding::Finding;
use crate::chat::TokenUsage;

/// A finding that survived the second look.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reported {
    /// The finding.
    pub finding: Finding,
    /// Its identity over pushes.
    pub fingerprint: String,
    /// Its place, or why it has none (then it goes into the summary).
    pub place: Result<Anchor, Unplaced>,
    /// Markdown of a committable suggestion, when one applies.
    pub suggestion: Option<String>,
}

/// Scores of 0 to 100 by category, and their weighted total: security 30, performance 25, readability 25, best practice 20.
/// Correctness findings weigh on best practice and readability alike.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Score {
    /// Weighted.
    pub total: f64,
    /// Out of 100.
    pub security: f64,
    /// Out of 100.
    pub performance: f64,
    /// Out of 100.
    pub readability: f64,
    /// Out of 100.
    pub best_practice: f64,
}

/// The result of a review.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// What to say, best first, already merged, capped and above the severity floor.
    pub findings: Vec<Reported>,
    /// Findings that the cap left out; the summary counts them.
    pub capped: Vec<Reported>,
    /// What became of every file.
    pub coverage: Coverage,
    /// Marks.
    pub score: Score,
    /// What it cost.
    pub usage: TokenUsage,
    /// A short text about the change.
    pub summary: String,
    /// The id under which the runs are found again.
    pub trace_id: String,
}
