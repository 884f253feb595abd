//! Does the jobs, and says what became of them in the queue's words.

use std::time::Duration;

use async_trait::async_trait;

use super::reach::{Fate, fate};
use super::{
    Job, close_pull_request, forget_repositories, reconcile_pulls, reply_to_comment, report_merge_group, rerun_check,
    review_pull_request, round, run_command,
};
use crate::agent::graph::RunError;
use crate::app::App;
use crate::db::{DbError, Tx};
use crate::github::Repository;
use crate::github::client::{GitHubApp, RepositoryClient};
use crate::github::error::GitHubError;
use crate::queue::Lease;
use crate::queue::store::{Outcome, Queue};
use crate::queue::worker::{Handler, Stop};
use crate::retry::{Retry, backoff};
use crate::review::publish::PublishError;
use crate::review::store::PullStore;

/// The handler of all jobs.
pub struct Worker {
    /// What they work with.
    pub(super) app: App,
    /// Where they put further jobs.
    pub(super) queue: Queue<Job>,
}

/// How a job ended that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// Nothing is left to do.
    Done,
    /// Stopped at a checkpoint, to be gone on with.
    Stopped,
}

/// Why a job could not be done now, or at all.
#[derive(Debug, thiserror::Error)]
pub(super) enum JobError {
    /// There is no App yet.
    #[error("no GitHub App is configured; open the set-up page or give an App id and a private key")]
    NotConfigured,
    /// GitHub failed or refused.
    #[error(transparent)]
    GitHub(#[from] GitHubError),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] DbError),
    /// Files could not be reviewed for now; the wait is the least there is.
    #[error("{0}")]
    PutOff(RunError, Duration),
    /// The agent gave no answer.
    #[error(transparent)]
    Run(#[from] RunError),
}

impl JobError {
    fn retry(&self) -> Retry {
        match self {
            Self::NotConfigured => Retry::Backoff,
            Self::GitHub(error) => error.retry(),
            Self::Store(error) => error.retry(),
            Self::Run(error) => error.retry(),
            Self::PutOff(error, least) => match error.retry() {
                Retry::After(wait) => Retry::After(wait.max(*least)),
                Retry::Backoff | Retry::Never => Retry::After(*least),
            },
        }
    }
}

impl JobError {
    /// Whether nothing failed: GitHub takes requests again later, and the job has to wait however often it comes too early.
    fn waits_for_github(&self) -> bool {
        matches!(
            self,
            Self::GitHub(GitHubError::RateLimited { .. } | GitHubError::Resting { .. } | GitHubError::Reserved { .. })
        )
    }
}

impl From<PublishError> for JobError {
    fn from(error: PublishError) -> Self {
        match error {
            PublishError::GitHub(error) => Self::GitHub(error),
            PublishError::Store(error) => Self::Store(error),
        }
    }
}

impl Worker {
    /// A worker on `app` that puts further jobs into `queue`.
    pub fn new(app: App, queue: Queue<Job>) -> Self {
        Self { app, queue }
    }

    /// The App on GitHub.
    pub(super) fn github(&self) -> Result<GitHubApp, JobError> {
        self.app.github.get().ok_or(JobError::NotConfigured)
    }

    /// A client for a repository, which writes only while the job's lease is held.
    pub(super) fn client(
        &self,
        installation: u64,
        repository: &Repository,
        stop: &Stop,
    ) -> Result<RepositoryClient, JobError> {
        Ok(self.github()?.repository(installation, repository).while_held(stop.tenure.clone()))
    }

    /// What is kept of pull requests, written only while the job's lease is held.
    pub(super) fn pulls(&self, stop: &Stop) -> PullStore {
        self.app.pulls().while_held(stop.tenure.clone())
    }

    /// Puts a job into the queue, due now.
    pub(super) async fn enqueue(&self, job: Job) -> Result<(), JobError> {
        let mut tx = self.app.db.begin().await?;
        self.enqueue_in(&mut tx, job).await?;
        tx.commit().await.map_err(DbError::from)?;
        self.queue.announce();
        Ok(())
    }

    /// The same within a transaction of the caller, who announces it after the commit.
    pub(super) async fn enqueue_in(&self, tx: &mut Tx<'_>, job: Job) -> Result<(), JobError> {
        self.queue.enqueue(tx, &job.due(self.app.clock.now())).await?;
        Ok(())
    }

    /// Puts a job into the queue, due after `wait`.
    pub(super) async fn enqueue_after(&self, job: Job, wait: jiff::SignedDuration) -> Result<(), JobError> {
        let now = self.app.clock.now();
        let mut tx = self.app.db.begin().await?;
        self.queue.enqueue(&mut tx, &job.due(now.checked_add(wait).unwrap_or(now))).await?;
        tx.commit().await.map_err(DbError::from)?;
        Ok(())
    }

    async fn work(&self, lease: &Lease<Job>, stop: &Stop) -> Result<End, JobError> {
        match &lease.job {
            Job::ReviewPullRequest { pull, trigger } => {
                review_pull_request::run(self, pull, *trigger, lease, stop).await
            }
            Job::ReplyToComment { pull, comment } => reply_to_comment::run(self, pull, *comment, stop).await,
            Job::RunCommand { pull, comment } => run_command::run(self, pull, *comment, stop).await,
            Job::ClosePullRequest { pull } => close_pull_request::run(self, pull, stop).await,
            Job::ReportMergeGroup { installation, repository, head_sha } => {
                report_merge_group::run(self, *installation, repository, head_sha, stop).await
            }
            Job::RerunCheck { installation, repository, head_sha } => {
                rerun_check::run(self, *installation, repository, head_sha).await
            }
            Job::ForgetRepositories { installation, repositories } => {
                forget_repositories::run(self, *installation, repositories, stop).await
            }
            Job::ReconcilePulls => {
                if reconcile_pulls::run(self, stop).await? {
                    let now = self.app.clock.now();
                    round::call(&self.app.db, &self.queue, &lease.job, round::SOON, now).await?;
                }
                Ok(End::Done)
            }
            // Done by the intake's own worker, which knows deliveries.
            Job::FetchMissedDeliveries | Job::ForgetOldDeliveries => Ok(End::Done),
        }
    }

    /// What the queue is to do about an error.
    async fn after(&self, lease: &Lease<Job>, error: JobError) -> Outcome {
        let (fate, error) = match fate(self, lease, &error).await {
            Ok(fate) => (fate, error),
            // What stands in the way now decides when to try again.
            Err(other) => (Fate::Unknown, other),
        };
        let retry = match fate {
            Fate::Elsewhere => return Outcome::Finished,
            Fate::Gone => {
                tracing::info!(job.error = %error, "the repository is out of reach; the job is dropped");
                return Outcome::Finished;
            }
            Fate::Unknown => Retry::Backoff,
            Fate::Stays => error.retry(),
        };
        let wait = match retry {
            Retry::Never => return Outcome::Failed(error.to_string()),
            Retry::After(wait) if error.waits_for_github() => {
                return Outcome::Postponed(self.later(wait), error.to_string());
            }
            Retry::After(wait) => wait,
            Retry::Backoff => backoff(lease.attempt),
        };
        Outcome::RetryAt(self.later(wait), error.to_string())
    }

    fn later(&self, wait: std::time::Duration) -> jiff::Timestamp {
        let now = self.app.clock.now();
        let wait = jiff::SignedDuration::try_from(wait).unwrap_or(jiff::SignedDuration::from_mins(60));
        now.checked_add(wait).unwrap_or(now)
    }
}

#[async_trait]
impl Handler<Job> for Worker {
    async fn handle(&self, lease: &Lease<Job>, stop: &Stop) -> Outcome {
        match self.work(lease, stop).await {
            Ok(End::Done) => Outcome::Finished,
            Ok(End::Stopped) | Err(JobError::Run(RunError::Interrupted)) => Outcome::Released,
            Err(error) => self.after(lease, error).await,
        }
    }

    async fn give_up(&self, lease: &Lease<Job>, reason: &str, stop: &Stop) -> Outcome {
        let said = match &lease.job {
            Job::ReviewPullRequest { pull, .. } => review_pull_request::report_failure(self, pull, reason, stop).await,
            Job::ClosePullRequest { pull } => close_pull_request::report_failure(self, pull, reason, stop).await,
            _ => Ok(()),
        };
        match said {
            Ok(()) => Outcome::Finished,
            Err(error) => self.after(lease, error).await,
        }
    }
}
