//! Runs the App: HTTP and workers under one token that stops them.
//!
//! [`assemble`] makes the whole of plain parts, and [`run`] makes the parts of the configuration. The order of a start:
//! the port first, because a second server must not touch the first one's database; then database, models and App; a
//! fault in any of them ends the process before it has taken an event.

pub mod http;
pub mod logs;
pub mod numbers;
pub mod ownership;
pub mod smee;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router as HttpRouter;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use secrecy::{ExposeSecret, SecretString};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::agent::checkpoint::Checkpoints;
use crate::agent::spending::Purse;
use crate::app::{App, GitHubHandle};
use crate::chat::embedded::EmbeddedModel;
use crate::chat::openai::{self, OpenAiModel};
use crate::chat::router::Router as Models;
use crate::chat::{ChatModel, ModelRole};
use crate::clock::{SharedClock, SystemClock};
use crate::config::Config;
use crate::config::model::ModelChoice;
use crate::dashboard::{self, Dashboard, credentials};
use crate::db::{Db, DbError, despite_cuts};
use crate::event::store::EventLog;
use crate::github::client::{self, AppCredentials, GitHubApp};
use crate::github::error::GitHubError;
use crate::github::rate::store::end_all_turns;
use crate::job::{self, Job, round};
use crate::memory::store::ChatHistory;
use crate::queue;
use crate::queue::store::Queue;
use crate::queue::worker::run_forever;
use crate::review::change::{Engine, Limits};
use crate::webhook::worker::Worker;
use crate::webhook::{self, Intake, Secrets};

/// What the App is made of. Whoever gives other addresses, another clock or another model gets the same App.
pub struct Parts {
    /// The database.
    pub db: Db,
    /// Time.
    pub clock: SharedClock,
    /// Models by role.
    pub models: Arc<Models>,
    /// Where GitHub is.
    pub github: client::Settings,
    /// The App on GitHub, when there is one.
    pub credentials: Option<AppCredentials>,
    /// Secrets that deliveries are signed with.
    pub webhook_secrets: Vec<SecretString>,
    /// The job queue.
    pub queue: queue::Settings,
    /// Limits of one review.
    pub limits: Limits,
    /// Where GitHub and people reach the server.
    pub public_url: Option<Url>,
    /// Whether the server listens on this machine's loopback only.
    pub listens_locally: bool,
    /// Where set-up stores the App's credentials.
    pub app_file: PathBuf,
    /// The App's page on GitHub, when it is known.
    pub app_page: Option<String>,
    /// The numbers behind `/metrics`; without, there is no such page.
    pub metrics: Option<PrometheusHandle>,
}

/// The App, put together and not yet running.
pub struct Assembled {
    /// The parts that jobs use.
    pub app: App,
    /// The jobs.
    pub queue: Queue<Job>,
    /// Does them.
    pub worker: Arc<Worker>,
    /// Shortens the wait of idle workers; the intake rings it.
    pub wake: Arc<Notify>,
    /// Every page and endpoint.
    pub router: HttpRouter,
    /// The path of the set-up page while no App is configured.
    pub setup_path: Option<String>,
}

/// Why the server did not start, or stopped: one sentence that says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ServeError(pub String);

/// Puts the App together. Asks nobody anything yet.
///
/// # Errors
/// When the App's private key cannot be used.
pub fn assemble(parts: Parts) -> Result<Assembled, GitHubError> {
    let Parts { db, clock, models, github, queue, limits, public_url, .. } = parts;
    let installed = parts.credentials.as_ref().map(|app| GitHubApp::new(app, &github, clock.clone())).transpose()?;
    let model = models.name(ModelRole::Reviewer).to_owned();
    let app = App {
        db: db.clone(),
        clock: clock.clone(),
        github: GitHubHandle::new(installed, db.clone()),
        engine: Engine {
            models,
            checkpoints: Checkpoints::new(db.clone(), clock.clone()),
            events: EventLog::new(db.clone()),
            clock: clock.clone(),
            limits,
            purse: Purse::default(),
        },
        history: ChatHistory::new(db.clone(), clock.clone()),
        public_url: public_url.clone(),
    };
    let queue = Queue::<Job>::new(db.clone(), clock.clone(), queue);
    let secrets = Secrets::new(parts.webhook_secrets);
    secrets.set_app(parts.credentials.map(|app| app.app_id));
    let pages = dashboard::Settings {
        listens_locally: parts.listens_locally,
        public_url,
        app_file: parts.app_file,
        github,
        model,
        app_page: parts.app_page,
    };
    let dashboard = Arc::new(Dashboard::new(pages, app.github.clone(), secrets.clone(), clock.clone()));
    let setup_path = dashboard.setup_path();
    let wake = Arc::new(Notify::new());
    let intake = Intake::new(db, queue.clone(), clock, secrets, wake.clone());
    let mut router = webhook::router(intake.clone()).merge(dashboard::router(dashboard));
    if let Some(handle) = parts.metrics {
        router = router.merge(numbers::router(handle));
    }
    let jobs = job::worker::Worker::new(app.clone(), queue.clone());
    let worker = Arc::new(Worker::new(jobs, intake, app.github.clone()));
    Ok(Assembled { app, queue, worker, wake, router, setup_path })
}

