//! What a clock that jumps does to the queue, and how that is mended.
//!
//! A row's times are times of day, because processes share nothing else. Set on by hours, the clock makes every lease
//! look as if it had run out, of jobs that run well: so after a jump a process takes nothing over until the holders have
//! had a whole lease to extend theirs. Set back by hours, it puts off what a retry or a dead worker's lease waits for: so
//! what was written in a time that has not come yet is moved back by as much.
//!
//! A jump is what the time of day does beyond the time that passed, looked at before every claim. Instances notice it
//! each for itself, so mending twice changes nothing.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::{Queue, later};
use crate::clock::Clock;
use crate::db::DbError;

/// Smaller ones are corrections of a clock that runs well, and less than any lease.
const SMALL: i64 = 2_000;

/// A lease that ends later than this, counted from now in the lease's own length, was not given by this time.
const TOO_LONG: u32 = 2;

/// No other instance's leases are cut shorter than this.
const SHORTEST: Duration = Duration::from_secs(60);

/// What a process has seen of its clock.
#[derive(Debug, Default)]
pub(super) struct Watched {
    last: Mutex<Option<Seen>>,
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    /// The time of day, and the time passed, at the last look.
    now: i64,
    passed: Duration,
    /// The time passed at the last jump.
    jumped: Option<Duration>,
}

/// What a look at the clock showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Look {
    /// The first one of this process, or one after a jump: the rows' times have to be looked at.
    pub suspect: bool,
    /// How long ago the last jump was, if there was one.
    pub since_jump: Option<Duration>,
}

impl Watched {
    pub(super) fn look(&self, clock: &dyn Clock) -> Look {
        let (now, passed) = (clock.now().as_millisecond(), clock.passed());
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let jump = last.map(|seen| {
            let really = i64::try_from(passed.saturating_sub(seen.passed).as_millis()).unwrap_or(i64::MAX);
            now.saturating_sub(seen.now).saturating_sub(really)
        });
        let jumps = jump.is_some_and(|jump| jump.abs() > SMALL);
        if jumps {
            tracing::warn!(
                clock.jump_ms = jump,
                "The clock jumped; nothing is taken over until leases could be extended"
            );
        }
        let jumped = if jumps { Some(passed) } else { last.and_then(|seen| seen.jumped) };
        let first = last.replace(Seen { now, passed, jumped }).is_none();
        Look { suspect: first || jumps, since_jump: jumped.map(|jumped| passed.saturating_sub(jumped)) }
    }
}

impl<J> Queue<J> {
    /// Whether leases that look expired are so. Mends what was written in a time that has not come yet.
    pub(super) async fn trusts_the_time(&self) -> Result<bool, DbError> {
        let look = self.watched.look(&*self.clock);
        if look.suspect {
            self.mend_times().await?;
        }
        Ok(look.since_jump.is_none_or(|since| since >= self.settings.lease))
    }

    async fn mend_times(&self) -> Result<(), DbError> {
        let now = self.now();
        sqlx::query(
            "UPDATE jobs SET run_at = run_at - (written_at - $1), enqueued_at = CASE WHEN enqueued_at > $1 THEN $1
               ELSE enqueued_at END, written_at = $1
             WHERE state = 'queued' AND written_at > $2",
        )
        .bind(now)
        .bind(now.saturating_add(SMALL))
        .execute(self.db.writer())
        .await?;
        let lease = self.settings.lease.max(SHORTEST);
        sqlx::query("UPDATE jobs SET lease_until = $1 WHERE state = 'running' AND lease_until > $2")
            .bind(later(self.clock.now(), lease))
            .bind(later(self.clock.now(), lease * TOO_LONG))
            .execute(self.db.writer())
            .await?;
        Ok(())
    }
}
