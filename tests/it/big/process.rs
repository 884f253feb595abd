//! A pull request of hundreds or thousands of files, against the real binary: what it asks of GitHub, how much memory it
//! takes, and how fast the webhooks of others are answered meanwhile.
//!
//! `SECONDLOOK_BIG_FILES` says how many files (300 without; GitHub lists 3,000), `SECONDLOOK_TEST_BINARY` which binary
//! (the one under test without). `tests/bench/big` sets both and shows the figures. Only then times are judged: a machine
//! that runs a whole suite has none to spare.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use secondlook::clock::SystemClock;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::harness::delivery::{SECRET, sign};
use crate::harness::github::actions::PullSpec;
use crate::harness::github::files::{Change, File};
use crate::harness::github::state::Delivery;
use crate::harness::github::{APP_KEY, FakeGitHub};

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

/// A running server.
pub(super) struct Server {
    pub(super) child: Child,
    pub(super) address: String,
}

impl Server {
    /// Starts the binary and waits until it says where it listens.
    pub(super) async fn start(directory: &Path, github: &FakeGitHub, variables: &[(&str, &str)]) -> Self {
        let binary = std::env::var_os("SECONDLOOK_TEST_BINARY")
            .map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_secondlook")), PathBuf::from);
        let mut child = Command::new(std::path::absolute(binary).unwrap())
            .arg("serve")
            .current_dir(directory)
            .env_clear()
            .env("SECONDLOOK_LISTEN", "127.0.0.1:0")
            .env("SECONDLOOK_DATA_DIR", directory)
            .env("GITHUB_API_URL", github.url())
            .env("GITHUB_APP_ID", "4711")
            .env("GITHUB_APP_PRIVATE_KEY", APP_KEY)
            .env("GITHUB_WEBHOOK_SECRET", SECRET)
            .env("NO_COLOR", "1")
            .envs(variables.iter().copied())
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

    /// Delivers a webhook.
    pub(super) async fn deliver(&self, http: &reqwest::Client, delivery: &Delivery) {
        deliver(&self.address, http, delivery).await;
    }

    /// The peak of its resident memory in KiB, where the system tells.
    pub(super) fn peak(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()?)).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        line.trim().strip_suffix("kB")?.trim().parse().ok()
    }
}

/// Delivers a webhook, and how long its answer took.
async fn deliver(address: &str, http: &reqwest::Client, delivery: &Delivery) -> Duration {
    let body = serde_json::to_vec(&delivery.payload).unwrap();
    let request = http
        .post(format!("http://{address}/webhook"))
        .header("x-github-event", &delivery.event)
        .header("x-github-delivery", &delivery.id)
        .header("x-hub-signature-256", sign(SECRET, &body))
        .body(body);
    let began = Instant::now();
    assert_eq!(request.send().await.unwrap().status(), 202);
    began.elapsed()
}

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

    let server = Server::start(directory.path(), &github, &[]).await;
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
    let requests =
        github.requests().iter().filter(|asked| asked.path.contains("/acme/app/") || asked.path == "/graphql").count();
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
    assert!(requests <= most, "{requests} requests are more than {most}");
    if let Some(peak) = peak {
        assert!(peak < MOST_MEMORY, "a peak of {peak} KiB");
    }
    if given.is_some() {
        assert!(slow < SLOWEST, "99 of 100 webhooks are answered within {slow:?}");
        assert!(other_done.is_some(), "another repository waits for the large review");
    }
    github.reckon();
}
