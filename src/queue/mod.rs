//! A durable queue. Generic over the job: it knows keys, leases and times, not what a job does.
//!
//! - Jobs of one key never overlap. A newer job that supersedes replaces a queued older one of its kind and key, and asks
//!   a running one to stop at its next checkpoint; that one never comes back beside it. Other jobs of one key wait side by
//!   side and run one after the other, oldest first.
//! - Workers of all instances learn of a job when it is committed (PostgreSQL), of their own instance when it is announced,
//!   and at the latest when they next look.
//! - A job belongs to a tenant and that to an owner; they take turns, so that none starves another.
//! - A cancelled key loses what waits, and what runs when it next looks.
//! - A claim is a lease, extended while the job runs and fenced by attempt number: a worker that lost its lease cannot
//!   finish the job.
//! - A retry is a row with a later `run_at`. After the last attempt the job is given up, by whatever way it failed: the
//!   handler is told, again and again for some hours if it must, so that it can say so where people look; then the row
//!   is a dead letter that a person sees and can requeue.

pub mod store;
pub mod worker;

use std::time::Duration;

use jiff::Timestamp;

/// A job to be put into the queue.
#[derive(Debug, Clone)]
pub struct NewJob<J> {
    /// Names the sort of work, for supersession and metrics.
    pub kind: &'static str,
    /// Jobs of one key never run at the same time. At most 1,000 bytes.
    pub key: String,
    /// Who owns the tenant, such as an installation: owners take turns. At most 1,000 bytes.
    pub owner: String,
    /// On whose behalf it runs, such as a repository, by a name that no other owner's tenant has: the tenants of an owner
    /// take turns. At most 1,000 bytes.
    pub tenant: String,
    /// Not before this instant.
    pub run_at: Timestamp,
    /// Whether it replaces a queued job of the same kind and key and interrupts a running one.
    pub supersedes: bool,
    /// What to do.
    pub job: J,
}

/// The right to work on a job for a while.
#[derive(Debug, Clone)]
pub struct Lease<J> {
    /// The row.
    pub id: String,
    /// The sort of work.
    pub kind: String,
    /// The key.
    pub key: String,
    /// 1 for the first try. Fences this lease against later ones.
    pub attempt: u32,
    /// Who holds it.
    pub worker: String,
    /// When the job was enqueued.
    pub enqueued_at: Timestamp,
    /// Why it was given up, when what is left to do is to say so; `attempt` then counts the tries of that.
    pub given_up: Option<String>,
    /// What to do.
    pub job: J,
}

/// Times and counts of a queue.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How long a claim lasts without being extended.
    pub lease: Duration,
    /// Tries before a job becomes a dead letter.
    pub max_attempts: u32,
    /// Jobs run at the same time by one process.
    pub workers: usize,
    /// Jobs of one owner that run at the same time in all processes together, whoever else waits; no limit when none.
    pub per_owner: Option<u32>,
    /// How long a stopping process waits for jobs to reach their next checkpoint.
    pub grace: Duration,
    /// How often an idle worker looks for due work when nothing woke it.
    pub poll: Duration,
    /// Bytes of memory near which no further job begins; no bound without.
    pub max_memory: Option<u64>,
    /// How often a running job looks whether a newer one wants its place when nothing said so, however long its lease is.
    pub look: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(60),
            max_attempts: 8,
            workers: 4,
            per_owner: None,
            grace: Duration::from_secs(25),
            poll: Duration::from_secs(1),
            max_memory: None,
            look: Duration::from_secs(5),
        }
    }
}
