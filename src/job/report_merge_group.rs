//! Reports our check on a merge queue's commit, so that the queue never hangs on us: its pull requests were reviewed
//! before they were queued.

use super::worker::{End, JobError, Worker};
use crate::github::{CheckRun, CheckStatus, Conclusion, Repository};
use crate::queue::worker::Stop;

pub(super) async fn run(
    worker: &Worker,
    installation: u64,
    repository: &Repository,
    head_sha: &str,
    stop: &Stop,
) -> Result<End, JobError> {
    let run = CheckRun {
        head_sha: head_sha.to_owned(),
        status: CheckStatus::Completed,
        conclusion: Some(Conclusion::Success),
        title: "Reviewed before it was queued".into(),
        summary: "Pull requests are reviewed before they enter the merge queue, so nothing is reviewed again here."
            .into(),
        external_id: format!("merge-group:{}:{head_sha}", repository.id),
        details_url: None,
    };
    worker.client(installation, repository, stop)?.say_by_check_run(&run).await?;
    Ok(End::Done)
}
