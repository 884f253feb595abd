//! What GitHub lets us do: budgets, pauses, and the pace of writes.
//!
//! GitHub asks for serial writes with a second between them, allows 80 content-creating requests a minute and 500 an
//! hour, and may ban a client that goes on when it was told to wait. All of that counts by installation, whichever
//! instance of the bot sends the request; so where an installation stands ([`standing`]) is a row that all instances on
//! one database share ([`store`]):
//!
//! - **A write** takes its turn in that row and gives it back, so one write of an installation is under way at a time. A
//!   turn that begins within seconds is waited for; for a later one the job is put off and waits as a row. A turn whose
//!   holder died runs out.
//! - **A secondary limit** is written there by whoever met it, and stops everybody.
//! - **A read** asks the database for nothing of its own: it holds to what this process knows, which is looked up again
//!   when it is older than [`FRESH`]. So another instance's pause is noticed that late at most; a read that slips through
//!   before is one of those that were under way.
//!
//! What an answer's headers say of the budget is remembered in the process, and goes into the row with the next write.
//! The App's own requests and a person's token on the command line have no row: they are one process's affair.
//!
//! Known race: clocks of instances differ. Only differences of instants matter here, and a clock that is off by seconds
//! makes a pause as much longer or shorter.

pub mod standing;
pub mod store;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use http::HeaderMap;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::OwnedMutexGuard;

use super::breaker::Breaker;
use super::error::GitHubError;
use crate::clock::{SharedClock, Stopwatch};
use crate::db::{Db, DbError};
use standing::{Budget, NoTurn, Pace, Standing, Turn};
use store::Standings;

/// How long a process holds what it knows of an installation for true before it looks again.
pub const FRESH: SignedDuration = SignedDuration::from_secs(5);

/// How long a write waits while others of its installation write, before its job is put off for as long.
const PATIENCE: Duration = Duration::from_secs(3);

/// How often it looks whether another instance has ended its write.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// A turn runs out after this: GitHub gives up on a request after 10 s.
const LONGEST_WRITE: Duration = Duration::from_secs(12);

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

impl Payer {
    /// As metrics name it.
    fn name(self) -> String {
        match self {
            Self::Anonymous => "anonymous".to_owned(),
            Self::App => "app".to_owned(),
            Self::Person => "person".to_owned(),
            Self::Installation(id) => id.to_string(),
        }
    }
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
#[derive(Clone)]
pub struct Budgets {
    known: Arc<Mutex<HashMap<Payer, Known>>>,
    shared: Arc<OnceLock<Standings>>,
    clock: SharedClock,
    pace: Pace,
}

/// What this process knows of a payer.
#[derive(Default)]
struct Known {
    standing: Standing,
    graphql: Option<Budget>,
    breaker: Breaker,
    /// When the row was last read.
    looked: Option<Timestamp>,
    /// Held by the one that writes, so that the others of this process wait without asking the database.
    writer: Arc<tokio::sync::Mutex<()>>,
}

/// The right to send one write, to be given back.
pub struct WriteTurn {
    payer: Payer,
    turn: Turn,
    _here: OwnedMutexGuard<()>,
}

impl Budgets {
    /// With this pause between writes.
    pub fn new(write_gap: Duration, clock: SharedClock) -> Self {
        let pace = Pace { gap: write_gap, longest: LONGEST_WRITE };
        Self { known: Arc::default(), shared: Arc::default(), clock, pace }
    }

    /// Shares what is known of installations with the other instances on this database.
    pub fn share_in(&self, db: Db) {
        // A second database would split the installations' clients in two; the first stays.
        let _ = self.shared.set(Standings::new(db));
    }

