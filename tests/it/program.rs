//! The real binary, running as a process of its own.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::harness::delivery::{SECRET, sign};
use crate::harness::github::state::Delivery;
use crate::harness::github::{APP_KEY, FakeGitHub};

/// A running server; killed when dropped.
pub(crate) struct Program {
    pub(crate) child: Child,
    pub(crate) address: String,
}

impl Program {
    /// Starts the binary (or the one that `SECONDLOOK_TEST_BINARY` names) and waits until it says where it listens.
    pub(crate) async fn start(directory: &Path, github: &FakeGitHub, variables: &[(&str, &str)]) -> Self {
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
    pub(crate) async fn deliver(&self, http: &reqwest::Client, delivery: &Delivery) {
        deliver(&self.address, http, delivery).await;
    }

    /// The peak of its resident memory in KiB, where the system tells.
    pub(crate) fn peak(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()?)).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        line.trim().strip_suffix("kB")?.trim().parse().ok()
    }
}

/// Delivers a webhook, and how long its answer took.
pub(crate) async fn deliver(address: &str, http: &reqwest::Client, delivery: &Delivery) -> Duration {
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
