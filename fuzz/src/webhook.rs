//! A delivery: the event's name on the first line, then the body.

use jiff::Timestamp;
use secondlook::github::store::Record;
use secondlook::job::Job;
use secondlook::webhook::event::{self, Event};
use secondlook::webhook::plan::plan;

/// Longest key that the queue takes.
const LONGEST_KEY: usize = 1_000;

/// Reads a delivery and plans what follows.
pub fn check(data: &[u8]) {
    let cut = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let (name, body) = data.split_at(cut);
    let Ok(name) = std::str::from_utf8(name) else { return };
    let body = body.get(1..).unwrap_or_default();
    let action = event::action_of(body);
    let parsed = event::parse(name, body);
    if let Err(error) = &parsed {
        let said = error.to_string();
        assert!(said.len() < 1_000 + name.len() && !said.contains('\n'), "a fault is one short sentence: {said}");
    }
    let Ok(event) = parsed else { return };
    let action = action.expect("what is read as an event has a readable action");
    assert!(action.len() <= 64 && action.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{action:?}");
    let now = Timestamp::UNIX_EPOCH;
    let plan = plan(&event, Some(7), now);
    let again = format!("{:?}", secondlook::webhook::plan::plan(&event, Some(7), now));
    assert_eq!(format!("{plan:?}"), again, "a plan depends on nothing else");
    if matches!(event, Event::Ignored { .. }) {
        assert!(plan.jobs.is_empty() && plan.records.is_empty() && plan.cancels.is_empty());
    }
    for job in &plan.jobs {
        assert!(!job.key.is_empty() && job.key.len() <= LONGEST_KEY, "the queue takes no key of {}", job.key.len());
        assert!(!job.key.contains('\0'), "PostgreSQL takes no NUL");
        let text = serde_json::to_string(&job.job).expect("a job is written as JSON");
        assert!(!text.contains('\0'));
        let back: Job = serde_json::from_str(&text).expect("a job is read back");
        assert_eq!(back, job.job);
        assert_eq!(job.kind, job.job.kind());
    }
    for text in plan.records.iter().flat_map(stored) {
        assert!(!text.contains('\0'), "PostgreSQL takes no NUL: {text:?}");
    }
    if let Event::TimelineComment { comment, .. } | Event::LineComment { comment, .. } = &event
        && comment.author.as_ref().is_some_and(|author| author.is_bot)
    {
        assert!(plan.jobs.is_empty(), "a bot is never answered");
    }
}

fn stored(record: &Record) -> Vec<&str> {
    match record {
        Record::Installation { account, .. } | Record::Suspended { account, .. } => vec![account],
        Record::Renamed { account, .. } => vec![account],
        Record::Repository { repository, .. } | Record::Moved { repository } | Record::Seen { repository, .. } => {
            vec![&repository.owner, &repository.name]
        }
        Record::InstallationRemoved { .. } | Record::RepositoryRemoved { .. } => Vec::new(),
    }
}
