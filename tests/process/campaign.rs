//! A campaign: stories are told while somebody strikes at the processes, and must end as they do when nobody does.
//!
//! Where a process is struck is chosen by the seed among all steps that a calm run of the same story takes, before GitHub
//! or the model acts and after, or at any time, starts included. A run has one to four blows. What must hold at its end:
//! the pages and all check runs are those of the calm run, GitHub has no complaint, no job was given up, and no finished
//! model call was made again ([`crate::verdict`] says what finished means).
//!
//! `SECONDLOOK_RUNS`, `SECONDLOOK_SEED` (the first one) and `SECONDLOOK_PARALLEL` make a large one of it. A run that fails
//! prints how to repeat it.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{FutureExt, StreamExt, stream};
use secondlook::db::Backend;
use tokio::sync::OnceCell;
use tokio::time::Instant;

use crate::database::POSTGRES_VARIABLE;
use crate::program::Program;
use crate::seed::{Seed, number, pass};
use crate::story::Story;
use crate::verdict::{Pages, Paid, paid};
use crate::wire::{Passed, Step};
use crate::world::World;

/// The lease of every process, the shortest there is.
const LEASE: Duration = Duration::from_secs(5);

/// How long a process that is asked to stop waits for its jobs.
const GRACE: Duration = Duration::from_secs(4);

/// A run that takes longer has lost something.
const PATIENCE: Duration = Duration::from_secs(400);

/// How a process is struck.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Blow {
    /// `kill -9`, and another is started in its place.
    Kill,
    /// The same while a rival is started on the same SQLite file, which must be refused.
    KillWithRival,
    /// It stands still past its lease, and goes on.
    Freeze,
    /// SIGTERM: it must end well within its grace, and another is started in its place.
    Terminate,
}

/// A campaign.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Campaign {
    pub(crate) blow: Blow,
    pub(crate) backend: Backend,
    pub(crate) processes: usize,
    /// Runs that are part of the suite.
    pub(crate) sample: u64,
    /// The story of a seed.
    pub(crate) story: fn(u64) -> Story,
}

/// A blow that is planned.
#[derive(Debug, Clone)]
struct Planned {
    phase: usize,
    at: At,
    /// Whether the step goes on before the blow falls, and how long after it that is.
    after: Option<Duration>,
    /// Time until the process is started again.
    away: Duration,
}

/// When a process is struck.
#[derive(Debug, Clone)]
enum At {
    /// So long after the phase began or the process was started again.
    Time(Duration),
    /// At this step, after others of its kind.
    Step(Step, String, usize),
}

/// What a calm run of a story came to.
pub(crate) struct Calm {
    pub(crate) pages: Pages,
    /// The steps of each phase.
    phases: Vec<Vec<Passed>>,
}

/// What many runs came to.
#[derive(Default)]
struct Tally {
    runs: usize,
    blows: BTreeMap<(Step, String), usize>,
    not_met: usize,
    paid: Paid,
    failed: Vec<u64>,
}

/// Runs campaigns: a sample of each at the same time, as they wait more than they work; large ones one after the other.
pub(crate) fn run(campaigns: &[Campaign]) {
    if std::env::var("SECONDLOOK_RUNS").is_err() {
        std::thread::scope(|scope| {
            campaigns.iter().for_each(|campaign| drop(scope.spawn(|| campaign.run())));
        });
        return;
    }
    let failed = campaigns.iter().filter(|campaign| std::panic::catch_unwind(|| campaign.run()).is_err()).count();
    assert_eq!(failed, 0, "campaigns that failed");
}

impl Campaign {
    fn run(self) {
        if self.backend == Backend::Postgres && std::env::var(POSTGRES_VARIABLE).is_err() {
            eprintln!("skipped: {POSTGRES_VARIABLE} is not set");
            return;
        }
        let runs = number("SECONDLOOK_RUNS", self.sample);
        let first = number("SECONDLOOK_SEED", 1);
        let side_by_side = usize::try_from(number("SECONDLOOK_PARALLEL", 8)).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let began = Instant::now();
        let tally = Mutex::new(Tally::default());
        runtime.block_on(async {
            let seeds = first..first + runs;
            let stories: BTreeMap<usize, Story> =
                seeds.clone().map(self.story).map(|story| (story.number, story)).collect();
            let calm = stream::iter(stories).map(async |(number, story)| (number, calm_once(&story).await));
            let calm: BTreeMap<usize, Told> = calm.buffer_unordered(side_by_side).collect().await;
            stream::iter(seeds)
                .for_each_concurrent(side_by_side, async |seed| {
                    let story = (self.story)(seed);
                    let calm = calm[&story.number].get().expect("it was told");
                    let told = self.one_run(seed, &story, calm, &tally);
                    let told = AssertUnwindSafe(told).catch_unwind().await;
                    let failed = told.unwrap_or_else(|_| Err("panicked, see above".to_owned())).err();
                    let mut tally = tally.lock().unwrap();
                    tally.runs += 1;
                    if tally.runs % 100 == 0 {
                        eprintln!("{} of {runs} runs after {:.0?}", tally.runs, began.elapsed());
                    }
                    if let Some(why) = failed {
                        eprintln!("\nSECONDLOOK_SEED={seed} SECONDLOOK_RUNS=1 failed: {why}\n");
                        tally.failed.push(seed);
                    }
                })
                .await;
        });
        self.report(&tally.into_inner().unwrap(), first, began.elapsed());
    }

