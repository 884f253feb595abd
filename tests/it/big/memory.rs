//! A ceiling of memory: jobs wait for each other below it, and all are done.

use std::sync::Arc;

use secondlook::clock::SystemClock;

use super::process::many_files;
use crate::harness::github::FakeGitHub;
use crate::harness::github::actions::PullSpec;
use crate::harness::github::fault::{Fault, Gate};
use crate::program::Program;

/// Room for one job beside what an idle server uses, and not for two.
const CEILING_MIB: u64 = 96;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn below_a_ceiling_reviews_wait_for_each_other() {
    let directory = tempfile::tempdir().unwrap();
    let github = FakeGitHub::start(Arc::new(SystemClock)).await;
    let repositories = ["acme/one", "acme/two", "acme/three"];
    let pulls = repositories.map(|repo| github.open_pull(PullSpec::of(many_files(20)).repo(repo)));
    let deliveries = github.take_deliveries();
    let gate = Gate::new();
    github.fault(Fault::hold("GET /repos/*/*/pulls/*/files", &gate));

    let ceiling = format!("{CEILING_MIB}M");
    let server = Program::start(directory.path(), &github, &[("SECONDLOOK_MAX_MEMORY", &ceiling)]).await;
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    for delivery in &deliveries {
        server.deliver(&http, delivery).await;
    }
    gate.reached().await;
    // The other workers want to begin, and say that there is no room.
    let metrics = format!("http://{}/metrics", server.address);
    loop {
        let text = http.get(&metrics).send().await.unwrap().text().await.unwrap();
        if text.contains("secondlook_memory_waits_total") {
            break;
        }
    }
    let begun = repositories.iter().filter(|repo| github.count(&format!("GET /repos/{repo}/pulls/*")) > 0).count();
    assert_eq!(begun, 1, "one at a time");
    gate.open();
    let done = |pr| github.checks(pr).iter().any(|check| check.status == "completed");
    while !pulls.iter().all(done) {
        assert_eq!(http.get(&metrics).send().await.unwrap().status(), 200);
    }
    if let Some(peak) = server.peak() {
        assert!(peak < CEILING_MIB << 10, "a peak of {peak} KiB");
    }
    for pr in &pulls {
        assert_eq!(github.comments(pr).len(), 1, "{}", github.page(pr));
    }
    github.reckon();
}
