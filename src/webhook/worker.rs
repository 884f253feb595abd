//! Does the rounds that lead back into the intake, and leaves all other jobs to their worker.

use std::time::Duration;

use async_trait::async_trait;
use jiff::SignedDuration;

use super::{Intake, missed, store};
use crate::app::GitHubHandle;
use crate::job::{self, Job, round};
use crate::queue::Lease;
use crate::queue::store::Outcome;
use crate::queue::worker::{Handler, Stop};

/// A round that could not even call for its successor is tried again after this.
const AGAIN: SignedDuration = SignedDuration::from_mins(1);

/// The handler of all jobs.
pub struct Worker {
    jobs: job::worker::Worker,
    intake: Intake,
    github: GitHubHandle,
}

impl Worker {
    /// A worker that feeds what was missed into `intake`.
    pub fn new(jobs: job::worker::Worker, intake: Intake, github: GitHubHandle) -> Self {
        Self { jobs, intake, github }
    }

    /// Deletes rows whose time is over.
    async fn forget(&self) {
        if let Err(error) = store::prune(&self.intake.db, &self.intake.queue, self.intake.clock.now()).await {
            tracing::warn!(error = %error, "Old deliveries could not be forgotten; the next round tries again");
        }
    }

    async fn fetch(&self, lease: &Lease<Job>, stop: &Stop) {
        let Some(app) = self.github.get() else { return };
        let more = match missed::fetch(&self.intake, &app, &stop.token).await {
            Ok(round) => {
                if round.fetched > 0 {
                    tracing::info!(deliveries = round.fetched, "Deliveries that did not arrive were fetched");
                }
                round.more
            }
            Err(error) => {
                tracing::warn!(error = %error, "Missed deliveries could not be looked for; the next round tries again");
                false
            }
        };
        if more && let Err(error) = self.call(&lease.job, round::SOON).await {
            tracing::warn!(error = %error, "The next look for missed deliveries comes later than it could");
        }
    }

    async fn call(&self, job: &Job, wait: Duration) -> Result<(), crate::db::DbError> {
        round::call(&self.intake.db, &self.intake.queue, job, wait, self.intake.clock.now()).await
    }
}

#[async_trait]
impl Handler<Job> for Worker {
    async fn handle(&self, lease: &Lease<Job>, stop: &Stop) -> Outcome {
        if let Some(wait) = round::every(&lease.job)
            && let Err(error) = self.call(&lease.job, wait).await
        {
            let now = self.intake.clock.now();
            return Outcome::RetryAt(now.checked_add(AGAIN).unwrap_or(now), error.to_string());
        }
        match &lease.job {
            Job::FetchMissedDeliveries => self.fetch(lease, stop).await,
            Job::ForgetOldDeliveries => self.forget().await,
            _ => return self.jobs.handle(lease, stop).await,
        }
        Outcome::Finished
    }

    async fn give_up(&self, lease: &Lease<Job>, reason: &str, stop: &Stop) -> Outcome {
        self.jobs.give_up(lease, reason, stop).await
    }
}
