//! A GitHub of our own, on loopback: plain state behind one HTTP handler, as strict as the real one.
//!
//! ```text
//! let gh = FakeGitHub::start(clock).await;
//! let pr = gh.open_pull(PullSpec::new("//- src/lib.rs\n-old\n+new"));   // a webhook is in the outbox now
//! … let the bot work against gh.url() …
//! assert_snapshot!(gh.page(&pr), @"…");                                   // what a person sees
//! gh.reckon();                                                             // what must never be
//! ```
//!
//! Diffs, `/files`, contents, trees, threads and webhooks are all derived from the files before and after. Whatever
//! people do (`open_pull`, `push`, `reply` …) is a method of [`FakeGitHub`]; what the bot does comes in by HTTP. Both
//! put webhooks into the outbox ([`FakeGitHub::take_deliveries`]); delivering them is the harness's.

#![expect(unreachable_pub, dead_code, reason = "more is offered than every binary that includes it uses")]

pub mod actions;
pub mod diff;
pub mod fault;
pub mod files;
mod installations;
mod json;
pub mod judge;
pub mod openapi;
mod page;
mod routes;
mod server;
pub mod state;
pub mod watch;
mod webhook;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};

use secondlook::clock::SharedClock;
use secondlook::github::Repository;
use secondlook::github::client::{AppCredentials, Settings};
use serde_json::Value;
use tokio::task::AbortHandle;

use fault::Fault;
use files::Files;
use state::{AppState, Check, Comment, Delivery, Installation, Logged, Repo, Review, State, Talk};
use watch::Watch;

/// The private key of the App under test. It belongs to no App.
pub const APP_KEY: &str = include_str!("../../../../fixtures/github/test-app-key.pem");

/// A pull request, for a test to hold on to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pr {
    /// `owner/name`.
    pub repo: String,
    pub number: u64,
}

/// The stand-in. Cheap to clone.
#[derive(Clone)]
pub struct FakeGitHub {
    state: Arc<Mutex<State>>,
    url: String,
    _serving: Arc<Serving>,
}

/// Ends the serving with the last who holds it, so that a test can have thousands of these.
struct Serving(AbortHandle);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl FakeGitHub {
    /// Starts one on a free port. It has the App and the repository `acme/app` with the App installed, owned by the
    /// organisation `acme`; `alice` may write there.
    pub async fn start(clock: SharedClock) -> Self {
        let permissions = [
            ("checks", "write"),
            ("contents", "read"),
            ("issues", "write"),
            ("metadata", "read"),
            ("pull_requests", "write"),
        ];
        let state = State {
            clock,
            url: String::new(),
            app: AppState {
                id: 4711,
                slug: "secondlook".into(),
                bot: "secondlook[bot]".into(),
                permissions: permissions
                    .iter()
                    .map(|(name, level)| ((*name).to_owned(), (*level).to_owned()))
                    .collect(),
            },
            users: BTreeMap::new(),
            repos: Vec::new(),
            installations: Vec::new(),
            tokens: HashMap::new(),
            commits: HashMap::new(),
            blobs: HashMap::new(),
            diffs: Mutex::default(),
            faults: Vec::new(),
            latency: std::time::Duration::ZERO,
            log: Vec::new(),
            complaints: Vec::new(),
            outbox: Vec::new(),
            sent: Vec::new(),
            unread: Vec::new(),
            manifest_codes: BTreeSet::new(),
            used: HashMap::new(),
            budget: 5_000,
            ahead: jiff::SignedDuration::ZERO,
            next_id: 1_000,
        };
        let state = Arc::new(Mutex::new(state));
        let (address, serving) = server::serve(Arc::clone(&state), 0, None).await;
        let url = format!("http://{address}");
        let github = Self { state, url: url.clone(), _serving: Arc::new(Serving(serving)) };
        {
            let mut state = github.lock();
            state.url = url;
            state.account("secondlook[bot]", "Bot");
        }
        github.repo("acme/app");
        github.permit("acme/app", "alice", "write");
        github
    }

    /// The base URL of another door to it, by which whoever comes in there is told apart, and watched.
    pub async fn door(&self, number: usize, watch: Arc<dyn Watch>) -> String {
        format!("http://{}", server::serve(Arc::clone(&self.state), number, Some(watch)).await.0)
    }

    /// The base URL of its API.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Settings of a client that talks to it, without a pause between writes.
    pub fn settings(&self) -> Settings {
        Settings { api_url: self.url.clone(), write_gap: std::time::Duration::ZERO, ..Settings::default() }
    }

