//! GitHub, as far as a reviewer needs it: our own plain structs, and a client whose errors say whether to try again.
//!
//! How the platform really behaves (limits, truncations, all-or-nothing reviews) is noted where it is handled.

pub mod auth;
pub mod breaker;
mod checks;
pub mod client;
mod comments;
mod contents;
pub mod deliveries;
pub mod endpoint;
pub mod error;
pub mod etag;
mod files;
mod identity;
mod people;
pub mod pulls;
pub mod rate;
mod repository;
mod reviews;
pub mod skew;
pub mod store;
mod token;
pub mod wire;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::diff::{FileDiff, Side};

/// A repository by its stable id and its present name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Repository {
    /// Stable over renames and transfers.
    pub id: u64,
    /// The account it belongs to.
    pub owner: String,
    /// Its name.
    pub name: String,
}

impl Repository {
    /// `owner/name`.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.owner, self.name)
    }
}

/// A person or a bot. GitHub sends `null` for deleted accounts, hence `Option<User>` wherever one is named.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct User {
    /// Stable id.
    pub id: u64,
    /// Present name.
    pub login: String,
    /// True for apps and machine accounts (`type: Bot`).
    pub is_bot: bool,
}

/// A pull request, read afresh.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PullRequest {
    /// Its number in the repository.
    pub number: u64,
    /// Title, written by anybody: untrusted.
    pub title: String,
    /// Description, written by anybody: untrusted.
    pub body: String,
    /// Who opened it.
    pub author: Option<User>,
    /// Open and not merged.
    pub open: bool,
    /// Merged.
    pub merged: bool,
    /// Still a draft.
    pub draft: bool,
    /// Head commit.
    pub head_sha: String,
    /// Commit of the base branch that GitHub compares with.
    pub base_sha: String,
    /// Name of the base branch.
    pub base_ref: String,
    /// Whether the head lies in another repository; `true` also when that one is gone (an untrusted fork).
    pub from_fork: bool,
    /// How many files GitHub counts.
    pub changed_files: u64,
}

/// Why a listed file has no usable patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoPatch {
    /// A binary file, or one that is not UTF-8.
    Binary,
    /// Renamed or copied without edits, or only the mode changed: there is no text to review.
    NoTextChange,
    /// Larger than we diff ourselves.
    TooLarge,
    /// A submodule: a commit, not a file.
    Submodule,
    /// Text, but not in UTF-8: its lines cannot be quoted.
    NotUtf8,
}

/// A file of a pull request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullFile {
    /// The change. Without hunks when `no_patch` says why. Shared: of a large change there is one copy only.
    pub diff: Arc<FileDiff>,
    /// Blob of the new version, when GitHub names it.
    pub blob_sha: Option<String>,
    /// Set when there is nothing line by line.
    pub no_patch: Option<NoPatch>,
    /// True when GitHub sent no patch (file or answer too large) and the hunks were diffed here: GitHub then accepts no
    /// line comment on this file.
    pub self_made: bool,
}

/// Files of a pull request, and whether GitHub's 3,000 file limit cut the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullFiles {
    /// In GitHub's order.
    pub files: Vec<PullFile>,
    /// Files GitHub did not list.
    pub unlisted: u64,
}

/// One line comment of a review to be posted. GitHub wants `start_line < line`, so a single line has no start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewComment {
    /// Path in the diff.
    pub path: String,
    /// Last line.
    pub line: u32,
    /// Side of `line`.
    pub side: Side,
    /// First line of a range, strictly before `line`, on the same side and in the same hunk.
    pub start_line: Option<u32>,
    /// Markdown.
    pub body: String,
}

/// What a review does to the pull request's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ReviewEvent {
    /// Only says something.
    Comment,
    /// Blocks the merge until dismissed.
    RequestChanges,
}

/// A review to be posted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewReview {
    /// The head commit the comments refer to.
    pub commit_id: String,
    /// Markdown; required by GitHub.
    pub body: String,
    /// Its effect.
    pub event: ReviewEvent,
    /// Its line comments.
    pub comments: Vec<NewComment>,
}

/// A review as GitHub lists it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Review {
    /// Its id.
    pub id: u64,
    /// Who wrote it.
    pub author: Option<User>,
    /// Markdown.
    pub body: String,
    /// Not yet submitted; visible to its author only.
    pub pending: bool,
    /// The commit GitHub shows it at: re-pointed after a force-push, so never trusted as "the head we reviewed".
    pub commit_id: Option<String>,
}

/// A line comment as GitHub lists it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReviewComment {
    /// Its id.
    pub id: u64,
    /// The thread's first comment; `None` when this is it.
    pub in_reply_to: Option<u64>,
    /// The review it came with.
    pub review_id: Option<u64>,
    /// Who wrote it.
    pub author: Option<User>,
    /// Markdown.
    pub body: String,
    /// Path.
    pub path: String,
    /// Present line; `None` when outdated or for a file comment.
    pub line: Option<u32>,
    /// The line it was made for.
    pub original_line: Option<u32>,
    /// Side of the line.
    pub side: Option<Side>,
    /// The diff around it, as GitHub shows it.
    pub diff_hunk: String,
    /// When it was made (RFC 3339).
    pub created_at: String,
    /// When it was last edited (RFC 3339).
    pub updated_at: String,
}

/// A comment on the pull request's timeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IssueComment {
    /// Its id.
    pub id: u64,
    /// Who wrote it.
    pub author: Option<User>,
    /// Markdown.
    pub body: String,
    /// When it was last edited (RFC 3339).
    pub updated_at: String,
}

/// How far a check run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckStatus {
    /// Being worked on.
    InProgress,
    /// Ended; `conclusion` is then required.
    Completed,
}

/// How a check run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Conclusion {
    /// Everything was reviewed, and nothing reaches the configured severity.
    Success,
    /// Something was not reviewed, or only advice was given.
    Neutral,
    /// A finding reaches the configured severity.
    Failure,
    /// Overtaken by a newer head.
    Cancelled,
    /// Configured away.
    Skipped,
}

/// A check run to be created or updated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckRun {
    /// The commit.
    pub head_sha: String,
    /// How far.
    pub status: CheckStatus,
    /// How it ended.
    pub conclusion: Option<Conclusion>,
    /// One line (at most 255 characters).
    pub title: String,
    /// Markdown (at most 65,535 characters).
    pub summary: String,
    /// Our key, so that our own run is found again.
    pub external_id: String,
    /// A page with more.
    pub details_url: Option<String>,
}

/// What a person may do in a repository, in rising order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Permission {
    /// Nothing.
    None,
    /// See.
    Read,
    /// Label, request reviews.
    Triage,
    /// Push.
    Write,
    /// Manage.
    Maintain,
    /// Everything.
    Admin,
}

/// What came of fetching a file's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileText {
    /// Its text.
    Text(String),
    /// There is no such file at that commit.
    Missing,
    /// It is binary or not UTF-8.
    NotText,
    /// Larger than the given limit.
    TooLarge,
}
