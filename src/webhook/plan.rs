//! What follows from an event: jobs, records, and one word for the counters. Pure.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::event::{Comment, Event, InstallationAction, Origin, PullAction, RepositoryAction};
use crate::github::Repository;
use crate::github::store::Record;
use crate::job::{Job, PullRef, Trigger};
use crate::queue::NewJob;

/// How long the data of a removed repository or installation is kept, for the case of a mistake.
pub const GRACE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The name of our check run.
pub const CHECK_NAME: &str = "secondlook";

/// Repositories named by one job to forget them, so that its key stays short.
const FORGOTTEN_TOGETHER: usize = 40;

/// What follows from an event.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Keys whose waiting jobs are dropped and whose running ones are stopped, before the jobs are put in.
    pub cancels: Vec<String>,
    /// Work to be done.
    pub jobs: Vec<NewJob<Job>>,
    /// What is to be known of installations and repositories.
    pub records: Vec<Record>,
    /// One word that says what was made of it.
    pub outcome: &'static str,
}

impl Plan {
    fn nothing(outcome: &'static str) -> Self {
        Self { cancels: Vec::new(), jobs: Vec::new(), records: Vec::new(), outcome }
    }
}

/// What follows from an event at the instant `now`. `app` is our App's id, where it is known.
pub fn plan(event: &Event, app: Option<u64>, now: Timestamp) -> Plan {
    match event {
        Event::Pull { origin, number, action } => pull(origin, *number, *action, now),
        Event::LineComment { origin, number, comment } => line_comment(origin, *number, comment, now),
        // What a resolution means is read from the thread when the pull request is next looked at.
        Event::Thread { resolved: true, .. } => Plan::nothing("thread_resolved"),
        Event::Thread { resolved: false, .. } => Plan::nothing("thread_unresolved"),
        Event::TimelineComment { on_pull_request: false, .. } => Plan::nothing("not_a_pull_request"),
        Event::TimelineComment { origin, number, comment, .. } => timeline_comment(origin, *number, comment, now),
        Event::CheckRerequested { origin, head_sha, name, app: owner } => {
            let other_app = matches!((app, owner), (Some(ours), Some(owner)) if ours != *owner);
            if other_app || name.as_deref().is_some_and(|name| name != CHECK_NAME) {
                return Plan::nothing("not_our_check");
            }
            acting(origin, "rerun", |installation, repository| {
                vec![Job::RerunCheck { installation, repository, head_sha: head_sha.clone() }.due(now)]
            })
        }
        Event::MergeGroup { origin, head_sha } => acting(origin, "merge_group", |installation, repository| {
            vec![Job::ReportMergeGroup { installation, repository, head_sha: head_sha.clone() }.due(now)]
        }),
        Event::Installation { installation, account, action, repositories } => {
            let (installation, account) = (*installation, account.clone());
            match action {
                InstallationAction::Present => {
                    let mut plan = Plan::nothing("installation");
                    plan.records.push(Record::Installation { installation, account });
                    plan.records.extend(reached(installation, repositories));
                    plan
                }
                InstallationAction::Suspended | InstallationAction::Unsuspended => {
                    let suspended = *action == InstallationAction::Suspended;
                    let mut plan = Plan::nothing(if suspended { "suspended" } else { "unsuspended" });
                    plan.records.push(Record::Suspended { installation, account, suspended });
                    if !suspended {
                        plan.jobs.push(Job::ReconcilePulls.due(now));
                    }
                    plan
                }
                InstallationAction::Deleted => {
                    let mut plan = Plan::nothing("installation_removed");
                    // Named first, so that they are found by the job even when we never heard of them. Those that
                    // another installation reaches by now stay with that one.
                    plan.records.extend(
                        sorted(repositories).cloned().map(|repository| Record::Seen { installation, repository }),
                    );
                    plan.records.push(Record::InstallationRemoved { installation });
                    plan.jobs.push(forget(installation, Vec::new(), now));
                    plan
                }
            }
        }
        Event::InstallationRepositories { installation, account, added, removed } => {
            let installation = *installation;
            let mut plan = Plan::nothing("repositories");
            plan.records.push(Record::Installation { installation, account: account.clone() });
            plan.records.extend(reached(installation, added));
            plan.records.extend(
                sorted(removed).map(|removed| Record::RepositoryRemoved {
                    installation: Some(installation),
                    repository: removed.id,
                }),
            );
            let ids: Vec<u64> = sorted(removed).map(|repository| repository.id).collect();
            plan.jobs.extend(ids.chunks(FORGOTTEN_TOGETHER).map(|ids| forget(installation, ids.to_vec(), now)));
            plan
        }
        Event::AccountRenamed { installation, account } => {
            let mut plan = Plan::nothing("account_renamed");
            plan.records.push(Record::Renamed { installation: *installation, account: account.clone() });
            plan
        }
        Event::Repository { origin, action: RepositoryAction::Moved } => {
            let mut plan = Plan::nothing("repository_moved");
            let repository = origin.repository.clone();
            plan.records.push(match origin.installation {
                Some(installation) => Record::Repository { installation, repository },
                None => Record::Moved { repository },
            });
            plan
        }
        Event::Repository { origin, action: RepositoryAction::Deleted } => {
            let mut plan = Plan::nothing("repository_removed");
            plan.records.push(Record::RepositoryRemoved { installation: None, repository: origin.repository.id });
            plan.jobs.extend(origin.installation.map(|id| forget(id, vec![origin.repository.id], now)));
            plan
        }
        Event::Ignored { .. } => Plan::nothing("ignored"),
    }
}

