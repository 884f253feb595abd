//! What a run may spend: tokens and money, which it shares with its children and with whatever it is a part of, and time,
//! which every run has of its own.
//!
//! Before a call its estimated cost is held, so that calls made at the same time cannot all count on the same rest. What
//! lies beyond one process (a pull request, a repository, a day) is booked in the database: see [`Purse`].

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

use super::spending::Purse;
use crate::chat::TokenUsage;

/// Whole time of one agent run (product rule: 120 s); a tool call within it has its own, shorter limit.
pub const AGENT_RUN_TIME: Duration = Duration::from_secs(120);

/// Most nodes one run visits in one process. A graph bounds its own loops; this is the net under a mistake in that.
pub const MAX_NODES: u32 = 200;

/// Tokens of a run for which nobody chose a number.
pub const DEFAULT_RUN_TOKENS: u64 = 1_000_000;

/// Time of a run for which nobody chose one.
pub const DEFAULT_RUN_TIME: Duration = Duration::from_secs(20 * 60);

/// An amount of tokens (input and output together) and of money.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// Tokens.
    pub tokens: u64,
    /// Millionths of a US dollar.
    pub micro_usd: u64,
}

/// The most that may be spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Most {
    /// Tokens.
    pub tokens: u64,
    /// Millionths of a US dollar.
    pub micro_usd: u64,
}

/// What a run may still spend. Clones share the meter.
#[derive(Debug, Clone)]
pub struct Budget {
    deadline: Timestamp,
    meter: Arc<Meter>,
    purse: Purse,
}

/// What a call about to be made is thought to cost; given back when it is dropped.
#[derive(Debug)]
pub struct Hold {
    meters: Vec<Arc<Meter>>,
    cost: Cost,
}

#[derive(Debug)]
struct Meter {
    most: Most,
    counted: Mutex<Counted>,
    above: Option<Arc<Meter>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Counted {
    spent: TokenUsage,
    held: Cost,
}

impl Cost {
    /// The cost of a usage.
    pub fn of(usage: &TokenUsage) -> Self {
        Self { tokens: usage.input.saturating_add(usage.output), micro_usd: usage.cost_micro_usd }
    }

    /// Both together.
    pub fn and(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_add(other.tokens),
            micro_usd: self.micro_usd.saturating_add(other.micro_usd),
        }
    }
}

impl Most {
    /// No limit.
    pub const UNLIMITED: Self = Self { tokens: u64::MAX, micro_usd: u64::MAX };

    /// So many tokens, whatever they cost.
    pub fn tokens(tokens: u64) -> Self {
        Self { tokens, ..Self::UNLIMITED }
    }

    /// The smaller of both limits.
    pub fn min(self, other: Self) -> Self {
        Self { tokens: self.tokens.min(other.tokens), micro_usd: self.micro_usd.min(other.micro_usd) }
    }

    /// Whether a cost stays within.
    pub fn holds(&self, cost: Cost) -> bool {
        cost.tokens <= self.tokens && cost.micro_usd <= self.micro_usd
    }
}

impl Default for Most {
    fn default() -> Self {
        Self::UNLIMITED
    }
}

impl Budget {
    /// So much of tokens and money, and `time` from `now` on.
    pub fn new(most: Most, time: Duration, now: Timestamp) -> Self {
        Self { deadline: after(now, time), meter: Meter::new(most, None), purse: Purse::default() }
    }

    /// The same, with every call booked on these accounts too.
    #[must_use]
    pub fn booked_on(self, purse: Purse) -> Self {
        Self { purse, ..self }
    }

    /// The same meter with `time` from `now` on, but never beyond the deadline that holds already.
    pub fn narrowed(&self, time: Duration, now: Timestamp) -> Self {
        Self { deadline: self.deadline.min(after(now, time)), ..self.clone() }
    }

    /// A part of it for a run of its own: the same deadline, at most `tokens`, and what is spent of the part is spent of
    /// the whole. Parts are not set aside for anybody, so all of them together may be more than the whole.
    pub fn part(&self, tokens: u64) -> Self {
        Self { meter: Meter::new(Most::tokens(tokens), Some(Arc::clone(&self.meter))), ..self.clone() }
    }

    /// The accounts that calls are booked on.
    pub fn purse(&self) -> &Purse {
        &self.purse
    }

    /// Time left; zero once the deadline has passed.
    pub fn time_left(&self, now: Timestamp) -> Duration {
        Duration::try_from(self.deadline.duration_since(now)).unwrap_or(Duration::ZERO)
    }

    /// Tokens left for the run and all that share its meter; 0 also when the money is used up.
    pub fn tokens_left(&self) -> u64 {
        let left = |meter: &Arc<Meter>| {
            let used = meter.lock().used();
            let money = used.micro_usd < meter.most.micro_usd;
            if money { meter.most.tokens.saturating_sub(used.tokens) } else { 0 }
        };
        self.meters().iter().map(left).min().unwrap_or(0)
    }

    /// What was spent in this process, by the run and all that share its meter.
    pub fn spent(&self) -> TokenUsage {
        self.meter.lock().spent
    }

