//! How much memory the process may use, and who has to wait while it is scarce.
//!
//! A ceiling is what the operator set, else what the control group of the process allows. Near it no further job begins:
//! jobs wait in the database, where they cost nothing. One job may always run, so that there is progress whatever the
//! numbers say. Large inputs (texts of files, bodies) are let in so many bytes at a time, with or without a ceiling.
//! Deciding is pure; what the system says is read in [`system`], on Linux only.

pub mod system;

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// What one more job is expected to take, in bytes: a review of hundreds of files, with the texts kept for it.
pub const JOB: u64 = 48 << 20;

/// Large inputs held at the same time when there is no ceiling, in bytes.
const INPUTS: u64 = 128 << 20;

/// Fewest bytes of large inputs held at the same time: one answer of GitHub's, parsed.
const FEWEST_INPUTS: u64 = 16 << 20;

/// A permit of the semaphore, in bytes: its counter is too small for bytes themselves.
const PERMIT: u64 = 1 << 10;

/// The room there is. Clones share it.
#[derive(Debug, Clone)]
pub struct Room(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    ceiling: Option<u64>,
    used: fn() -> Option<u64>,
    idle: u64,
    jobs: Mutex<u64>,
    left: Notify,
}

/// How many bytes of large inputs may be held at the same time. Clones share it.
#[derive(Debug, Clone)]
pub struct Inputs {
    semaphore: Arc<Semaphore>,
    permits: u32,
}

/// A running job's place. Dropped, it is free again.
#[derive(Debug)]
pub struct Place(Room);

/// Bytes of large inputs that are held. Dropped, others may have them.
#[derive(Debug)]
pub struct Held {
    _permit: Option<OwnedSemaphorePermit>,
}

impl Room {
    /// The room below a ceiling in bytes, measured by what the system says of this process.
    pub fn new(ceiling: Option<u64>) -> Self {
        Self::measured(ceiling, system::used)
    }

    /// The room below a ceiling, with another way to learn how much is used.
    pub fn measured(ceiling: Option<u64>, used: fn() -> Option<u64>) -> Self {
        Self(Arc::new(Shared {
            ceiling,
            used,
            idle: used().unwrap_or_default(),
            jobs: Mutex::new(0),
            left: Notify::new(),
        }))
    }

    /// A place for a job, or `None` while there is no room: then [`Self::freed`] says when to ask again.
    pub fn begin_job(&self) -> Option<Place> {
        let mut jobs = self.0.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ceiling) = self.0.ceiling {
            let used = (self.0.used)().unwrap_or_default();
            if !may_begin(ceiling, used, self.0.idle, *jobs) {
                metrics::counter!("secondlook_memory_waits_total").increment(1);
                return None;
            }
        }
        *jobs += 1;
        Some(Place(self.clone()))
    }

    /// Waits until a place may have become free.
    pub async fn freed(&self) {
        self.0.left.notified().await;
    }

    /// Tells what is used and what may be, for the metrics.
    pub fn report(&self) {
        if let Some(used) = (self.0.used)() {
            // A gauge is a float; so many bytes are not told apart by their last digits.
            metrics::gauge!("secondlook_memory_used_bytes").set(used as f64);
        }
        if let Some(ceiling) = self.0.ceiling {
            metrics::gauge!("secondlook_memory_ceiling_bytes").set(ceiling as f64);
        }
    }
}

impl Default for Inputs {
    /// As without a ceiling.
    fn default() -> Self {
        Self::below(None)
    }
}

impl Inputs {
    /// A share of the ceiling.
    pub fn below(ceiling: Option<u64>) -> Self {
        let permits = u32::try_from(inputs(ceiling) / PERMIT).unwrap_or(1);
        Self { semaphore: Arc::new(Semaphore::new(permits as usize)), permits }
    }

    /// Waits until `bytes` of large inputs fit beside the others. More than fit at all get all there is, alone.
    pub async fn hold(&self, bytes: usize) -> Held {
        let wanted = u64::try_from(bytes).unwrap_or(u64::MAX).div_ceil(PERMIT);
        let permits = u32::try_from(wanted).unwrap_or(u32::MAX).min(self.permits);
        // The semaphore is never closed, so there is always a permit in the end.
        Held { _permit: Arc::clone(&self.semaphore).acquire_many_owned(permits).await.ok() }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let shared = &self.0.0;
        let mut jobs = shared.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        *jobs = jobs.saturating_sub(1);
        shared.left.notify_one();
    }
}

/// Whether another job may begin when `jobs` run. They may not have grown yet, so each counts for at least [`JOB`] beyond
/// what the process used when `idle`.
fn may_begin(ceiling: u64, used: u64, idle: u64, jobs: u64) -> bool {
    let expected = used.max(idle.saturating_add(jobs.saturating_mul(JOB)));
    jobs == 0 || expected.saturating_add(JOB) <= ceiling
}

/// Bytes of large inputs that may be held at the same time.
fn inputs(ceiling: Option<u64>) -> u64 {
    ceiling.map_or(INPUTS, |ceiling| (ceiling / 4).clamp(FEWEST_INPUTS, INPUTS))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_job_begins_while_it_is_expected_to_fit() {
        for (ceiling, used, jobs, expected) in [
            (512, 40, 0, true),
            (512, 40, 3, true),
            (512, 480, 1, false),
            (512, 464, 1, true),
            (256, 40, 3, true),
            (256, 40, 4, false),
            (1, 500, 0, true),
            (1, 0, 1, false),
        ] {
            assert_eq!(may_begin(ceiling * MIB, used * MIB, 40 * MIB, jobs), expected, "{ceiling} {used} {jobs}");
        }
        assert!(!may_begin(u64::MAX - 1, u64::MAX, u64::MAX, u64::MAX));
    }

    #[test]
    fn one_job_always_runs_and_its_end_lets_the_next_one_in() {
        let room = Room::measured(Some(1), || Some(u64::MAX));
        let place = room.begin_job();
        assert!(place.is_some() && room.begin_job().is_none());
        drop(place);
        assert!(room.begin_job().is_some());
        let unbounded = Room::measured(None, || Some(u64::MAX));
        let places: Vec<_> = (0..100).map(|_| unbounded.begin_job()).collect();
        assert!(places.iter().all(Option::is_some));
    }

    #[tokio::test]
    async fn a_place_that_becomes_free_is_told() {
        let room = Room::measured(Some(1), || None);
        let place = room.begin_job();
        drop(place);
        room.freed().await;
    }

    #[tokio::test]
    async fn large_inputs_are_let_in_as_many_bytes_at_a_time() {
        let room = Inputs::below(Some(64 * MIB));
        let first = room.hold(10 << 20).await;
        let second = room.hold(6 << 20).await;
        let mut third = std::pin::pin!(room.hold(usize::MAX));
        assert!(futures_util::poll!(&mut third).is_pending(), "all of it is not free");
        drop(first);
        assert!(futures_util::poll!(&mut third).is_pending());
        drop(second);
        let all = third.await;
        assert!(futures_util::poll!(std::pin::pin!(room.hold(1))).is_pending());
        drop(all);
        assert_eq!((inputs(None), inputs(Some(1))), (INPUTS, FEWEST_INPUTS));
    }
}
