//! A circuit breaker: a model that keeps failing is left alone for a while. Pure; time is an argument.

use std::time::Duration;

use jiff::Timestamp;

/// When a breaker opens, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Failures in a row that open it.
    pub failures: u32,
    /// How long it stays open.
    pub pause: Duration,
}

/// The state of one model.
#[derive(Debug, Clone, Copy, Default)]
pub struct Breaker {
    failures: u32,
    closed_again: Option<Timestamp>,
    limited: bool,
}

/// Why a model is left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Open {
    /// How long still.
    pub wait: Duration,
    /// It asked for the pause itself, by a rate limit.
    pub limited: bool,
}

impl Breaker {
    /// Whether the model may be asked now. The first to ask after the pause is let through on trial, and the breaker
    /// stays open for the others for another pause, or until that one has come back.
    ///
    /// # Errors
    /// [`Open`] while it is left alone.
    pub fn enter(&mut self, now: Timestamp, limits: &Limits) -> Result<(), Open> {
        let Some(until) = self.closed_again else { return Ok(()) };
        if now < until {
            let wait = Duration::try_from(until.duration_since(now)).unwrap_or_default();
            return Err(Open { wait, limited: self.limited });
        }
        if self.limited {
            *self = Self::default();
        } else {
            self.closed_again = Some(later(now, limits.pause));
        }
        Ok(())
    }

    /// Whether it is left alone now.
    pub fn is_open(&self, now: Timestamp) -> bool {
        self.closed_again.is_some_and(|until| now < until)
    }

    /// It answered.
    pub fn succeeded(&mut self) {
        *self = Self::default();
    }

    /// It failed by its own fault.
    pub fn failed(&mut self, now: Timestamp, limits: &Limits) {
        self.failures = self.failures.saturating_add(1);
        self.limited = false;
        if self.failures >= limits.failures {
            self.closed_again = Some(later(now, limits.pause));
        }
    }

    /// It asked to be left alone for a time.
    pub fn limited(&mut self, now: Timestamp, wait: Duration) {
        self.closed_again = Some(later(now, wait));
        self.limited = true;
    }
}

fn later(now: Timestamp, wait: Duration) -> Timestamp {
    now.checked_add(wait).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { failures: 2, pause: Duration::from_secs(60) };

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn it_opens_after_failures_in_a_row_and_lets_one_through_on_trial() {
        let mut breaker = Breaker::default();
        breaker.failed(at(0), &LIMITS);
        breaker.succeeded();
        breaker.failed(at(1), &LIMITS);
        assert_eq!(breaker.enter(at(1), &LIMITS), Ok(()));
        breaker.failed(at(2), &LIMITS);
        let open = Open { wait: Duration::from_secs(50), limited: false };
        assert_eq!(breaker.enter(at(12), &LIMITS), Err(open));
        assert_eq!(breaker.enter(at(62), &LIMITS), Ok(()));
        assert!(breaker.enter(at(63), &LIMITS).is_err());
        assert!(breaker.is_open(at(63)) && !Breaker::default().is_open(at(63)));
        breaker.failed(at(64), &LIMITS);
        assert!(breaker.enter(at(123), &LIMITS).is_err());
        assert_eq!(breaker.enter(at(124), &LIMITS), Ok(()));
        breaker.succeeded();
        assert_eq!(breaker.enter(at(124), &LIMITS), Ok(()));
    }

    #[test]
    fn a_rate_limit_opens_it_for_as_long_as_was_asked() {
        let mut breaker = Breaker::default();
        breaker.limited(at(0), Duration::from_secs(100));
        assert_eq!(breaker.enter(at(40), &LIMITS), Err(Open { wait: Duration::from_secs(60), limited: true }));
        assert_eq!(breaker.enter(at(100), &LIMITS), Ok(()));
        assert_eq!(breaker.enter(at(100), &LIMITS), Ok(()));
    }
}
