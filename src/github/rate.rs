//! What is left of GitHub's budgets, and the pace of writes.
//!
//! GitHub asks for serial writes with a second between them, and counts 80 content-creating requests a minute; a
//! client that ignores its limits may be banned. So each process writes one request at a time per installation, and
//! does not send a request that an exhausted budget is sure to refuse. Several instances of the bot do not know of
//! each other here: a review is a handful of writes, and what still goes over a limit is answered with a wait that the
//! queue honours.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::HeaderMap;
use jiff::Timestamp;

use super::error::LONGEST_WAIT;
use crate::clock::SharedClock;

/// Whose budget a request counts against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Payer {
    /// Nobody is signed in (60 requests an hour for the machine's address).
    Anonymous,
    /// The App itself, with its signed assertion.
    App,
    /// An installation: 5,000 an hour or more.
    Installation(u64),
    /// A person's token, on the command line.
    Person,
}

/// GitHub counts REST and GraphQL apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Resource {
    /// REST.
    Core,
    /// GraphQL.
    GraphQl,
}

impl Resource {
    /// GitHub's name for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::GraphQl => "graphql",
        }
    }
}

/// The budgets of all payers, shared by all clients of an App.
#[derive(Clone, Default)]
pub struct Budgets {
    left: Arc<Mutex<HashMap<(Payer, Resource), Budget>>>,
    paused: Arc<Mutex<HashMap<Payer, Timestamp>>>,
    writers: Arc<Mutex<HashMap<Payer, Arc<Writer>>>>,
}

#[derive(Debug, Clone, Copy)]
struct Budget {
    remaining: u64,
    reset: Timestamp,
}

/// Lets one write of a payer happen at a time.
#[derive(Default)]
pub struct Writer {
    last: tokio::sync::Mutex<Option<Timestamp>>,
}

/// The right to send one write. The pause until the next one counts from when it is dropped.
pub struct WriteTurn<'a> {
    last: tokio::sync::MutexGuard<'a, Option<Timestamp>>,
    clock: &'a SharedClock,
}

impl Budgets {
    /// How long a request would have to wait, for the budget to be filled again or for a pause to be over; `None` when
    /// it may be sent.
    pub fn exhausted(&self, payer: Payer, resource: Resource, now: Timestamp) -> Option<Duration> {
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let reset = left.get(&(payer, resource)).filter(|budget| budget.remaining == 0).map(|budget| budget.reset);
        drop(left);
        let paused = self.paused.lock().unwrap_or_else(PoisonError::into_inner).get(&payer).copied();
        let wait = Duration::try_from(reset.into_iter().chain(paused).max()?.duration_since(now)).ok()?;
        (!wait.is_zero()).then(|| wait.min(LONGEST_WAIT))
    }

    /// GitHub asked for a pause (a secondary limit): it holds for everything that this payer sends, whatever was asked.
    pub fn pause(&self, payer: Payer, until: Timestamp) {
        let mut paused = self.paused.lock().unwrap_or_else(PoisonError::into_inner);
        paused.entry(payer).and_modify(|known| *known = (*known).max(until)).or_insert(until);
    }

    /// Remembers what an answer's headers say, and shows it as a metric.
    pub fn note(&self, payer: Payer, resource: Resource, headers: &HeaderMap) {
        let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<u64>().ok();
        let (Some(remaining), Some(reset)) = (number("x-ratelimit-remaining"), number("x-ratelimit-reset")) else {
            return;
        };
        let Some(reset) = i64::try_from(reset).ok().and_then(|second| Timestamp::from_second(second).ok()) else {
            return;
        };
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        left.insert((payer, resource), Budget { remaining, reset });
        drop(left);
        let payer = match payer {
            Payer::Anonymous => "anonymous".to_owned(),
            Payer::App => "app".to_owned(),
            Payer::Person => "person".to_owned(),
            Payer::Installation(id) => id.to_string(),
        };
        #[expect(clippy::cast_precision_loss, reason = "a budget is a few thousand")]
        metrics::gauge!("secondlook_github_requests_left", "installation" => payer, "resource" => resource.name())
            .set(remaining as f64);
    }

