//! A bot of one or more processes and the world around it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use secondlook::clock::SystemClock;
use secondlook::db::Backend;
use serde_json::Value;
use tokio::time::Instant;

use crate::database::Place;
use crate::delivery::{SECRET, sign};
use crate::github::actions::PullSpec;
use crate::github::state::Delivery;
use crate::github::{FakeGitHub, Pr};
use crate::model::Model;
use crate::program::{Home, Program};
use crate::seed::{Seed, pass};
use crate::story::{Act, Story};
use crate::wire::{Step, Wire};

/// How often is looked whether something is left to do: a process of its own tells nobody that it is idle, and to be asked
/// costs it more than most of what it does here.
const LOOK: Duration = Duration::from_millis(200);

/// How often is looked whether people or GitHub have something to deliver, and whether somebody comes back.
const STEP: Duration = Duration::from_millis(25);

/// The time from a process's start to its end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Life {
    pub(crate) door: usize,
    pub(crate) from: Instant,
    pub(crate) to: Option<Instant>,
}

/// See the module.
pub(crate) struct World {
    pub(crate) github: FakeGitHub,
    pub(crate) model: Model,
    pub(crate) wire: Arc<Wire>,
    pub(crate) homes: Vec<Home>,
    pub(crate) programs: Vec<Option<Program>>,
    pub(crate) lives: Vec<Life>,
    /// Processes that are to be started again, and when.
    pub(crate) away: Vec<(Instant, usize)>,
    /// Processes that stand still.
    frozen: Vec<usize>,
    /// Jobs that were given up.
    pub(crate) given_up: u64,
    /// One of so many deliveries is made once more.
    pub(crate) redeliver: usize,
    pending: VecDeque<(Delivery, bool)>,
    http: reqwest::Client,
    chance: Seed,
    story: Story,
    pulls: Vec<Option<Pr>>,
    pushes: Vec<Arc<std::sync::atomic::AtomicUsize>>,
    asked: usize,
    last_words: Vec<String>,
    // The last to be dropped, so that nobody writes there any more.
    directory: tempfile::TempDir,
    _place: Place,
}

