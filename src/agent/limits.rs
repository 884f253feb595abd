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
    /// The meter this one is a part of.
    whole: Option<Arc<Meter>>,
}

impl Budget {
    /// `tokens` (input and output together) and `time` from `now` on.
    pub fn new(tokens: u64, time: Duration, now: Timestamp) -> Self {
        Self { deadline: after(now, time), meter: Arc::new(Meter::new(tokens, None)) }
    }

    /// A part of it for a run of its own: the same deadline, at most `tokens`, and what is spent of the part is spent of
    /// the whole. Parts are not set aside for anybody, so all of them together may be more than the whole.
    pub fn part(&self, tokens: u64) -> Self {
        Self { deadline: self.deadline, meter: Arc::new(Meter::new(tokens, Some(Arc::clone(&self.meter)))) }
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
        self.meter.left()
    }

    /// What was spent in this process, by the run and all that share its meter.
    pub fn spent(&self) -> TokenUsage {
        self.meter.spent()
    }

    /// Counts what a model call cost.
    pub fn spend(&self, usage: TokenUsage) {
        let mut meter = Some(&self.meter);
        while let Some(of) = meter {
            *of.spent.lock().unwrap_or_else(PoisonError::into_inner) += usage;
            meter = of.whole.as_ref();
        }
    }
}

impl Meter {
    fn new(most: u64, whole: Option<Arc<Self>>) -> Self {
        Self { most, spent: Mutex::new(TokenUsage::default()), whole }
    }

    fn spent(&self) -> TokenUsage {
        *self.spent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn left(&self) -> u64 {
        let spent = self.spent();
        let own = self.most.saturating_sub(spent.input.saturating_add(spent.output));
        self.whole.as_ref().map_or(own, |whole| own.min(whole.left()))
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
    fn a_part_is_bounded_by_itself_and_by_the_whole() {
        let spends = |budget: &Budget, input| budget.spend(TokenUsage { input, ..TokenUsage::default() });
        let whole = Budget::new(100, Duration::from_secs(60), at(0));
        let (one, other) = (whole.part(60), whole.part(60));
        spends(&one, 50);
        assert_eq!((one.tokens_left(), other.tokens_left(), whole.tokens_left()), (10, 50, 50));
        spends(&other, 45);
        assert_eq!((one.tokens_left(), other.tokens_left(), whole.tokens_left()), (5, 5, 5));
        assert_eq!((one.spent().input, whole.spent().input), (50, 95));
        assert_eq!(one.time_left(at(55)), Duration::from_secs(5));
    }

    #[test]
    fn a_child_never_outlives_its_parent() {
        let whole = Budget::new(1, Duration::from_secs(60), at(0));
        assert_eq!(whole.narrowed(Duration::MAX, at(50)).time_left(at(50)), Duration::from_secs(10));
    }
}
