//! A pull request of hundreds or thousands of files, against the real binary: what it asks of GitHub, how much memory it
//! takes, and how fast the webhooks of others are answered meanwhile.
//!
//! `SECONDLOOK_BIG_FILES` says how many files (300 without; GitHub lists 3,000), `SECONDLOOK_TEST_BINARY` which binary
//! (the one under test without). `tests/bench/big` sets both and shows the figures. Only then times are judged: a machine
//! that runs a whole suite has none to spare.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use secondlook::clock::SystemClock;
use serde_json::json;

use crate::harness::github::FakeGitHub;
use crate::harness::github::actions::PullSpec;
use crate::harness::github::files::{Change, File};
use crate::harness::github::state::Delivery;
use crate::program::{Program, deliver};

/// How long GitHub takes to answer.
const LATENCY: Duration = Duration::from_millis(50);

/// Peak of memory that is allowed, in KiB.
const MOST_MEMORY: u64 = 150 << 10;

/// Slowest answer to 99 of 100 webhooks that is allowed.
const SLOWEST: Duration = Duration::from_millis(20);

/// Between two webhooks of other repositories.
const BETWEEN: Duration = Duration::from_millis(25);

/// One file in so many has a fault in it that the rules find.
const FAULTY: usize = 50;

/// Delivers webhooks of another repository until it is told to stop, and how long each answer took: `others` among the
/// first, and then what GitHub sends often and nobody has to do anything about. To be run on a thread of its own, since the
/// stand-in keeps those of the test busy, and its time is not the server's.
fn send_until(stop: &AtomicBool, address: &str, others: &[Delivery]) -> Vec<Duration> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let mut beat = tokio::time::interval(BETWEEN);
        let mut answers = Vec::new();
        while !stop.load(Ordering::SeqCst) {
            beat.tick().await;
            if answers.len() == 20 {
                for delivery in others {
                    answers.push(deliver(address, &http, delivery).await);
                }
            }
            let mut payload = others[0].payload.clone();
            payload["action"] = json!("labeled");
            let delivery = Delivery { id: format!("other-{}", answers.len()), event: "pull_request".into(), payload };
            answers.push(deliver(address, &http, &delivery).await);
        }
        answers
    })
}

/// So many changed files of some 60 lines each, in directories of 40.
pub(super) fn many_files(count: usize) -> Change {
    let mut change = Change::default();
    for n in 0..count {
        let lines = |changed: &str| -> String {
            let line = |at: usize| match at {
                20..=25 => format!("    {changed}_{at} = work(data, {n}, {at})\n"),
                _ => format!("    step_{at} = prepare(data, {n}, {at})\n"),
            };
            format!(
                "import os\n\n\ndef run_{n}(data, path):\n{}    return data\n",
                (0..60).map(line).collect::<String>()
            )
        };
        let mut after = lines("after");
        if n % FAULTY == 0 {
            after =
                after.replace("    return data\n", &format!("    os.system(\"cat {n} \" + path)\n    return data\n"));
        }
        let path = format!("app/part_{}/module_{n}.py", n / 40);
        change = change.and(&path, Some(File::new(lines("before"))), Some(File::new(after)));
    }
    change
}

fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    sorted.get((sorted.len() * percent / 100).min(sorted.len().saturating_sub(1))).copied().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_file_of_a_large_pull_request_is_reviewed_in_little_memory() {
    let given = std::env::var("SECONDLOOK_BIG_FILES").ok();
    let files: usize = given.as_deref().map_or(300, |files| files.parse().unwrap());
    let directory = tempfile::tempdir().unwrap();
    let github = FakeGitHub::start(Arc::new(SystemClock)).await;
    let pr = github.open_pull(PullSpec::of(many_files(files)));
    let opened = github.take_deliveries();
    let other = github.open_pull(PullSpec::new("//- a.py\n+import os\n+os.system(input())\n").repo("acme/other"));
    let others = github.take_deliveries();
    github.answer_after(LATENCY);

    let server = Program::start(directory.path(), &github, &[]).await;
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let began = Instant::now();
    for delivery in &opened {
        server.deliver(&http, delivery).await;
    }
    let stop = Arc::new(AtomicBool::new(false));
    let sender = {
        let (address, stop) = (server.address.clone(), Arc::clone(&stop));
        std::thread::spawn(move || send_until(&stop, &address, &others))
    };
    let mut beat = tokio::time::interval(BETWEEN);
    let mut other_done = None;
    loop {
        beat.tick().await;
        let done = |pr| github.checks(pr).iter().any(|check| check.status == "completed");
        if other_done.is_none() && done(&other) {
            other_done = Some(began.elapsed());
        }
        if done(&pr) {
            break;
        }
    }
    let took = began.elapsed();
    stop.store(true, Ordering::SeqCst);
    let mut answers = tokio::task::spawn_blocking(|| sender.join().unwrap()).await.unwrap();
    let mut asked = github.requests();
    // The list of open pull requests is the comparison's that every server makes when it starts.
    asked.retain(|asked| {
        let path = asked.path.as_str();
        (path.contains("/acme/app/") || path == "/graphql") && path != "/repos/acme/app/pulls"
    });
    let requests = asked.len();
    let peak = server.peak();
    answers.sort();
    let (half, slow) = (percentile(&answers, 50), percentile(&answers, 99));
    eprintln!(
        "{files} files: {took:.1?}, peak {} MB, {requests} requests of GitHub (each after {LATENCY:?}), {} webhooks of \
         others meanwhile: p50 {half:.1?}, p99 {slow:.1?}, slowest {:.1?}; another repository's review was done after {other_done:.1?}",
        peak.unwrap_or_default() >> 10,
        answers.len(),
        answers.last().copied().unwrap_or_default(),
    );

    let check = github.checks(&pr).pop().unwrap();
    let summary = check.summary.unwrap_or_default();
    assert!(summary.contains(&format!("{files} files reviewed")), "{summary}");
    assert!(!summary.contains("not reviewed"), "{summary}");
    assert_eq!(github.reviews(&pr).len(), 1);
    assert_eq!(github.comments(&pr).len(), 12.min(files.div_ceil(FAULTY)), "as many as are said at once");
    // One for the list and one for the texts of a hundred files, and eight for the rest. Of the other repository's review
    // two requests cannot be told apart: for its rules, and for its one text.
    let most = 8 + 2 * files.div_ceil(100) + 2;
    let routes: Vec<String> = asked.iter().map(|asked| format!("{} {}", asked.method, asked.path)).collect();
    assert!(requests <= most, "{requests} requests are more than {most}: {routes:#?}");
    if let Some(peak) = peak {
        assert!(peak < MOST_MEMORY, "a peak of {peak} KiB");
    }
    if given.is_some() {
        assert!(slow < SLOWEST, "99 of 100 webhooks are answered within {slow:?}");
        assert!(other_done.is_some(), "another repository waits for the large review");
    }
    github.reckon();
}
