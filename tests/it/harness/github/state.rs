//! What the stand-in knows: plain data, no behaviour but looking things up.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use jiff::{SignedDuration, Timestamp};
use secondlook::clock::SharedClock;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::diff::{self, Entry};
use super::fault::Fault;
use super::files::{Change, Files};

/// Everything. One value behind one lock.
pub struct State {
    pub clock: SharedClock,
    /// Where the stand-in listens.
    pub url: String,
    pub app: AppState,
    pub users: BTreeMap<String, Account>,
    pub repos: Vec<Repo>,
    pub installations: Vec<Installation>,
    pub tokens: HashMap<String, Token>,
    pub commits: HashMap<String, Commit>,
    pub blobs: HashMap<String, Vec<u8>>,
    /// The files of pull requests, by base and head: they are asked for again and again.
    pub diffs: Mutex<Diffs>,
    pub faults: Vec<Fault>,
    /// How long every answer takes.
    pub latency: std::time::Duration,
    pub log: Vec<Logged>,
    /// What a test must fail for, whatever it looked at: unknown routes, requests and answers off the schema, reliance
    /// on what GitHub does not document.
    pub complaints: Vec<String>,
    pub outbox: Vec<Delivery>,
    /// Every try to deliver, oldest first.
    pub sent: Vec<Sent>,
    /// What was written by HTTP since a test last looked at the page: method and path.
    pub unread: Vec<(String, String)>,
    /// Codes of the manifest flow that were not yet exchanged.
    pub manifest_codes: BTreeSet<String>,
    pub used: HashMap<String, u64>,
    /// Requests that each token may make in an hour.
    pub budget: u64,
    /// How far GitHub's clock is ahead of the bot's.
    pub ahead: SignedDuration,
    pub next_id: u64,
}

/// Base and head, and what is between them.
pub type Diffs = HashMap<(String, String), Arc<Vec<Entry>>>;

/// The App that is under test.
pub struct AppState {
    pub id: u64,
    pub slug: String,
    /// The user it writes as.
    pub bot: String,
    pub permissions: BTreeMap<String, String>,
}

/// A person, a bot or an organisation.
#[derive(Debug, Clone)]
pub struct Account {
    pub id: u64,
    pub login: String,
    /// `User`, `Bot` or `Organization`.
    pub kind: &'static str,
}

pub struct Installation {
    pub id: u64,
    pub account: String,
    pub repos: BTreeSet<u64>,
    pub suspended: bool,
}

/// An installation token.
pub struct Token {
    pub installation: u64,
    pub repos: BTreeSet<u64>,
    pub expires: Timestamp,
}

pub struct Repo {
    pub id: u64,
    pub owner: String,
    pub name: String,
    /// Names it had before; requests there are redirected.
    pub former: Vec<(String, String)>,
    pub private: bool,
    pub branches: BTreeMap<String, String>,
    pub pulls: BTreeMap<u64, Pull>,
    pub checks: Vec<Check>,
    /// Login to role (`read`, `triage`, `write`, `maintain`, `admin`).
    pub roles: BTreeMap<String, String>,
    pub next_number: u64,
}

#[derive(Clone)]
pub struct Commit {
    pub sha: String,
    pub parents: Vec<String>,
    pub message: String,
    pub files: Arc<Files>,
    pub at: Timestamp,
}

pub struct Pull {
    pub id: u64,
    pub number: u64,
    pub title: String,
    pub body: Option<String>,
    /// `None` when the account was deleted.
    pub author: Option<String>,
    pub draft: bool,
    pub open: bool,
    pub merged_at: Option<Timestamp>,
    pub base_ref: String,
    pub base_sha: String,
    pub head_ref: String,
    /// Owner of the fork the head lies in.
    pub fork: Option<Fork>,
    /// All heads it ever had, the present one last.
    pub heads: Vec<String>,
    pub reviews: Vec<Review>,
    pub comments: Vec<Comment>,
    pub talk: Vec<Talk>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// Where a head lies that is not in the repository itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fork {
    /// In the fork of this owner.
    Of(String),
    /// The fork was deleted.
    Gone,
}

#[derive(Clone)]
pub struct Review {
    pub id: u64,
    pub author: String,
    pub body: String,
    /// `PENDING`, `COMMENTED`, `CHANGES_REQUESTED`, `APPROVED`, `DISMISSED`.
    pub state: &'static str,
    pub commit: String,
    pub at: Timestamp,
}

