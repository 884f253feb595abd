//! Runs jobs: claims, keeps leases alive, and turns outcomes into rows. The only place besides `serve` that spawns.
//!
//! A job's lease is extended by a task of its own, so that a handler which computes for long does not lose it. A handler
//! that panics costs one attempt of its job and nothing else.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use jiff::{SignedDuration, Timestamp};
use serde::{Serialize, de::DeserializeOwned};
use tokio::task::{AbortHandle, JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::Lease;
use super::store::tenure::Tenure;
use super::store::{CHANNEL, Hold, Outcome, Queue};
use crate::db::DbError;
use crate::ids::new_id;
use crate::retry;
use crate::room::Room;

/// Pause before another try to hear the other instances.
const LISTEN_AGAIN: Duration = Duration::from_secs(5);

/// How often the gauges of the queue are brought up to date.
const GAUGES: Duration = Duration::from_secs(10);

/// Why a job should stop at its next checkpoint, seen through a token that a heartbeat sets.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    /// A newer job wants this one's place, or the process is stopping, or the lease is lost.
    pub token: CancellationToken,
    /// The lease behind the work, to be asked before anything is written that cannot be taken back; none where nobody
    /// else could take the work over.
    pub tenure: Option<Tenure>,
}

/// Does the work of a job.
#[async_trait]
pub trait Handler<J>: Send + Sync {
    /// One try. Looks at `stop` between checkpoints.
    async fn handle(&self, lease: &Lease<J>, stop: &Stop) -> Outcome;

    /// Says where people look that a job is given up, and why. One try: what it returns counts as in [`Handler::handle`],
    /// only that the job is given up whatever it is.
    async fn give_up(&self, lease: &Lease<J>, reason: &str, stop: &Stop) -> Outcome;
}

/// Runs one due job to its end. `false` when nothing was due.
///
/// # Errors
/// When the queue's database fails.
pub async fn run_next<J>(queue: &Queue<J>, handler: &dyn Handler<J>, worker: &str) -> Result<bool, DbError>
where
    J: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    let Some(lease) = queue.claim(worker).await? else { return Ok(false) };
    // Without a process to stop, the handler has all the time it needs.
    run_lease(queue, handler, &lease, &CancellationToken::new()).await?;
    Ok(true)
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
    let process = new_id();
    let mut tasks = JoinSet::new();
    let room = Room::new(queue.settings().max_memory);
    for slot in 1..=queue.settings().workers.max(1) {
        let worker = format!("{process}-{slot}");
        tasks.spawn(run_slot(queue.clone(), handler.clone(), room.clone(), wake.clone(), shutdown.clone(), worker));
    }
    tasks.spawn(hear_others(queue.clone(), shutdown.clone()));
    tasks.spawn(keep_gauges(queue, room, shutdown));
    while tasks.join_next().await.is_some() {}
}

/// One worker of a process: a job after the other.
async fn run_slot<J>(
    queue: Queue<J>,
    handler: Arc<dyn Handler<J>>,
    room: Room,
    wake: Arc<tokio::sync::Notify>,
    shutdown: CancellationToken,
    worker: String,
) where
    J: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    let mut changes = queue.changes();
    while !shutdown.is_cancelled() {
        changes.mark_unchanged();
        let Some(place) = room.begin_job() else {
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = room.freed() => {}
                () = tokio::time::sleep(queue.settings().poll) => {}
            }
            continue;
        };
        let ran = match queue.claim(&worker).await {
            Ok(Some(lease)) => run_lease(&queue, handler.as_ref(), &lease, &shutdown).await.map(|()| true),
            Ok(None) => Ok(false),
            Err(error) => Err(error),
        };
        // Who waits for work takes no room.
        drop(place);
        match ran {
            Ok(true) => continue,
            Ok(false) => {}
            Err(error) => tracing::error!(error = %error, "The queue's database fails; trying again"),
        }
        let wait = idle_wait(&queue).await;
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = wake.notified() => {}
            _ = changes.changed() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// How long an idle worker sleeps: until something is due, and never longer than a poll.
