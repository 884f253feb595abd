//! Time as a value.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use secondlook::clock::Clock;

/// A clock that stands still until a test moves it.
#[derive(Debug, Clone)]
pub(crate) struct ManualClock {
    now: Arc<AtomicI64>,
    passed: Arc<AtomicI64>,
}

impl Default for ManualClock {
    fn default() -> Self {
        let start: Timestamp = "2026-01-05T09:00:00Z".parse().unwrap();
        Self { now: Arc::new(AtomicI64::new(start.as_millisecond())), passed: Arc::default() }
    }
}

impl ManualClock {
    /// Lets time pass.
    pub(crate) fn advance(&self, by: Duration) {
        let by = i64::try_from(by.as_millis()).unwrap();
        self.now.fetch_add(by, Ordering::SeqCst);
        self.passed.fetch_add(by, Ordering::SeqCst);
    }

    /// Sets the time of day on or back by so many seconds, while no time passes.
    pub(crate) fn jump(&self, seconds: i64) {
        self.now.fetch_add(seconds * 1_000, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millisecond(self.now.load(Ordering::SeqCst)).unwrap()
    }

    fn passed(&self) -> Duration {
        Duration::from_millis(self.passed.load(Ordering::SeqCst).cast_unsigned())
    }
}
