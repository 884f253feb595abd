//! The real binary, killed with -9 between the 202 and the posted review and started again: the review is posted once.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use secondlook::clock::SystemClock;
use secondlook::db::Backend;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::harness::database::Place;
use crate::harness::delivery::{SECRET, sign};
use crate::harness::github::actions::PullSpec;
use crate::harness::github::fault::{Fault, Gate};
use crate::harness::github::{APP_KEY, FakeGitHub, Pr};

/// Shorter than the usual lease: on SQLite the work is taken over at once.
const PATIENCE: Duration = Duration::from_secs(50);

const FAULTY: &str = "
    //- app/report.py
     import os


     def report(name):
    -    return name
    +    os.system(f\"cat {name}\")
    +    return name
";

/// A running server.
struct Server {
    child: Child,
    address: String,
}

#[test]
fn killed_before_the_files_were_read() {
    killed_while(|gate| vec![Fault::hold("GET /repos/*/*/pulls/*/files", gate)]);
}

#[test]
fn killed_before_github_saw_the_review() {
    killed_while(|gate| vec![Fault::hold("POST /repos/*/*/pulls/*/reviews", gate)]);
}

#[test]
fn killed_after_github_applied_the_review() {
    // The answer is lost, and the process dies while it asks what became of the review.
    killed_while(|gate| {
        vec![
            Fault::apply_then_drop("POST /repos/*/*/pulls/*/reviews"),
            Fault::hold("GET /repos/*/*/pulls/*/reviews", gate).after(1),
        ]
    });
}

#[test]
fn killed_before_the_check_was_completed() {
    killed_while(|gate| vec![Fault::hold("PATCH /repos/*/*/check-runs/*", gate)]);
}

/// Kills the server while a request is held, starts another, and counts what stands on GitHub at the end.
fn killed_while(faults: impl Fn(&Gate) -> Vec<Fault>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        for backend in [Backend::Sqlite, Backend::Postgres] {
            let Some(place) = Place::of(backend).await else { continue };
            let scene = tokio::time::timeout(PATIENCE, scene(backend, &place, &faults));
            scene.await.unwrap_or_else(|_| panic!("on {backend:?} the review was not finished in time"));
        }
    });
}

async fn scene(backend: Backend, place: &Place, faults: &impl Fn(&Gate) -> Vec<Fault>) {
    let directory = tempfile::tempdir().unwrap();
    if backend == Backend::Postgres {
        // Another instance might still hold the job, so its lease has to run out first.
        std::fs::write(directory.path().join("secondlook.toml"), "[queue]\nlease_seconds = 5\n").unwrap();
    }
    let github = FakeGitHub::start(Arc::new(SystemClock)).await;
    let pr = github.open_pull(PullSpec::new(FAULTY));
    let gate = Gate::new();
    for fault in faults(&gate) {
        github.fault(fault);
    }

    let mut first = Server::start(directory.path(), place, &github).await;
    for delivery in github.take_deliveries() {
        let body = serde_json::to_vec(&delivery.payload).unwrap();
        let response = reqwest::Client::new()
            .post(format!("http://{}/webhook", first.address))
            .header("x-github-event", &delivery.event)
            .header("x-github-delivery", &delivery.id)
            .header("x-hub-signature-256", sign(SECRET, &body))
            .body(body);
        assert_eq!(response.send().await.unwrap().status(), 202);
    }
    gate.reached().await;
    first.child.kill().await.unwrap();
    gate.open();

    let second = Server::start(directory.path(), place, &github).await;
    while !completed(&github, &pr) {
        // Asking keeps the loop honest without a pause: each round waits for an answer.
        let alive = reqwest::get(format!("http://{}/healthz", second.address)).await.unwrap();
        assert_eq!(alive.status(), 200);
    }
    let page = github.page(&pr);
    assert_eq!(github.reviews(&pr).len(), 1, "{page}");
    assert_eq!(github.comments(&pr).len(), 1, "{page}");
    assert_eq!(github.checks(&pr).len(), 1, "{page}");
    github.reckon();
}

fn completed(github: &FakeGitHub, pr: &Pr) -> bool {
    github.checks(pr).iter().any(|check| check.status == "completed")
}

impl Server {
    /// Starts the binary and waits until it says where it listens.
    async fn start(directory: &std::path::Path, place: &Place, github: &FakeGitHub) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_secondlook"))
            .arg("serve")
            .current_dir(directory)
            .env_clear()
            .env("SECONDLOOK_LISTEN", "127.0.0.1:0")
            .env("SECONDLOOK_DATA_DIR", directory)
            .env("SECONDLOOK_DATABASE_URL", place.url())
            .env("GITHUB_API_URL", github.url())
            .env("GITHUB_APP_ID", "4711")
            .env("GITHUB_APP_PRIVATE_KEY", APP_KEY)
            .env("GITHUB_WEBHOOK_SECRET", SECRET)
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut said = Vec::new();
        let address = loop {
            let Some(line) = lines.next_line().await.unwrap() else { panic!("the server ended: {said:#?}") };
            if let Some((_, rest)) = line.split_once("listen=") {
                break rest.split_whitespace().next().unwrap().to_owned();
            }
            said.push(line);
        };
        // Somebody has to read on, or the server would wait for the pipe one day.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Self { child, address }
    }
}
