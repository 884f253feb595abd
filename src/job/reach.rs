//! What GitHub's refusal means for a job: the repository is gone, has moved to another installation, or sleeps.
//!
//! Our records may be older or newer than the job, and events may come out of order, so GitHub is asked.

use jiff::SignedDuration;

use super::Job;
use super::store::Installations;
use super::worker::{JobError, Worker};
use crate::db::DbError;
use crate::github::Repository;
use crate::github::error::GitHubError;
use crate::queue::{Lease, NewJob};
use crate::retry::Retry;

/// A job of an installation at rest looks again after this. That it is awake, its event says sooner, for reviews.
const ASLEEP: SignedDuration = SignedDuration::from_hours(1);

/// What is to become of a job that GitHub refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// The refusal has another reason.
    Stays,
    /// Nobody waits for it.
    Gone,
    /// GitHub could not say; later it may.
    Unknown,
    /// It was put off, or given to the installation that reaches the repository now.
    Elsewhere,
}

/// Finds out why a job was refused, and puts it off or elsewhere where that helps.
pub(super) async fn fate(worker: &Worker, lease: &Lease<Job>, error: &JobError) -> Result<Fate, JobError> {
    let refused = matches!(
        error,
        JobError::GitHub(GitHubError::Unauthorized(_) | GitHubError::Forbidden(_) | GitHubError::NotFound(_))
    );
    let Some((installation, repository)) = place(&lease.job).filter(|_| refused) else { return Ok(Fate::Stays) };
    let records = Installations::new(worker.app.db.clone());
    match worker.github()?.reach(repository).await {
        Ok(reach) if reach.installation != installation => {
            tracing::info!(
                github.installation = reach.installation,
                "The repository is reached by another installation now; the job goes on there"
            );
            move_to(worker, lease, at(&lease.job, reach.installation), SignedDuration::ZERO).await?;
            Ok(Fate::Elsewhere)
        }
        Ok(reach) if reach.suspended => {
            tracing::info!("The installation is suspended; the job waits");
            move_to(worker, lease, lease.job.clone(), ASLEEP).await?;
            Ok(Fate::Elsewhere)
        }
        Ok(_) => Ok(Fate::Stays),
        Err(GitHubError::NotFound(_)) => Ok(Fate::Gone),
        // A fault that passes says nothing, whatever our records say: the job asks again.
        Err(error) if error.retry() != Retry::Never => Ok(Fate::Unknown),
        Err(_) if records.out_of_reach(installation, repository.id).await? => Ok(Fate::Gone),
        Err(_) => Ok(Fate::Stays),
    }
}

/// Puts a job in again, with its tries forgotten. Whoever waits in its place already does its work.
async fn move_to(worker: &Worker, lease: &Lease<Job>, job: Job, wait: SignedDuration) -> Result<(), JobError> {
    let now = worker.app.clock.now();
    let job = NewJob { key: lease.key.clone(), ..job.due(now.checked_add(wait).unwrap_or(now)) };
    let mut tx = worker.app.db.begin().await?;
    worker.queue.enqueue(&mut tx, &job).await?;
    tx.commit().await.map_err(DbError::from)?;
    worker.queue.announce();
    Ok(())
}

/// Where a job works; `None` for those that ask GitHub nothing, or look themselves.
fn place(job: &Job) -> Option<(u64, &Repository)> {
    match job {
        Job::ReviewPullRequest { pull, .. }
        | Job::ReplyToComment { pull, .. }
        | Job::RunCommand { pull, .. }
        | Job::ClosePullRequest { pull } => Some((pull.installation, &pull.repository)),
        Job::ReportMergeGroup { installation, repository, .. } | Job::RerunCheck { installation, repository, .. } => {
            Some((*installation, repository))
        }
        Job::ForgetRepositories { .. }
        | Job::FetchMissedDeliveries
        | Job::ForgetOldDeliveries
        | Job::ReconcilePulls => None,
    }
}

/// The same job, for another installation.
fn at(job: &Job, to: u64) -> Job {
    let mut job = job.clone();
    match &mut job {
        Job::ReviewPullRequest { pull, .. }
        | Job::ReplyToComment { pull, .. }
        | Job::RunCommand { pull, .. }
        | Job::ClosePullRequest { pull } => pull.installation = to,
        Job::ReportMergeGroup { installation, .. } | Job::RerunCheck { installation, .. } => *installation = to,
        Job::ForgetRepositories { .. }
        | Job::FetchMissedDeliveries
        | Job::ForgetOldDeliveries
        | Job::ReconcilePulls => {}
    }
    job
}