impl World {
    /// A world for a story with `instances` processes, none of them started; `None`, said aloud, without PostgreSQL.
    pub(crate) async fn new(story: Story, backend: Backend, instances: usize, chance: Seed) -> Option<Self> {
        let place = Place::of(backend).await?;
        let directory = tempfile::tempdir().unwrap();
        let github = FakeGitHub::start(Arc::new(SystemClock)).await;
        let wire = Arc::new(Wire::default());
        let model = Model::start(wire.clone()).await;
        let mut homes = Vec::new();
        for door in 0..instances {
            homes.push(Home {
                directory: directory.path().to_owned(),
                database: place.url(),
                github: github.door(door, wire.clone()).await,
                model: model.door(door),
                open_files: None,
            });
        }
        let pushes = (0..story.pulls).map(|_| Arc::default()).collect();
        let world = Self {
            github,
            model,
            wire,
            programs: homes.iter().map(|_| None).collect(),
            homes,
            lives: Vec::new(),
            away: Vec::new(),
            frozen: Vec::new(),
            given_up: 0,
            redeliver: 12,
            pending: VecDeque::new(),
            http: reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(20)).build().unwrap(),
            chance,
            pulls: vec![None; story.pulls],
            pushes,
            story,
            asked: 0,
            last_words: Vec::new(),
            directory,
            _place: place,
        };
        // The stand-in for the model tells conversations apart by their file.
        world.configure("[queue]\nlease_seconds = 5\ngrace_seconds = 4\n[review]\ngroup_files = 1\n");
        Some(world)
    }

    /// What stands in `secondlook.toml`.
    pub(crate) fn configure(&self, text: &str) {
        std::fs::write(self.directory.path().join("secondlook.toml"), text).unwrap();
    }

    /// Starts a process and does not wait until it listens.
    pub(crate) fn start(&mut self, door: usize) {
        assert!(self.programs[door].is_none(), "there is a process {door}");
        self.lives.push(Life { door, from: Instant::now(), to: None });
        self.programs[door] = Some(Program::spawn(&self.homes[door]));
    }

    /// Whether there is such a process just now.
    pub(crate) fn is_there(&self, door: usize) -> bool {
        self.programs[door].is_some()
    }

    /// Kills a process with -9.
    pub(crate) async fn kill(&mut self, door: usize) {
        if let Some(mut program) = self.programs[door].take() {
            program.kill().await;
            self.last_words.push(words(door, &program));
            self.ended(door);
        }
    }

    /// Makes a process stand still.
    pub(crate) async fn freeze(&mut self, door: usize) {
        let Some(program) = &self.programs[door] else { return };
        program.signal("STOP").await;
        self.frozen.push(door);
        self.ended(door);
    }

    /// Lets it go on.
    pub(crate) async fn thaw(&mut self, door: usize) {
        let Some(program) = &self.programs[door] else { return };
        self.frozen.retain(|frozen| *frozen != door);
        self.lives.push(Life { door, from: Instant::now(), to: None });
        program.signal("CONT").await;
    }

    /// Asks a process to stop, and waits for its end while the others work on.
    ///
    /// # Errors
    /// When it does not end within this time, or not well.
    pub(crate) async fn terminate(&mut self, door: usize, within: Duration) -> Result<(), String> {
        let Some(mut program) = self.programs[door].take() else { return Ok(()) };
        program.signal("TERM").await;
        let ended = tokio::time::timeout(within, program.ended()).await;
        self.last_words.push(words(door, &program));
        self.ended(door);
        match ended {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("after SIGTERM a process ended with {status}")),
            Err(_) => Err(format!("after SIGTERM a process did not end within {within:?}")),
        }
    }

    /// Writes down that a process has ended.
    fn ended(&mut self, door: usize) {
        let life = self.lives.iter_mut().rfind(|life| life.door == door && life.to.is_none());
        life.expect("it lived").to = Some(Instant::now());
    }

    /// People do something.
    pub(crate) fn act(&mut self, act: Act) {
        match act {
            Act::Open(pull) => self.open(pull),
            Act::OpenThenPush(pull) => {
                self.open(pull);
                let (github, pr) = (self.github.clone(), self.pr(pull));
                let push = self.pushes[pull].fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                let change = self.story.change(pull, push);
                self.model.when_asked(&format!("app/p{pull}h0"), move || drop(github.push(&pr, &change)));
            }
            Act::Push(pull) => {
                let push = self.pushes[pull].fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                self.github.push(&self.pr(pull), &self.story.change(pull, push));
            }
            Act::Reply(pull) | Act::Ask(pull) => {
                self.asked += 1;
                ask(&self.github, &self.pr(pull), act, pull, self.asked);
            }
        }
    }

    fn open(&mut self, pull: usize) {
        self.pushes[pull].store(1, std::sync::atomic::Ordering::SeqCst);
        let spec = PullSpec::new(&self.story.change(pull, 0)).repo(&self.story.repository(pull));
        self.pulls[pull] = Some(self.github.open_pull(spec));
    }

    /// The names of all defects that were pushed to a pull request.
    pub(crate) fn defects(&self, pull: usize) -> Vec<String> {
        let pushes = self.pushes[pull].load(std::sync::atomic::Ordering::SeqCst);
        let changes: String = (0..pushes).map(|push| self.story.change(pull, push)).collect();
        let names = changes.split("defect(\"").skip(1).filter_map(|rest| rest.split('"').next());
        names.map(str::to_owned).collect()
    }

    /// A pull request that was opened.
    pub(crate) fn pr(&self, pull: usize) -> Pr {
        self.pulls[pull].clone().expect("it was opened")
    }

    /// One thing that keeps the world going: whoever was away comes back, and one webhook is delivered. False when there
    /// is none, or it has to be tried again.
    pub(crate) async fn go_on(&mut self) -> bool {
        self.come_back();
        self.take_in();
        !self.pending.is_empty() && self.deliver_next().await
    }

    /// Delivers what is to be delivered until the bot has nothing left to do. May be dropped at any time.
    pub(crate) async fn settle(&mut self) {
        let mut look = Instant::now();
        loop {
            self.come_back();
            self.take_in();
            if !self.pending.is_empty() {
                if self.deliver_next().await {
                    continue;
                }
            } else if self.away.is_empty() && Instant::now() >= look {
                if self.is_idle().await {
                    self.take_in();
                    if self.pending.is_empty() {
                        return;
                    }
                }
                look = Instant::now() + LOOK;
            }
            pass(STEP).await;
        }
    }

    /// Starts again who was away long enough, and fails when somebody ended by itself.
    fn come_back(&mut self) {
        let now = Instant::now();
        let due: Vec<usize> = self.away.iter().filter(|(at, _)| *at <= now).map(|(_, door)| *door).collect();
        self.away.retain(|(at, _)| *at > now);
        for door in due {
            self.start(door);
        }
        for program in self.programs.iter_mut().flatten() {
            if let Some(status) = program.is_over() {
                panic!("a process ended by itself with {status}:\n{}", program.said().join("\n"));
            }
        }
    }

    fn take_in(&mut self) {
        self.pending.extend(self.github.take_deliveries().into_iter().map(|delivery| (delivery, false)));
    }

    /// Delivers one webhook to somebody who listens. False when it has to be tried again.
    async fn deliver_next(&mut self) -> bool {
        let living = self.living();
        let Some((delivery, again)) = self.pending.front().cloned() else { return true };
        if living.is_empty() {
            return false;
        }
        let (door, address) = self.chance.pick(&living).clone();
        self.wire.pass(door, Step::Delivering, &delivery.event).await;
        if deliver(&self.http, &address, &delivery).await != Some(202) {
            return false;
        }
        self.pending.pop_front();
        if !again && self.chance.once_in(self.redeliver) {
            self.pending.push_back((delivery.clone(), true));
        }
        self.wire.pass(door, Step::Accepted, &delivery.event).await;
        true
    }

    /// Those that listen, with their addresses.
    pub(crate) fn living(&self) -> Vec<(usize, String)> {
        let address = |(door, program): (usize, &Option<Program>)| Some((door, program.as_ref()?.address_now()?));
        let moving = |(door, _): &(usize, String)| !self.frozen.contains(door);
        self.programs.iter().enumerate().filter_map(address).filter(moving).collect()
    }

    async fn is_idle(&mut self) -> bool {
        let Some((_, address)) = self.living().into_iter().next() else { return false };
        let Ok(answer) = self.http.get(format!("http://{address}/readyz")).send().await else { return false };
        let Ok(ready) = answer.json::<Value>().await else { return false };
        let queue = &ready["queue"];
        self.given_up = queue["dead"].as_u64().unwrap_or(0);
        queue["queued"] == 0 && queue["running"] == 0
    }

    /// What all processes said last, for a failure.
    pub(crate) fn said(&self) -> String {
        let living = self.programs.iter().enumerate();
        let living = living.filter_map(|(door, program)| Some(words(door, program.as_ref()?)));
        self.last_words.iter().cloned().chain(living).collect::<Vec<_>>().join("\n")
    }
}

