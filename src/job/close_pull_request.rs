//! Stops working on a pull request and records how it ended.

use super::worker::{End, JobError, Worker};
use super::{Job, PullRef, Trigger, check};
use crate::github::Conclusion;
use crate::queue::worker::Stop;

pub(super) async fn run(worker: &Worker, pull: &PullRef, stop: &Stop) -> Result<End, JobError> {
    let client = worker.client(pull.installation, &pull.repository, stop)?;
    let now = client.pull_request(pull.number).await?;
    let store = worker.pulls(stop);
    if now.open {
        store.set_outcome(pull.ids(), None).await?;
        // Reopened since. Where that event came first, this one has cancelled its review.
        worker.enqueue(Job::ReviewPullRequest { pull: pull.clone(), trigger: Trigger::Opened }).await?;
        return Ok(End::Done);
    }
    store.set_outcome(pull.ids(), Some(if now.merged { "merged" } else { "closed" })).await?;
    if let Some((head, id)) = check::unfinished(&client, &store, pull).await? {
        let summary = "The pull request was closed before its review was done.";
        check::end(&client, id, &check::ended(pull, &head, Conclusion::Cancelled, "Closed", summary.into())).await?;
        store.set_open_check(pull.ids(), None).await?;
    }
    worker.app.engine.checkpoints.forget(&format!("pr:{}:{}/", pull.repository.id, pull.number)).await?;
    Ok(End::Done)
}

/// Ends the check run of a review that this job has stopped, when nobody could learn how the pull request ended.
pub(super) async fn report_failure(worker: &Worker, pull: &PullRef, reason: &str, stop: &Stop) -> Result<(), JobError> {
    let client = worker.client(pull.installation, &pull.repository, stop)?;
    let store = worker.pulls(stop);
    let Some((head, id)) = check::unfinished(&client, &store, pull).await? else { return Ok(()) };
    check::end(&client, id, &check::given_up(pull, &head, reason)).await?;
    store.set_open_check(pull.ids(), None).await?;
    Ok(())
}