    /// Lets a request pass, unless GitHub would refuse it or is failing.
    ///
    /// # Errors
    /// [`GitHubError::RateLimited`] and [`GitHubError::Resting`], with how long to wait.
    pub async fn admit(&self, payer: Payer, resource: Resource) -> Result<(), GitHubError> {
        self.look(payer).await;
        let now = self.now();
        self.with(payer, |known| {
            let budget = match resource {
                Resource::Core => known.standing.core,
                Resource::GraphQl => known.graphql,
            };
            let exhausted = budget.and_then(|budget| budget.exhausted(now));
            if let Some(wait) = known.standing.paused(now).max(exhausted) {
                return Err(GitHubError::RateLimited { wait });
            }
            known.breaker.enter(now).map_err(|wait| GitHubError::Resting { wait })
        })
    }

    /// Remembers what an answer's headers say, and shows it as a metric. `sent_at` is GitHub's clock at the answer.
    pub fn note(&self, payer: Payer, resource: Resource, headers: &HeaderMap, sent_at: Timestamp) {
        let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<u64>().ok();
        let (Some(left), Some(reset)) = (number("x-ratelimit-remaining"), number("x-ratelimit-reset")) else {
            return;
        };
        let Some(reset) = i64::try_from(reset).ok().and_then(|second| Timestamp::from_second(second).ok()) else {
            return;
        };
        // By our clock, which may be off.
        let reset = self.now().checked_add(reset.duration_since(sent_at)).unwrap_or(reset);
        let budget = Budget { limit: number("x-ratelimit-limit").unwrap_or_default(), left, reset };
        self.with(payer, |known| match resource {
            Resource::Core => known.standing.seen(budget),
            Resource::GraphQl => known.graphql = Some(budget),
        });
        #[expect(clippy::cast_precision_loss, reason = "a budget is a few thousand")]
        metrics::gauge!("secondlook_github_budget_remaining",
            "installation" => payer.name(), "resource" => resource.name())
        .set(left as f64);
    }

    /// GitHub answered, whatever it said.
    pub fn answered(&self, payer: Payer) {
        let was_open = self.with(payer, |known| {
            let was_open = known.breaker.is_open();
            known.breaker.answered();
            was_open
        });
        if was_open {
            show_breaker(payer, false);
            tracing::info!(github.payer = %payer.name(), "GitHub answers again");
        }
    }

    /// A request failed. Returns the error to go on with: once the breaker is open, what is `harmless` to repeat is put
    /// off as everything else is. A write keeps its error, because it may have happened.
    pub fn ended(&self, payer: Payer, harmless: bool, error: GitHubError) -> GitHubError {
        if !matches!(error, GitHubError::Unavailable(_)) {
            self.answered(payer);
            return error;
        }
        let now = self.now();
        let (was_open, rest) = self.with(payer, |known| (known.breaker.is_open(), known.breaker.failed(now)));
        let Some(wait) = rest else { return error };
        if !was_open {
            show_breaker(payer, true);
            tracing::warn!(github.payer = %payer.name(), "GitHub keeps failing; it is left alone for a while");
        }
        if harmless { GitHubError::Resting { wait } } else { error }
    }

    /// GitHub refused a request and named this wait. Returns how long nothing is to be sent.
    pub async fn limited(&self, payer: Payer, resource: Resource, told: Duration) -> Duration {
        let now = self.now();
        let exhausted = self.with(payer, |known| match resource {
            Resource::Core => known.standing.core.and_then(|budget| budget.exhausted(now)),
            Resource::GraphQl => known.graphql.and_then(|budget| budget.exhausted(now)),
        });
        let limit = move |standing: &mut Standing| exhausted.unwrap_or_else(|| standing.limited(Some(told), now));
        match self.change(payer, limit).await {
            Ok(wait) => wait,
            Err(error) => {
                tracing::warn!(error = %error, "a pause of GitHub's could not be shared; it holds in this process");
                self.with(payer, |known| limit(&mut known.standing))
            }
        }
    }

