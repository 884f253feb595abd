//! What a run may spend: tokens, which it shares with its children, and time, which every run has of its own.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

use crate::chat::TokenUsage;

/// Whole time of one agent run (product rule: 120 s); a tool call within it has its own, shorter limit.
pub const AGENT_RUN_TIME: Duration = Duration::from_secs(120);

/// Most nodes one run visits in one process. A graph bounds its own loops; this is the net under a mistake in that.
pub const MAX_NODES: u32 = 200;

/// Tokens of a run for which nobody chose a number.
pub const DEFAULT_RUN_TOKENS: u64 = 1_000_000;

/// Time of a run for which nobody chose one.
pub const DEFAULT_RUN_TIME: Duration = Duration::from_secs(20 * 60);

/// What a run may still spend. Clones share the meter of tokens.
#[derive(Debug, Clone)]
pub struct Budget {
    deadline: Timestamp,
    meter: Arc<Meter>,
}

#[derive(Debug)]
struct Meter {
    most: u64,
    spent: Mutex<TokenUsage>,
}

impl Budget {
    /// `tokens` (input and output together) and `time` from `now` on.
    pub fn new(tokens: u64, time: Duration, now: Timestamp) -> Self {
        let meter = Meter { most: tokens, spent: Mutex::new(TokenUsage::default()) };
        Self { deadline: after(now, time), meter: Arc::new(meter) }
    }

    /// The same tokens with `time` from `now` on, but never beyond the deadline that holds already.
    pub fn narrowed(&self, time: Duration, now: Timestamp) -> Self {
        Self { deadline: self.deadline.min(after(now, time)), meter: Arc::clone(&self.meter) }
    }

    /// Time left; zero once the deadline has passed.
    pub fn time_left(&self, now: Timestamp) -> Duration {
        Duration::try_from(self.deadline.duration_since(now)).unwrap_or(Duration::ZERO)
    }

    /// Tokens left for the run and all that share its meter.
    pub fn tokens_left(&self) -> u64 {
        let spent = self.spent();
        self.meter.most.saturating_sub(spent.input.saturating_add(spent.output))
    }

    /// What was spent in this process, by the run and all that share its meter.
    pub fn spent(&self) -> TokenUsage {
        *self.meter.spent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts what a model call cost.
    pub fn spend(&self, usage: TokenUsage) {
        *self.meter.spent.lock().unwrap_or_else(PoisonError::into_inner) += usage;
    }
}

/// The end of time is far enough for a time that does not fit.
fn after(now: Timestamp, time: Duration) -> Timestamp {
    now.checked_add(time).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn children_share_tokens_but_not_deadlines() {
        let whole = Budget::new(100, Duration::from_secs(60), at(0));
        let child = whole.narrowed(Duration::from_secs(10), at(5));
        child.spend(TokenUsage { calls: 1, input: 30, output: 20, ..TokenUsage::default() });
        assert_eq!(whole.tokens_left(), 50);
        assert_eq!(child.time_left(at(5)), Duration::from_secs(10));
        assert_eq!(whole.time_left(at(5)), Duration::from_secs(55));
        assert_eq!(child.time_left(at(16)), Duration::ZERO);
    }

    #[test]
    fn a_child_never_outlives_its_parent() {
        let whole = Budget::new(1, Duration::from_secs(60), at(0));
        assert_eq!(whole.narrowed(Duration::MAX, at(50)).time_left(at(50)), Duration::from_secs(10));
    }
}
