//! The real binary, killed with -9 between the 202 and the posted review and started again: the review is posted once.

use std::sync::Arc;
use std::time::Duration;

use secondlook::clock::SystemClock;
use secondlook::db::Backend;

use crate::harness::database::Place;
use crate::harness::github::actions::PullSpec;
use crate::harness::github::fault::{Fault, Gate};
use crate::harness::github::{FakeGitHub, Pr};
use crate::program::Program;

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

    let url = place.url();
    let database = [("SECONDLOOK_DATABASE_URL", url.as_str())];
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let mut first = Program::start(directory.path(), &github, &database).await;
    for delivery in github.take_deliveries() {
        first.deliver(&http, &delivery).await;
    }
    gate.reached().await;
    first.child.kill().await.unwrap();
    gate.open();

    let second = Program::start(directory.path(), &github, &database).await;
    while !completed(&github, &pr) {
        // Asking keeps the loop honest without a pause: each round waits for an answer.
        let alive = http.get(format!("http://{}/healthz", second.address)).send().await.unwrap();
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
