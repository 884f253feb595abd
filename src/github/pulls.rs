//! Pull requests and the people who ask about them.

use super::client::RepositoryClient;
use super::error::GitHubError;
use super::{PullRequest, wire};

/// Pages of pull requests read for one commit: nobody has more than some.
const MAX_PAGES: usize = 3;

impl RepositoryClient {
    /// The pull request as it is now.
    ///
    /// # Errors
    /// As any request.
    pub async fn pull_request(&self, number: u64) -> Result<PullRequest, GitHubError> {
        let what = self.pull_name(number);
        Ok(self.get::<wire::PullWire>(&format!("/pulls/{number}"), &what).await?.into())
    }

    /// Pull requests of this repository that contain a commit (the way from a check run of a fork to its pull request).
    ///
    /// # Errors
    /// As any request.
    pub async fn pulls_of_commit(&self, sha: &str) -> Result<Vec<u64>, GitHubError> {
        let what = format!("commit {sha} in {}", self.repository().full_name());
        let route = format!("/commits/{}/pulls", super::endpoint::segment(sha));
        let pulls: Vec<wire::PullOfCommit> = self.pages(&route, MAX_PAGES, &what).await?;
        let here = |pull: &wire::PullOfCommit| pull.base.repository().is_none_or(|id| id == self.repository().id);
        Ok(pulls.iter().filter(|pull| here(pull)).map(|pull| pull.number).collect())
    }

    /// How errors name a pull request.
    pub(super) fn pull_name(&self, number: u64) -> String {
        format!("pull request {number} of {}", self.repository().full_name())
    }
}
