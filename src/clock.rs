//! The only place that asks what time it is.
//!
//! Everything that waits compares a stored time with [`Clock::now`], so that tests hold time as a value.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use jiff::Timestamp;

/// Tells the time. Shared by everything that stamps rows or decides whether something is due.
pub trait Clock: Send + Sync {
    /// The current instant.
    fn now(&self) -> Timestamp;

    /// The time since some moment of this process, whatever happens to the time of day in between. What [`Clock::now`]
    /// does beyond it is a jump: a correction of the clock, or a machine that slept.
    fn passed(&self) -> Duration {
        STARTED.elapsed()
    }
}

static STARTED: LazyLock<Instant> = LazyLock::new(Instant::now);

/// A clock that many parts hold.
pub type SharedClock = Arc<dyn Clock>;

/// The machine's own clock.
#[derive(Debug, Default, Clone, Copy)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// Measures how long something takes, for limits and metrics within one process. It says nothing about the time of day
/// and is never stored.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Begins to measure.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// The time since then.
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}
