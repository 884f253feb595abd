//! The check run of a review that is under way: found again after an accident, and ended.

use super::PullRef;
use super::worker::JobError;
use crate::github::client::RepositoryClient;
use crate::github::error::GitHubError;
use crate::github::{CheckRun, CheckStatus, Conclusion};
use crate::review::markdown::sanitise_line;
use crate::review::store::PullStore;

/// A check run that has ended.
pub(super) fn ended(pull: &PullRef, head: &str, conclusion: Conclusion, title: &str, summary: String) -> CheckRun {
    CheckRun {
        head_sha: head.to_owned(),
        status: CheckStatus::Completed,
        conclusion: Some(conclusion),
        title: title.to_owned(),
        summary,
        external_id: pull.key(),
        details_url: None,
    }
}

/// A check run that has ended without a review, for this reason.
pub(super) fn given_up(pull: &PullRef, head: &str, reason: &str) -> CheckRun {
    let reason = sanitise_line(reason, 1_000);
    let summary = format!("The review was given up: {reason}.\n\n`/secondlook review` asks for it again.");
    ended(pull, head, Conclusion::Neutral, "Not reviewed", summary)
}

/// The head and id of the check run that has not ended, if there is one. One whose creation got no answer is looked up.
pub(super) async fn unfinished(
    client: &RepositoryClient,
    store: &PullStore,
    pull: &PullRef,
) -> Result<Option<(String, u64)>, JobError> {
    let state = store.state(pull.ids()).await?;
    let (None, Some(head)) = (&state.open_check, state.opening_check) else { return Ok(state.open_check) };
    match client.find_check_run(&head, &pull.key()).await {
        Ok(found) => Ok(found.map(|id| (head, id))),
        Err(GitHubError::NotFound(_) | GitHubError::Forbidden(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Ends a check run, or says something else by it. One that is gone or may not be written any more must not keep a job
/// from ending.
pub(super) async fn end(client: &RepositoryClient, id: u64, run: &CheckRun) -> Result<(), JobError> {
    match client.update_check_run(id, run).await {
        Err(GitHubError::NotFound(what) | GitHubError::Forbidden(what)) => {
            tracing::warn!(github.message = %what, "the check run could not be ended");
            Ok(())
        }
        other => Ok(other?),
    }
}