/// A comment on a line.
#[derive(Clone)]
pub struct Comment {
    pub id: u64,
    pub review: u64,
    pub reply_to: Option<u64>,
    pub author: Option<String>,
    pub body: String,
    pub path: String,
    pub left: bool,
    pub line: u64,
    pub start: Option<u64>,
    /// The head it was made for.
    pub commit: String,
    /// The base side then.
    pub base: String,
    pub hunk: String,
    pub reactions: Vec<Reaction>,
    pub resolved: bool,
    pub at: Timestamp,
}

/// A comment on the timeline.
#[derive(Clone)]
pub struct Talk {
    pub id: u64,
    pub author: Option<String>,
    pub body: String,
    pub reactions: Vec<Reaction>,
    pub at: Timestamp,
    pub edited_at: Timestamp,
}

#[derive(Clone)]
pub struct Reaction {
    pub id: u64,
    pub author: String,
    pub content: String,
    pub at: Timestamp,
}

#[derive(Clone)]
pub struct Check {
    pub id: u64,
    pub name: String,
    pub head_sha: String,
    pub status: String,
    pub conclusion: Option<String>,
    pub title: Option<String>,
    pub summary: Option<String>,
    pub external_id: String,
    pub details_url: Option<String>,
    pub started_at: Timestamp,
    pub completed_at: Option<Timestamp>,
}

/// A request and what was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logged {
    pub method: String,
    /// Without query and without the `/api/v3` of Enterprise Server, percent-encoded as it came.
    pub path: String,
    /// The path as it came.
    pub raw: String,
    pub query: String,
    /// `None` when the connection was cut.
    pub status: Option<u16>,
}

/// A webhook that is to be delivered.
#[derive(Debug, Clone, PartialEq)]
pub struct Delivery {
    /// `X-GitHub-Delivery`.
    pub id: String,
    /// `X-GitHub-Event`.
    pub event: String,
    pub payload: Value,
}

/// A try to deliver a webhook.
#[derive(Debug, Clone)]
pub struct Sent {
    pub id: u64,
    pub at: Timestamp,
    /// What was answered; 0 while, and where, nobody did.
    pub status: u16,
    pub redelivery: bool,
    /// Whether GitHub has thrown the payload away.
    pub payload_gone: bool,
    pub delivery: Delivery,
}

impl State {
    pub fn now(&self) -> Timestamp {
        self.clock.now() + self.ahead
    }

    /// An id that nothing else has.
    pub fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    pub fn repo(&self, owner: &str, name: &str) -> Option<&Repo> {
        let is = |o: &str, n: &str| o.eq_ignore_ascii_case(owner) && n.eq_ignore_ascii_case(name);
        self.repos.iter().find(|repo| is(&repo.owner, &repo.name))
    }

    pub fn repo_named(&self, full_name: &str) -> &Repo {
        let (owner, name) = full_name.split_once('/').expect("a repository is owner/name");
        self.repo(owner, name).unwrap_or_else(|| panic!("no repository {full_name}"))
    }

    pub fn repo_by_id(&mut self, id: u64) -> &mut Repo {
        self.repos.iter_mut().find(|repo| repo.id == id).expect("a repository that exists")
    }

    pub fn commit(&self, sha: &str) -> &Commit {
        self.commits.get(sha).unwrap_or_else(|| panic!("no commit {sha}"))
    }

    /// The account of a login, made when there is none.
    pub fn account(&mut self, login: &str, kind: &'static str) -> Account {
        if !self.users.contains_key(login) {
            let id = self.id();
            self.users.insert(login.to_owned(), Account { id, login: login.to_owned(), kind });
        }
        self.users[login].clone()
    }

    /// Adds a commit to the network.
    pub fn add_commit(&mut self, parents: Vec<String>, message: &str, files: Files) -> String {
        let mut hash = Sha256::new();
        hash.update(parents.join(" "));
        hash.update(message);
        for (path, file) in &files {
            hash.update(format!("\0{path}\0{}\0", file.mode));
            hash.update(&file.bytes);
            if file.mode != "160000" {
                self.blobs.insert(blob_sha(&file.bytes), file.bytes.clone());
            }
        }
        let sha = short(&hex::encode(hash.finalize()));
        let commit =
            Commit { sha: sha.clone(), parents, message: message.into(), files: Arc::new(files), at: self.now() };
        self.commits.insert(sha.clone(), commit);
        sha
    }

