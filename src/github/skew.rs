//! How far GitHub's clock is from ours.
//!
//! GitHub refuses an assertion of the App that was issued in its future, or that is valid for more than ten minutes from
//! its now; a machine whose clock is off by minutes would be locked out. Every answer says what time it is there, so after
//! such a refusal the difference is taken over. Before one it is not: the clock of a machine is usually right, and the
//! `Date` of an answer may come from a cache on the way.

use std::sync::atomic::{AtomicI64, Ordering};

use jiff::{SignedDuration, Timestamp};

/// Differences that no refusal can come from; `Date` has whole seconds.
const TOLERATED: i64 = 5_000;

/// The difference, in milliseconds.
#[derive(Debug, Default)]
pub struct Skew {
    seen: AtomicI64,
    adopted: AtomicI64,
}

impl Skew {
    /// An answer said that it was `sent_at` there when it was `now` here.
    pub fn note(&self, sent_at: Timestamp, now: Timestamp) {
        self.seen.store(sent_at.as_millisecond().saturating_sub(now.as_millisecond()), Ordering::Relaxed);
    }

    /// GitHub refused an assertion. True when its clock is another than we thought, so that a new one may be taken.
    pub fn adopt(&self) -> bool {
        let seen = self.seen.load(Ordering::Relaxed);
        let off = seen.saturating_sub(self.adopted.load(Ordering::Relaxed)).abs() > TOLERATED;
        if off {
            self.adopted.store(seen, Ordering::Relaxed);
        }
        off
    }

    /// What time it is at GitHub, as far as we know, when it is `now` here.
    pub fn there(&self, now: Timestamp) -> Timestamp {
        now.checked_add(SignedDuration::from_millis(self.adopted.load(Ordering::Relaxed))).unwrap_or(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    #[test]
    fn a_difference_is_taken_over_after_a_refusal_only() {
        let skew = Skew::default();
        skew.note(at(600), at(0));
        assert_eq!(skew.there(at(0)), at(0));
        assert!(skew.adopt());
        assert_eq!(skew.there(at(10)), at(610));
        assert!(!skew.adopt(), "the same difference does not explain a second refusal");
        skew.note(at(7), at(10));
        assert!(skew.adopt(), "the clock was set right");
        skew.note(at(17), at(20));
        assert!(!skew.adopt());
    }

    #[test]
    fn seconds_are_no_difference() {
        let skew = Skew::default();
        skew.note(at(5), at(0));
        assert!(!skew.adopt());
    }
}
