//! Left running: two processes on PostgreSQL, fifty repositories with pull requests, pushes, replies and redeliveries,
//! while GitHub and the model fail now and then and one of the processes is killed again and again. In the end every
//! page is the one of a calm run, and what the other process holds (memory, open files) has not grown.
//!
//! `SECONDLOOK_SOAK_SECONDS` makes it long; `tests/bench/soak` does that and keeps the curves.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use secondlook::db::Backend;
use tokio::time::Instant;

use crate::campaign::calm;
use crate::database::POSTGRES_VARIABLE;
use crate::github::actions::PullSpec;
use crate::github::fault::Fault;
use crate::github::watch::Seen;
use crate::github::{FakeGitHub, Pr};
use crate::model::Trouble;
use crate::plot::{Curve, svg};
use crate::program::Program;
use crate::seed::{Seed, number, pass};
use crate::story::{Act, Story};
use crate::verdict::Pages;
use crate::world::{World, ask};

/// Kinds of pull requests: all of one kind end in the same page.
const KINDS: usize = 6;

/// Longest wait for what was begun, once nothing more is begun.
const PATIENCE: Duration = Duration::from_secs(600);

/// A kind of pull request: its changes, and what follows its opening.
fn kind(kind: usize) -> Story {
    let mut chance = Seed::new(u64::try_from(kind + 77).unwrap());
    let more = (0..3).map(|_| vec![*chance.pick(&[Act::Push(0), Act::Reply(0), Act::Ask(0)])]);
    Story { number: 3_000 + kind, pulls: 1, phases: [vec![Act::Open(0)]].into_iter().chain(more).collect() }
}

/// A pull request in the making.
struct Running {
    pr: Pr,
    kind: usize,
    /// How many were opened before it.
    opened: usize,
    /// Acts that were done.
    acts: usize,
    pushes: usize,
    asked: usize,
}

/// One look at the processes.
struct Sample {
    second: f64,
    /// Resident memory in MiB and open files, of each.
    held: Vec<Option<(f64, f64)>>,
    running: usize,
    done: usize,
}

#[test]
fn pages_are_those_of_a_calm_run_and_nothing_grows() {
    if std::env::var(POSTGRES_VARIABLE).is_err() {
        eprintln!("skipped: {POSTGRES_VARIABLE} is not set");
        return;
    }
    let time = Duration::from_secs(number("SECONDLOOK_SOAK_SECONDS", 8));
    let repositories = usize::try_from(number("SECONDLOOK_SOAK_REPOSITORIES", 3)).unwrap();
    let seed = number("SECONDLOOK_SEED", 1);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(soak(time, repositories, seed));
}

