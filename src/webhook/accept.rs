//! What becomes of a delivery that is believed: read, planned, recorded and enqueued.

use super::Intake;
use super::event::{self, BadPayload};
use super::plan::plan;
use super::store::{self, Delivery};
use crate::db::DbError;

/// Why a delivery that is believed comes to nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unaccepted {
    /// Its payload cannot be understood.
    #[error(transparent)]
    Malformed(#[from] BadPayload),
    /// It could not be recorded; nothing of it is written.
    #[error(transparent)]
    Store(#[from] DbError),
}

impl Intake {
    /// Takes a delivery in that is known to be GitHub's: by its signature, or because GitHub was asked for it. Returns
    /// one word for what was made of it.
    ///
    /// # Errors
    /// See [`Unaccepted`].
    pub(super) async fn accept(&self, id: &str, name: &str, body: &[u8]) -> Result<&'static str, Unaccepted> {
        let action = event::action_of(body)?;
        let event = event::parse(name, body)?;
        let delivery = Delivery { id: id.to_owned(), event: name.to_owned(), action };
        let now = self.clock.now();
        let plan = plan(&event, self.secrets.app(), now);
        if !store::record(&self.db, &self.queue, &delivery, &plan, now, self.record_time).await? {
            tracing::info!(delivery.id = id, "A delivery came again; nothing follows from it");
            return Ok("known");
        }
        tracing::info!(
            delivery.id = id,
            delivery.event = name,
            delivery.action = %delivery.action,
            delivery.outcome = plan.outcome,
            "A delivery was recorded"
        );
        if !plan.jobs.is_empty() || !plan.cancels.is_empty() {
            self.queue.announce();
            self.wake.notify_one();
        }
        Ok(plan.outcome)
    }
}
