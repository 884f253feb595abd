//! Deliveries that did not arrive: GitHub tries each once and keeps it for three days (Enterprise Server: seven), and
//! whoever was down has to ask.
//!
//! Each round walks through the App's list of deliveries, newest first, back to where the last one began. What is not in
//! our own records and could matter is taken from the list itself, payload and all, through the same transaction as the
//! intake. That works also where GitHub still cannot reach us, brings the most recent first, and needs no signature, as
//! GitHub was asked over our own credentials. Only where GitHub does not give the payload is it asked to deliver again.
//!
//! - Our records decide, not the status: what a forwarder took and lost was "delivered" too. Of what was taken before the
//!   first round ever we have no records, so of that time only failures count.
//! - The list is compared with itself: `looked_until` is a time of GitHub's, so a clock of ours that is off loses nothing.
//!   Rounds overlap a little, since an entry appears only when its delivery has ended.
//! - A round reads so many pages and payloads at most, and the next one goes on from there, soon.
//! - The same event may come by both ways at once: the record is made once, and the loser does nothing.

use jiff::{SignedDuration, Timestamp};
use tokio_util::sync::CancellationToken;

use super::accept::Unaccepted;
use super::store::{self, Progress, Walk};
use super::{Intake, event};
use crate::db::DbError;
use crate::github::client::GitHubApp;
use crate::github::deliveries::Attempt;
use crate::github::error::GitHubError;

/// Pages of 100 read in one round.
const PAGES: usize = 10;
/// Payloads read in one round.
const PAYLOADS: usize = 50;
/// How far rounds overlap. A delivery takes 30 s at most, and enters the list when it has ended.
const OVERLAP: SignedDuration = SignedDuration::from_mins(2);

/// What a round came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Round {
    /// Deliveries that were taken in.
    pub fetched: usize,
    /// Whether there is more to look at: the next round should come soon.
    pub more: bool,
}

/// Why a round broke off. What it had taken in stays, and the next one goes on.
#[derive(Debug, thiserror::Error)]
pub enum MissedError {
    /// GitHub failed or refused.
    #[error(transparent)]
    GitHub(#[from] GitHubError),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] DbError),
}

/// Looks for deliveries that are not recorded, and takes them in.
///
/// # Errors
/// See [`MissedError`].
pub async fn fetch(intake: &Intake, app: &GitHubApp, stop: &CancellationToken) -> Result<Round, MissedError> {
    let known = store::progress(&intake.db, app.id()).await?;
    let mut look = Look { intake, app, fetched: 0, payloads: PAYLOADS };
    let mut progress = known.clone().unwrap_or_default();
    let floor = progress.looked_until.checked_sub(OVERLAP).unwrap_or(Timestamp::MIN);
    for _ in 0..PAGES {
        let cursor = progress.walk.as_ref().map(|walk| walk.cursor.clone());
        let page = match app.deliveries(cursor.as_deref()).await {
            Ok(page) => page,
            Err(error) => return look.without_list(progress, error).await,
        };
        progress.told = false;
        // The newest entry's time, as GitHub tells it.
        let newest = page.attempts.first().map(|attempt| attempt.delivered_at);
        let from = progress.walk.as_ref().map_or_else(|| newest.unwrap_or(progress.looked_until), |walk| walk.from);
        if known.is_none() && progress.walk.is_none() {
            progress.since = newest.unwrap_or_default();
        }
        let recent = page.attempts.iter().take_while(|attempt| attempt.delivered_at >= floor);
        let ended = recent.clone().count() < page.attempts.len();
        for attempt in recent {
            if stop.is_cancelled() || !look.at(attempt, progress.since).await? {
                store::keep_progress(&intake.db, app.id(), &progress).await?;
                return Ok(Round { fetched: look.fetched, more: true });
            }
        }
        match page.next.filter(|_| !ended) {
            Some(cursor) => progress.walk = Some(Walk { from, cursor }),
            None => {
                (progress.walk, progress.looked_until) = (None, from);
                store::keep_progress(&intake.db, app.id(), &progress).await?;
                return Ok(Round { fetched: look.fetched, more: false });
            }
        }
        store::keep_progress(&intake.db, app.id(), &progress).await?;
    }
    Ok(Round { fetched: look.fetched, more: true })
}

/// A round under way.
struct Look<'l> {
    intake: &'l Intake,
    app: &'l GitHubApp,
    fetched: usize,
    payloads: usize,
}

impl Look<'_> {
    /// Looks at one entry of the list, and takes it in if it was missed. False when this round has read enough.
    async fn at(&mut self, attempt: &Attempt, since: Timestamp) -> Result<bool, MissedError> {
        let settled = attempt.taken && attempt.delivered_at <= since;
        if settled
            || !event::matters(&attempt.event, &attempt.action)
            || store::outcome(&self.intake.db, &attempt.guid).await?.is_some()
        {
            return Ok(true);
        }
        if self.payloads == 0 {
            return Ok(false);
        }
        self.payloads -= 1;
        let why = match self.app.delivered_payload(attempt.id).await {
            Ok(Some(payload)) => {
                self.take_in(attempt, payload.to_string().as_bytes()).await?;
                return Ok(true);
            }
            Ok(None) => "GitHub does not keep its payload".to_owned(),
            Err(
                error
                @ (GitHubError::RateLimited { .. } | GitHubError::Unauthorized(_) | GitHubError::Configuration(_)),
            ) => return Err(error.into()),
            Err(error) => error.to_string(),
        };
        match self.app.redeliver(attempt.id).await {
            Ok(()) => {
                tracing::info!(delivery.id = %attempt.guid, error = why, "A missed delivery was asked for again");
                Ok(true)
            }
            Err(GitHubError::NotFound(_) | GitHubError::Unprocessable(_)) => {
                tracing::warn!(delivery.id = %attempt.guid, error = why, "A missed delivery cannot be had any more");
                Ok(true)
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn take_in(&mut self, attempt: &Attempt, body: &[u8]) -> Result<(), MissedError> {
        match self.intake.accept(&attempt.guid, &attempt.event, body).await {
            Ok(_) => {
                self.fetched += 1;
                metrics::counter!("secondlook_deliveries_fetched_total").increment(1);
                Ok(())
            }
            Err(Unaccepted::Store(error)) => Err(error.into()),
            Err(Unaccepted::Malformed(error)) => {
                tracing::warn!(delivery.id = %attempt.guid, error = %error, "A missed delivery cannot be read; it is left");
                Ok(())
            }
        }
    }

    /// What to do when GitHub does not give a page.
    async fn without_list(&self, mut progress: Progress, error: GitHubError) -> Result<Round, MissedError> {
        let refused = matches!(
            error,
            GitHubError::NotFound(_)
                | GitHubError::Forbidden(_)
                | GitHubError::Unprocessable(_)
                | GitHubError::Unexpected { .. }
        );
        if !refused {
            return Err(error.into());
        }
        if progress.walk.take().is_some() {
            // The place in the list is too old: begin again.
            store::keep_progress(&self.intake.db, self.app.id(), &progress).await?;
            return Ok(Round { fetched: self.fetched, more: true });
        }
        if !progress.told {
            tracing::warn!(
                error = %error,
                "GitHub gives no list of the App's deliveries, so one that does not arrive stays missed. Is the App's \
                 webhook active, and is it an Enterprise Server before 3.2?"
            );
            progress.told = true;
            store::keep_progress(&self.intake.db, self.app.id(), &progress).await?;
        }
        Ok(Round { fetched: self.fetched, more: false })
    }
}