async fn soak(time: Duration, repositories: usize, seed: u64) {
    let kinds = KINDS.min(repositories);
    let wanted = stream::iter(0..kinds).map(async |number| calm(&kind(number)).await.pages);
    let wanted: Vec<Pages> = wanted.buffered(kinds).collect().await;
    let mut chance = Seed::new(seed);
    let story = Story { number: 0, pulls: 0, phases: Vec::new() };
    let mut world = World::new(story, Backend::Postgres, 2, chance.part()).await.unwrap();
    go_wrong(&world, &mut chance);
    world.start(0);
    world.start(1);
    let began = Instant::now();
    let mut running: BTreeMap<usize, Running> = BTreeMap::new();
    let (mut done, mut opened, mut kills) = (Vec::new(), 0, 0);
    let mut samples: Vec<Sample> = Vec::new();
    let (mut next_look, mut next_kill) = (began, began + Duration::from_secs(4));
    loop {
        let now = Instant::now();
        let over = now.duration_since(began) >= time;
        if over && running.is_empty() {
            break;
        }
        assert!(now.duration_since(began) < time + PATIENCE, "work is left:\n{}", world.said());
        if now >= next_look {
            samples.push(look(&world, began, running.len(), done.len()));
            next_look = now + Duration::from_secs(2);
            world.wire.forget();
            for repository in 0..repositories {
                if let Some(pull) = running.get_mut(&repository) {
                    if is_quiet(&world.github, pull) && !act(&world.github, pull) {
                        done.extend(running.remove(&repository));
                    }
                } else if !over {
                    running.insert(repository, open(&world.github, repository, opened % kinds, opened));
                    opened += 1;
                }
            }
        }
        if now >= next_kill && !over {
            // The first one lives through it all, so that it can be seen to hold no more in the end.
            next_kill = now + Duration::from_secs(12) + chance.time(20_000);
            if chance.once_in(3) {
                world.terminate(1, Duration::from_secs(60)).await.unwrap();
            } else {
                world.kill(1).await;
            }
            kills += 1;
            world.away.push((now + chance.time(4_000), 1));
        }
        if !world.go_on().await {
            pass(Duration::from_millis(20)).await;
        }
    }
    world.wire.end_faults();
    world.model.end_troubles();
    world.settle().await;
    samples.push(look(&world, began, 0, done.len()));
    let acts: usize = done.iter().map(|pull| pull.acts).sum();
    eprintln!(
        "soak: {:.0?}, {} pull requests in {repositories} repositories, {acts} acts, {} requests to GitHub, one process \
         stopped {kills} times, memory and open files of the other at its end: {:?}",
        began.elapsed(),
        done.len(),
        world.github.count("* /**"),
        samples.last().and_then(|sample| sample.held[0])
    );
    keep(&samples);
    for pull in &done {
        let page = world.github.page(&pull.pr).replacen(&title(pull.opened), "Change something", 1);
        assert_eq!(unnumbered(&page), unnumbered(&wanted[pull.kind].0[0].page), "{:?}", pull.pr);
        let checks = world.github.all_checks(&pull.pr.repo);
        assert!(checks.iter().all(|check| check.status == "completed"), "{:?}", pull.pr);
        let heads: std::collections::BTreeSet<&str> = checks.iter().map(|check| check.head_sha.as_str()).collect();
        assert_eq!(heads.len(), checks.len(), "one check run for each head of {}", pull.pr.repo);
    }
    world.github.reckon();
    assert!(!done.is_empty() && kills > 0, "something was done");
    if time >= Duration::from_secs(300) {
        has_not_grown(&samples);
    }
}

/// One request in three hundred to GitHub goes wrong, and one to the model in a hundred.
fn go_wrong(world: &World, chance: &mut Seed) {
    let mut strikes = chance.part();
    world.wire.set_faults(move |_: &Seen| {
        let every = "* /**";
        strikes.once_in(300).then(|| match strikes.below(6) {
            0 => Fault::status(every, 502, "Bad Gateway"),
            1 => Fault::apply_then_status(every, 500),
            2 => Fault::drop(every),
            3 => Fault::apply_then_drop(every),
            4 => Fault::secondary_limit(every, Some("1")),
            _ => Fault::truncated(every),
        })
    });
    let (mut strikes, mut spared) = (chance.part(), 0);
    world.model.set_troubles(move || {
        spared += 1;
        // Three in a row for one call would rightly leave a file without a review.
        if spared < 20 || !strikes.once_in(80) {
            return None;
        }
        spared = 0;
        Some(*strikes.pick(&[Trouble::Broken, Trouble::Busy, Trouble::Cut]))
    });
    world.model.forget();
}

fn title(opened: usize) -> String {
    format!("Change something ({opened})")
}

fn open(github: &FakeGitHub, repository: usize, of: usize, opened: usize) -> Running {
    // A commit is named by what is in it, its message too: without a title of its own, a second pull request of a kind
    // would have the commits of the first, and with them its check runs.
    let branch = format!("topic-{opened}");
    let spec = PullSpec::new(&kind(of).change(0, 0)).repo(&format!("org{repository}/app")).branch(&branch);
    let spec = spec.title(&title(opened));
    Running { pr: github.open_pull(spec), kind: of, opened, acts: 1, pushes: 1, asked: 0 }
}

/// Whether everything that was done there is answered.
fn is_quiet(github: &FakeGitHub, pull: &Running) -> bool {
    let ours = |author: &Option<String>| author.as_deref() == Some("secondlook[bot]");
    let replies = github.comments(&pull.pr).iter().filter(|c| c.reply_to.is_some() && ours(&c.author)).count();
    let said = github.timeline(&pull.pr).iter().filter(|talk| ours(&talk.author)).count();
    let checks = github.checks(&pull.pr);
    !checks.is_empty() && checks.iter().all(|check| check.status == "completed") && replies + said >= pull.asked
}

