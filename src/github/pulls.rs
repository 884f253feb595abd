//! Pull requests and the people who ask about them.

use jiff::Timestamp;
use serde::Deserialize;

use super::client::RepositoryClient;
use super::error::GitHubError;
use super::repository::PER_PAGE;
use super::{PullRequest, wire};

/// Pages of open pull requests read: those that changed last come first.
const OPEN_PAGES: usize = 3;

/// Pages of pull requests read for one commit: nobody has more than some.
const MAX_PAGES: usize = 3;

/// An open pull request, as lists show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedPull {
    /// Its number.
    pub number: u64,
    /// Head commit.
    pub head_sha: String,
    /// Still a draft.
    pub draft: bool,
    /// When it was opened.
    pub created_at: Timestamp,
}

/// The open pull requests of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenPulls {
    /// Those that changed last come first.
    pub pulls: Vec<ListedPull>,
    /// Whether these are all.
    pub complete: bool,
}

#[derive(Deserialize)]
struct ListedWire {
    number: u64,
    #[serde(default)]
    draft: Option<bool>,
    head: HeadWire,
    created_at: Timestamp,
}

#[derive(Deserialize)]
struct HeadWire {
    sha: String,
}

impl RepositoryClient {
    /// The open pull requests, the 300 that changed last.
    ///
    /// # Errors
    /// As any request.
    pub async fn open_pulls(&self) -> Result<OpenPulls, GitHubError> {
        let what = format!("pull requests of {}", self.repository().full_name());
        let mut open = OpenPulls { pulls: Vec::new(), complete: false };
        for page in 1..=OPEN_PAGES {
            let route = format!("/pulls?state=open&sort=updated&direction=desc&per_page={PER_PAGE}&page={page}");
            let listed: Vec<ListedWire> = self.get(&route, &what).await?;
            open.complete = listed.len() < PER_PAGE;
            open.pulls.extend(listed.into_iter().map(|pull| ListedPull {
                number: pull.number,
                head_sha: pull.head.sha,
                draft: pull.draft.unwrap_or(false),
                created_at: pull.created_at,
            }));
            if open.complete {
                break;
            }
        }
        Ok(open)
    }

    /// Whether the repository can be seen; the token alone tells whether the installation still has it.
    ///
    /// # Errors
    /// As any request.
    pub async fn is_there(&self) -> Result<(), GitHubError> {
        let what = format!("repository {}", self.repository().full_name());
        self.get::<serde::de::IgnoredAny>("", &what).await.map(drop)
    }

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
