//! A pull request named on the command line: read with a personal token, and posted on only when asked.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::Failure;
use super::change::Prepared;
use crate::clock::SharedClock;
use crate::config::Config;
use crate::github::client::RepositoryClient;
use crate::github::error::GitHubError;
use crate::github::{PullRequest, Repository, Review, User};
use crate::review::change::{Change, ChangedFile};
use crate::review::policy;
use crate::review::publish::plan;
use crate::review::publish::{Publisher, Sent};
use crate::review::render::marker;
use crate::review::report::Report;
use crate::tool::remote::Remote;

/// `owner/repo#7`, or the address of the pull request's page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullName {
    /// The account.
    pub owner: String,
    /// The repository.
    pub name: String,
    /// The number.
    pub number: u64,
}

impl FromStr for PullName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            "write owner/repo#7, or the address of the pull request's page; without it the branch that is checked out is \
             reviewed"
                .to_owned()
        };
        let page = text.strip_prefix("https://").and_then(|rest| rest.split_once('/')).map(|(_, path)| path);
        let (path, number) = match page {
            Some(path) => path.split_once("/pull/").map(|(path, rest)| (path, rest.split('/').next().unwrap_or(rest))),
            None => text.split_once('#'),
        }
        .ok_or_else(wrong)?;
        let (owner, name) = path.split_once('/').ok_or_else(wrong)?;
        // The characters GitHub allows in the two names; anything else could leave the path of a request.
        let allowed = |part: &str| {
            let plain = part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'));
            plain && !matches!(part, "" | "." | "..")
        };
        let number = number.parse().ok().filter(|number| *number > 0).ok_or_else(wrong)?;
        if !allowed(owner) || !allowed(name) {
            return Err(wrong());
        }
        Ok(Self { owner: owner.into(), name: name.into(), number })
    }
}

impl fmt::Display for PullName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}#{}", self.owner, self.name, self.number)
    }
}

/// A pull request that was read.
pub struct Pulled {
    /// Its change and rules.
    pub prepared: Prepared,
    /// As GitHub has it.
    pub pull: PullRequest,
    /// Speaks for the token's owner.
    pub client: RepositoryClient,
}

/// Reads a pull request and the rules of its base.
///
/// # Errors
/// When there is no token, or GitHub refuses.
pub async fn read(name: &PullName, config: &Config, clock: SharedClock) -> Result<Pulled, Failure> {
    let Some(token) = &config.token else {
        return Err(Failure(format!(
            "reading {name} needs a token: set GITHUB_TOKEN to one that can read it (with gh: GITHUB_TOKEN=$(gh auth token))"
        )));
    };
    let refused = |error: GitHubError| {
        Failure(format!(
            "{name} cannot be read: {error}; check the name, and that GITHUB_TOKEN may read the repository"
        ))
    };
    // The id is only known to GitHub; with a token of a person the name is enough.
    let repository = Repository { id: 0, owner: name.owner.clone(), name: name.name.clone() };
    let client = RepositoryClient::with_token(token, &repository, &config.github, clock).map_err(refused)?;
    let pull = client.pull_request(name.number).await.map_err(refused)?;
    let files = client.pull_files(&pull).await.map_err(refused)?;
    let texts = client.file_texts(&pull.base_sha, &policy::policy_files()).await.map_err(refused)?;
    let changed = files.files.into_iter().map(|file| {
        let new_hunks = if file.no_patch.is_none() { (0..file.diff.hunks.len()).collect() } else { Vec::new() };
        ChangedFile { file, new_hunks, known: Vec::new() }
    });
    let change = Change {
        id: format!("{name}:{}:{}", pull.base_sha, pull.head_sha),
        title: pull.title.clone(),
        description: pull.body.clone(),
        base: pull.base_sha.clone(),
        head: pull.head_sha.clone(),
        files: changed.collect(),
        unlisted: files.unlisted,
        source: Arc::new(Remote::new(client.clone(), pull.head_sha.clone())),
    };
    Ok(Pulled { prepared: Prepared { change, policy: policy::load(&texts), complaints: Vec::new() }, pull, client })
}

/// Posts a finished review; returns how many comments that made. What stands there already is not posted again, so that
/// the command can be repeated after a failure.
///
/// # Errors
/// When GitHub refuses, or the head has moved on.
pub async fn post(name: &PullName, pulled: &Pulled, report: &Report) -> Result<usize, Failure> {
    let refused = |error: GitHubError| {
        Failure(format!(
            "the review cannot be posted on {name}: {error}; run the command again, nothing is posted twice"
        ))
    };
    // Anybody can write our markers. Believed are the token's owner and bots, of which the App is one; a stranger is
    // neither.
    let viewer = pulled.client.viewer().await.map_err(refused)?;
    let believed = |author: Option<&User>| author.is_some_and(|author| author.is_bot || author.id == viewer);
    let comments = pulled.client.review_comments(name.number).await.map_err(refused)?;
    let ours = comments.iter().filter(|comment| believed(comment.author.as_ref()));
    let said: Vec<&str> = ours.filter_map(|comment| marker::read_finding(&comment.body)).collect();
    let mut report = report.clone();
    report.findings.retain(|reported| !said.contains(&reported.fingerprint.as_str()));
    let reviews = pulled.client.reviews(name.number).await.map_err(refused)?;
    let change = &pulled.prepared.change;
    let publisher = Publisher { client: &pulled.client, app: None, number: name.number };
    let mut posted = 0;
    for mut review in plan::reviews(&report, &pulled.prepared.policy.policy, &change.base, &change.head) {
        // The same for each run over the same commits: a review that stands is known by it.
        let id = plan_id(&format!("{} {}", change.id, review.part));
        let stands = |known: &Review| marker::read_plan(&known.body) == Some(id.as_str());
        if reviews.iter().any(|known| believed(known.author.as_ref()) && stands(known)) {
            continue;
        }
        match publisher.send(&id, &mut review).await.map_err(|unsent| refused(unsent.error))? {
            Sent::Posted(_) => posted += review.comments.len(),
            Sent::Overtaken => {
                return Err(Failure(format!("{name} has newer commits than those reviewed: run the command again")));
            }
        }
    }
    Ok(posted)
}

fn plan_id(of: &str) -> String {
    let digest = hex::encode(Sha256::digest(of));
    digest.chars().take(32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_strictly() {
        let read = |text: &str| text.parse::<PullName>().map(|name| name.to_string());
        assert_eq!(read("rust-lang/rust.vim#7"), Ok("rust-lang/rust.vim#7".into()));
        assert_eq!(read("https://github.com/a/b/pull/12/files"), Ok("a/b#12".into()));
        for wrong in
            ["a/b", "a#1", "a/b#0", "a/b#x", "a/../c#1", "/b#1", "a/b/c#1", "https://github.com/a/b/issues/1", "7"]
        {
            assert!(read(wrong).unwrap_err().starts_with("write owner/repo#7"), "{wrong}");
        }
    }
}
