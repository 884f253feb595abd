//! The bot under test: the same App that `serve` builds, with another clock, another model, a fresh database, and a
//! GitHub on loopback.
//!
//! ```text
//! run_test(Setup::default(), async |bot| {
//!     let pr = bot.github.open_pull(PullSpec::new("//- src/cache.rs\n … lines marked ' ', '-', '+' …"));
//!     bot.model.on_file("src/cache.rs").finds("MAP.get(key).unwrap()", "Panics when the key is missing");
//!     bot.settle().await;
//!     assert_snapshot!(bot.github.page(&pr), @"…");
//! });
//! ```
//!
//! The test runs once on each database. At its end, also when its body failed, comes the reckoning: complaints of
//! GitHub, scripts that were not used, jobs that are left or dead.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use futures_util::FutureExt;
use secondlook::chat::embedded::EmbeddedModel;
use secondlook::chat::router::{self, Router};
use secondlook::clock::{Clock, SharedClock};
use secondlook::db::{Backend, Db};
use secondlook::github::client;
use secondlook::job::round;
use secondlook::queue;
use secondlook::queue::worker::run_until_idle;
use secondlook::review::change::Limits;
use secondlook::serve::{Assembled, Parts, assemble};
use tower::ServiceExt;

use super::clock::ManualClock;
use super::database::{TestDb, fresh};
use super::delivery::{SECRET, sign};
use super::github::FakeGitHub;
use super::github::state::Delivery;
use super::knowing::KnowingModel;
use super::model::ScriptedModel;

/// Rounds of deliveries and jobs after which a test is thought to run in circles.
const MAX_ROUNDS: usize = 200;

/// Who answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Answers {
    /// What the test scripted.
    #[default]
    Scripted,
    /// The embedded model, as without any key.
    Embedded,
    /// A model that knows the faults there are, however often and in whatever order it is asked.
    Knowing,
}

/// What differs from the usual.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    pub(crate) answers: Answers,
    /// Dead letters that the test means to make; any other number is a complaint.
    pub(crate) dead_letters: u64,
    /// Sizes, times and budgets; but see `group_files`.
    pub(crate) limits: Limits,
    /// Most files that are reviewed together. By default each is alone, so that a test scripts one file at a time.
    pub(crate) group_files: usize,
    /// Tries and times of the queue.
    pub(crate) queue: queue::Settings,
    /// Whether there is no App yet.
    pub(crate) without_app: bool,
    /// How long the client waits for GitHub, where the usual time is too long for a test.
    pub(crate) github_timeout: Option<Duration>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            answers: Answers::default(),
            dead_letters: 0,
            limits: Limits::default(),
            group_files: 1,
            queue: queue::Settings::default(),
            without_app: false,
            github_timeout: None,
        }
    }
}

/// The bot and its world.
pub(crate) struct Bot {
    pub(crate) github: FakeGitHub,
    pub(crate) model: ScriptedModel,
    pub(crate) knowing: KnowingModel,
    pub(crate) clock: ManualClock,
    pub(crate) database: TestDb,
    pub(crate) assembled: Assembled,
    setup: Setup,
    /// Models in the place of what the set-up says.
    models: Option<Arc<Router>>,
}

/// Runs a test on each database.
pub(crate) fn run_test(setup: Setup, body: impl AsyncFn(&mut Bot)) {
    // The same snapshots hold on both.
    insta::allow_duplicates! {
        for backend in [Backend::Sqlite, Backend::Postgres] {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
            runtime.block_on(run_on(backend, &setup, &body));
        }
    }
}

async fn run_on(backend: Backend, setup: &Setup, body: &impl AsyncFn(&mut Bot)) {
    let Some(database) = fresh(backend).await else { return };
    let mut bot = Bot::start(setup, database).await;
    let outcome = AssertUnwindSafe(body(&mut bot)).catch_unwind().await;
    let complaints = bot.reckon(setup).await;
    if let Err(panic) = outcome {
        eprintln!("failed on {backend:?}; the reckoning says: {complaints:#?}");
        std::panic::resume_unwind(panic);
    }
    assert!(complaints.is_empty(), "the reckoning on {backend:?}:\n{}", complaints.join("\n"));
}

impl Bot {
    pub(crate) async fn start(setup: &Setup, database: TestDb) -> Self {
        let clock = ManualClock::default();
        let github = FakeGitHub::start(Arc::new(clock.clone())).await;
        let (model, knowing) = (ScriptedModel::default(), KnowingModel::default());
        let setup = setup.clone();
        let models = models(setup.answers, &model, &knowing, &clock);
        let assembled = build(&github, models, &clock, &database, &setup);
        Self { github, model, knowing, clock, database, assembled, setup, models: None }
    }

    /// Lets other models answer from now on.
    pub(crate) fn answer_by(&mut self, models: Router) {
        self.models = Some(Arc::new(models));
        self.restart();
    }

    /// Ends this process of the bot, as far as its memory goes, and begins another on the same database.
    pub(crate) fn restart(&mut self) {
        let scripted = || models(self.setup.answers, &self.model, &self.knowing, &self.clock);
        let models = self.models.clone().unwrap_or_else(scripted);
        self.assembled = build(&self.github, models, &self.clock, &self.database, &self.setup);
    }

