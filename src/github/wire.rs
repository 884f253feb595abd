//! GitHub's JSON, as far as we read it, and how it becomes our own structs.
//!
//! Everything GitHub may leave out or send as `null` is an `Option` or has a default: deleted accounts are `null`, so
//! are the repositories of deleted forks, and a field that is missing must not cost a review.

use std::collections::BTreeMap;

use secrecy::SecretString;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::client::ConvertedApp;
use super::{IssueComment, Permission, PullRequest, Review, ReviewComment, User};
use crate::diff::{FileStatus, Side};

/// `POST /app/installations/{id}/access_tokens`.
#[derive(Deserialize)]
pub struct InstallationToken {
    /// Opaque.
    pub token: SecretString,
    /// RFC 3339.
    pub expires_at: String,
}

/// `POST /app-manifests/{code}/conversions`.
#[derive(Deserialize)]
pub struct ConvertedAppWire {
    id: u64,
    slug: String,
    pem: SecretString,
    webhook_secret: Option<SecretString>,
    client_id: String,
    client_secret: SecretString,
    #[serde(default, deserialize_with = "or_default")]
    html_url: String,
}

/// `GET /app`.
#[derive(Deserialize)]
pub struct AppWire {
    /// URL name; GitHub's schema has it optional.
    #[serde(default, deserialize_with = "or_default")]
    pub slug: String,
    /// By name.
    #[serde(default, deserialize_with = "or_default")]
    pub permissions: BTreeMap<String, String>,
    /// Names.
    #[serde(default, deserialize_with = "or_default")]
    pub events: Vec<String>,
}

/// Anything with an id.
#[derive(Deserialize)]
pub struct Id {
    /// The id.
    pub id: u64,
}

/// A page of check runs.
#[derive(Deserialize)]
pub struct CheckRuns {
    /// The runs.
    #[serde(default)]
    pub check_runs: Vec<ListedCheckRun>,
}

/// A check run as it is listed.
#[derive(Deserialize)]
pub struct ListedCheckRun {
    /// Its id.
    pub id: u64,
    /// Its creator's own name for it.
    #[serde(default)]
    pub external_id: Option<String>,
    /// `queued`, `in_progress` or `completed`.
    #[serde(default)]
    pub status: String,
    /// What people read of it.
    #[serde(default)]
    pub output: CheckOutput,
}

/// What people read of a check run.
#[derive(Deserialize, Default)]
pub struct CheckOutput {
    /// Its headline.
    #[serde(default)]
    pub title: Option<String>,
}

/// A user or bot wherever one is named.
#[derive(Deserialize)]
pub struct UserWire {
    id: u64,
    #[serde(default, deserialize_with = "or_default")]
    login: String,
    #[serde(default, rename = "type", deserialize_with = "or_default")]
    kind: String,
}

/// `GET /repos/{owner}/{repo}/pulls/{number}`.
#[derive(Deserialize)]
pub struct PullWire {
    number: u64,
    #[serde(default, deserialize_with = "or_default")]
    title: String,
    #[serde(default, deserialize_with = "or_default")]
    body: String,
    user: Option<UserWire>,
    #[serde(default, deserialize_with = "or_default")]
    state: String,
    merged_at: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    draft: bool,
    head: BranchWire,
    base: BranchWire,
    #[serde(default, deserialize_with = "or_default")]
    changed_files: u64,
}

/// One end of a pull request.
#[derive(Deserialize)]
pub struct BranchWire {
    sha: String,
    #[serde(default, rename = "ref", deserialize_with = "or_default")]
    name: String,
    repo: Option<Id>,
}

/// `GET /repos/{owner}/{repo}/commits/{sha}/pulls`, an entry.
#[derive(Deserialize)]
pub struct PullOfCommit {
    /// Its number.
    pub number: u64,
    /// The repository it is for: a commit may be part of pull requests elsewhere in the network.
    pub base: BranchWire,
}

impl BranchWire {
    /// The repository's id, unless it is gone.
    pub fn repository(&self) -> Option<u64> {
        self.repo.as_ref().map(|repo| repo.id)
    }
}

/// `GET /repos/{owner}/{repo}/pulls/{number}/files`, an entry.
#[derive(Debug, Clone, Deserialize)]
pub struct FileWire {
    /// Blob of the new version, of the old one for a removed file; a commit for a submodule.
    pub sha: Option<String>,
    /// The path, exactly as GitHub spells it.
    pub filename: String,
    /// `added`, `removed`, `modified`, `renamed`, `copied`, `changed`, `unchanged`.
    #[serde(default, deserialize_with = "or_default")]
    pub status: String,
    /// Added lines; 0 also when GitHub dropped the patch because the whole answer was too large.
    #[serde(default, deserialize_with = "or_default")]
    pub additions: u64,
    /// Removed lines, likewise.
    #[serde(default, deserialize_with = "or_default")]
    pub deletions: u64,
    /// The hunks.
    pub patch: Option<String>,
    /// The path before a rename or copy.
    pub previous_filename: Option<String>,
}

