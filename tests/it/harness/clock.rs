//! Time as a value.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use secondlook::clock::Clock;

/// A clock that stands still until a test moves it.
#[derive(Debug, Clone)]
pub(crate) struct ManualClock(Arc<AtomicI64>);

impl Default for ManualClock {
    fn default() -> Self {
        let start: Timestamp = "2026-01-05T09:00:00Z".parse().unwrap();
        Self(Arc::new(AtomicI64::new(start.as_millisecond())))
    }
}

impl ManualClock {
    /// Lets time pass.
    pub(crate) fn advance(&self, by: Duration) {
        self.0.fetch_add(i64::try_from(by.as_millis()).unwrap(), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millisecond(self.0.load(Ordering::SeqCst)).unwrap()
    }
}
