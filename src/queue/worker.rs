//! Runs jobs: claims, keeps leases alive, and turns outcomes into rows. The only place besides `serve` that spawns.

use std::sync::Arc;

use async_trait::async_trait;
use serde::{Serialize, de::DeserializeOwned};
use tokio_util::sync::CancellationToken;

use super::Lease;
use super::store::{Outcome, Queue};
use crate::db::DbError;

/// Why a job should stop at its next checkpoint, seen through a token that a heartbeat sets.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    /// A newer job wants this one's place, or the process is stopping, or the lease is lost.
    pub token: CancellationToken,
}

/// Does the work of a job.
#[async_trait]
pub trait Handler<J>: Send + Sync {
    /// One try. Looks at `stop` between checkpoints.
    async fn handle(&self, lease: &Lease<J>, stop: &Stop) -> Outcome;
}

/// Runs one due job to its end. `false` when nothing was due.
///
/// # Errors
/// When the queue's database fails.
pub async fn run_next<J>(queue: &Queue<J>, handler: &dyn Handler<J>, worker: &str) -> Result<bool, DbError>
where
    J: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    let _ = (queue, handler, worker);
    todo!()
}

/// Runs due jobs until none is due.
///
/// # Errors
/// When the queue's database fails.
pub async fn run_until_idle<J>(queue: &Queue<J>, handler: &dyn Handler<J>, worker: &str) -> Result<usize, DbError>
where
    J: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    let mut done = 0;
    while run_next(queue, handler, worker).await? {
        done += 1;
    }
    Ok(done)
}

/// Runs jobs with the configured concurrency until `shutdown`; then lets running ones reach a checkpoint within the
/// grace period, hands the rest back, and returns. `wake` shortens the wait of idle workers.
pub async fn run_forever<J>(
    queue: Queue<J>,
    handler: Arc<dyn Handler<J>>,
    wake: Arc<tokio::sync::Notify>,
    shutdown: CancellationToken,
) where
    J: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    let _ = (queue, handler, wake, shutdown);
    todo!()
}
