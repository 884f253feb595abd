//! Deletes what is kept of repositories that were removed, unless they have come back since. GitHub is asked before: a
//! removal that is told late must not cost the memory of a repository that was added again.

use super::Job;
use super::store::Installations;
use super::worker::{End, JobError, Worker};
use crate::github::Repository;
use crate::github::error::GitHubError;
use crate::github::store::{Record, apply};
use crate::queue::worker::Stop;
use crate::review::budget;

/// What GitHub says of a repository that is on record as removed.
enum Now {
    Gone,
    There,
    /// Its installation sleeps, so nobody can tell.
    Asleep,
}

pub(super) async fn run(
    worker: &Worker,
    installation: u64,
    repositories: &[u64],
    stop: &Stop,
) -> Result<End, JobError> {
    let installations = Installations::new(worker.app.db.clone());
    for repository in installations.removed(installation, repositories).await? {
        match now(worker, installation, &repository).await? {
            Now::Gone => {}
            Now::There => {
                let mut tx = worker.app.db.begin().await?;
                let back = Record::Repository { installation, repository };
                apply(&mut tx, &[back], worker.app.clock.now()).await?;
                tx.commit().await.map_err(crate::db::DbError::from)?;
                continue;
            }
            Now::Asleep => {
                let job = Job::ForgetRepositories { installation, repositories: vec![repository.id] };
                worker.enqueue_after(job, jiff::SignedDuration::from_hours(7 * 24)).await?;
                continue;
            }
        }
        let id = repository.id;
        worker.pulls(stop).forget_repository(id).await?;
        for prefix in [format!("pr:{id}:"), format!("answer:pr:{id}:")] {
            worker.app.engine.checkpoints.forget(&prefix).await?;
        }
        worker.app.spending().forget(&budget::prefix(id)).await?;
        worker.app.history.forget(&format!("pr:{id}:")).await?;
        installations.forget(installation, id).await?;
    }
    Ok(End::Done)
}

async fn now(worker: &Worker, installation: u64, repository: &Repository) -> Result<Now, JobError> {
    // Without an App, the record is all there is.
    let Some(app) = worker.app.github.get() else { return Ok(Now::Gone) };
    match app.repository(installation, repository).is_there().await {
        Ok(()) => Ok(Now::There),
        Err(GitHubError::Unauthorized(why)) if why.contains("suspended") => Ok(Now::Asleep),
        Err(GitHubError::Unauthorized(_) | GitHubError::Forbidden(_) | GitHubError::NotFound(_)) => Ok(Now::Gone),
        Err(error) => Err(error.into()),
    }
}
