//! Compares the open pull requests of the repositories we know with our records: for events that were missed and cannot
//! be fetched any more, after an installation slept, or when its deliveries never left GitHub.
//!
//! What a maintainer expects of it: a pull request that we reviewed and whose head has moved is reviewed; one that was
//! opened since the repository is ours, and that we never saw, too; one that is closed is closed here. Pull requests that
//! were there before the App are left alone, and so are those where somebody paused us. For one state of a pull request
//! a review is asked for once, whatever came of it.
//!
//! A round takes the repositories that were looked at longest ago, each with at most so many pull requests, so that none
//! waits for the large ones. One that did not change costs one request that GitHub does not count.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::store::{Installations, Reached};
use super::worker::{JobError, Worker};
use super::{Job, PullRef, Trigger};
use crate::github::error::GitHubError;
use crate::github::pulls::{ListedPull, OpenPulls};
use crate::queue::worker::Stop;
use crate::review::store::known::KnownPull;

/// Repositories looked at in one round.
const REPOSITORIES: i64 = 50;

/// Pull requests of one repository that a round puts to work.
const PULLS: usize = 20;

/// Failures of GitHub in a row after which a round ends.
const FAILURES: usize = 3;

/// A repository is looked at again after this; a little less than the time between rounds.
const PAUSE: SignedDuration = SignedDuration::from_hours(5);

/// What is to be done about a pull request.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Wanted {
    /// Review it.
    Review {
        /// Which.
        number: u64,
        /// The state that was seen.
        state: String,
        /// Why.
        trigger: Trigger,
    },
    /// Take note of its end.
    Close(u64),
}

/// One round. True when there is more to do soon.
pub(super) async fn run(worker: &Worker, stop: &Stop) -> Result<bool, JobError> {
    // Without an App there is nothing to compare with.
    if worker.app.github.get().is_none() {
        return Ok(false);
    }
    let records = Installations::new(worker.app.db.clone());
    let now = worker.app.clock.now();
    let before = now.checked_sub(PAUSE).unwrap_or(now);
    let due = records.to_reconcile(before, REPOSITORIES).await?;
    let mut more = i64::try_from(due.len()).is_ok_and(|count| count >= REPOSITORIES);
    let mut failures = 0;
    for reached in due {
        if stop.token.is_cancelled() || failures >= FAILURES {
            return Ok(false);
        }
        match repository(worker, &reached).await {
            Ok(true) => records.reconciled(reached.repository.id, now).await?,
            Ok(false) => more = true,
            Err(JobError::GitHub(error)) => {
                tracing::info!(
                    github.repository = %reached.repository.full_name(),
                    error = %error,
                    "A repository's pull requests could not be compared; a later round tries again"
                );
                // Not to be in the way of others the next time.
                records.reconciled(reached.repository.id, now).await?;
                failures = if matches!(error, GitHubError::Unavailable(_)) { failures + 1 } else { 0 };
            }
            Err(error) => return Err(error),
        }
    }
    Ok(more)
}

/// Compares one repository. False when a part of it was left for the next round.
async fn repository(worker: &Worker, reached: &Reached) -> Result<bool, JobError> {
    let Reached { installation, repository, known_since } = reached;
    let open = worker.github()?.repository(*installation, repository).open_pulls().await?;
    let store = worker.app.pulls();
    let wanted = wanted(&open, &store.known(repository.id).await?, *known_since);
    for each in wanted.iter().take(PULLS) {
        let (Wanted::Review { number, .. } | Wanted::Close(number)) = each;
        let pull = PullRef { installation: *installation, repository: repository.clone(), number: *number };
        let mut tx = worker.app.db.begin().await?;
        // What is under way needs no push, and must not be interrupted by one. What waits for a later time may begin now.
        if worker.queue.busy(&mut tx, &pull.key()).await? {
            continue;
        }
        let job = match each {
            Wanted::Review { state, trigger, .. } => {
                store.notice(&mut tx, pull.ids(), state).await?;
                Job::ReviewPullRequest { pull, trigger: *trigger }
            }
            Wanted::Close(_) => Job::ClosePullRequest { pull },
        };
        worker.queue.enqueue(&mut tx, &job.due(worker.app.clock.now())).await?;
        tx.commit().await.map_err(crate::db::DbError::from)?;
    }
    if !wanted.is_empty() {
        tracing::info!(
            github.repository = %repository.full_name(),
            pulls = wanted.len(),
            "Pull requests have changed without our having heard of it"
        );
        worker.queue.announce();
    }
    Ok(wanted.len() <= PULLS)
}

