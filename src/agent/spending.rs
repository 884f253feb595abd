//! Accounts that outlive a process: what a pull request, a repository or a day may cost, over all instances.
//!
//! A call is booked with its estimated cost before it is made, and corrected once it is known; so a limit holds for calls
//! that are made side by side, and a process that dies in a call leaves it counted. Only what a model adds beyond the
//! estimate can go over a limit, once for each call under way.

pub mod store;

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

use super::limits::{Cost, Most};
use crate::db::DbError;
use store::SpendingStore;

/// Something that has a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Its key.
    pub key: String,
    /// Whether the limit is for one day (UTC), or for all time.
    pub daily: bool,
    /// The limit.
    pub most: Most,
    /// Whose budget it is, for people: `this pull request`.
    pub whose: &'static str,
}

/// The accounts that the calls of a run are booked on. None by default: then nothing is booked.
#[derive(Clone, Default)]
pub struct Purse {
    kept: Option<(SpendingStore, Arc<[Account]>)>,
}

/// A booked call.
#[derive(Debug, Clone, Copy)]
pub struct Booking {
    at: Timestamp,
    cost: Cost,
}

/// Why a call is not booked.
#[derive(Debug, thiserror::Error)]
pub enum NotBooked {
    /// A limit is reached.
    #[error("{0}")]
    Over(String),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] DbError),
}

impl fmt::Debug for Purse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Purse").field(&self.kept.as_ref().map(|(_, accounts)| accounts)).finish()
    }
}

impl Purse {
    /// These accounts, in an order that is the same for all who share some of them.
    pub fn new(store: SpendingStore, accounts: Vec<Account>) -> Self {
        Self { kept: Some((store, accounts.into())) }
    }

    /// Books the estimated cost of a call on all accounts, or on none.
    ///
    /// # Errors
    /// See [`NotBooked`].
    pub async fn book(&self, cost: Cost, now: Timestamp) -> Result<Booking, NotBooked> {
        let booking = Booking { at: now, cost };
        let Some((store, accounts)) = &self.kept else { return Ok(booking) };
        match store.book(accounts, cost, now).await? {
            None => Ok(booking),
            Some(over) => Err(NotBooked::Over(used_up(over))),
        }
    }

    /// Puts what a call did cost in the place of its estimate, on the day it was booked.
    pub async fn settle(&self, booking: Booking, cost: Cost) {
        let Some((store, accounts)) = &self.kept else { return };
        // The estimate stands then, which is the safer side.
        if let Err(error) = store.correct(accounts, booking.at, booking.cost, cost).await {
            tracing::warn!(%error, "the cost of a model call could not be booked; its estimate stands");
        }
    }
}

/// The day of an instant, in UTC.
pub fn day(at: Timestamp) -> String {
    at.strftime("%F").to_string()
}

fn used_up(account: &Account) -> String {
    let Account { most, whose, daily, .. } = account;
    let mut limits = Vec::new();
    if most.tokens < u64::MAX {
        limits.push(format!("{} tokens", most.tokens));
    }
    if most.micro_usd < u64::MAX {
        limits.push(format!("{} US cents", most.micro_usd / 10_000));
    }
    let limits = limits.join(", ");
    if *daily {
        format!(
            "the day's budget of {whose} is used up ({limits}); from midnight UTC on the next push or `/secondlook review` goes on"
        )
    } else {
        format!("the budget of {whose} is used up ({limits})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_named_with_what_to_do() {
        let most = Most { tokens: 500, micro_usd: 1_250_000 };
        let account = Account { key: "x".into(), daily: true, most, whose: "this repository" };
        assert_eq!(
            used_up(&account),
            "the day's budget of this repository is used up (500 tokens, 125 US cents); from midnight UTC on the next push \
             or `/secondlook review` goes on"
        );
        let account = Account { daily: false, most: Most::tokens(7), whose: "this pull request", ..account };
        assert_eq!(used_up(&account), "the budget of this pull request is used up (7 tokens)");
    }

    #[test]
    fn a_day_is_utc() {
        assert_eq!(day("2026-03-01T00:30:00+02:00".parse().unwrap()), "2026-02-28");
    }
}
