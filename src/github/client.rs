//! The client. The only file that knows octocrab.

use std::sync::Arc;

use secrecy::SecretString;

use super::error::GitHubError;
use super::{
    CheckRun, FileText, IssueComment, NewReview, Permission, PullFiles, PullRequest, Repository, Review, ReviewComment,
    User,
};
use crate::clock::SharedClock;

/// The App's identity towards GitHub.
#[derive(Debug, Clone)]
pub struct AppCredentials {
    /// App id.
    pub app_id: u64,
    /// RSA key, PEM.
    pub private_key: SecretString,
}

/// Where GitHub is, and our limits towards it.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `https://api.github.com`, or `https://HOST/api/v3` on GHES. GraphQL is found beside it.
    pub api_url: String,
    /// Whole time of one request.
    pub timeout: std::time::Duration,
    /// Largest file whose text is fetched to be diffed or reviewed, in bytes.
    pub max_file_bytes: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            api_url: "https://api.github.com".into(),
            timeout: std::time::Duration::from_secs(20),
            max_file_bytes: 1 << 20,
        }
    }
}

/// The App: makes clients for installations.
#[derive(Clone)]
pub struct GitHubApp {
    inner: Arc<()>,
}

/// A client that acts for one installation (or one personal token), in one repository.
#[derive(Clone)]
pub struct RepositoryClient {
    inner: Arc<()>,
}

/// Who the App is on GitHub.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct AppIdentity {
    /// URL name of the App.
    pub slug: String,
    /// The user `<slug>[bot]` that writes our comments.
    pub bot: User,
    /// Permissions the App has, by name (`pull_requests` → `write`).
    pub permissions: std::collections::BTreeMap<String, String>,
    /// Events it receives.
    pub events: Vec<String>,
}

/// What the manifest conversion returns (`POST /app-manifests/{code}/conversions`).
#[derive(Debug, Clone)]
pub struct ConvertedApp {
    /// App id.
    pub id: u64,
    /// URL name.
    pub slug: String,
    /// Private key.
    pub pem: SecretString,
    /// Webhook secret, which GitHub may leave out.
    pub webhook_secret: Option<SecretString>,
    /// OAuth client id.
    pub client_id: String,
    /// OAuth client secret.
    pub client_secret: SecretString,
    /// The App's page.
    pub html_url: String,
}

/// Exchanges the code of GitHub's manifest flow for the new App.
///
/// # Errors
/// [`GitHubError::NotFound`] when the code is unknown or older than an hour.
pub async fn convert_manifest(settings: &Settings, code: &str) -> Result<ConvertedApp, GitHubError> {
    todo!("{settings:?}{code}")
}

impl GitHubApp {
    /// Checks the key and builds the client; asks GitHub nothing.
    ///
    /// # Errors
    /// [`GitHubError::Unauthorized`] when the key is not an RSA key in PEM, with what to do.
    pub fn new(credentials: &AppCredentials, settings: &Settings, clock: SharedClock) -> Result<Self, GitHubError> {
        let _ = (credentials, settings, clock);
        todo!()
    }

    /// Who we are (two requests, remembered for the life of this value).
    ///
    /// # Errors
    /// As any request.
    pub async fn identity(&self) -> Result<AppIdentity, GitHubError> {
        todo!()
    }

    /// A client for one repository of an installation. The token is made at the first request, narrowed to this
    /// repository, kept for the installation, renewed before it expires and once after a 401.
    pub fn repository(&self, installation: u64, repository: &Repository) -> RepositoryClient {
        let _ = (installation, repository);
        todo!()
    }
}

impl RepositoryClient {
    /// A client with a personal token, for the command line.
    ///
    /// # Errors
    /// When the base URL is not one.
    pub fn with_token(
        token: &SecretString,
        repository: &Repository,
        settings: &Settings,
        clock: SharedClock,
    ) -> Result<Self, GitHubError> {
        let _ = (token, repository, settings, clock);
        todo!()
    }

    /// The repository it acts in.
    pub fn repository(&self) -> &Repository {
        todo!()
    }

    /// The pull request as it is now.
    ///
    /// # Errors
    /// As any request.
    pub async fn pull_request(&self, number: u64) -> Result<PullRequest, GitHubError> {
        todo!("{number}")
    }

    /// Its files, all pages; patches that GitHub leaves out for size are diffed here from the two blobs.
    ///
    /// # Errors
    /// As any request.
    pub async fn pull_files(&self, pull: &PullRequest) -> Result<PullFiles, GitHubError> {
        todo!("{pull:?}")
    }

