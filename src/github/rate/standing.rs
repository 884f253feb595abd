//! What GitHub lets one payer do now: the pause it asked for, whose turn it is to write, and what the hour still holds.
//! Pure; time is an argument.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::github::error::{LONGEST_WAIT, SECONDARY_WAIT};

/// Secondary limits in a row after which the waits grow no more: 60 s doubled this often is 32 minutes.
const MAX_LEVEL: u32 = 6;

/// A limit this long after the end of the last pause is the first of a new row.
const FORGOTTEN: SignedDuration = SignedDuration::from_hours(1);

/// A turn that begins within this is waited for; for a later one the job is put off as a row.
pub const NEAR: Duration = Duration::from_secs(3);

/// Writes that may follow each other at once, and how fast the right to more grows back. GitHub counts 500
/// content-creating requests an hour: a hundred at once and 400 over the hour are never more, wherever the hour begins.
const BURST: i32 = 100;
const REFILL: SignedDuration = SignedDuration::from_secs(9);

/// Two resets that differ by less are the same: GitHub's `Date` has whole seconds, and windows are an hour apart.
const SAME_WINDOW: SignedDuration = SignedDuration::from_secs(60);

/// What a payer may spend of one resource, as an answer's headers said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Requests in an hour.
    pub limit: u64,
    /// Requests left of them.
    pub left: u64,
    /// When it is filled again, by our clock.
    pub reset: Timestamp,
}

/// How writes are paced.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Pause between two writes.
    pub gap: Duration,
    /// The longest that one write can take. A turn that is not given back by then belongs to nobody.
    pub longest: Duration,
}

/// Where one payer stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// Nothing is sent before this.
    pub paused_until: Timestamp,
    /// Secondary limits in a row, less the writes that were taken since.
    pub level: u32,
    /// Nobody begins to write before this.
    pub next_write: Timestamp,
    /// Somebody writes, until then at most.
    pub writing_until: Timestamp,
    /// Grows by [`REFILL`] with each write.
    pub spent_until: Timestamp,
    /// The REST budget as last seen.
    pub core: Option<Budget>,
}

/// The right to send one write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// It begins after this, which is short.
    pub wait: Duration,
    /// It ends with this at the latest; also tells it from other turns.
    pub until: Timestamp,
}

/// Why there is no turn now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoTurn {
    /// GitHub asked for a pause, or the hour's writes are used up: for so long.
    For(Duration),
    /// Somebody else writes.
    Busy,
}

impl Default for Standing {
    fn default() -> Self {
        let never = Timestamp::UNIX_EPOCH;
        Self { paused_until: never, level: 0, next_write: never, writing_until: never, spent_until: never, core: None }
    }
}

impl Standing {
    /// Takes the next turn to write.
    ///
    /// # Errors
    /// [`NoTurn`] when it does not begin soon; nothing is changed then.
    pub fn take_turn(&mut self, now: Timestamp, pace: &Pace) -> Result<Turn, NoTurn> {
        if let Some(wait) = self.paused(now) {
            return Err(NoTurn::For(wait));
        }
        let near = NEAR.max(pace.gap);
        // A clock that was set back leaves instants behind that no turn can have made; what they say does not hold.
        if self.writing_until > now && self.writing_until <= later(now, near.saturating_add(pace.longest)) {
            return Err(NoTurn::Busy);
        }
        self.spent_until = self.spent_until.min(now.saturating_add(REFILL * (BURST + 1)).unwrap_or(Timestamp::MAX));
        let affordable = until(self.spent_until.saturating_sub(REFILL * BURST).unwrap_or(now), now);
        let wait = until(self.next_write, now).min(pace.gap).max(affordable);
        if wait > near {
            return Err(NoTurn::For(wait));
        }
        let turn = Turn { wait, until: later(later(now, wait), pace.longest) };
        self.writing_until = turn.until;
        self.spent_until = self.spent_until.max(now).saturating_add(REFILL).unwrap_or(Timestamp::MAX);
        Ok(turn)
    }

    /// Gives a turn back; `taken` when GitHub took the write. One that ran out and is somebody else's by now stays theirs.
    pub fn give_back(&mut self, turn: Turn, taken: bool, now: Timestamp, pace: &Pace) {
        if self.writing_until == turn.until {
            self.writing_until = Timestamp::UNIX_EPOCH;
            self.next_write = later(now, pace.gap);
        }
        if taken {
            self.level = self.level.saturating_sub(1);
        }
    }

