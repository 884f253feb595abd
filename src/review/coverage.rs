//! Which files were reviewed, which were not, and why. Silence about a file is a fault.

use serde::{Deserialize, Serialize};

/// What became of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum FileCoverage {
    /// Reviewed in this round.
    Reviewed,
    /// Reviewed before, and unchanged since.
    Unchanged,
    /// Left out by configuration (ignored path, generated, vendored, a draft rule).
    Excluded {
        /// Which rule.
        reason: String,
    },
    /// Nothing in it to review (binary, pure rename, mode change, submodule, deleted).
    NothingToReview {
        /// What it is.
        reason: String,
    },
    /// Should have been reviewed and was not: the check is then never green.
    NotReviewed {
        /// Why.
        reason: String,
    },
}

/// What became of every file of a change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Coverage {
    /// By path, in the order of the change.
    pub files: Vec<CoveredFile>,
    /// Files GitHub did not even list (beyond its 3,000).
    pub unlisted: u64,
}

/// One file's line in the coverage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CoveredFile {
    /// The file.
    pub path: String,
    /// What became of it.
    #[serde(flatten)]
    pub coverage: FileCoverage,
}

impl Coverage {
    /// Whether everything that should have been reviewed was.
    pub fn complete(&self) -> bool {
        self.unlisted == 0 && !self.files.iter().any(|f| matches!(f.coverage, FileCoverage::NotReviewed { .. }))
    }
}