    /// The texts of files at a commit, in the order asked, many with one GraphQL request (100 at a time); what GraphQL
    /// cannot give is read as a blob.
    ///
    /// # Errors
    /// As any request.
    pub async fn file_texts(&self, commit: &str, paths: &[String]) -> Result<Vec<FileText>, GitHubError> {
        todo!("{commit}{paths:?}")
    }

    /// All file paths at a commit (recursive tree) and whether GitHub cut the list.
    ///
    /// # Errors
    /// As any request.
    pub async fn paths(&self, commit: &str) -> Result<(Vec<String>, bool), GitHubError> {
        todo!("{commit}")
    }

    /// Posts a review. All or nothing on GitHub's side.
    ///
    /// # Errors
    /// [`GitHubError::Unprocessable`] when any comment is refused; see [`GitHubError::doubtful`].
    pub async fn create_review(&self, number: u64, review: &NewReview) -> Result<u64, GitHubError> {
        todo!("{number}{review:?}")
    }

    /// All reviews of a pull request.
    ///
    /// # Errors
    /// As any request.
    pub async fn reviews(&self, number: u64) -> Result<Vec<Review>, GitHubError> {
        todo!("{number}")
    }

    /// Removes a pending review of ours.
    ///
    /// # Errors
    /// As any request.
    pub async fn delete_pending_review(&self, number: u64, review_id: u64) -> Result<(), GitHubError> {
        todo!("{number}{review_id}")
    }

    /// All line comments of a pull request, oldest first.
    ///
    /// # Errors
    /// As any request.
    pub async fn review_comments(&self, number: u64) -> Result<Vec<ReviewComment>, GitHubError> {
        todo!("{number}")
    }

    /// One line comment.
    ///
    /// # Errors
    /// As any request.
    pub async fn review_comment(&self, id: u64) -> Result<ReviewComment, GitHubError> {
        todo!("{id}")
    }

    /// Answers in a thread; `root` is its first comment.
    ///
    /// # Errors
    /// As any request.
    pub async fn reply(&self, number: u64, root: u64, body: &str) -> Result<u64, GitHubError> {
        todo!("{number}{root}{body}")
    }

    /// All comments on the timeline, oldest first.
    ///
    /// # Errors
    /// As any request.
    pub async fn issue_comments(&self, number: u64) -> Result<Vec<IssueComment>, GitHubError> {
        todo!("{number}")
    }

    /// One comment of the timeline.
    ///
    /// # Errors
    /// As any request.
    pub async fn issue_comment(&self, id: u64) -> Result<IssueComment, GitHubError> {
        todo!("{id}")
    }

    /// Comments on the timeline.
    ///
    /// # Errors
    /// As any request.
    pub async fn create_issue_comment(&self, number: u64, body: &str) -> Result<u64, GitHubError> {
        todo!("{number}{body}")
    }

    /// Puts a reaction (`eyes`, `+1`, `confused` …) on a timeline comment. Doing it twice is once.
    ///
    /// # Errors
    /// As any request.
    pub async fn react_to_issue_comment(&self, id: u64, content: &str) -> Result<(), GitHubError> {
        todo!("{id}{content}")
    }

    /// Puts a reaction on a line comment. Doing it twice is once.
    ///
    /// # Errors
    /// As any request.
    pub async fn react_to_review_comment(&self, id: u64, content: &str) -> Result<(), GitHubError> {
        todo!("{id}{content}")
    }

    /// Creates the check run named `secondlook`.
    ///
    /// # Errors
    /// As any request.
    pub async fn create_check_run(&self, run: &CheckRun) -> Result<u64, GitHubError> {
        todo!("{run:?}")
    }

    /// Updates it.
    ///
    /// # Errors
    /// As any request.
    pub async fn update_check_run(&self, id: u64, run: &CheckRun) -> Result<(), GitHubError> {
        todo!("{id}{run:?}")
    }

    /// Pull requests that contain a commit (the way from a check run of a fork to its pull request).
    ///
    /// # Errors
    /// As any request.
    pub async fn pulls_of_commit(&self, sha: &str) -> Result<Vec<u64>, GitHubError> {
        todo!("{sha}")
    }

    /// What a person may do here.
    ///
    /// # Errors
    /// As any request.
    pub async fn permission(&self, login: &str) -> Result<Permission, GitHubError> {
        todo!("{login}")
    }
}
