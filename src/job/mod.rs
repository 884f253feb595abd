//! The jobs: what each webhook leads to. A job reads GitHub afresh and stops if the head has moved on.

mod check;
mod close_pull_request;
mod forget_repositories;
mod reach;
mod reconcile_pulls;
mod reply_to_comment;
mod report_merge_group;
mod rerun_check;
mod review_pull_request;
pub mod round;
mod run_command;
pub mod store;
mod talk;
pub mod worker;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::github::Repository;
use crate::queue::NewJob;
use crate::review::store::PullKey;

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

impl PullRef {
    /// The queue key under which everything that writes reviews of this pull request is kept apart.
    pub fn key(&self) -> String {
        format!("pull:{}:{}", self.repository.id, self.number)
    }

    /// By the ids that do not change.
    pub fn ids(&self) -> PullKey {
        PullKey { repository: self.repository.id, number: self.number, installation: self.installation }
    }
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
    /// A person asked for what is new: neither a draft nor a pause holds it up.
    AskedForNew,
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
    /// A round: ask GitHub for deliveries that did not arrive.
    FetchMissedDeliveries,
    /// A round: compare open pull requests with our records.
    ReconcilePulls,
    /// A round: delete the rows of deliveries that cannot come again.
    ForgetOldDeliveries,
}

impl Job {
    /// The sort of work, for the queue and for metrics. A review that a person asked for is a sort of its own, so that
    /// a push cannot replace it with a smaller one.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::ReviewPullRequest { trigger: Trigger::Asked, .. } => "review_asked",
            Self::ReviewPullRequest { trigger: Trigger::AskedForNew, .. } => "review_asked_for_new",
            Self::ReviewPullRequest { .. } => "review_pull_request",
            Self::ReplyToComment { .. } => "reply_to_comment",
            Self::RunCommand { .. } => "run_command",
            Self::ClosePullRequest { .. } => "close_pull_request",
            Self::ReportMergeGroup { .. } => "report_merge_group",
            Self::RerunCheck { .. } => "rerun_check",
            Self::ForgetRepositories { .. } => "forget_repositories",
            Self::FetchMissedDeliveries => "fetch_missed_deliveries",
            Self::ReconcilePulls => "reconcile_pulls",
            Self::ForgetOldDeliveries => "forget_old_deliveries",
        }
    }

    /// What must not be worked on twice at the same time: the pull request for reviews, the conversation for answers.
    pub fn key(&self) -> String {
        match self {
            Self::ReviewPullRequest { pull, .. } | Self::ClosePullRequest { pull } => pull.key(),
            Self::ReplyToComment { pull, comment } => format!("line-comment:{}:{comment}", pull.repository.id),
            // One timeline is one conversation: what is said there is done in its order.
            Self::RunCommand { pull, .. } => format!("timeline:{}:{}", pull.repository.id, pull.number),
            Self::ReportMergeGroup { repository, head_sha, .. } => format!("merge-group:{}:{head_sha}", repository.id),
            Self::RerunCheck { repository, head_sha, .. } => format!("commit:{}:{head_sha}", repository.id),
            Self::ForgetRepositories { installation, repositories } => {
                let ids: Vec<String> = repositories.iter().map(u64::to_string).collect();
                format!("installation:{installation}:{}", ids.join(","))
            }
            Self::FetchMissedDeliveries | Self::ForgetOldDeliveries => "deliveries".into(),
            Self::ReconcilePulls => "pulls".into(),
        }
    }

    /// What it does, as people say it: `review of acme/app#7`.
    pub fn in_words(&self) -> String {
        let pull = |pull: &PullRef| format!("{}#{}", pull.repository.full_name(), pull.number);
        let commit = |sha: &str| sha.get(..7).unwrap_or(sha).to_owned();
        match self {
            Self::ReviewPullRequest { pull: of, .. } => format!("review of {}", pull(of)),
            Self::ReplyToComment { pull: of, comment } => format!("answer to comment {comment} in {}", pull(of)),
            Self::RunCommand { pull: of, comment } => format!("command of comment {comment} in {}", pull(of)),
            Self::ClosePullRequest { pull: of } => format!("end of work on {}", pull(of)),
            Self::ReportMergeGroup { repository, head_sha, .. } => {
                format!("check of the merge queue of {} at {}", repository.full_name(), commit(head_sha))
            }
            Self::RerunCheck { repository, head_sha, .. } => {
                format!("re-run of the check of {} at {}", repository.full_name(), commit(head_sha))
            }
            Self::ForgetRepositories { installation, repositories } if repositories.is_empty() => {
                format!("deletion of what is kept of installation {installation}")
            }
            Self::ForgetRepositories { installation, repositories } => {
                let count = repositories.len();
                format!("deletion of what is kept of {count} removed repositories of installation {installation}")
            }
            Self::FetchMissedDeliveries => "search for deliveries that did not arrive".to_owned(),
            Self::ReconcilePulls => "comparison of open pull requests with what was reviewed".to_owned(),
            Self::ForgetOldDeliveries => "deletion of old deliveries".to_owned(),
        }
    }

    /// Whose turn it takes: that of its repository, among those of the installation. Rounds of our own are nobody's.
    fn tenant(&self) -> (u64, u64) {
        match self {
            Self::ReviewPullRequest { pull, .. }
            | Self::ReplyToComment { pull, .. }
            | Self::RunCommand { pull, .. }
            | Self::ClosePullRequest { pull } => (pull.installation, pull.repository.id),
            Self::ReportMergeGroup { installation, repository, .. }
            | Self::RerunCheck { installation, repository, .. } => (*installation, repository.id),
            Self::ForgetRepositories { installation, .. } => (*installation, 0),
            Self::FetchMissedDeliveries | Self::ReconcilePulls | Self::ForgetOldDeliveries => (0, 0),
        }
    }

    /// The job as the queue takes it, not before `run_at`. Reviews replace older ones of their key; the rest waits side
    /// by side.
    pub fn due(self, run_at: Timestamp) -> NewJob<Self> {
        let supersedes = matches!(self, Self::ReviewPullRequest { .. });
        let (installation, repository) = self.tenant();
        NewJob {
            kind: self.kind(),
            key: self.key(),
            owner: installation.to_string(),
            tenant: format!("{installation}/{repository}"),
            run_at,
            supersedes,
            job: self,
        }
    }
}