async fn idle_wait<J>(queue: &Queue<J>) -> Duration {
    let poll = queue.settings().poll;
    let Ok(Some(due)) = queue.next_due().await else { return poll };
    match Duration::try_from(due.duration_since(queue.clock().now())) {
        // What is due already could not be claimed just now: its key is running, or another instance takes it.
        Ok(wait) if !wait.is_zero() => wait.min(poll),
        _ => poll,
    }
}

/// Runs a claimed job and writes down how it ended.
async fn run_lease<J>(
    queue: &Queue<J>,
    handler: &dyn Handler<J>,
    lease: &Lease<J>,
    shutdown: &CancellationToken,
) -> Result<(), DbError>
where
    J: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    let span = tracing::info_span!(
        "job",
        job.id = %lease.id,
        job.kind = %lease.kind,
        job.key = %lease.key,
        job.attempt = lease.attempt
    );
    async {
        let started = queue.clock().now();
        let waited = started.duration_since(lease.enqueued_at);
        metrics::histogram!("secondlook_job_wait_seconds", "kind" => lease.kind.clone()).record(waited.as_secs_f64());
        let token = shutdown.child_token();
        let tenure = queue.tenure(lease, token.clone());
        let heartbeat = Heartbeat::start(queue.clone(), tenure.clone());
        let stop = Stop { token, tenure: Some(tenure) };
        let work = match &lease.given_up {
            None => handler.handle(lease, &stop),
            Some(reason) => handler.give_up(lease, reason, &stop),
        };
        let work = AssertUnwindSafe(work).catch_unwind();
        let outcome = tokio::select! {
            outcome = work => outcome.unwrap_or_else(|_| {
                tracing::error!("A job panicked; it counts as a failed attempt");
                let again = after(queue.clock().now(), retry::backoff(lease.attempt));
                // Not the panic's own text: it may quote what the job was working on.
                Outcome::RetryAt(again, "the job panicked; the process's error output says where".to_owned())
            }),
            () = out_of_grace(shutdown, queue.settings().grace) => {
                tracing::warn!("A job did not reach a checkpoint within the grace period; it is handed back");
                Outcome::Released
            }
        };
        drop(heartbeat);
        let kept = write_outcome(queue, lease, &outcome).await?;
        let took = queue.clock().now().duration_since(started);
        report(lease, &outcome, kept, queue.is_last(lease), Duration::try_from(took).unwrap_or_default());
        Ok(())
    }
    .instrument(span)
    .await
}