    /// Credentials of its App.
    pub fn credentials(&self) -> AppCredentials {
        AppCredentials { app_id: 4711, private_key: APP_KEY.into() }
    }

    /// A repository, made (empty, public, with the App installed on it) when there is none of this name.
    pub fn repo(&self, full_name: &str) -> Repository {
        let (owner, name) = full_name.split_once('/').expect("a repository is owner/name");
        let mut state = self.lock();
        let state = &mut *state;
        if state.repo(owner, name).is_none() {
            state.account(owner, "Organization");
            let id = state.id();
            let root = state.add_commit(Vec::new(), &format!("Begin {full_name}"), Files::new());
            let repo = Repo {
                id,
                owner: owner.into(),
                name: name.into(),
                former: Vec::new(),
                private: false,
                branches: BTreeMap::from([("main".to_owned(), root)]),
                pulls: BTreeMap::new(),
                checks: Vec::new(),
                roles: BTreeMap::new(),
                next_number: 1,
            };
            state.repos.push(repo);
            let installation = state.installations.iter_mut().find(|installation| installation.account == owner);
            if let Some(installation) = installation {
                installation.repos.insert(id);
            } else {
                let installation = state.id();
                state.installations.push(Installation {
                    id: installation,
                    account: owner.into(),
                    repos: BTreeSet::from([id]),
                    suspended: false,
                });
            }
        }
        let repo = state.repo(owner, name).unwrap();
        Repository { id: repo.id, owner: repo.owner.clone(), name: repo.name.clone() }
    }

    /// The installation that has a repository.
    pub fn installation(&self, full_name: &str) -> u64 {
        let state = self.lock();
        let id = state.repo_named(full_name).id;
        state.installations.iter().find(|installation| installation.repos.contains(&id)).expect("an installation").id
    }

    /// An installation token for a repository.
    pub fn installation_token(&self, full_name: &str) -> String {
        let installation = self.installation(full_name);
        let mut state = self.lock();
        let repo = state.repo_named(full_name).id;
        routes::app::mint(&mut state, installation, BTreeSet::from([repo])).0
    }

    /// A personal token of somebody, as the command line takes it.
    pub fn personal_token(&self, login: &str) -> String {
        self.lock().account(login, "User");
        format!("ghp_{login}")
    }

    /// A code that can be exchanged for the App, as the manifest flow hands it out.
    pub fn manifest_code(&self) -> String {
        let mut state = self.lock();
        let code = format!("code-{}", state.id());
        state.manifest_codes.insert(code.clone());
        code
    }

    /// Takes a permission away from the App, or changes it.
    pub fn set_app_permission(&self, name: &str, level: Option<&str>) {
        let mut state = self.lock();
        match level {
            Some(level) => state.app.permissions.insert(name.into(), level.into()),
            None => state.app.permissions.remove(name),
        };
    }

    /// Makes all installation tokens invalid at once.
    pub fn revoke_tokens(&self) {
        self.lock().tokens.clear();
    }

    /// Leaves every token so many requests until the hour is over, of the 5,000 it had.
    pub fn leave_budget(&self, left: u64) {
        let mut state = self.lock();
        state.used.clear();
        state.budget = left;
    }

    /// Sets GitHub's clock ahead of the bot's (or behind it).
    pub fn set_clock_ahead(&self, by: jiff::SignedDuration) {
        self.lock().ahead = by;
    }

    /// Puts a fault into the table.
    pub fn fault(&self, fault: Fault) {
        self.lock().faults.push(fault);
    }

    /// Makes it as slow as a network is: every answer takes so long.
    pub fn answer_after(&self, latency: std::time::Duration) {
        self.lock().latency = latency;
    }

    /// Ends all faults that are left.
    pub fn recover(&self) {
        self.lock().faults.clear();
    }

    /// The webhooks that are to be delivered, oldest first; the outbox is empty then.
    pub fn take_deliveries(&self) -> Vec<Delivery> {
        std::mem::take(&mut self.lock().outbox)
    }

    /// Notes what was answered to the last try to deliver this webhook.
    pub fn answered(&self, delivery: &Delivery, status: u16) {
        let mut state = self.lock();
        // A test may make up deliveries, of which GitHub knows nothing.
        if let Some(last) = state.sent.iter_mut().rev().find(|sent| sent.delivery.id == delivery.id) {
            last.status = status;
        }
    }

    /// GitHub throws the payloads of all deliveries so far away.
    pub fn forget_payloads(&self) {
        self.lock().sent.iter_mut().for_each(|sent| sent.payload_gone = true);
    }

