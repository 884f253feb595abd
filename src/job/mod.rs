//! The jobs: what each webhook leads to. A job reads GitHub afresh and stops if the head has moved on.

use serde::{Deserialize, Serialize};

use crate::github::Repository;

/// A pull request, as jobs name it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PullRef {
    /// The installation that may act there.
    pub installation: u64,
    /// The repository.
    pub repository: Repository,
    /// The number.
    pub number: u64,
}

/// Why a pull request is reviewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// Opened, reopened, or ready for review.
    Opened,
    /// New commits.
    Push,
    /// Another base branch.
    Retarget,
    /// A person asked for it: everything is reviewed again, drafts too.
    Asked,
}

/// Work that a webhook leads to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "job", rename_all = "snake_case")]
pub enum Job {
    /// Review a pull request, or what is new in it.
    ReviewPullRequest {
        /// Which.
        pull: PullRef,
        /// Why.
        trigger: Trigger,
    },
    /// Answer a comment in a review thread.
    ReplyToComment {
        /// Where.
        pull: PullRef,
        /// The comment to answer.
        comment: u64,
    },
    /// Carry out a command, or answer a question, from the timeline.
    RunCommand {
        /// Where.
        pull: PullRef,
        /// The comment that holds it.
        comment: u64,
    },
    /// Stop working on a pull request and record how it ended.
    ClosePullRequest {
        /// Which.
        pull: PullRef,
    },
    /// Report our check on a merge queue's commit, so that the queue never hangs on us.
    ReportMergeGroup {
        /// The installation that may act there.
        installation: u64,
        /// The repository.
        repository: Repository,
        /// The queue's head commit.
        head_sha: String,
    },
    /// Find the pull requests of a commit whose check was re-requested, and review them.
    RerunCheck {
        /// The installation that may act there.
        installation: u64,
        /// The repository.
        repository: Repository,
        /// The commit.
        head_sha: String,
    },
    /// Delete what is kept of repositories that were removed.
    ForgetRepositories {
        /// The installation they belonged to.
        installation: u64,
        /// Ids of the repositories; all of the installation when empty.
        repositories: Vec<u64>,
    },
}
