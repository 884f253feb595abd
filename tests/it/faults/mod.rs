//! The fault table × the scenarios, generated: every scenario is played on a calm day, and then once more for each fault
//! at each place where it can strike: every request to GitHub, every model call, every row that is written, every
//! webhook. All must end in the calm page, or as `expected` says and why.
//!
//! The suite plays every fault at every sort of place, spread over the scenarios, and what ended wrongly once, on SQLite,
//! and a part of it on PostgreSQL. `SECONDLOOK_TABLE=all` plays every combination; `SECONDLOOK_TABLE_ONLY=TEXT` those
//! whose line holds the text.

mod database;
mod expected;
mod judge;
mod scenario;
mod stage;
mod table;
mod trace;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Instant;

use futures_util::StreamExt;
use secondlook::db::Backend;

use crate::harness::database::fresh;
use judge::{Verdict, judge};
use scenario::{ALL, Scenario};
use stage::{Played, Stage};
use table::{Case, TABLE};
use trace::Point;

/// Combinations played at the same time.
const SIDE_BY_SIDE: usize = 6;

/// Of the combinations of the suite, one in so many is played on PostgreSQL too.
const POSTGRES_SHARE: u64 = 12;

/// Combinations that have ended wrongly once: the suite plays them always.
const ONCE_WRONG: &[&str] = &[
    "asked for another review | statement fails at DELETE checkpoints [0]",
    "asked for another review | statement fails at UPDATE posts [0]",
    "closed while it is reviewed | 404 for good at GET /repos/*/*/pulls/* [1]",
    "closed while it is reviewed | crash before GitHub acts at PATCH /repos/*/*/check-runs/* [0]",
    "merge queue | crash after GitHub acted at POST /repos/*/*/check-runs [0]",
    "opened | three times 502 at POST /graphql [1]",
    "pause, push, resume | 403 for good at GET /repos/*/*/commits/*/check-runs [0]",
    "pause, push, resume | crash after GitHub acted at POST /repos/*/*/check-runs [0]",
    "re-run of the check | statement fails at DELETE checkpoints [1]",
    "reply in a thread | delivered late at webhook [1]",
];

/// One line of the table.
#[derive(Clone)]
struct Line {
    scenario: &'static Scenario,
    strikes: Vec<(&'static Case, Point)>,
    backend: Backend,
}

impl Line {
    fn name(&self) -> String {
        let strikes: Vec<String> =
            self.strikes.iter().map(|(case, point)| format!("{} at {point}", case.name)).collect();
        format!("{} | {} | {:?}", self.scenario.name, strikes.join(" and "), self.backend)
    }

    fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.name().hash(&mut hasher);
        hasher.finish()
    }
}

async fn play(line: &Line) -> Option<Played> {
    let database = fresh(line.backend).await?;
    let mut stage = Stage::new(database, line.strikes.clone()).await;
    (line.scenario.play)(&mut stage).await;
    Some(stage.end().await)
}

/// Every scenario without a fault.
async fn calm_days() -> BTreeMap<&'static str, Played> {
    let lines = ALL.iter().map(|scenario| Line { scenario, strikes: Vec::new(), backend: Backend::Sqlite });
    let played = futures_util::stream::iter(lines)
        .map(async |line| (line.scenario.name, play(&line).await.unwrap()))
        .buffer_unordered(SIDE_BY_SIDE);
    let calm: BTreeMap<_, _> = played.collect().await;
    for (name, played) in &calm {
        let silent = played.dead.is_empty() && played.wrong.is_empty();
        assert!(silent, "{name} is not calm: {:#?} {:#?}\n{}", played.dead, played.wrong, played.page);
    }
    calm
}

/// The whole product of scenarios, places and faults.
fn every_line(calm: &BTreeMap<&'static str, Played>) -> Vec<Line> {
    let mut lines = Vec::new();
    for scenario in ALL {
        for point in &calm[scenario.name].trace.points {
            for case in TABLE.iter().filter(|case| case.fits(point)) {
                lines.push(Line { scenario, strikes: vec![(case, point.clone())], backend: Backend::Sqlite });
            }
        }
    }
    lines
}

/// Every fault at every sort of place at least once, each in the scenario that the hash picks; and what was wrong once.
fn spread(mut lines: Vec<Line>) -> Vec<Line> {
    lines.sort_by_key(Line::hash);
    let mut seen = HashSet::new();
    lines.retain(|line| {
        let (case, point) = &line.strikes[0];
        let name = line.name();
        seen.insert((case.name, point.place())) || ONCE_WRONG.iter().any(|wrong| name.starts_with(wrong))
    });
    lines
}

/// Plays lines side by side and holds each against its calm day.
async fn hold(lines: Vec<Line>, calm: BTreeMap<&'static str, Played>, whole: bool) {
    let (count, began) = (lines.len(), Instant::now());
    let calm = std::sync::Arc::new(calm);
    let played = futures_util::stream::iter(lines)
        .map(|line| {
            let calm = calm.clone();
            async move {
                let (mine, runtime) = (line.clone(), tokio::runtime::Handle::current());
                let outcome = tokio::task::spawn_blocking(move || runtime.block_on(play(&mine))).await;
                let verdict = match outcome {
                    Ok(Some(played)) => judge(&line.strikes, &calm[line.scenario.name], &played),
                    Ok(None) => Verdict::NotPlayed,
                    Err(panic) => Verdict::Wrong(format!("it panicked: {panic}")),
                };
                if let Verdict::Wrong(why) = &verdict {
                    // At once: all of them take half an hour.
                    eprintln!("wrong: {}\n{why}\n", line.name());
                }
                (line.name(), verdict)
            }
        })
        .buffer_unordered(SIDE_BY_SIDE);
    let verdicts: Vec<(String, Verdict)> = played.collect().await;
    let (mut wrong, mut met, mut needed) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    for (name, verdict) in verdicts {
        match verdict {
            Verdict::Calm { spare } => met.extend(spare),
            Verdict::AsSaid(at) => {
                met.insert(at);
                needed.insert(at);
            }
            Verdict::NotPlayed => {}
            Verdict::Wrong(why) => wrong.push(format!("{name}\n{why}")),
        }
    }
    eprintln!("{count} combinations in {:.1} s, {} wrong", began.elapsed().as_secs_f64(), wrong.len());
    // A part of the table does not need all of them.
    for at in met.difference(&needed).filter(|_| whole) {
        let expected::Exception { fault, why, .. } = &expected::EXCEPTIONS[*at];
        wrong.push(format!("the exception of `{fault}` ({why}) is not needed any more"));
    }
    wrong.sort();
    assert!(wrong.is_empty(), "{} of {count}:\n\n{}", wrong.len(), wrong.join("\n\n"));
}

fn run(body: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(body);
}

#[test]
fn every_fault_at_every_place_ends_in_the_calm_page_or_as_is_said() {
    run(async {
        let calm = calm_days().await;
        let all = every_line(&calm);
        let whole = std::env::var("SECONDLOOK_TABLE").is_ok_and(|value| value == "all");
        let only = std::env::var("SECONDLOOK_TABLE_ONLY").ok();
        eprintln!("{} combinations there are", all.len());
        let mut lines = if whole || only.is_some() { all } else { spread(all) };
        if let Some(only) = &only {
            lines.retain(|line| line.name().contains(only));
        }
        let on_postgres: Vec<Line> = lines
            .iter()
            .filter(|line| line.hash() % POSTGRES_SHARE == 0)
            .map(|line| Line { backend: Backend::Postgres, ..line.clone() })
            .collect();
        lines.extend(on_postgres);
        hold(lines, calm, whole).await;
    });
}
