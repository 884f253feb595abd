//! Receives deliveries: verify the raw bytes, parse, record and enqueue in one transaction, 202. What did not arrive is
//! asked for ([`missed`]).
//!
//! Nothing here waits for GitHub or a model, so a delivery is answered within milliseconds whatever happens downstream.
//! What is not believed or not understood is answered with a status and nothing else, and no payload is ever logged.

mod accept;
pub mod event;
pub mod health;
pub mod missed;
pub mod plan;
pub mod receive;
pub mod signature;
pub mod store;
pub mod worker;

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use axum::Router;
use axum::routing::{get, post};
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::{Notify, Semaphore};

use crate::clock::SharedClock;
use crate::db::Db;
use crate::job::Job;
use crate::queue::store::Queue;

/// Kibibytes of bodies held in memory at the same time, over all deliveries that are being received.
const BODY_MEMORY_KIB: usize = 128 * 1024;

/// Bodies over [`receive::SMALL`] received at the same time: together at most 100 MiB, so that there is always room for
/// small ones, as nearly all of GitHub's are.
const LARGE_BODIES: usize = 4;

/// How long a body may take. GitHub gives up after 10 s itself.
const BODY_TIME: Duration = Duration::from_secs(10);

/// How long a delivery may take to be written down: short enough for an answer that GitHub still waits for.
const RECORD_TIME: Duration = Duration::from_secs(7);

/// What deliveries are checked with. Set-up may change it while the server runs; clones see the change.
#[derive(Clone, Default)]
pub struct Secrets {
    known: Arc<RwLock<Known>>,
}

#[derive(Default)]
struct Known {
    secrets: Vec<SecretString>,
    app: Option<u64>,
}

impl Secrets {
    /// Secrets, the present one first; none while no App is configured. Empty ones do not count.
    pub fn new(secrets: Vec<SecretString>) -> Self {
        let handle = Self::default();
        handle.set(secrets);
        handle
    }

    /// Puts other secrets in place.
    pub fn set(&self, secrets: Vec<SecretString>) {
        let secrets = secrets.into_iter().filter(|secret| !secret.expose_secret().is_empty()).collect();
        self.known.write().unwrap_or_else(PoisonError::into_inner).secrets = secrets;
    }

    /// Says which App the deliveries are for, so that checks of other Apps are told from ours.
    pub fn set_app(&self, app: Option<u64>) {
        self.known.write().unwrap_or_else(PoisonError::into_inner).app = app;
    }

    fn get(&self) -> Vec<SecretString> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).secrets.clone()
    }

    fn app(&self) -> Option<u64> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).app
    }
}

/// What the intake works with. Cheap to clone.
#[derive(Clone)]
pub struct Intake {
    db: Db,
    queue: Queue<Job>,
    clock: SharedClock,
    secrets: Secrets,
    wake: Arc<Notify>,
    memory: Arc<Semaphore>,
    large: Arc<Semaphore>,
    body_time: Duration,
    record_time: Duration,
}

impl Intake {
    /// An intake that enqueues into `queue` and then wakes its workers through `wake`.
    pub fn new(db: Db, queue: Queue<Job>, clock: SharedClock, secrets: Secrets, wake: Arc<Notify>) -> Self {
        let memory = Arc::new(Semaphore::new(BODY_MEMORY_KIB));
        let large = Arc::new(Semaphore::new(LARGE_BODIES));
        Self { db, queue, clock, secrets, wake, memory, large, body_time: BODY_TIME, record_time: RECORD_TIME }
    }

    /// Another time for a body to arrive; by default 10 s, as GitHub itself waits no longer.
    #[must_use]
    pub fn body_time(self, body_time: Duration) -> Self {
        Self { body_time, ..self }
    }

    /// Another time for a delivery to be written down; by default 7 s.
    #[must_use]
    pub fn record_time(self, record_time: Duration) -> Self {
        Self { record_time, ..self }
    }
}

/// `POST /webhook` and `/api/github/webhooks`, `GET /healthz` and `/readyz`.
pub fn router(intake: Intake) -> Router {
    Router::new()
        .route("/webhook", post(receive::receive))
        .route("/api/github/webhooks", post(receive::receive))
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .with_state(intake)
}
