use super::*;
use crate::github::User;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn repository() -> Repository {
    Repository { id: 3, owner: "acme".into(), name: "cache".into() }
}

fn person() -> Option<User> {
    Some(User { id: 10, login: "ann".into(), is_bot: false })
}

fn bot() -> Option<User> {
    Some(User { id: 11, login: "ci[bot]".into(), is_bot: true })
}

fn origin() -> Origin {
    Origin { installation: Some(2), repository: repository(), sender: person() }
}

fn pull_ref() -> PullRef {
    PullRef { installation: 2, repository: repository(), number: 7 }
}

fn pull_event(action: PullAction) -> Event {
    Event::Pull { origin: origin(), number: 7, action }
}

fn comment(body: &str) -> Comment {
    Comment { id: 5, in_reply_to: None, author: person(), body: body.into() }
}

fn timeline(comment: Comment) -> Event {
    Event::TimelineComment { origin: origin(), number: 7, on_pull_request: true, comment }
}

fn line(comment: Comment) -> Event {
    Event::LineComment { origin: origin(), number: 7, comment }
}

fn outcome(event: &Event) -> &'static str {
    let plan = plan(event, Some(9), NOW);
    let quiet = plan.jobs.is_empty() && plan.cancels.is_empty();
    let acting = ["review", "review_push", "review_retargeted", "closed", "reply", "command", "rerun", "merge_group"];
    assert_eq!(quiet, !acting.contains(&plan.outcome), "{plan:?}");
    plan.outcome
}

#[test]
fn a_pull_request_is_reviewed_and_a_push_takes_the_place_of_what_waits() {
    for (action, trigger) in [
        (PullAction::Opened, Trigger::Opened),
        (PullAction::Synchronized, Trigger::Push),
        (PullAction::Retargeted, Trigger::Retarget),
    ] {
        let plan = plan(&pull_event(action), None, NOW);
        let [job] = &plan.jobs[..] else { panic!("{plan:?}") };
        assert_eq!(job.job, Job::ReviewPullRequest { pull: pull_ref(), trigger });
        assert_eq!((job.kind, job.key.as_str(), job.supersedes), ("review_pull_request", "pull:3:7", true));
        assert_eq!(job.run_at, NOW);
        assert!(plan.cancels.is_empty());
        assert_eq!(plan.records, [Record::Repository { installation: 2, repository: repository() }]);
    }
}

#[test]
fn closing_cancels_what_waits_and_runs() {
    let plan = plan(&pull_event(PullAction::Closed), None, NOW);
    assert_eq!(plan.cancels, ["pull:3:7"]);
    let [job] = &plan.jobs[..] else { panic!("{plan:?}") };
    assert_eq!((&job.job, job.key.as_str()), (&Job::ClosePullRequest { pull: pull_ref() }, "pull:3:7"));
}

#[test]
fn a_line_comment_is_answered_when_it_may_be_meant_for_us() {
    assert_eq!(outcome(&line(comment("looks fine"))), "not_addressed");
    let plan = plan(&line(Comment { in_reply_to: Some(4), ..comment("why?") }), None, NOW);
    let [job] = &plan.jobs[..] else { panic!("{plan:?}") };
    assert_eq!(job.job, Job::ReplyToComment { pull: pull_ref(), comment: 5 });
    assert_eq!((job.key.as_str(), job.supersedes), ("thread:3:7:4", false), "every answer counts, one after the other");
    assert_eq!(super::plan(&line(comment("@secondlook why?")), None, NOW).jobs[0].key, "thread:3:7:5");
}

#[test]
fn bots_are_never_answered() {
    for event in [
        line(Comment { in_reply_to: Some(4), author: bot(), ..comment("@secondlook") }),
        timeline(Comment { author: bot(), ..comment("/secondlook review") }),
        Event::LineComment {
            origin: Origin { sender: bot(), ..origin() },
            number: 7,
            comment: Comment { in_reply_to: Some(4), ..comment("@secondlook") },
        },
        Event::TimelineComment {
            origin: Origin { sender: bot(), ..origin() },
            number: 7,
            on_pull_request: true,
            comment: Comment { author: None, ..comment("/secondlook review") },
        },
    ] {
        assert_eq!(outcome(&event), "from_bot");
    }
}

#[test]
fn a_timeline_comment_is_a_command_when_it_may_address_us() {
    for body in ["@secondlook review", "hm\r\n/secondlook review", "/SecondLook help", "x/secondlook", "thanks @ann"] {
        assert_eq!(outcome(&timeline(comment(body))), "command", "{body}");
    }
    for body in ["", "nice", "a @ b", "trailing @", "/second", "look/", "@", "/", "ü@ü", "/secondlöok"] {
        assert_eq!(outcome(&timeline(comment(body))), "not_addressed", "{body}");
    }
    let issue =
        Event::TimelineComment { origin: origin(), number: 7, on_pull_request: false, comment: comment("/secondlook") };
    assert_eq!(outcome(&issue), "not_a_pull_request");
    let deleted = timeline(Comment { author: None, ..comment("/secondlook review") });
    assert_eq!(outcome(&deleted), "command", "whether a ghost may command is the job's to say");
}