    /// The queue of writes of a payer.
    pub fn writer(&self, payer: Payer) -> Arc<Writer> {
        let mut writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(writers.entry(payer).or_default())
    }
}

impl Writer {
    /// Waits for the writes before this one, and until `gap` has passed since the last.
    pub async fn turn<'a>(&'a self, gap: Duration, clock: &'a SharedClock) -> WriteTurn<'a> {
        let last = self.last.lock().await;
        if let Some(last) = *last {
            // A clock that was set back makes this a whole gap, never more.
            let passed = Duration::try_from(clock.now().duration_since(last)).unwrap_or_default();
            tokio::time::sleep(gap.saturating_sub(passed)).await;
        }
        WriteTurn { last, clock }
    }
}

impl Drop for WriteTurn<'_> {
    fn drop(&mut self) {
        *self.last = Some(self.clock.now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;

    fn headers(remaining: &str, reset: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert("x-ratelimit-remaining", remaining.parse().unwrap());
        headers.insert("x-ratelimit-reset", reset.parse().unwrap());
        headers
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn an_exhausted_budget_holds_requests_until_its_reset() {
        let budgets = Budgets::default();
        let one = Payer::Installation(1);
        assert_eq!(budgets.exhausted(one, Resource::Core, at(0)), None);
        budgets.note(one, Resource::Core, &headers("0", "100"));
        assert_eq!(budgets.exhausted(one, Resource::Core, at(40)), Some(Duration::from_secs(60)));
        assert_eq!(budgets.exhausted(one, Resource::Core, at(100)), None);
        assert_eq!(budgets.exhausted(one, Resource::GraphQl, at(40)), None, "GraphQL has a budget of its own");
        assert_eq!(budgets.exhausted(Payer::Installation(2), Resource::Core, at(40)), None, "and so has a neighbour");
        budgets.note(one, Resource::Core, &headers("4999", "3700"));
        assert_eq!(budgets.exhausted(one, Resource::Core, at(40)), None);
    }

    #[test]
    fn a_pause_holds_for_all_that_a_payer_sends() {
        let budgets = Budgets::default();
        let one = Payer::Installation(1);
        budgets.pause(one, at(60));
        budgets.pause(one, at(30));
        budgets.note(one, Resource::Core, &headers("4000", "3600"));
        assert_eq!(budgets.exhausted(one, Resource::Core, at(0)), Some(Duration::from_secs(60)));
        assert_eq!(budgets.exhausted(one, Resource::GraphQl, at(50)), Some(Duration::from_secs(10)));
        assert_eq!(budgets.exhausted(one, Resource::Core, at(60)), None);
        assert_eq!(budgets.exhausted(Payer::Installation(2), Resource::Core, at(0)), None);
    }

    #[test]
    fn headers_that_make_no_sense_change_nothing() {
        let budgets = Budgets::default();
        for (remaining, reset) in [("", "1"), ("0", "soon"), ("-1", "1"), ("0", "99999999999999999999")] {
            budgets.note(Payer::App, Resource::Core, &headers(remaining, reset));
        }
        budgets.note(Payer::App, Resource::Core, &HeaderMap::new());
        assert_eq!(budgets.exhausted(Payer::App, Resource::Core, at(0)), None);
    }

    #[tokio::test]
    async fn writes_of_a_payer_keep_their_distance() {
        let gap = Duration::from_millis(10);
        let writer = Budgets::default().writer(Payer::Person);
        let clock: SharedClock = std::sync::Arc::new(SystemClock);
        let start = clock.now();
        for _ in 0..3 {
            drop(writer.turn(gap, &clock).await);
        }
        assert!(clock.now().duration_since(start).unsigned_abs() >= gap * 2);
    }
}