fn pull(origin: &Origin, number: u64, action: PullAction, now: Timestamp) -> Plan {
    let (outcome, trigger) = match action {
        PullAction::Opened => ("review", Some(Trigger::Opened)),
        PullAction::Synchronized => ("review_push", Some(Trigger::Push)),
        PullAction::Retargeted => ("review_retargeted", Some(Trigger::Retarget)),
        PullAction::Closed => ("closed", None),
    };
    let mut cancels = Vec::new();
    let mut plan = acting(origin, outcome, |installation, repository| {
        let pull = PullRef { installation, repository, number };
        let job = match trigger {
            Some(trigger) => Job::ReviewPullRequest { pull, trigger },
            None => {
                // Nobody waits for the review of a closed pull request.
                cancels.push(Job::ClosePullRequest { pull: pull.clone() }.key());
                Job::ClosePullRequest { pull }
            }
        };
        vec![job.due(now)]
    });
    plan.cancels = cancels;
    plan
}

fn line_comment(origin: &Origin, number: u64, comment: &Comment, now: Timestamp) -> Plan {
    if from_bot(origin, comment) {
        return Plan::nothing("from_bot");
    }
    // Whether the thread is ours is known to GitHub; a comment that begins a thread can only address us by name.
    if comment.in_reply_to.is_none() && !may_address_us(&comment.body) {
        return Plan::nothing("not_addressed");
    }
    acting(origin, "reply", |installation, repository| {
        let root = comment.in_reply_to.unwrap_or(comment.id);
        // One thread is one conversation: its answers are written one after the other.
        let key = format!("thread:{}:{number}:{root}", repository.id);
        let pull = PullRef { installation, repository, number };
        let job = Job::ReplyToComment { pull, comment: comment.id }.due(now);
        vec![NewJob { key, supersedes: false, ..job }]
    })
}

fn timeline_comment(origin: &Origin, number: u64, comment: &Comment, now: Timestamp) -> Plan {
    if from_bot(origin, comment) {
        return Plan::nothing("from_bot");
    }
    if !may_address_us(&comment.body) {
        return Plan::nothing("not_addressed");
    }
    acting(origin, "command", |installation, repository| {
        let pull = PullRef { installation, repository, number };
        vec![Job::RunCommand { pull, comment: comment.id }.due(now)]
    })
}

/// A plan with jobs for an installation; without one we have no right to act. The repository's present name is noted, as
/// the events of installations may have come before our time.
fn acting(origin: &Origin, outcome: &'static str, jobs: impl FnOnce(u64, Repository) -> Vec<NewJob<Job>>) -> Plan {
    let Some(installation) = origin.installation else { return Plan::nothing("no_installation") };
    let repository = origin.repository.clone();
    Plan {
        jobs: jobs(installation, repository.clone()),
        records: vec![Record::Repository { installation, repository }],
        ..Plan::nothing(outcome)
    }
}

/// Never react to a bot, and so never to ourselves. An edit by a person of a bot's comment is still the bot's.
fn from_bot(origin: &Origin, comment: &Comment) -> bool {
    [&origin.sender, &comment.author].into_iter().flatten().any(|user| user.is_bot)
}

/// Whether a comment could address us: it mentions somebody, or holds our command word. Who is mentioned, and whether that
/// stands in a quotation, is for the job to find out.
fn may_address_us(body: &str) -> bool {
    let mention = |(at, _): (usize, &str)| {
        body.get(at + 1..).and_then(|rest| rest.chars().next()).is_some_and(|next| next.is_ascii_alphanumeric())
    };
    let command = |(at, _): (usize, &str)| {
        body.as_bytes().get(at + 1..at + 11).is_some_and(|word| word.eq_ignore_ascii_case(b"secondlook"))
    };
    body.match_indices('@').any(mention) || body.match_indices('/').any(command)
}

fn forget(installation: u64, repositories: Vec<u64>, now: Timestamp) -> NewJob<Job> {
    let grace = SignedDuration::try_from(GRACE).unwrap_or(SignedDuration::MAX);
    let then = now.checked_add(grace).unwrap_or(Timestamp::MAX);
    Job::ForgetRepositories { installation, repositories }.due(then)
}

fn reached(installation: u64, repositories: &[Repository]) -> impl Iterator<Item = Record> {
    sorted(repositories).cloned().map(move |repository| Record::Repository { installation, repository })
}

/// In the order of their ids: two transactions that touch the same rows then never wait for each other in a circle.
fn sorted(repositories: &[Repository]) -> impl Iterator<Item = &Repository> {
    let mut sorted: Vec<&Repository> = repositories.iter().collect();
    sorted.sort_by_key(|repository| repository.id);
    sorted.into_iter()
}

#[cfg(test)]
mod tests;