    /// Ends this process of the bot and begins another, on another database.
    pub(crate) fn restart_on(&mut self, database: TestDb) {
        self.database = database;
        self.restart();
    }

    /// Delivers every webhook and does every due job, until nothing is left to do now.
    pub(crate) async fn settle(&self) {
        for _ in 0..MAX_ROUNDS {
            let delivered = self.deliver_outbox().await;
            let done = self.work().await;
            if delivered + done == 0 {
                return;
            }
        }
        panic!("webhooks and jobs go round in circles");
    }

    /// Lets time pass until the next waiting job is due, and settles.
    pub(crate) async fn until_next_due(&self) {
        let due = self.assembled.queue.next_due().await.unwrap().expect("a job waits");
        let wait = due.duration_since(self.clock.now());
        self.clock.advance(wait.try_into().unwrap_or_default());
        self.settle().await;
    }

    /// Does every due job, but delivers nothing. Returns how many.
    pub(crate) async fn work(&self) -> usize {
        run_until_idle(&self.assembled.queue, &*self.assembled.worker, "test").await.unwrap()
    }

    /// Delivers the webhooks that wait. Returns how many.
    pub(crate) async fn deliver_outbox(&self) -> usize {
        let deliveries = self.github.take_deliveries();
        for delivery in &deliveries {
            assert_eq!(self.deliver(delivery).await, StatusCode::ACCEPTED, "{} {}", delivery.event, delivery.id);
        }
        deliveries.len()
    }

    /// Delivers one webhook, signed.
    pub(crate) async fn deliver(&self, delivery: &Delivery) -> StatusCode {
        self.deliver_signed_with(SECRET, delivery).await
    }

    /// Delivers one webhook as a stranger would, who does not know the secret.
    pub(crate) async fn deliver_unsigned(&self, delivery: &Delivery) -> StatusCode {
        self.deliver_signed_with("a guess", delivery).await
    }

    async fn deliver_signed_with(&self, secret: &str, delivery: &Delivery) -> StatusCode {
        let body = serde_json::to_vec(&delivery.payload).unwrap();
        let request = Request::post("/webhook")
            .header("content-type", "application/json")
            .header("x-github-event", &delivery.event)
            .header("x-github-delivery", &delivery.id)
            .header("x-hub-signature-256", sign(secret, &body))
            .body(Body::from(body))
            .unwrap();
        let status = self.assembled.router.clone().oneshot(request).await.unwrap().status();
        self.github.answered(delivery, status.as_u16());
        status
    }

    /// Begins the rounds, as a server does when it starts, and settles.
    pub(crate) async fn begin_rounds(&self) {
        round::begin(&self.database, &self.assembled.queue, self.clock.now()).await.unwrap();
        self.settle().await;
    }

    async fn reckon(&self, setup: &Setup) -> Vec<String> {
        let mut complaints = self.github.complaints();
        complaints.extend(self.model.reckon());
        let depth = self.assembled.queue.depth().await.unwrap();
        // What waits for a later day (the grace period of a removed repository) is no fault; what is due is.
        if depth.running > 0
            || self.assembled.queue.next_due().await.unwrap().is_some_and(|due| due <= self.clock.now())
        {
            complaints.push(format!("work is left: {depth:?}"));
        }
        if depth.dead != setup.dead_letters {
            complaints.push(format!("dead letters: {:#?}", self.assembled.queue.dead_letters().await.unwrap()));
        }
        complaints
    }
}

fn models(answers: Answers, scripted: &ScriptedModel, knowing: &KnowingModel, clock: &ManualClock) -> Arc<Router> {
    let at_once = |model| {
        // Models that fail are tried again, and nobody has to wait for that.
        let at_once = router::Settings { first_wait: Duration::ZERO, ..router::Settings::default() };
        Router::builder(model).settings(at_once).clock(Arc::new(clock.clone())).build()
    };
    Arc::new(match answers {
        Answers::Scripted => at_once(Arc::new(scripted.clone())),
        Answers::Embedded => Router::single(Arc::new(EmbeddedModel)),
        Answers::Knowing => at_once(Arc::new(knowing.clone())),
    })
}

fn build(github: &FakeGitHub, models: Arc<Router>, clock: &ManualClock, db: &Db, setup: &Setup) -> Assembled {
    let clock: SharedClock = Arc::new(clock.clone());
    let settings = github.settings();
    let parts = Parts {
        db: db.clone(),
        clock,
        models,
        github: client::Settings { timeout: setup.github_timeout.unwrap_or(settings.timeout), ..settings },
        credentials: (!setup.without_app).then(|| github.credentials()),
        webhook_secrets: vec![SECRET.into()],
        queue: setup.queue.clone(),
        limits: Limits { group_files: setup.group_files, ..setup.limits.clone() },
        public_url: None,
        listens_locally: true,
        app_file: std::path::PathBuf::new(),
        app_page: None,
        metrics: None,
    };
    assemble(parts).expect("the test App's key is one")
}