/// Writes the outcome, twice again when the database has a passing fault: the alternative is to do the work again when
/// the lease has run out.
async fn write_outcome<J>(queue: &Queue<J>, lease: &Lease<J>, outcome: &Outcome) -> Result<bool, DbError>
where
    J: Serialize + DeserializeOwned + Send + Sync,
{
    for _ in 0..2 {
        match queue.finish(lease, outcome).await {
            Ok(kept) => return Ok(kept),
            Err(error) => tracing::warn!(error = %error, "A job's outcome could not be written; trying again"),
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    queue.finish(lease, outcome).await
}

/// Logs and counts how a job ended.
fn report<J>(lease: &Lease<J>, outcome: &Outcome, kept: bool, last: bool, took: Duration) {
    let told = lease.given_up.is_some();
    let (word, reason) = match outcome {
        _ if !kept => ("lost", None),
        Outcome::Finished if told => ("told", None),
        Outcome::Finished => ("finished", None),
        Outcome::Released => ("released", None),
        Outcome::Postponed(_, reason) => ("postponed", Some(reason)),
        Outcome::RetryAt(_, reason) if !last => (if told { "tell_again" } else { "retry" }, Some(reason)),
        Outcome::RetryAt(_, reason) | Outcome::Failed(reason) => (if told { "untold" } else { "dead" }, Some(reason)),
    };
    let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    let reason = reason.map_or("", String::as_str);
    match word {
        "lost" => tracing::warn!(job.took_ms = took_ms, "A job lost its lease while it ran; its outcome is not kept"),
        "postponed" => tracing::info!(job.took_ms = took_ms, job.reason = reason, "A job waits for what it needs"),
        "retry" => tracing::warn!(job.took_ms = took_ms, job.reason = reason, "A job failed and is tried again later"),
        "dead" => tracing::error!(job.took_ms = took_ms, job.reason = reason, "A job is given up"),
        "tell_again" => {
            tracing::warn!(job.reason = reason, "That a job was given up could not be said yet; tried again later");
        }
        "untold" => tracing::error!(job.reason = reason, "That a job was given up could not be said on GitHub"),
        _ => tracing::info!(job.took_ms = took_ms, job.outcome = word, "A job ended"),
    }
    metrics::counter!("secondlook_jobs_total", "kind" => lease.kind.clone(), "outcome" => word).increment(1);
    metrics::histogram!("secondlook_job_seconds", "kind" => lease.kind.clone()).record(took.as_secs_f64());
}

/// Ends when a stopping process has waited long enough for its jobs.
async fn out_of_grace(shutdown: &CancellationToken, grace: Duration) {
    shutdown.cancelled().await;
    tokio::time::sleep(grace).await;
}

/// Wakes the workers of this process, and the heartbeats of its jobs, when another instance enqueues or cancels. Where
/// that fails, or the database has no such thing, they find out at their next look.
async fn hear_others<J>(queue: Queue<J>, shutdown: CancellationToken) {
    loop {
        let listening = async {
            let Some(mut listener) = queue.db().listen(CHANNEL).await? else { return Ok(()) };
            loop {
                // What came before we listened is told too.
                queue.announce();
                listener.heard().await?;
            }
        };
        let ended: Result<(), DbError> = tokio::select! {
            () = shutdown.cancelled() => return,
            ended = listening => ended,
        };
        let Err(error) = ended else { return };
        tracing::warn!(error = %error, "Other instances cannot be heard; the queue is looked at from time to time meanwhile");
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(LISTEN_AGAIN) => {}
        }
    }
}

/// Keeps the queue's gauges up to date until `shutdown`.
async fn keep_gauges<J>(queue: Queue<J>, room: Room, shutdown: CancellationToken) {
    loop {
        room.report();
        if let Ok(depth) = queue.depth().await {
            // A gauge is a float; a queue this long is not told apart by its last digits.
            metrics::gauge!("secondlook_queue_jobs", "state" => "queued").set(depth.queued as f64);
            metrics::gauge!("secondlook_queue_jobs", "state" => "planned").set(depth.planned as f64);
            metrics::gauge!("secondlook_queue_jobs", "state" => "running").set(depth.running as f64);
            metrics::gauge!("secondlook_queue_jobs", "state" => "dead").set(depth.dead as f64);
            metrics::gauge!("secondlook_queue_oldest_due_seconds").set(depth.oldest_due_ms as f64 / 1_000.0);
        }
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(GAUGES) => {}
        }
    }
}

/// A task that extends a lease and passes on what it learns. Dropped, it ends.
struct Heartbeat(AbortHandle);

impl Heartbeat {
    fn start<J>(queue: Queue<J>, tenure: Tenure) -> Self
    where
        J: Send + Sync + 'static,
    {
        Self(tokio::spawn(beat(queue, tenure).in_current_span()).abort_handle())
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn beat<J>(queue: Queue<J>, tenure: Tenure) {
    let every = (queue.settings().lease / 3).min(queue.settings().look);
    let mut changes = queue.changes();
    let mut held_until = after(queue.clock().now(), queue.settings().lease);
    loop {
        tokio::select! {
            () = tokio::time::sleep(every) => {}
            _ = changes.changed() => {}
        }
        let stopping = tenure.stop_asked();
        match tenure.look().await {
            Ok(Hold::Held) => held_until = after(queue.clock().now(), queue.settings().lease),
            Ok(Hold::Interrupted) => {
                held_until = after(queue.clock().now(), queue.settings().lease);
                if !stopping {
                    tracing::info!("A newer job wants this one's place; it stops at its next checkpoint");
                }
            }
            Ok(Hold::Lost) => {
                tracing::warn!("The lease is lost; the job stops");
                return;
            }
            Err(error) => {
                tracing::warn!(error = %error, "A lease could not be extended");
                if queue.clock().now() >= held_until {
                    tracing::warn!("The lease has run out unextended; the job stops");
                    return tenure.ask_to_stop();
                }
            }
        }
    }
}

/// An instant `wait` later, or the last one there is.
fn after(now: Timestamp, wait: Duration) -> Timestamp {
    SignedDuration::try_from(wait).ok().and_then(|wait| now.checked_add(wait).ok()).unwrap_or(Timestamp::MAX)
}
