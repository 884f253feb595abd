//! Chance that can be repeated: a seed is everything.

use std::time::Duration;

/// A stream of numbers (SplitMix64).
#[derive(Debug, Clone)]
pub(crate) struct Seed(u64);

impl Seed {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `end`; 0 when there is none.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(end.max(1)).unwrap()).unwrap()
    }

    /// Once in `n` times.
    pub(crate) fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// One of them.
    pub(crate) fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    /// A time below `milliseconds`.
    pub(crate) fn time(&mut self, milliseconds: usize) -> Duration {
        Duration::from_millis(u64::try_from(self.below(milliseconds)).unwrap())
    }

    /// Another stream, that does not depend on how much is taken from this one afterwards.
    pub(crate) fn part(&mut self) -> Self {
        Self(self.next())
    }
}

/// A number from the environment.
pub(crate) fn number(variable: &str, otherwise: u64) -> u64 {
    match std::env::var(variable) {
        Err(_) => otherwise,
        Ok(text) => text.trim().parse().unwrap_or_else(|_| panic!("{variable} is \"{text}\": write a number")),
    }
}

/// Lets time pass: how long something takes, never what is waited for.
pub(crate) async fn pass(time: Duration) {
    if !time.is_zero() {
        let _ = tokio::time::timeout(time, std::future::pending::<()>()).await;
    }
}

#[test]
fn a_seed_repeats_itself() {
    let numbers = |seed| {
        let mut seed = Seed::new(seed);
        (0..20).map(|_| seed.below(1_000)).collect::<Vec<_>>()
    };
    assert_eq!(numbers(7), numbers(7));
    assert_ne!(numbers(7), numbers(8));
}