/// The models of the configuration: one for each role that has its own, one for the others, and those that stand in.
///
/// # Errors
/// When an endpoint's address cannot be used.
pub fn models(config: &Config, clock: SharedClock) -> Result<Arc<Models>, ServeError> {
    let made = |choice: &ModelChoice| -> Result<Arc<dyn ChatModel>, ServeError> {
        Ok(match choice {
            ModelChoice::Embedded => Arc::new(EmbeddedModel),
            ModelChoice::OpenAi { provider, model, base_url, api_key } => {
                let settings = openai::Settings::new(provider, model, base_url.clone(), api_key.clone());
                Arc::new(OpenAiModel::new(settings, clock.clone()).map_err(|error| ServeError(error.to_string()))?)
            }
        })
    };
    let mut models = Models::builder(made(&config.model)?).clock(clock.clone());
    for (role, choice) in &config.other_models.roles {
        models = models.role(*role, made(choice)?);
    }
    for choice in &config.other_models.fallbacks {
        models = models.fallback(made(choice)?);
    }
    Ok(Arc::new(models.build()))
}

/// Serves until the process is asked to stop.
///
/// # Errors
/// When the port, the database, the model or the App's key cannot be used.
pub async fn run(config: Config) -> Result<(), ServeError> {
    // From here on a request to stop is heard: as the first process of a container, one without a handler is deaf to it.
    let signals = Signals::take_over()
        .map_err(|error| ServeError(format!("cannot listen to signals: {error}; the machine may be out of handles")))?;
    let listener = bind(config.listen).await?;
    let address = listener.local_addr().unwrap_or(config.listen);
    let clock: SharedClock = Arc::new(SystemClock);
    let models = models(&config, clock.clone())?;
    make_data_directory(&config)?;
    // Held until the process ends, and taken first: a second server must not touch the first one's database.
    let ownership = ownership::take(config.database_url.expose_secret())?;
    let db = open_database(&config).await?;
    let metrics = PrometheusBuilder::new().install_recorder().ok();
    let (credentials, webhook_secrets, app_page) = match config.app.clone() {
        Some(app) => (Some(app.credentials), app.webhook_secrets, app.html_url),
        None => (None, Vec::new(), None),
    };
    let model = models.name(ModelRole::Reviewer).to_owned();
    let app_file = config.app_file();
    let assembled = assemble(Parts {
        db,
        clock,
        models,
        github: config.github,
        credentials,
        webhook_secrets,
        queue: config.queue.clone(),
        limits: config.limits,
        public_url: config.public_url.clone(),
        listens_locally: address.ip().is_loopback(),
        app_file,
        app_page,
        metrics,
    })
    .map_err(|error| ServeError(format!("the GitHub App cannot be used: {error}")))?;
    if ownership.is_some() {
        let failed = |error: DbError| ServeError(error.to_string());
        assembled.queue.end_all_leases().await.map_err(failed)?;
        end_all_turns(&assembled.app.db).await.map_err(failed)?;
    }
    let (db, queue) = (&assembled.app.db, &assembled.queue);
    let begun = despite_cuts(async || round::begin(db, queue, assembled.app.clock.now()).await);
    begun.await.map_err(|error| ServeError(error.to_string()))?;
    if config.lone_secret {
        tracing::warn!(
            "GITHUB_WEBHOOK_SECRET is set, but no GitHub App is configured, so the secret is not used and no delivery is \
             taken: set GITHUB_APP_ID and GITHUB_APP_PRIVATE_KEY_PATH too, or open the set-up page"
        );
    }
    let setup_path = assembled.setup_path.clone();
    announce(address, config.public_url.as_ref(), &model, setup_path.as_deref());
    let running = start(listener, assembled, config.smee, address);
    running.until_stopped(signals, config.queue.grace).await
}

