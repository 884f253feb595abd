//! Finds the pull requests of a commit whose check was re-requested, and has them reviewed. The event does not name
//! them when they come from a fork.

use super::worker::{End, JobError, Worker};
use super::{Job, PullRef, Trigger};
use crate::github::Repository;

/// Pull requests reviewed for one re-request: a commit is the head of one, seldom of two.
const MAX_PULLS: usize = 5;

pub(super) async fn run(
    worker: &Worker,
    installation: u64,
    repository: &Repository,
    head_sha: &str,
) -> Result<End, JobError> {
    let client = worker.github()?.repository(installation, repository);
    let mut found = 0;
    for number in client.pulls_of_commit(head_sha).await? {
        let now = client.pull_request(number).await?;
        if found == MAX_PULLS || !now.open || now.head_sha != head_sha {
            continue;
        }
        found += 1;
        let pull = PullRef { installation, repository: repository.clone(), number };
        worker.enqueue(Job::ReviewPullRequest { pull, trigger: Trigger::Asked }).await?;
    }
    Ok(End::Done)
}