    /// GitHub asked for a pause (a secondary limit). `told` is the wait it named. The first of a row is believed; those
    /// after it wait at least twice as long as the one before, because a client that goes on may be banned. Requests that
    /// were under way when the pause began meet the same limit and count once. Returns the wait.
    pub fn limited(&mut self, told: Option<Duration>, now: Timestamp) -> Duration {
        if let Some(rest) = self.paused(now) {
            let wait = told.unwrap_or_default().max(rest).min(LONGEST_WAIT);
            self.paused_until = later(now, wait);
            return wait;
        }
        if now.duration_since(self.paused_until) > FORGOTTEN {
            self.level = 0;
        }
        self.level = self.level.saturating_add(1).min(MAX_LEVEL);
        let grown = SECONDARY_WAIT.saturating_mul(1 << (self.level - 1));
        let wait = match told {
            Some(told) if self.level == 1 => told,
            told => told.unwrap_or_default().max(grown),
        };
        let wait = wait.min(LONGEST_WAIT);
        self.paused_until = later(now, wait);
        wait
    }

    /// How long the pause still lasts.
    pub fn paused(&self, now: Timestamp) -> Option<Duration> {
        Some(until(self.paused_until, now)).filter(|wait| !wait.is_zero()).map(|wait| wait.min(LONGEST_WAIT))
    }

    /// Remembers what an answer said of the REST budget. Answers come back in any order: within one window the smallest
    /// number is the newest.
    pub fn seen(&mut self, budget: Budget) {
        let newest = match self.core {
            Some(known) if known.reset.duration_since(budget.reset).abs() <= SAME_WINDOW => {
                if known.left < budget.left { known } else { budget }
            }
            Some(known) if known.reset > budget.reset => known,
            _ => budget,
        };
        self.core = Some(newest);
    }
}

impl Budget {
    /// How long until it is filled again, when nothing is left.
    pub fn exhausted(&self, now: Timestamp) -> Option<Duration> {
        Some(until(self.reset, now)).filter(|wait| self.left == 0 && !wait.is_zero()).map(|wait| wait.min(LONGEST_WAIT))
    }

    /// How long until it is filled again, when less than a tenth is left: that is kept for answers to people and for
    /// reviews that are under way.
    pub fn reserved(&self, now: Timestamp) -> Option<Duration> {
        let low = self.left < self.limit.div_ceil(10);
        Some(until(self.reset, now)).filter(|wait| low && !wait.is_zero()).map(|wait| wait.min(LONGEST_WAIT))
    }
}

fn until(then: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(then.duration_since(now)).unwrap_or_default()
}

