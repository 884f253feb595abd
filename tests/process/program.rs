//! The binary as a process of its own.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::delivery::SECRET;
use crate::github::APP_KEY;

/// Lines of output that are kept.
const KEPT: usize = 300;

/// Where a program runs and whom it knows.
#[derive(Debug, Clone)]
pub(crate) struct Home {
    pub(crate) directory: PathBuf,
    pub(crate) database: String,
    pub(crate) github: String,
    pub(crate) model: String,
    /// Open files it may have; as many as the machine gives it when `None`.
    pub(crate) open_files: Option<u32>,
}

/// A started program; killed when dropped.
pub(crate) struct Program {
    child: Child,
    reader: Option<JoinHandle<()>>,
    lines: Arc<Mutex<VecDeque<String>>>,
    /// Its address, once it listens.
    listens: watch::Receiver<Option<String>>,
}

impl Program {
    /// Starts it, and does not wait.
    pub(crate) fn spawn(home: &Home) -> Self {
        // Another build can be tried, an optimised one say.
        let binary = std::env::var("SECONDLOOK_BINARY").unwrap_or_else(|_| env!("CARGO_BIN_EXE_secondlook").to_owned());
        let mut command = match home.open_files {
            None => Command::new(binary),
            Some(most) => {
                let mut shell = Command::new("/bin/sh");
                shell.args(["-c", &format!("ulimit -n {most}; exec \"$0\" \"$@\""), &binary]);
                shell
            }
        };
        let mut child = command
            .arg("serve")
            .current_dir(&home.directory)
            .env_clear()
            .env("SECONDLOOK_LISTEN", "127.0.0.1:0")
            .env("SECONDLOOK_DATA_DIR", &home.directory)
            .env("SECONDLOOK_DATABASE_URL", &home.database)
            .env("SECONDLOOK_MODEL", "openai::scripted")
            .env("OPENAI_BASE_URL", &home.model)
            .env("OPENAI_API_KEY", "none")
            .env("GITHUB_API_URL", &home.github)
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
        let mut output = BufReader::new(child.stderr.take().unwrap()).lines();
        let lines = Arc::new(Mutex::new(VecDeque::new()));
        let (found, listens) = watch::channel(None);
        let kept = lines.clone();
        // Somebody has to read on, or the server would wait for the pipe one day.
        let reader = tokio::spawn(async move {
            while let Ok(Some(line)) = output.next_line().await {
                if let Some((_, rest)) = line.split_once("listen=")
                    && let Some(address) = rest.split_whitespace().next()
                {
                    found.send_replace(Some(address.to_owned()));
                }
                let mut kept = kept.lock().unwrap();
                if kept.len() == KEPT {
                    kept.pop_front();
                }
                kept.push_back(line);
            }
        });
        Self { child, reader: Some(reader), lines, listens }
    }

    /// Waits until it listens; `None` when it ended instead.
    pub(crate) async fn address(&self) -> Option<String> {
        let mut listens = self.listens.clone();
        listens.wait_for(Option::is_some).await.ok()?.clone()
    }

    /// Its address, if it listens by now.
    pub(crate) fn address_now(&self) -> Option<String> {
        self.listens.borrow().clone()
    }

    /// Kills it with -9.
    pub(crate) async fn kill(&mut self) {
        self.child.kill().await.unwrap();
    }

    /// Sends a signal by name, such as `TERM`.
    pub(crate) async fn signal(&self, name: &str) {
        let Some(id) = self.child.id() else { return };
        let sent = Command::new("/bin/sh").args(["-c", &format!("kill -{name} {id}")]).status().await.unwrap();
        assert!(sent.success(), "kill -{name}");
    }

    /// How it ended, if it has.
    pub(crate) fn is_over(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Waits for its end.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        let status = self.child.wait().await.unwrap();
        if let Some(reader) = self.reader.take() {
            reader.await.unwrap();
        }
        status
    }

    /// The process id.
    pub(crate) fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// What it said last.
    pub(crate) fn said(&self) -> Vec<String> {
        self.lines.lock().unwrap().iter().cloned().collect()
    }
}
