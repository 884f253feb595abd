//! The parts every job uses.

use std::sync::{Arc, PoisonError, RwLock};

use crate::agent::spending::Purse;
use crate::agent::spending::store::SpendingStore;
use crate::clock::SharedClock;
use crate::db::Db;
use crate::github::client::GitHubApp;
use crate::memory::store::ChatHistory;
use crate::review::budget::{BudgetPolicy, accounts};
use crate::review::change::Engine;
use crate::review::store::{PullKey, PullStore};

/// The App on GitHub, once one is configured. Set-up may fill it while the server runs. Whichever it is, its instances
/// share GitHub's limits through the database.
#[derive(Clone)]
pub struct GitHubHandle {
    app: Arc<RwLock<Option<GitHubApp>>>,
    db: Db,
}

impl GitHubHandle {
    /// A handle with or without an App.
    pub fn new(app: Option<GitHubApp>, db: Db) -> Self {
        let app = app.map(|app| app.sharing(db.clone()));
        Self { app: Arc::new(RwLock::new(app)), db }
    }

    /// The App, if one is configured.
    pub fn get(&self) -> Option<GitHubApp> {
        self.app.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts another App in place.
    pub fn set(&self, app: GitHubApp) {
        *self.app.write().unwrap_or_else(PoisonError::into_inner) = Some(app.sharing(self.db.clone()));
    }
}

/// What jobs work with. Cheap to clone.
#[derive(Clone)]
pub struct App {
    /// The database.
    pub db: Db,
    /// Time.
    pub clock: SharedClock,
    /// GitHub.
    pub github: GitHubHandle,
    /// The reviewer.
    pub engine: Engine,
    /// Conversations.
    pub history: ChatHistory,
    /// Where people reach the dashboard, if configured.
    pub public_url: Option<url::Url>,
}

impl App {
    /// What model calls have cost.
    pub fn spending(&self) -> SpendingStore {
        SpendingStore::new(self.db.clone())
    }

    /// The accounts on which the calls for a pull request are booked.
    pub fn purse(&self, pull: PullKey, budget: &BudgetPolicy) -> Purse {
        Purse::new(self.spending(), accounts(pull, &self.engine.limits.budgets, budget))
    }

    /// What is kept of pull requests.
    pub fn pulls(&self) -> PullStore {
        PullStore::new(self.db.clone(), self.clock.clone())
    }
}