async fn bind(address: SocketAddr) -> Result<TcpListener, ServeError> {
    TcpListener::bind(address).await.map_err(|error| {
        let advice = match error.kind() {
            io::ErrorKind::AddrInUse => {
                "another program has that port, so stop it or choose another with --listen IP:PORT"
            }
            io::ErrorKind::PermissionDenied => "ports below 1024 are for root, so choose another with --listen IP:PORT",
            _ => "choose another address with --listen IP:PORT",
        };
        ServeError(format!("cannot listen on {address} ({error}): {advice}"))
    })
}

/// Opens the database; makes the data directory when the database is the one in it.
///
/// # Errors
/// When it cannot be opened.
pub async fn open_database(config: &Config) -> Result<Db, ServeError> {
    make_data_directory(config)?;
    let opened = Db::connect(config.database_url.expose_secret()).await;
    opened.map_err(|error| ServeError(format!("{error} (SECONDLOOK_DATABASE_URL)")))
}

fn make_data_directory(config: &Config) -> Result<(), ServeError> {
    let url = config.database_url.expose_secret();
    if url.starts_with("sqlite:") && url.contains(&config.data_dir.display().to_string()) {
        credentials::create_private_directory(&config.data_dir).map_err(|error| {
            ServeError(format!(
                "cannot make the data directory {} ({error}): set SECONDLOOK_DATA_DIR to one that can be written",
                config.data_dir.display()
            ))
        })?;
    }
    Ok(())
}

fn announce(address: SocketAddr, public: Option<&Url>, model: &str, setup: Option<&str>) {
    tracing::info!(listen = %address, model, version = env!("CARGO_PKG_VERSION"), "secondlook is listening");
    if model == "embedded" {
        tracing::info!(
            "no language model is configured, so built-in rules review: set SECONDLOOK_MODEL and its key for more"
        );
    }
    let base = public.map_or_else(|| format!("http://{address}"), |url| url.as_str().trim_end_matches('/').to_owned());
    match setup {
        Some(path) => tracing::info!("no GitHub App is configured: open {base}{path} to create one"),
        None if public.is_none() => {
            tracing::info!("SECONDLOOK_PUBLIC_URL is not set, so comments and checks do not link here");
        }
        None => {}
    }
}

/// HTTP and workers at work.
struct Running {
    shutdown: CancellationToken,
    workers: JoinHandle<()>,
    http: JoinHandle<()>,
    channel: JoinHandle<()>,
}

fn start(listener: TcpListener, assembled: Assembled, smee: Option<Url>, address: SocketAddr) -> Running {
    let Assembled { queue, worker, wake, router, .. } = assembled;
    let shutdown = CancellationToken::new();
    let workers = tokio::spawn(run_forever(queue, worker, wake, shutdown.clone()));
    let http = tokio::spawn(http::serve(listener, router, http::Settings::default(), shutdown.clone()));
    let (closed, intake) = (shutdown.clone(), Url::parse(&format!("http://{address}/webhook")));
    let channel = tokio::spawn(async move {
        if let (Some(channel), Ok(intake)) = (smee, intake) {
            smee::listen(channel, intake, closed).await;
        }
    });
    Running { shutdown, workers, http, channel }
}

impl Running {
    /// Waits for a signal; then no new work is taken, and what runs gets the grace period.
    async fn until_stopped(self, mut signals: Signals, grace: Duration) -> Result<(), ServeError> {
        signals.asked_to_stop().await;
        tracing::info!(grace.seconds = grace.as_secs(), "stopping: running jobs go on to their next checkpoint");
        self.shutdown.cancel();
        let ended = async { futures_util::join!(self.workers, self.http, self.channel) };
        // A request that never ends must not hold the process longer than a job may.
        match tokio::time::timeout(grace + Duration::from_secs(5), ended).await {
            Ok(_) => tracing::info!("stopped"),
            Err(_) => {
                tracing::warn!("stopped before everything had ended; other work goes on from its checkpoint next time");
            }
        }
        Ok(())
    }
}

/// SIGTERM and SIGINT, which ask a server to stop. Taken over first of all, so that neither kills it half-way.
#[cfg(unix)]
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn take_over() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn asked_to_stop(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Ctrl-C, which asks a server to stop.
#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn take_over() -> io::Result<Self> {
        Ok(Self)
    }

    async fn asked_to_stop(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            // Without the signal the process runs until it is killed, which loses nothing.
            std::future::pending::<()>().await;
        }
    }
}