impl FileWire {
    /// What happened to the file. A status that is new to us is taken for a modification.
    pub fn status(&self) -> FileStatus {
        match self.status.as_str() {
            "added" => FileStatus::Added,
            "removed" => FileStatus::Removed,
            "renamed" => FileStatus::Renamed,
            "copied" => FileStatus::Copied,
            "changed" => FileStatus::Changed,
            "unchanged" => FileStatus::Unchanged,
            _ => FileStatus::Modified,
        }
    }
}

/// `GET /repos/{owner}/{repo}/pulls/{number}/reviews`, an entry.
#[derive(Deserialize)]
pub struct ReviewWire {
    id: u64,
    user: Option<UserWire>,
    #[serde(default, deserialize_with = "or_default")]
    body: String,
    #[serde(default, deserialize_with = "or_default")]
    state: String,
    commit_id: Option<String>,
}

/// `GET /repos/{owner}/{repo}/pulls/{number}/comments`, an entry.
#[derive(Deserialize)]
pub struct ReviewCommentWire {
    id: u64,
    in_reply_to_id: Option<u64>,
    pull_request_review_id: Option<u64>,
    user: Option<UserWire>,
    #[serde(default, deserialize_with = "or_default")]
    body: String,
    #[serde(default, deserialize_with = "or_default")]
    path: String,
    line: Option<u32>,
    original_line: Option<u32>,
    side: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    diff_hunk: String,
    #[serde(default, deserialize_with = "or_default")]
    created_at: String,
    #[serde(default, deserialize_with = "or_default")]
    updated_at: String,
}

/// `GET /repos/{owner}/{repo}/issues/{number}/comments`, an entry.
#[derive(Deserialize)]
pub struct IssueCommentWire {
    id: u64,
    user: Option<UserWire>,
    #[serde(default, deserialize_with = "or_default")]
    body: String,
    #[serde(default, deserialize_with = "or_default")]
    updated_at: String,
}

/// `GET /repos/{owner}/{repo}/collaborators/{login}/permission`.
#[derive(Deserialize)]
pub struct PermissionWire {
    #[serde(default, deserialize_with = "or_default")]
    permission: String,
    #[serde(default, deserialize_with = "or_default")]
    role_name: String,
}

/// `GET /repos/{owner}/{repo}/git/trees/{sha}?recursive=1`.
#[derive(Deserialize)]
pub struct TreeWire {
    /// Its entries.
    #[serde(default, deserialize_with = "or_default")]
    pub tree: Vec<TreeEntryWire>,
    /// Whether GitHub cut the list (100,000 entries or 7 MB).
    #[serde(default, deserialize_with = "or_default")]
    pub truncated: bool,
}

/// An entry of a tree.
#[derive(Deserialize)]
pub struct TreeEntryWire {
    /// From the root.
    #[serde(default, deserialize_with = "or_default")]
    pub path: String,
    /// `blob`, `tree` or `commit`.
    #[serde(default, rename = "type", deserialize_with = "or_default")]
    pub kind: String,
}

/// `GET /repos/{owner}/{repo}/contents/{path}`, of a file.
#[derive(Deserialize)]
pub struct ContentWire {
    /// `file`, `submodule`, `symlink`.
    #[serde(default, rename = "type", deserialize_with = "or_default")]
    pub kind: String,
    /// Blob.
    pub sha: String,
    /// Bytes.
    #[serde(default, deserialize_with = "or_default")]
    pub size: usize,
}

/// `GET /repos/{owner}/{repo}/compare/{base}...{head}`.
#[derive(Deserialize)]
pub struct CompareWire {
    /// Where the two part.
    pub merge_base_commit: CommitWire,
}

/// A commit, by name.
#[derive(Deserialize)]
pub struct CommitWire {
    /// Its name.
    pub sha: String,
}

/// An answer of GraphQL.
#[derive(Deserialize)]
pub struct GraphQl {
    /// What was asked for, as far as it could be had.
    pub data: Option<Value>,
    /// What went wrong.
    #[serde(default, deserialize_with = "or_default")]
    pub errors: Vec<Value>,
}

/// An object of a repository, from GraphQL.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectWire {
    /// `Blob`, `Tree`, `Commit`, `Tag`.
    #[serde(rename = "__typename")]
    pub kind: String,
    /// Its name.
    pub oid: String,
    /// Bytes, of a blob.
    pub byte_size: Option<usize>,
    /// Whether GitHub takes a blob for binary; `null` when it does not know.
    pub is_binary: Option<bool>,
    /// Whether `text` is only the beginning.
    pub is_truncated: Option<bool>,
    /// The text, unless binary.
    pub text: Option<String>,
}