/// What is to be done about the pull requests of one repository.
fn wanted(open: &OpenPulls, known: &[KnownPull], known_since: Timestamp) -> Vec<Wanted> {
    let known: BTreeMap<u64, &KnownPull> = known.iter().map(|pull| (pull.number, pull)).collect();
    let listed: BTreeMap<u64, &ListedPull> = open.pulls.iter().map(|pull| (pull.number, pull)).collect();
    let reviews = open.pulls.iter().filter_map(|pull| {
        let state = if pull.draft { format!("{} draft", pull.head_sha) } else { pull.head_sha.clone() };
        let trigger = match known.get(&pull.number) {
            Some(known) if known.paused || known.noticed.as_deref() == Some(&state) => return None,
            Some(known) if known.reviewed_head.as_deref() == Some(&pull.head_sha) => return None,
            Some(known) if known.reviewed_head.is_some() => Trigger::Push,
            Some(_) => Trigger::Opened,
            None if pull.created_at >= known_since => Trigger::Opened,
            None => return None,
        };
        Some(Wanted::Review { number: pull.number, state, trigger })
    });
    let gone = |pull: &&&KnownPull| open.complete && !pull.closed && !listed.contains_key(&pull.number);
    let closed = known.values().filter(gone).map(|pull| Wanted::Close(pull.number));
    reviews.chain(closed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn open(number: u64, head: &str, created: i64) -> ListedPull {
        ListedPull { number, head_sha: head.into(), draft: false, created_at: at(created) }
    }

    fn known(number: u64, head: Option<&str>) -> KnownPull {
        KnownPull { number, reviewed_head: head.map(str::to_owned), ..KnownPull::default() }
    }

    fn review(number: u64, state: &str, trigger: Trigger) -> Wanted {
        Wanted::Review { number, state: state.into(), trigger }
    }

    #[test]
    fn what_a_maintainer_expects() {
        let list = |pulls: &[ListedPull]| OpenPulls { pulls: pulls.to_vec(), complete: true };
        let decide = |pull: ListedPull, known: &[KnownPull]| wanted(&list(&[pull]), known, at(100));
        assert_eq!(decide(open(1, "a", 99), &[]), [], "it was there before us");
        assert_eq!(decide(open(1, "a", 100), &[]), [review(1, "a", Trigger::Opened)]);
        assert_eq!(decide(open(1, "a", 5), &[known(1, Some("a"))]), []);
        assert_eq!(decide(open(1, "b", 5), &[known(1, Some("a"))]), [review(1, "b", Trigger::Push)]);
        assert_eq!(decide(open(1, "b", 5), &[known(1, None)]), [review(1, "b", Trigger::Opened)]);
        let paused = KnownPull { paused: true, ..known(1, Some("a")) };
        assert_eq!(decide(open(1, "b", 5), &[paused]), []);
        let noticed = |state: &str| KnownPull { noticed: Some(state.into()), ..known(1, Some("a")) };
        assert_eq!(decide(open(1, "b", 5), &[noticed("b")]), [], "once is enough");
        assert_eq!(decide(open(1, "c", 5), &[noticed("b")]), [review(1, "c", Trigger::Push)]);
        let draft = ListedPull { draft: true, ..open(1, "b", 100) };
        assert_eq!(decide(draft.clone(), &[]), [review(1, "b draft", Trigger::Opened)]);
        assert_eq!(decide(draft, &[noticed("b draft")]), []);
        assert_eq!(decide(open(1, "b", 5), &[noticed("b draft")]), [review(1, "b", Trigger::Push)], "ready since");
        assert_eq!(wanted(&list(&[]), &[known(1, Some("a"))], at(100)), [Wanted::Close(1)]);
        let closed = KnownPull { closed: true, ..known(1, Some("a")) };
        assert_eq!(wanted(&list(&[]), std::slice::from_ref(&closed), at(100)), []);
        assert_eq!(decide(open(1, "b", 5), &[closed]), [review(1, "b", Trigger::Push)], "opened again");
        let cut = OpenPulls { pulls: Vec::new(), complete: false };
        assert_eq!(wanted(&cut, &[known(1, Some("a"))], at(100)), [], "it may stand in the part not listed");
    }
}