    /// Takes the turn to write: at once, or after a wait of seconds.
    ///
    /// # Errors
    /// [`GitHubError::RateLimited`] when it is not to be had soon, [`GitHubError::NotSent`] when the database fails.
    pub async fn turn(&self, payer: Payer) -> Result<WriteTurn, GitHubError> {
        let unshared =
            |error: DbError| GitHubError::NotSent(format!("whose turn it is to write cannot be looked up ({error})"));
        let writer = self.with(payer, |known| Arc::clone(&known.writer));
        let Ok(here) = tokio::time::timeout(PATIENCE, writer.lock_owned()).await else {
            return Err(GitHubError::RateLimited { wait: PATIENCE });
        };
        let (pace, waited) = (self.pace, Stopwatch::start());
        loop {
            let now = self.now();
            match self.change(payer, move |standing| standing.take_turn(now, &pace)).await.map_err(unshared)? {
                Ok(turn) => {
                    tokio::time::sleep(turn.wait).await;
                    return Ok(WriteTurn { payer, turn, _here: here });
                }
                Err(NoTurn::For(wait)) => return Err(GitHubError::RateLimited { wait }),
                Err(NoTurn::Busy) if waited.elapsed() >= PATIENCE => {
                    return Err(GitHubError::RateLimited { wait: PATIENCE });
                }
                Err(NoTurn::Busy) => tokio::time::sleep(LOOK_AGAIN).await,
            }
        }
    }

    /// Gives a turn back; `taken` when GitHub took the write.
    pub async fn give_back(&self, turn: WriteTurn, taken: bool) {
        let (now, pace, given) = (self.now(), self.pace, turn.turn);
        let result = self.change(turn.payer, move |standing| standing.give_back(given, taken, now, &pace)).await;
        if let Err(error) = result {
            tracing::warn!(error = %error, "a turn to write could not be given back; it runs out by itself");
        }
    }

    /// How long new automatic work should wait, so that what is left of the hour's budget serves people and what is under
    /// way.
    pub fn reserved(&self, payer: Payer) -> Option<Duration> {
        let now = self.now();
        self.with(payer, |known| known.standing.core).and_then(|budget| budget.reserved(now))
    }

    /// Looks the row up again when what is known is old. A database that fails keeps nobody from reading.
    async fn look(&self, payer: Payer) {
        let (Payer::Installation(installation), Some(shared)) = (payer, self.shared.get()) else { return };
        let now = self.now();
        let due = self.with(payer, |known| {
            let due = known.looked.is_none_or(|looked| now.duration_since(looked).abs() >= FRESH);
            if due {
                known.looked = Some(now);
            }
            due
        });
        if !due {
            return;
        }
        match shared.get(installation).await {
            Ok(row) => self.with(payer, |known| known.take_over(row)),
            Err(error) => tracing::warn!(error = %error, "GitHub's limits could not be looked up"),
        }
    }

    /// Changes where a payer stands: in its row, or here when it has none.
    async fn change<T: Send>(
        &self,
        payer: Payer,
        change: impl FnOnce(&mut Standing) -> T + Send,
    ) -> Result<T, DbError> {
        let (Payer::Installation(installation), Some(shared)) = (payer, self.shared.get()) else {
            return Ok(self.with(payer, |known| change(&mut known.standing)));
        };
        let core = self.with(payer, |known| known.standing.core);
        let change = |row: &mut Standing| {
            if let Some(core) = core {
                row.seen(core);
            }
            change(row)
        };
        let (done, row) = shared.change(installation, change).await?;
        let now = self.now();
        self.with(payer, |known| {
            known.looked = Some(now);
            known.take_over(row);
        });
        Ok(done)
    }

    fn with<T>(&self, payer: Payer, act: impl FnOnce(&mut Known) -> T) -> T {
        act(self.known.lock().unwrap_or_else(PoisonError::into_inner).entry(payer).or_default())
    }

    /// In milliseconds, as rows hold it.
    fn now(&self) -> Timestamp {
        let now = self.clock.now();
        Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now)
    }
}

fn show_breaker(payer: Payer, open: bool) {
    metrics::gauge!("secondlook_github_breaker_open", "installation" => payer.name()).set(f64::from(u8::from(open)));
}

impl Known {
    /// The row is right but for the budget, which is seen here first.
    fn take_over(&mut self, row: Standing) {
        let seen = self.standing.core;
        self.standing = row;
        if let Some(seen) = seen {
            self.standing.seen(seen);
        }
    }
}