impl ConvertedAppWire {
    /// Our own struct.
    pub fn into_app(self) -> ConvertedApp {
        ConvertedApp {
            id: self.id,
            slug: self.slug,
            pem: self.pem,
            webhook_secret: self.webhook_secret,
            client_id: self.client_id,
            client_secret: self.client_secret,
            html_url: self.html_url,
        }
    }
}

impl From<UserWire> for User {
    fn from(user: UserWire) -> Self {
        Self { id: user.id, is_bot: user.kind == "Bot", login: user.login }
    }
}

impl From<PullWire> for PullRequest {
    fn from(pull: PullWire) -> Self {
        Self {
            number: pull.number,
            title: pull.title,
            body: pull.body,
            author: pull.user.map(User::from),
            open: pull.state == "open",
            merged: pull.merged_at.is_some(),
            draft: pull.draft,
            // Without a head repository the fork is gone: nobody vouches for the code, so it counts as a fork.
            from_fork: pull.head.repository().is_none() || pull.head.repository() != pull.base.repository(),
            head_sha: pull.head.sha,
            base_sha: pull.base.sha,
            base_ref: pull.base.name,
            changed_files: pull.changed_files,
        }
    }
}

impl From<ReviewWire> for Review {
    fn from(review: ReviewWire) -> Self {
        Self {
            id: review.id,
            author: review.user.map(User::from),
            body: review.body,
            pending: review.state == "PENDING",
            commit_id: review.commit_id,
        }
    }
}

impl From<ReviewCommentWire> for ReviewComment {
    fn from(comment: ReviewCommentWire) -> Self {
        Self {
            id: comment.id,
            in_reply_to: comment.in_reply_to_id,
            review_id: comment.pull_request_review_id,
            author: comment.user.map(User::from),
            body: comment.body,
            path: comment.path,
            line: comment.line,
            original_line: comment.original_line,
            side: match comment.side.as_deref() {
                Some("LEFT") => Some(Side::Left),
                Some("RIGHT") => Some(Side::Right),
                _ => None,
            },
            diff_hunk: comment.diff_hunk,
            created_at: comment.created_at,
            updated_at: comment.updated_at,
        }
    }
}

impl From<IssueCommentWire> for IssueComment {
    fn from(comment: IssueCommentWire) -> Self {
        Self {
            id: comment.id,
            author: comment.user.map(User::from),
            body: comment.body,
            updated_at: comment.updated_at,
        }
    }
}

impl From<PermissionWire> for Permission {
    /// `role_name` is the finer one (it knows triage and maintain); a role that an organisation made itself is known
    /// only by the legacy `permission` it includes.
    fn from(wire: PermissionWire) -> Self {
        let of = |name: &str| match name {
            "admin" => Some(Self::Admin),
            "maintain" => Some(Self::Maintain),
            "write" => Some(Self::Write),
            "triage" => Some(Self::Triage),
            "read" => Some(Self::Read),
            "none" => Some(Self::None),
            _ => None,
        };
        of(&wire.role_name).or_else(|| of(&wire.permission)).unwrap_or(Self::None)
    }
}

/// Takes `null` for the default, as for a field that is missing.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pull(head_repo: Value) -> PullRequest {
        serde_json::from_value::<PullWire>(json!({
            "number": 7, "title": "t", "body": null, "user": null, "state": "closed", "merged_at": "2026-01-01T00:00:00Z",
            "head": {"sha": "h", "ref": "topic", "repo": head_repo}, "base": {"sha": "b", "ref": "main", "repo": {"id": 1}},
        }))
        .unwrap()
        .into()
    }

    #[test]
    fn what_github_leaves_out_has_a_default() {
        let read = pull(json!({"id": 1}));
        assert_eq!((read.author, read.body.as_str(), read.open, read.merged), (None, "", false, true));
        assert!(!read.from_fork);
        let comment: ReviewCommentWire = serde_json::from_value(json!({"id": 1, "line": null})).unwrap();
        assert_eq!(ReviewComment::from(comment).line, None);
    }

    #[test]
    fn a_head_elsewhere_or_gone_is_a_fork() {
        assert!(pull(json!({"id": 2})).from_fork);
        assert!(pull(Value::Null).from_fork);
    }

    #[test]
    fn roles_are_permissions() {
        for (json, want) in [
            (json!({"permission": "write", "role_name": "maintain"}), Permission::Maintain),
            (json!({"permission": "read", "role_name": "triage"}), Permission::Triage),
            (json!({"permission": "write", "role_name": "release-team"}), Permission::Write),
            (json!({"permission": "admin"}), Permission::Admin),
            (json!({"permission": "none", "role_name": null}), Permission::None),
            (json!({"permission": "new", "role_name": "newer"}), Permission::None),
        ] {
            assert_eq!(Permission::from(serde_json::from_value::<PermissionWire>(json).unwrap()), want);
        }
    }
}