/// The last lines of a process.
fn words(door: usize, program: &Program) -> String {
    let lines = program.said();
    format!("process {door} said:\n{}", lines[lines.len().saturating_sub(30)..].join("\n"))
}

/// The `nth` question: in the thread of the bot's first comment where that is meant and there is one, else on the timeline.
pub(crate) fn ask(github: &FakeGitHub, pr: &Pr, act: Act, pull: usize, nth: usize) {
    let mut comments = github.comments(pr).into_iter();
    let ours = comments.find(|c| c.reply_to.is_none() && c.author.as_deref() == Some("secondlook[bot]"));
    match (act, ours) {
        (Act::Reply(_), Some(ours)) => {
            github.reply(pr, ours.id, "alice", &format!("Why does this matter to p{pull}? ({nth})"));
        }
        _ => {
            github.comment(pr, "alice", &format!("/secondlook ask What is p{pull} about? ({nth})"));
        }
    }
}

/// Delivers a webhook, signed: the status of the answer, if there is one.
pub(crate) async fn deliver(http: &reqwest::Client, address: &str, delivery: &Delivery) -> Option<u16> {
    let body = serde_json::to_vec(&delivery.payload).unwrap();
    let request = http
        .post(format!("http://{address}/webhook"))
        .header("content-type", "application/json")
        .header("x-github-event", &delivery.event)
        .header("x-github-delivery", &delivery.id)
        .header("x-hub-signature-256", sign(SECRET, &body))
        .body(body);
    Some(request.send().await.ok()?.status().as_u16())
}
