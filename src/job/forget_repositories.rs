//! Deletes what is kept of repositories that were removed, unless they have come back since.

use super::store::Installations;
use super::worker::{End, JobError, Worker};
use crate::queue::worker::Stop;
use crate::review::budget;

pub(super) async fn run(
    worker: &Worker,
    installation: u64,
    repositories: &[u64],
    stop: &Stop,
) -> Result<End, JobError> {
    let installations = Installations::new(worker.app.db.clone());
    for repository in installations.removed(installation, repositories).await? {
        worker.pulls(stop).forget_repository(repository).await?;
        for prefix in [format!("pr:{repository}:"), format!("answer:pr:{repository}:")] {
            worker.app.engine.checkpoints.forget(&prefix).await?;
        }
        worker.app.spending().forget(&budget::prefix(repository)).await?;
        worker.app.history.forget(&format!("pr:{repository}:")).await?;
        installations.forget(installation, repository).await?;
    }
    Ok(End::Done)
}
