//! Long computations, such as parsing a file, on threads of their own and not all at once.
//!
//! A task that computes for long keeps a thread from those who wait for it, and computations on every core keep the whole
//! process waiting: a webhook has to be answered within moments while thousands of files are parsed. So one core is left
//! to the others, where there is more than one.

use std::sync::LazyLock;
use std::thread::available_parallelism;

use tokio::sync::Semaphore;
use tokio::task::{JoinError, spawn_blocking};

/// How many may compute at the same time.
static CORES: LazyLock<Semaphore> =
    LazyLock::new(|| Semaphore::new(cores(available_parallelism().map_or(1, Into::into))));

fn cores(all: usize) -> usize {
    all.saturating_sub(1).max(1)
}

/// Computes on a thread where nobody waits for it, as soon as there is a core for it; those who ask first come first.
///
/// # Errors
/// When the computation panics.
pub async fn compute<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, JoinError> {
    // Nobody closes the semaphore; without a permit it would only be less polite.
    let core = CORES.acquire().await.ok();
    spawn_blocking(move || {
        let _until_the_end = core;
        work()
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn a_core_is_left_where_there_are_several() {
        assert_eq!([0, 1, 2, 3, 64].map(cores), [1, 1, 1, 2, 63]);
    }

    #[tokio::test]
    async fn no_more_compute_than_there_are_cores_for_even_after_a_panic() {
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let computing = (0..200_usize).map(|at| {
            let (now, most) = (Arc::clone(&now), Arc::clone(&most));
            compute(move || {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                let sum: usize = std::hint::black_box((0..10_000).sum());
                now.fetch_sub(1, Ordering::SeqCst);
                assert!(at != 7 && sum > 0, "as a test wants it to");
            })
        });
        let ended = futures_util::future::join_all(computing).await;
        assert_eq!(ended.iter().filter(|end| end.is_err()).count(), 1);
        assert!(most.load(Ordering::SeqCst) <= cores(available_parallelism().unwrap().into()));
    }
}
