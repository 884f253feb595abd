//! What a delivery says, as far as we act on it. Pure.
//!
//! Only the few fields that are read are described, so that a payload with new, missing or null fields elsewhere stays
//! readable; new events and new actions are ignored. What is acted upon must be whole: a payload that lacks, say, its
//! number is an error that GitHub's delivery page shows, and not silently lost.

mod payload;

use crate::github::{Repository, User};

/// A body that cannot be understood. Names a place or a field, never content.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadPayload {
    /// It is not a JSON object.
    #[error("the body is not a JSON object")]
    NotJson,
    /// It is one, but not what an event of this name looks like.
    #[error("the payload of {event} cannot be read: {reason}")]
    Incomplete {
        /// The event's name.
        event: String,
        /// Which field is wrong.
        reason: String,
    },
}

/// Where an event happened, and who caused it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The installation it was delivered for. Missing when the webhook is not an App's: then we may not act.
    pub installation: Option<u64>,
    /// The repository, by its name at that time.
    pub repository: Repository,
    /// Who caused it; `None` for deleted accounts.
    pub sender: Option<User>,
}

/// A comment, as a webhook shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comment {
    /// Its id.
    pub id: u64,
    /// The thread's first comment, when this is an answer in a review thread.
    pub in_reply_to: Option<u64>,
    /// Who wrote it; `None` for deleted accounts.
    pub author: Option<User>,
    /// Markdown, written by anybody: untrusted.
    pub body: String,
}

/// What happened to a pull request, as far as it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PullAction {
    /// Opened, reopened, or no longer a draft.
    Opened,
    /// New commits.
    Synchronized,
    /// Another base branch. GitHub sends it as an edit, with the head unchanged.
    Retargeted,
    /// Closed or merged.
    Closed,
}

/// What happened to an installation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InstallationAction {
    /// Made, or its permissions were accepted anew.
    Present,
    /// Taken away.
    Deleted,
    /// Put to rest by its owner.
    Suspended,
    /// Woken again.
    Unsuspended,
}

/// What happened to a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RepositoryAction {
    /// It has another name or another owner.
    Moved,
    /// It is gone.
    Deleted,
}

/// What a delivery says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Something happened to a pull request.
    Pull {
        /// Where.
        origin: Origin,
        /// Which.
        number: u64,
        /// What.
        action: PullAction,
    },
    /// A comment on a line was written.
    LineComment {
        /// Where.
        origin: Origin,
        /// On which pull request.
        number: u64,
        /// The comment.
        comment: Comment,
    },
    /// A review thread was resolved or opened again.
    Thread {
        /// Where.
        origin: Origin,
        /// On which pull request.
        number: u64,
        /// Resolved, or open again.
        resolved: bool,
    },
    /// A comment on the timeline was written or edited.
    TimelineComment {
        /// Where.
        origin: Origin,
        /// Under which number.
        number: u64,
        /// Whether that is a pull request, or an issue that is none of our business.
        on_pull_request: bool,
        /// The comment.
        comment: Comment,
    },
    /// A person wants a check done again, or pressed one of its buttons.
    CheckRerequested {
        /// Where.
        origin: Origin,
        /// The commit.
        head_sha: String,
        /// The check run's name; `None` for a whole suite.
        name: Option<String>,
        /// The App the check belongs to.
        app: Option<u64>,
    },
    /// A merge queue waits for our check.
    MergeGroup {
        /// Where.
        origin: Origin,
        /// The queue's head commit.
        head_sha: String,
    },
    /// Something happened to an installation.
    Installation {
        /// Which.
        installation: u64,
        /// The account it is on.
        account: String,
        /// What.
        action: InstallationAction,
        /// Repositories named with it.
        repositories: Vec<Repository>,
    },
    /// Repositories were added to an installation or taken from it.
    InstallationRepositories {
        /// Which.
        installation: u64,
        /// The account it is on.
        account: String,
        /// Those that came.
        added: Vec<Repository>,
        /// Those that went.
        removed: Vec<Repository>,
    },
    /// The account that an installation is on has another name.
    AccountRenamed {
        /// The installation.
        installation: u64,
        /// The account's new name.
        account: String,
    },
    /// A repository moved or is gone.
    Repository {
        /// Where, by the new name.
        origin: Origin,
        /// What.
        action: RepositoryAction,
    },
    /// Nothing we act on.
    Ignored {
        /// The event's name.
        event: String,
        /// Its action; empty when it has none.
        action: String,
    },
}

/// Whether anything can follow from such an event, whatever its payload says.
pub fn matters(event: &str, action: &str) -> bool {
    payload::matters(event, action)
}

/// Reads a delivery: the event's name from its header, and the raw body.
///
/// # Errors
/// See [`BadPayload`].
pub fn parse(event: &str, body: &[u8]) -> Result<Event, BadPayload> {
    let action = action_of(body)?;
    payload::read(event, &action, body)
        .map_err(|reason| BadPayload::Incomplete { event: event.to_owned(), reason })
        .map(|known| known.unwrap_or_else(|| Event::Ignored { event: event.to_owned(), action }))
}

/// The action of a payload; empty when it has none. Proves on the way that the whole body is JSON.
///
/// # Errors
/// [`BadPayload::NotJson`].
pub fn action_of(body: &[u8]) -> Result<String, BadPayload> {
    #[derive(serde::Deserialize)]
    struct Head {
        #[serde(default)]
        action: serde_json::Value,
    }
    // A derived reader would take an array for an object.
    let first = body.iter().find(|byte| !byte.is_ascii_whitespace());
    if first != Some(&b'{') {
        return Err(BadPayload::NotJson);
    }
    let head: Head = serde_json::from_slice(body).map_err(|_| BadPayload::NotJson)?;
    // An action is a short word; anything else is none that we know, and is not kept.
    let known =
        |action: &&str| action.len() <= 64 && action.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    Ok(head.action.as_str().filter(known).unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests;