    /// A commit on top of another that carries a change.
    pub fn change_on(&mut self, parent: &str, message: &str, change: &Change) -> String {
        let mut files = (*self.commit(parent).files).clone();
        for path in change.before.keys() {
            files.remove(path);
        }
        files.extend(change.after.clone());
        self.add_commit(vec![parent.to_owned()], message, files)
    }

    /// All commits a commit stands on, itself first.
    pub fn ancestors(&self, sha: &str) -> Vec<String> {
        let mut seen = vec![sha.to_owned()];
        let mut at = 0;
        while let Some(next) = seen.get(at).cloned() {
            at += 1;
            for parent in self.commits.get(&next).into_iter().flat_map(|commit| &commit.parents) {
                if !seen.contains(parent) {
                    seen.push(parent.clone());
                }
            }
        }
        seen
    }

    /// Where two commits part; `None` for unrelated ones.
    pub fn merge_base(&self, a: &str, b: &str) -> Option<String> {
        let theirs = self.ancestors(b);
        self.ancestors(a).into_iter().find(|sha| theirs.contains(sha))
    }

    /// Where a pull request's head parts from its base.
    pub fn base_of(&self, pull: &Pull) -> String {
        self.merge_base(&pull.base_sha, pull.head()).unwrap_or_else(|| pull.base_sha.clone())
    }

    /// The commits of a pull request, oldest first.
    pub fn commits_of(&self, pull: &Pull) -> Vec<String> {
        let base = self.ancestors(&self.base_of(pull));
        let mut own: Vec<String> = self.ancestors(pull.head()).into_iter().filter(|sha| !base.contains(sha)).collect();
        own.reverse();
        own
    }

    /// The files of a pull request.
    pub fn entries_of(&self, pull: &Pull) -> Arc<Vec<Entry>> {
        let (base, head) = (self.base_of(pull), pull.head().to_owned());
        let mut diffs = self.diffs.lock().unwrap();
        let made = diffs.entry((base, head)).or_insert_with_key(|(base, head)| {
            Arc::new(diff::entries(&self.commit(base).files, &self.commit(head).files))
        });
        Arc::clone(made)
    }

    /// The line a comment stands on now; `None` when it is outdated.
    pub fn present_line(&self, pull: &Pull, comment: &Comment, line: u64) -> Option<u64> {
        let side = |commit: &str| self.commits.get(commit)?.files.get(&comment.path).map(|file| file.bytes.clone());
        let (then, now) = if comment.left {
            (side(&comment.base)?, side(&self.base_of(pull))?)
        } else {
            (side(&comment.commit)?, side(pull.head())?)
        };
        let line = if then == now { line } else { diff::follow(&then, &now, line)? };
        let entries = self.entries_of(pull);
        let entry = entries.iter().find(|entry| entry.filename == comment.path)?;
        entry.line(comment.left, line).map(|_| line)
    }

    /// What a login may do in a repository.
    pub fn role(&self, repo: &Repo, login: &str) -> String {
        if repo.owner == login {
            return "admin".into();
        }
        let role = repo.roles.get(login).cloned();
        role.unwrap_or_else(|| if repo.private { "none".into() } else { "read".into() })
    }

    pub fn is_bot(&self, login: &str) -> bool {
        self.users.get(login).is_some_and(|user| user.kind == "Bot")
    }
}

impl Repo {
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.owner, self.name)
    }
}

impl Pull {
    pub fn head(&self) -> &str {
        self.heads.last().expect("a pull request has a head")
    }
}

/// The name of a blob. Not git's own hash, but like it: 40 hexadecimal digits made from the bytes.
pub fn blob_sha(bytes: &[u8]) -> String {
    let mut hash = Sha256::new();
    hash.update(b"blob\0");
    hash.update(bytes);
    short(&hex::encode(hash.finalize()))
}

fn short(hash: &str) -> String {
    hash.get(..40).unwrap_or(hash).to_owned()
}

/// What GitHub leaves in URLs as it is, beside letters and digits (RFC 3986, 2.3).
const UNRESERVED: &percent_encoding::AsciiSet =
    &percent_encoding::NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A path as GitHub writes it into URLs: slashes as `%2F`.
pub fn encoded(path: &str) -> String {
    percent_encoding::utf8_percent_encode(path, UNRESERVED).to_string()
}