    /// Puts a webhook of any shape into the outbox.
    pub fn send(&self, event: &str, payload: Value) {
        webhook::deliver(&mut self.lock(), event, payload);
    }

    /// All requests so far.
    pub fn requests(&self) -> Vec<Logged> {
        self.lock().log.clone()
    }

    /// Forgets the requests so far, so that a test counts from here.
    pub fn forget_requests(&self) {
        self.lock().log.clear();
    }

    /// How many requests there were of a route such as `POST /repos/*/*/pulls/*/reviews`; `* /**` counts all.
    pub fn count(&self, route: &str) -> usize {
        let state = self.lock();
        state.log.iter().filter(|logged| fault::matches(route, &logged.method, &logged.path)).count()
    }

    /// The reviews of a pull request.
    pub fn reviews(&self, pr: &Pr) -> Vec<Review> {
        self.read(pr, |_, pull| pull.reviews.clone())
    }

    /// The line comments of a pull request.
    pub fn comments(&self, pr: &Pr) -> Vec<Comment> {
        self.read(pr, |_, pull| pull.comments.clone())
    }

    /// The comments on the timeline of a pull request.
    pub fn timeline(&self, pr: &Pr) -> Vec<Talk> {
        self.read(pr, |_, pull| pull.talk.clone())
    }

    /// The check runs of the pull request's present head, oldest first.
    pub fn checks(&self, pr: &Pr) -> Vec<Check> {
        let head = self.head(pr);
        self.lock().repo_named(&pr.repo).checks.iter().filter(|check| check.head_sha == head).cloned().collect()
    }

    /// All check runs of a repository, of older heads too, oldest first.
    pub fn all_checks(&self, repo: &str) -> Vec<Check> {
        self.lock().repo_named(repo).checks.clone()
    }

    /// The present head of a pull request.
    pub fn head(&self, pr: &Pr) -> String {
        self.read(pr, |_, pull| pull.head().to_owned())
    }

    /// The files of a pull request as GitHub lists them.
    pub fn pull_files(&self, pr: &Pr) -> Vec<diff::Entry> {
        self.read(pr, |state, pull| state.entries_of(pull).to_vec())
    }

    /// What a person sees of a pull request. Stable: no ids, times or hashes. What was written there counts as read.
    pub fn page(&self, pr: &Pr) -> String {
        let parts = ["pulls", "issues"].map(|kind| format!("/repos/{}/{kind}/{}/", pr.repo, pr.number));
        let elsewhere = |path: &str| !parts.iter().any(|part| path.starts_with(part));
        // Check runs and reactions do not name the pull request; a page of the repository shows them.
        let unnamed =
            ["check-runs", "pulls/comments", "issues/comments"].map(|kind| format!("/repos/{}/{kind}", pr.repo));
        let named = |path: &str| !unnamed.iter().any(|part| path.starts_with(part));
        self.lock().unread.retain(|(_, path)| elsewhere(path) && named(path));
        self.read(pr, page::render)
    }

    /// What people see of everything there is: all pages, and the check runs of commits that are no head (any more).
    pub fn pages(&self) -> String {
        let mut state = self.lock();
        state.unread.clear();
        let mut all = String::new();
        for repo in &state.repos {
            for pull in repo.pulls.values() {
                all.push_str(&page::render(&state, pull));
            }
            all.push_str(&page::other_checks(repo));
        }
        all
    }

    /// What the App wrote that stands there more than once, or was left pending.
    pub fn twice(&self) -> Vec<String> {
        page::twice(&self.lock())
    }

    /// The check runs that the App began and did not end.
    pub fn unfinished(&self) -> Vec<String> {
        page::unfinished(&self.lock())
    }

    /// What was written by HTTP since the pages were last looked at: a test that ends with some did not look.
    pub fn unread_writes(&self) -> Vec<String> {
        self.lock().unread.iter().map(|(method, path)| format!("{method} {path}")).collect()
    }

    /// What a test must fail for, whatever it looked at; empty when all is well.
    pub fn complaints(&self) -> Vec<String> {
        let state = self.lock();
        state.complaints.iter().cloned().chain(state.faults.iter().filter_map(Fault::unused)).collect()
    }

    /// Fails the test when there are complaints.
    pub fn reckon(&self) {
        let complaints = self.complaints();
        assert!(complaints.is_empty(), "GitHub complains:\n{}", complaints.join("\n"));
    }

    fn read<T>(&self, pr: &Pr, read: impl FnOnce(&State, &state::Pull) -> T) -> T {
        let state = self.lock();
        let pull = state.repo_named(&pr.repo).pulls.get(&pr.number).expect("a pull request that was opened");
        read(&state, pull)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}
