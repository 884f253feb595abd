//! `.github/secondlook.yml`: how a repository wants to be reviewed. Always read from the base branch.

use serde::{Deserialize, Serialize};

use super::finding::Severity;

/// A repository's rules, with defaults for everything.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// How to review.
    pub review: ReviewPolicy,
    /// Which files.
    pub paths: PathPolicy,
}

impl Default for Policy {
    fn default() -> Self {
        Self { review: ReviewPolicy::default(), paths: PathPolicy::default() }
    }
}

/// `review:`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ReviewPolicy {
    /// Review drafts too.
    pub drafts: bool,
    /// Findings below this are not said.
    pub severity_floor: Severity,
    /// Most line comments of one round.
    pub max_comments: usize,
    /// Post REQUEST_CHANGES instead of COMMENT when a finding is at or above this.
    pub request_changes: Option<Severity>,
    /// The check fails when a finding is at or above this; it never fails without.
    pub fail_on: Option<Severity>,
}

impl Default for ReviewPolicy {
    fn default() -> Self {
        Self { drafts: false, severity_floor: Severity::Minor, max_comments: 12, request_changes: None, fail_on: None }
    }
}

/// `paths:`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PathPolicy {
    /// Globs that are not reviewed.
    pub ignore: Vec<String>,
    /// What to look at in some paths.
    pub instructions: Vec<PathInstruction>,
}

/// An instruction for some paths.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PathInstruction {
    /// Glob.
    pub path: String,
    /// What the reviewer should know or look for.
    pub text: String,
}