#[test]
fn only_our_own_check_is_done_again() {
    let check = |name: Option<&str>, app: Option<u64>| Event::CheckRerequested {
        origin: origin(),
        head_sha: "a".repeat(40),
        name: name.map(str::to_owned),
        app,
    };
    assert_eq!(outcome(&check(Some("secondlook"), Some(9))), "rerun");
    assert_eq!(outcome(&check(None, Some(9))), "rerun");
    assert_eq!(outcome(&check(Some("secondlook"), None)), "rerun");
    assert_eq!(outcome(&check(Some("secondlook"), Some(8))), "not_our_check");
    assert_eq!(outcome(&check(None, Some(8))), "not_our_check");
    assert_eq!(outcome(&check(Some("build"), Some(9))), "not_our_check");
    assert_eq!(plan(&check(None, Some(8)), None, NOW).outcome, "rerun", "which App is ours is not known yet");
}

#[test]
fn a_merge_queue_is_told() {
    let event = Event::MergeGroup { origin: origin(), head_sha: "a".repeat(40) };
    assert_eq!(outcome(&event), "merge_group");
}

#[test]
fn without_an_installation_nothing_is_done() {
    let without = Origin { installation: None, ..origin() };
    for event in [
        Event::Pull { origin: without.clone(), number: 7, action: PullAction::Closed },
        Event::MergeGroup { origin: without.clone(), head_sha: "a".repeat(40) },
        Event::LineComment { origin: without, number: 7, comment: comment("@secondlook") },
    ] {
        assert_eq!(outcome(&event), "no_installation");
    }
}

#[test]
fn a_resolved_thread_is_counted() {
    let thread = |resolved| Event::Thread { origin: origin(), number: 7, resolved };
    assert_eq!(outcome(&thread(true)), "thread_resolved");
    assert_eq!(outcome(&thread(false)), "thread_unresolved");
}

#[test]
fn removed_repositories_are_forgotten_a_week_later_in_short_jobs() {
    let removed: Vec<Repository> =
        (1..=120).rev().map(|id| Repository { id, owner: "acme".into(), name: format!("r{id}") }).collect();
    let event = Event::InstallationRepositories { installation: 2, account: "acme".into(), added: vec![], removed };
    let plan = plan(&event, None, NOW);
    assert_eq!(plan.records.len(), 121);
    assert_eq!(plan.records[1], Record::RepositoryRemoved { installation: Some(2), repository: 1 });
    assert_eq!(plan.jobs.len(), 3);
    for job in &plan.jobs {
        assert_eq!(job.run_at, NOW + SignedDuration::from_hours(7 * 24));
        assert!(job.key.len() <= 1_000, "the longest key that the queue takes");
    }
    let Job::ForgetRepositories { installation: 2, repositories } = &plan.jobs[2].job else { panic!("{plan:?}") };
    assert_eq!(*repositories, (81..=120).collect::<Vec<u64>>());
}

#[test]
fn installations_are_kept_in_step() {
    let event = |action| Event::Installation {
        installation: 2,
        account: "acme".into(),
        action,
        repositories: vec![repository()],
    };
    let installation = 2;
    let account = || "acme".to_owned();
    let reached = Record::Repository { installation, repository: repository() };
    let created = plan(&event(InstallationAction::Present), None, NOW);
    assert_eq!(created.records, [Record::Installation { installation, account: account() }, reached]);
    let suspended = plan(&event(InstallationAction::Suspended), None, NOW);
    assert_eq!(suspended.records, [Record::Suspended { installation, account: account(), suspended: true }]);
    let woken = plan(&event(InstallationAction::Unsuspended), None, NOW);
    assert_eq!(woken.records, [Record::Suspended { installation, account: account(), suspended: false }]);
    assert_eq!(woken.jobs[0].job, Job::ReconcilePulls, "what happened while it slept was not told");
    let deleted = plan(&event(InstallationAction::Deleted), None, NOW);
    let seen = Record::Seen { installation, repository: repository() };
    assert_eq!(deleted.records, [seen, Record::InstallationRemoved { installation }]);
    assert_eq!(deleted.jobs[0].job, Job::ForgetRepositories { installation, repositories: vec![] });
}

#[test]
fn repositories_are_followed() {
    let moved = |installation| Event::Repository {
        origin: Origin { installation, ..origin() },
        action: RepositoryAction::Moved,
    };
    assert_eq!(plan(&moved(None), None, NOW).records, [Record::Moved { repository: repository() }]);
    let known = Record::Repository { installation: 2, repository: repository() };
    assert_eq!(plan(&moved(Some(2)), None, NOW).records, [known]);
    let gone = Event::Repository { origin: origin(), action: RepositoryAction::Deleted };
    let gone = plan(&gone, None, NOW);
    assert_eq!(gone.records, [Record::RepositoryRemoved { installation: None, repository: 3 }]);
    assert_eq!(gone.jobs[0].job, Job::ForgetRepositories { installation: 2, repositories: vec![3] });
}