    /// Sets the cost of a call aside.
    ///
    /// # Errors
    /// The tokens that are left, when the budget does not hold it.
    pub fn hold(&self, cost: Cost) -> Result<Hold, u64> {
        let mut hold = Hold { meters: Vec::new(), cost };
        for meter in self.meters() {
            let mut counted = meter.lock();
            if !meter.most.holds(counted.used().and(cost)) {
                drop(counted);
                // What was set aside so far is given back first.
                drop(hold);
                return Err(self.tokens_left());
            }
            counted.held = counted.held.and(cost);
            drop(counted);
            hold.meters.push(meter);
        }
        Ok(hold)
    }

    /// Counts what a call cost, or what an earlier process has paid for this run.
    pub fn spend(&self, usage: TokenUsage) {
        for meter in self.meters() {
            meter.lock().spent += usage;
        }
    }

    /// This meter and those it is a part of.
    fn meters(&self) -> Vec<Arc<Meter>> {
        let mut all = vec![Arc::clone(&self.meter)];
        while let Some(above) = all.last().and_then(|meter| meter.above.clone()) {
            all.push(above);
        }
        all
    }
}

impl Meter {
    fn new(most: Most, above: Option<Arc<Self>>) -> Arc<Self> {
        Arc::new(Self { most, counted: Mutex::default(), above })
    }

    fn lock(&self) -> MutexGuard<'_, Counted> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counted {
    fn used(&self) -> Cost {
        Cost::of(&self.spent).and(self.held)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        for meter in &self.meters {
            let mut counted = meter.lock();
            counted.held.tokens = counted.held.tokens.saturating_sub(self.cost.tokens);
            counted.held.micro_usd = counted.held.micro_usd.saturating_sub(self.cost.micro_usd);
        }
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

    fn tokens(tokens: u64) -> Cost {
        Cost { tokens, micro_usd: 0 }
    }

    #[test]
    fn children_share_tokens_but_not_deadlines() {
        let whole = Budget::new(Most::tokens(100), Duration::from_secs(60), at(0));
        let child = whole.narrowed(Duration::from_secs(10), at(5));
        child.spend(TokenUsage { calls: 1, input: 30, output: 20, ..TokenUsage::default() });
        assert_eq!(whole.tokens_left(), 50);
        assert_eq!(child.time_left(at(5)), Duration::from_secs(10));
        assert_eq!(whole.time_left(at(5)), Duration::from_secs(55));
        assert_eq!(child.time_left(at(16)), Duration::ZERO);
    }

    #[test]
    fn a_child_never_outlives_its_parent() {
        let whole = Budget::new(Most::tokens(1), Duration::from_secs(60), at(0));
        assert_eq!(whole.narrowed(Duration::MAX, at(50)).time_left(at(50)), Duration::from_secs(10));
    }

    #[test]
    fn calls_at_the_same_time_do_not_count_on_the_same_rest() {
        let whole = Budget::new(Most::tokens(100), Duration::from_secs(60), at(0));
        let (one, two) = (whole.part(90), whole.part(90));
        let held = one.hold(tokens(60)).unwrap();
        assert_eq!(two.hold(tokens(60)).unwrap_err(), 40);
        assert!(two.hold(tokens(40)).is_ok(), "a refused hold leaves nothing behind");
        drop(held);
        one.spend(TokenUsage { input: 10, ..TokenUsage::default() });
        assert_eq!((whole.tokens_left(), one.spent().input, two.spent().input), (90, 10, 0));
    }

    #[test]
    fn a_part_is_bounded_by_itself_and_by_the_whole() {
        let spends = |budget: &Budget, input| budget.spend(TokenUsage { input, ..TokenUsage::default() });
        let whole = Budget::new(Most::tokens(100), Duration::from_secs(60), at(0));
        let (one, other) = (whole.part(60), whole.part(60));
        spends(&one, 50);
        assert_eq!((one.tokens_left(), other.tokens_left(), whole.tokens_left()), (10, 50, 50));
        spends(&other, 45);
        assert_eq!((one.tokens_left(), other.tokens_left(), whole.tokens_left()), (5, 5, 5));
        assert_eq!((one.spent().input, whole.spent().input), (50, 95));
        assert_eq!(one.time_left(at(55)), Duration::from_secs(5));
    }

    #[test]
    fn money_is_a_limit_of_its_own() {
        let whole = Budget::new(Most { tokens: 1_000, micro_usd: 50 }, Duration::from_secs(60), at(0));
        assert!(whole.hold(Cost { tokens: 1, micro_usd: 51 }).is_err());
        whole.spend(TokenUsage { input: 1, cost_micro_usd: 50, ..TokenUsage::default() });
        assert_eq!(whole.tokens_left(), 0);
    }

    #[test]
    fn absurd_numbers_do_not_overflow() {
        let whole = Budget::new(Most::tokens(100), Duration::from_secs(60), at(0));
        let absurd = TokenUsage {
            calls: 1,
            input: u64::MAX,
            output: u64::MAX,
            cost_micro_usd: u64::MAX,
            ..TokenUsage::default()
        };
        whole.spend(absurd);
        whole.spend(absurd);
        assert_eq!(whole.tokens_left(), 0);
    }
}