    fn report(&self, tally: &Tally, first: u64, took: Duration) {
        let blows: usize = tally.blows.values().sum();
        eprintln!(
            "{:?} of {} processes on {:?}: {} runs from seed {first} in {took:.0?}, {} failed",
            self.blow,
            self.processes,
            self.backend,
            tally.runs,
            tally.failed.len()
        );
        eprintln!(
            "  blows: {blows} at {} different steps; {} came too late to matter",
            tally.blows.len(),
            tally.not_met
        );
        for ((step, what), count) in &tally.blows {
            eprintln!("  {count:6}  {step:?} {what}");
        }
        let Paid { calls, cut_off, just_said, twice } = &tally.paid;
        let longest = just_said.iter().max().copied().unwrap_or_default();
        eprintln!(
            "  model calls: {calls}; made again: {cut_off} that were cut off, {} whose answer was on its way (at most \
             {longest:?} old), {} that were finished",
            just_said.len(),
            twice.len()
        );
        assert!(tally.failed.is_empty(), "the runs of these seeds failed: {:?}", tally.failed);
        assert!(blows > 0, "nobody was struck");
    }

    async fn one_run(self, seed: u64, story: &Story, calm: &Calm, tally: &Mutex<Tally>) -> Result<(), String> {
        let mut chance = Seed::new(seed.wrapping_mul(1_000_003));
        // SQLite takes one process.
        let doors = if self.backend == Backend::Sqlite { 1 } else { self.processes };
        let world = World::new(story.clone(), self.backend, doors, chance.part()).await;
        let Some(mut world) = world else { return Ok(()) };
        let blows = plan(&mut chance, calm, doors);
        let mut done = Vec::new();
        let told = self.tell(&mut world, story, &blows, &mut chance, &mut done, tally);
        let told = tokio::time::timeout(PATIENCE, told).await;
        let mut faults = match told {
            Ok(Ok(())) => Vec::new(),
            Ok(Err(why)) => vec![why],
            Err(_) => vec![format!("was not over after {PATIENCE:?}")],
        };
        if world.given_up > 0 {
            faults.push(format!("{} jobs were given up", world.given_up));
        }
        let pages = Pages::of(&world, story);
        let paid = paid(&world.model.calls(), &world.lives, &world.wire.since(0));
        if self.blow != Blow::Freeze {
            // Somebody who stood still cannot know before it asks that another has asked meanwhile.
            faults.extend(paid.twice.clone());
        }
        faults.extend(world.github.complaints());
        for (pull, (got, wanted)) in pages.0.iter().zip(&calm.pages.0).enumerate() {
            if got != wanted {
                faults.push(format!("pull request {pull} is\n{got}\n\ninstead of\n{wanted}"));
            }
        }
        tally.lock().unwrap().paid.add(paid);
        if faults.is_empty() {
            return Ok(());
        }
        Err(format!("{story:?}\n{}\n{}\n{}", done.join("\n"), faults.join("\n"), world.said()))
    }

    async fn tell(
        self,
        world: &mut World,
        story: &Story,
        blows: &[Planned],
        chance: &mut Seed,
        done: &mut Vec<String>,
        tally: &Mutex<Tally>,
    ) -> Result<(), String> {
        for door in 0..world.homes.len() {
            world.start(door);
        }
        for (phase, acts) in story.phases.iter().enumerate() {
            acts.iter().for_each(|act| world.act(*act));
            let mut first = true;
            for blow in blows.iter().filter(|blow| blow.phase == phase) {
                match until(world, blow, first).await {
                    None => tally.lock().unwrap().not_met += 1,
                    Some((step, what, door)) => {
                        let door = door.unwrap_or_else(|| chance.below(world.homes.len()));
                        done.push(format!("phase {phase}: process {door} at {step:?} {what} {:?}", blow.after));
                        *tally.lock().unwrap().blows.entry((step, what)).or_default() += 1;
                        self.strike(world, door, blow).await?;
                    }
                }
                first = false;
            }
            world.wire.disarm();
            world.settle().await;
        }
        Ok(())
    }

