//! Whether and when a failed action may be tried again. Only the queue's worker acts on it.

use std::time::Duration;

/// What a boundary error says about trying again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Trying again cannot help: the input, the permission or the configuration is wrong.
    Never,
    /// The other side said when (Retry-After, a rate-limit reset).
    After(Duration),
    /// A passing fault: try again after a growing wait.
    Backoff,
}

/// The wait before attempt `attempt + 1`: 2 s, 8 s, 32 s, 128 s, then 8 min at most.
pub fn backoff(attempt: u32) -> Duration {
    let exponent = attempt.saturating_sub(1).min(4);
    Duration::from_secs((2_u64 << (2 * exponent)).min(480))
}
