//! A circuit breaker: a GitHub that keeps failing is left alone for a while. Pure; time is an argument.
//!
//! Each process has one for every payer, so an installation whose requests fail (a proxy on the way, an Enterprise Server
//! that is being updated) holds up no other. It is not shared by instances: each finds out with a handful of requests,
//! and asks again with one.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// Failures in a row that open it. A job repeats none of its requests at once, so these are at least two jobs.
const FAILURES: u32 = 5;

/// How long it stays open at first; doubled with every trial that fails.
const FIRST_PAUSE: Duration = Duration::from_secs(30);

/// The longest it stays open.
const LONGEST_PAUSE: Duration = Duration::from_secs(5 * 60);

/// How long the others wait for the one on trial: longer than any request takes.
const TRIAL: Duration = Duration::from_secs(30);

/// The state of one payer.
#[derive(Debug, Clone, Copy, Default)]
pub struct Breaker {
    failures: u32,
    pauses: u32,
    open_until: Option<Timestamp>,
    on_trial: bool,
}

impl Breaker {
    /// Whether a request may be sent. The first after the pause is let through on trial; the others wait for what
    /// becomes of it.
    ///
    /// # Errors
    /// How long to wait.
    pub fn enter(&mut self, now: Timestamp) -> Result<(), Duration> {
        let Some(until) = self.open_until else { return Ok(()) };
        if now < until {
            return Err(rest(until, now));
        }
        self.on_trial = true;
        self.open_until = Some(later(now, TRIAL));
        Ok(())
    }

    /// GitHub answered, whatever it said.
    pub fn answered(&mut self) {
        *self = Self::default();
    }

    /// GitHub failed: a 5xx, a time-out, a cut connection. Returns how long to leave it alone, if at all.
    pub fn failed(&mut self, now: Timestamp) -> Option<Duration> {
        self.failures = self.failures.saturating_add(1);
        if self.failures < FAILURES {
            return None;
        }
        // Requests that were under way when it opened say nothing new.
        if let Some(until) = self.open_until.filter(|until| now < *until && !self.on_trial) {
            return Some(rest(until, now));
        }
        let pause = FIRST_PAUSE.saturating_mul(1 << self.pauses.min(8)).min(LONGEST_PAUSE);
        self.pauses = self.pauses.saturating_add(1);
        self.on_trial = false;
        self.open_until = Some(later(now, pause));
        Some(pause)
    }

    /// Whether it is open.
    pub fn is_open(&self) -> bool {
        self.open_until.is_some()
    }
}

/// At least a second, so that it is no busy loop.
fn rest(until: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(until.duration_since(now)).unwrap_or_default().clamp(Duration::from_secs(1), LONGEST_PAUSE)
}

fn later(now: Timestamp, wait: Duration) -> Timestamp {
    SignedDuration::try_from(wait).ok().and_then(|wait| now.checked_add(wait).ok()).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    fn open() -> Breaker {
        let mut breaker = Breaker::default();
        for _ in 1..FAILURES {
            assert_eq!(breaker.failed(at(0)), None);
        }
        assert_eq!(breaker.failed(at(0)), Some(seconds(30)));
        breaker
    }

    #[test]
    fn one_answer_between_failures_keeps_it_closed() {
        let mut breaker = Breaker::default();
        for second in 0..20 {
            assert_eq!(breaker.failed(at(second)), None);
            if second % 4 == 3 {
                breaker.answered();
            }
            assert_eq!(breaker.enter(at(second)), Ok(()));
        }
    }

    #[test]
    fn one_request_is_let_through_on_trial() {
        let mut breaker = open();
        assert_eq!(breaker.enter(at(10)), Err(seconds(20)));
        assert_eq!(breaker.enter(at(30)), Ok(()));
        assert_eq!(breaker.enter(at(31)), Err(seconds(29)), "the others wait for it");
        breaker.answered();
        assert!(!breaker.is_open());
        assert_eq!(breaker.enter(at(32)), Ok(()));
        assert_eq!(breaker.failed(at(33)), None, "and all is forgotten");
    }

    #[test]
    fn pauses_grow_while_trials_fail() {
        let mut breaker = open();
        let mut now = 30;
        let mut pauses = Vec::new();
        for _ in 0..5 {
            breaker.enter(at(now)).unwrap();
            let pause = breaker.failed(at(now)).unwrap();
            pauses.push(pause.as_secs());
            now += i64::try_from(pause.as_secs()).unwrap();
        }
        assert_eq!(pauses, [60, 120, 240, 300, 300]);
    }

    #[test]
    fn failures_that_were_under_way_do_not_prolong_it() {
        let mut breaker = open();
        assert_eq!(breaker.failed(at(12)), Some(seconds(18)));
        assert_eq!(breaker.enter(at(30)), Ok(()));
    }

    #[test]
    fn a_trial_that_never_ends_is_followed_by_another() {
        let mut breaker = open();
        breaker.enter(at(30)).unwrap();
        assert_eq!(breaker.enter(at(60)), Ok(()));
    }
}
