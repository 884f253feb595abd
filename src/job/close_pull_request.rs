//! Stops working on a pull request and records how it ended.

use super::PullRef;
use super::worker::{End, JobError, Worker};
use crate::github::error::GitHubError;
use crate::github::{CheckRun, CheckStatus, Conclusion};

pub(super) async fn run(worker: &Worker, pull: &PullRef) -> Result<End, JobError> {
    let client = worker.client(pull)?;
    let now = client.pull_request(pull.number).await?;
    let store = worker.app.pulls();
    if now.open {
        // Reopened since: the review of that event goes on.
        store.set_outcome(pull.ids(), None).await?;
        return Ok(End::Done);
    }
    store.set_outcome(pull.ids(), Some(if now.merged { "merged" } else { "closed" })).await?;
    if let Some((head, id)) = store.state(pull.ids()).await?.open_check {
        let run = CheckRun {
            head_sha: head,
            status: CheckStatus::Completed,
            conclusion: Some(Conclusion::Cancelled),
            title: "Closed".into(),
            summary: "The pull request was closed before its review was done.".into(),
            external_id: pull.key(),
            details_url: None,
        };
        match client.update_check_run(id, &run).await {
            Ok(()) | Err(GitHubError::NotFound(_) | GitHubError::Forbidden(_)) => {}
            Err(error) => return Err(error.into()),
        }
        store.set_open_check(pull.ids(), None).await?;
    }
    worker.app.engine.checkpoints.forget(&format!("pr:{}:{}/", pull.repository.id, pull.number)).await?;
    Ok(End::Done)
}