fn later(now: Timestamp, wait: Duration) -> Timestamp {
    SignedDuration::try_from(wait).ok().and_then(|wait| now.checked_add(wait).ok()).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace = Pace { gap: Duration::from_secs(1), longest: Duration::from_secs(40) };

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn one_writes_at_a_time_and_a_second_passes_between() {
        let mut standing = Standing::default();
        let first = standing.take_turn(at(0), &PACE).unwrap();
        assert_eq!(first.wait, Duration::ZERO);
        assert_eq!(standing.take_turn(at(1), &PACE), Err(NoTurn::Busy));
        standing.give_back(first, true, at(2), &PACE);
        let second = standing.take_turn(at(2), &PACE).unwrap();
        assert_eq!(second.wait, seconds(1));
        standing.give_back(second, true, at(4), &PACE);
        assert_eq!(standing.take_turn(at(9), &PACE).unwrap().wait, Duration::ZERO);
    }

    #[test]
    fn a_turn_that_nobody_gave_back_runs_out_and_is_not_given_back_later() {
        let mut standing = Standing::default();
        let lost = standing.take_turn(at(0), &PACE).unwrap();
        assert_eq!(standing.take_turn(at(39), &PACE), Err(NoTurn::Busy));
        let next = standing.take_turn(at(40), &PACE).unwrap();
        standing.give_back(lost, true, at(41), &PACE);
        assert_eq!(standing.take_turn(at(42), &PACE), Err(NoTurn::Busy), "the turn is another's");
        standing.give_back(next, true, at(43), &PACE);
        assert!(standing.take_turn(at(44), &PACE).is_ok());
    }

    #[test]
    fn no_hour_holds_more_than_five_hundred_writes_and_no_minute_more_than_eighty() {
        let mut standing = Standing::default();
        let mut written = Vec::new();
        let mut now = at(0);
        while now < at(3 * 3_600) {
            match standing.take_turn(now, &PACE) {
                Ok(turn) => {
                    now = later(now, turn.wait);
                    written.push(now);
                    standing.give_back(turn, true, now, &PACE);
                }
                Err(NoTurn::For(wait)) => now = later(now, wait),
                Err(NoTurn::Busy) => panic!("nobody else writes"),
            }
        }
        let most = |window: Duration| {
            let within =
                |from: &Timestamp| written.iter().filter(|at| *at >= from && **at < later(*from, window)).count();
            written.iter().map(within).max().unwrap()
        };
        assert!(
            most(seconds(60)) <= 80 && most(seconds(3_600)) <= 500,
            "{} {}",
            most(seconds(60)),
            most(seconds(3_600))
        );
        assert!(most(seconds(3_600)) >= 490, "and what GitHub allows is used");
    }

    #[test]
    fn waits_grow_with_every_limit_and_shrink_with_every_write() {
        let mut standing = Standing::default();
        let mut now = at(0);
        let mut waits = Vec::new();
        for _ in 0..8 {
            let wait = standing.limited(None, now);
            waits.push(wait.as_secs());
            now = later(now, wait);
        }
        assert_eq!(waits, [60, 120, 240, 480, 960, 1_920, 1_920, 1_920]);
        for _ in 0..5 {
            let turn = standing.take_turn(now, &PACE).unwrap();
            standing.give_back(turn, true, now, &PACE);
            now = later(now, seconds(2));
        }
        assert_eq!(standing.limited(None, now), seconds(120), "one of the row is still remembered");
        now = later(now, seconds(2 * 3_600));
        assert_eq!(standing.limited(None, now), seconds(60), "an hour without a limit is forgiving");
    }

    #[test]
    fn a_wait_that_github_names_is_believed_at_first_and_never_cut_short() {
        let mut standing = Standing::default();
        assert_eq!(standing.limited(Some(seconds(17)), at(0)), seconds(17));
        assert_eq!(standing.limited(Some(seconds(17)), at(17)), seconds(120));
        assert_eq!(standing.limited(Some(seconds(600)), at(137)), seconds(600));
        assert_eq!(standing.limited(Some(seconds(999_999)), at(737)), LONGEST_WAIT);
    }

    #[test]
    fn requests_that_met_the_same_limit_count_once() {
        let mut standing = Standing::default();
        standing.limited(None, at(0));
        assert_eq!(standing.limited(None, at(1)), seconds(59));
        assert_eq!(standing.limited(Some(seconds(90)), at(1)), seconds(90), "the longest wait holds");
        assert_eq!((standing.level, standing.paused(at(2))), (1, Some(seconds(89))));
        assert_eq!(standing.take_turn(at(2), &PACE), Err(NoTurn::For(seconds(89))));
        assert_eq!(standing.paused(at(91)), None);
    }

    #[test]
    fn a_clock_that_was_set_back_stops_nobody_for_long() {
        let mut standing = Standing::default();
        let turn = standing.take_turn(at(10_000), &PACE).unwrap();
        standing.give_back(turn, true, at(10_000), &PACE);
        standing.writing_until = turn.until;
        let anew = standing.take_turn(at(0), &PACE);
        assert_eq!(anew, Err(NoTurn::For(seconds(9))), "as if the hour's burst were used up");
        assert!(standing.take_turn(at(9), &PACE).is_ok());
    }

    #[test]
    fn the_newest_budget_counts() {
        let budget = |left, reset| Budget { limit: 5_000, left, reset: at(reset) };
        let mut standing = Standing::default();
        standing.seen(budget(10, 100));
        standing.seen(budget(12, 101));
        assert_eq!(standing.core, Some(budget(10, 100)), "an older answer came late");
        standing.seen(budget(4_999, 3_700));
        standing.seen(budget(9, 100));
        assert_eq!(standing.core, Some(budget(4_999, 3_700)));
    }

    #[test]
    fn the_last_tenth_is_kept() {
        let budget = |left| Budget { limit: 5_000, left, reset: at(100) };
        assert_eq!(budget(500).reserved(at(0)), None);
        assert_eq!(budget(499).reserved(at(0)), Some(seconds(100)));
        assert_eq!(budget(499).reserved(at(100)), None);
        assert_eq!((budget(1).exhausted(at(0)), budget(0).exhausted(at(40))), (None, Some(seconds(60))));
        assert_eq!(budget(0).exhausted(at(100)), None, "a reset in the past is no wait");
    }
}