/// Does what comes next; false when the pull request has been through everything.
fn act(github: &FakeGitHub, pull: &mut Running) -> bool {
    let story = kind(pull.kind);
    let Some(act) = story.phases.get(pull.acts).and_then(|acts| acts.first()) else { return false };
    pull.acts += 1;
    if *act == Act::Push(0) {
        github.push(&pull.pr, &story.change(0, pull.pushes));
        pull.pushes += 1;
        return true;
    }
    pull.asked += 1;
    ask(github, &pull.pr, *act, 0, pull.asked);
    true
}

fn unnumbered(page: &str) -> &str {
    page.split_once(' ').map_or(page, |(_, rest)| rest)
}

fn look(world: &World, began: Instant, running: usize, done: usize) -> Sample {
    let held = |program: &Option<Program>| {
        let id = program.as_ref()?.id()?;
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kib: f64 = line.split_whitespace().next()?.parse().ok()?;
        Some((kib / 1024.0, std::fs::read_dir(format!("/proc/{id}/fd")).ok()?.count() as f64))
    };
    let held = world.programs.iter().map(held).collect();
    Sample { second: began.elapsed().as_secs_f64(), held, running, done }
}

/// Keeps the samples as a table and as curves.
fn keep(samples: &[Sample]) {
    let place = std::env::var("SECONDLOOK_SOAK_OUT").unwrap_or_else(|_| env!("CARGO_TARGET_TMPDIR").to_owned());
    let place = PathBuf::from(place);
    let mut table = "second,process,memory_mib,open_files,running,done\n".to_owned();
    for sample in samples {
        for (process, held) in sample.held.iter().enumerate() {
            let (memory, files) = held.map_or(("".into(), "".into()), |(m, f)| (format!("{m:.1}"), format!("{f:.0}")));
            let Sample { second, running, done, .. } = sample;
            let _ = writeln!(table, "{second:.0},{process},{memory},{files},{running},{done}");
        }
    }
    let curve = |process: usize, colour, pick: fn((f64, f64)) -> f64| {
        let points = samples.iter().map(|sample| (sample.second, sample.held[process].map(pick))).collect();
        Curve { name: ["lives on", "is killed"][process], colour, points }
    };
    let work = |name, colour, pick: fn(&Sample) -> usize| {
        let points = samples.iter().map(|sample| (sample.second, Some(pick(sample) as f64))).collect();
        Curve { name, colour, points }
    };
    let drawn = svg(
        "Two processes on PostgreSQL, one of them killed again and again, GitHub and the model failing now and then",
        &[
            ("resident memory, MiB", vec![curve(0, "#0969da", |held| held.0), curve(1, "#cf222e", |held| held.0)]),
            ("open files", vec![curve(0, "#0969da", |held| held.1), curve(1, "#cf222e", |held| held.1)]),
            ("pull requests", vec![work("at work", "#0969da", |s| s.running), work("through", "#1a7f37", |s| s.done)]),
        ],
    );
    std::fs::create_dir_all(&place).unwrap();
    std::fs::write(place.join("soak.csv"), table).unwrap();
    std::fs::write(place.join("soak.svg"), drawn).unwrap();
    eprintln!("soak: the curves are in {}", place.join("soak.svg").display());
}

/// Compares what the process that lived on held in the second quarter and in the last.
fn has_not_grown(samples: &[Sample]) {
    let mean = |from: usize, to: usize, pick: fn((f64, f64)) -> f64| {
        let some: Vec<f64> = samples[from..to].iter().filter_map(|sample| sample.held[0].map(pick)).collect();
        some.iter().sum::<f64>() / some.len().max(1) as f64
    };
    let quarter = samples.len() / 4;
    for (what, slack, pick) in [("memory", 20.0, (|h| h.0) as fn((f64, f64)) -> f64), ("open files", 10.0, |h| h.1)] {
        let (early, late) = (mean(quarter, 2 * quarter, pick), mean(3 * quarter, samples.len(), pick));
        eprintln!("soak: {what}: {early:.1} in the second quarter, {late:.1} in the last");
        assert!(late <= early * 1.15 + slack, "{what} grew from {early:.1} to {late:.1}");
    }
}
