//! The database is damaged, full, locked, slow, away, or another one: nothing is lost, and everybody is told.

mod backup;
mod disk;
mod postgres;
mod sqlite;

use std::sync::Arc;
use std::time::Duration;

use secondlook::clock::SystemClock;
use secondlook::db::Db;
use secondlook::job::Job;
use secondlook::queue::Settings;
use secondlook::queue::store::Queue;
use secondlook::webhook::{Intake, Secrets, store};
use tokio::sync::Notify;

use crate::harness::delivery::{SECRET, Server};

/// A server over a database, that gives a delivery little time to be written down.
struct Receiver {
    db: Db,
    queue: Queue<Job>,
    server: Server,
}

impl Receiver {
    async fn over(db: Db) -> Self {
        let queue = Queue::new(db.clone(), Arc::new(SystemClock), Settings::default());
        let secrets = Secrets::new(vec![SECRET.into()]);
        let intake = Intake::new(db.clone(), queue.clone(), Arc::new(SystemClock), secrets, Arc::new(Notify::new()));
        let server = Server::start(intake.record_time(Duration::from_millis(400))).await;
        Self { db, queue, server }
    }

    /// Delivers a pull request that was opened, and returns the status.
    async fn deliver(&self, id: &str) -> u16 {
        let body = include_bytes!("../../../fixtures/webhook/pull_request.opened.json");
        self.server.deliver(id, "pull_request", body).await.0
    }

    /// Whether a delivery was written down.
    async fn knows(&self, id: &str) -> bool {
        store::outcome(&self.db, id).await.unwrap().is_some()
    }
}