    async fn strike(self, world: &mut World, door: usize, blow: &Planned) -> Result<(), String> {
        if !world.is_there(door) {
            // Away since the last blow: what was seen of it just now had still been on its way.
            world.wire.disarm();
            return Ok(());
        }
        match self.blow {
            Blow::Kill | Blow::KillWithRival => {
                if self.blow == Blow::KillWithRival {
                    refused(world).await?;
                }
                world.kill(door).await;
                world.wire.disarm();
                world.away.push((Instant::now() + blow.away, door));
            }
            Blow::Freeze => {
                world.freeze(door).await;
                world.wire.disarm();
                // The others have the time they need, and a lease runs out in it.
                let lease = pass(LEASE + Duration::from_secs(1));
                futures_util::join!(world.settle(), lease);
                world.thaw(door).await;
                // What it still had in hand it tries now.
                pass(Duration::from_secs(3)).await;
            }
            Blow::Terminate => {
                world.wire.disarm();
                world.terminate(door, GRACE + Duration::from_secs(6)).await?;
                world.away.push((Instant::now() + blow.away, door));
            }
        }
        Ok(())
    }
}

/// What a calm run came to, once somebody has made it.
type Told = Arc<OnceCell<Calm>>;

/// The calm run of a story, made once for all campaigns of this process.
async fn calm_once(story: &Story) -> Told {
    static ALL: Mutex<BTreeMap<usize, Told>> = Mutex::new(BTreeMap::new());
    let told = ALL.lock().unwrap().entry(story.number).or_default().clone();
    told.get_or_init(|| calm(story)).await;
    told
}

/// Tells a story without disturbing it.
pub(crate) async fn calm(story: &Story) -> Calm {
    let mut world = World::new(story.clone(), Backend::Sqlite, 1, Seed::new(0)).await.unwrap();
    world.redeliver = usize::MAX;
    world.start(0);
    let mut phases = Vec::new();
    for acts in &story.phases {
        let from = world.wire.count();
        acts.iter().for_each(|act| world.act(*act));
        let settled = tokio::time::timeout(PATIENCE, world.settle()).await;
        settled.unwrap_or_else(|_| panic!("{story:?} does not end:\n{}", world.said()));
        phases.push(world.wire.since(from));
    }
    world.github.reckon();
    assert_eq!(world.given_up, 0, "jobs that were given up:\n{}", world.said());
    let paid = paid(&world.model.calls(), &world.lives, &world.wire.since(0));
    assert!(paid.twice.is_empty(), "a calm run asks nothing twice: {:#?}", paid.twice);
    let pages = Pages::of(&world, story);
    for (pull, page) in pages.0.iter().enumerate() {
        for defect in world.defects(pull) {
            let said = page.page.matches(&format!("**The value of {defect} is lost**")).count();
            assert_eq!(said, 1, "how often {defect} is said on\n{page}");
        }
    }
    Calm { pages, phases }
}

/// The blows of a run.
fn plan(chance: &mut Seed, calm: &Calm, processes: usize) -> Vec<Planned> {
    let mut blows: Vec<Planned> = (0..1 + chance.below(4))
        .map(|_| {
            let phase = chance.below(calm.phases.len());
            let steps = &calm.phases[phase];
            let writes: Vec<&Passed> = steps.iter().filter(|step| !step.what.starts_with("GET ")).collect();
            let at = match chance.below(6) {
                0 => At::Time(chance.time(2_500)),
                1 | 2 if !writes.is_empty() => nth(steps, writes[chance.below(writes.len())]),
                _ => nth(steps, chance.pick(steps)),
            };
            let after = chance.once_in(2).then(|| chance.time(15));
            let longest = if processes == 2 { 4_000 } else { 400 };
            let away = if chance.once_in(2) { chance.time(longest) } else { Duration::ZERO };
            Planned { phase, at, after, away }
        })
        .collect();
    blows.sort_by_key(|blow| blow.phase);
    blows
}

/// A step as the how-manieth of its kind it is.
fn nth(steps: &[Passed], chosen: &Passed) -> At {
    let same = |step: &&Passed| step.step == chosen.step && step.what == chosen.what;
    let before = steps.iter().filter(same).take_while(|step| step.at < chosen.at).count();
    At::Step(chosen.step, chosen.what.clone(), before)
}

/// Lets the bot work until a blow is due; `None` when it has finished before. Otherwise the step and, where one process
/// stands there, which.
async fn until(world: &mut World, blow: &Planned, first: bool) -> Option<(Step, String, Option<usize>)> {
    let wire = world.wire.clone();
    let due = async {
        match &blow.at {
            At::Time(time) => {
                pass(*time).await;
                (Step::Delivering, "any time".to_owned(), None)
            }
            At::Step(step, what, skip) => {
                // After a blow not all steps are taken once more.
                wire.set_trap(None, *step, what, if first { *skip } else { 0 });
                let caught = wire.caught().await;
                if let Some(after) = blow.after {
                    wire.disarm();
                    pass(after).await;
                }
                (caught.step, caught.what, Some(caught.door))
            }
        }
    };
    tokio::select! {
        biased;
        due = due => Some(due),
        () = world.settle() => None,
    }
}

/// A second process on the same SQLite file is refused.
async fn refused(world: &World) -> Result<(), String> {
    let mut rival = Program::spawn(&world.homes[0]);
    let status = rival.ended().await;
    let said = rival.said().join("\n");
    if status.success() || !said.contains("another secondlook is running on") {
        return Err(format!("a second process ended with {status} and said {said:?}"));
    }
    Ok(())
}
