//! `secondlook jobs`: what waits, what runs, and what was given up, and what a person does about the latter.
//!
//! It works on the database beside a running server, on SQLite too: it takes no job and ends no lease, so it need not own
//! the database as a server does, and each of its writes is one short transaction. A job that it puts back is found by
//! the server at its next look, within a second.

use std::collections::HashSet;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Subcommand, ValueEnum};
use secrecy::ExposeSecret;
use serde_json::{Value, json};

use super::{Failure, output};
use crate::clock::SystemClock;
use crate::config::Config;
use crate::db::DbError;
use crate::job::Job;
use crate::queue::store::Queue;
use crate::queue::store::letter::{Entry, Standing};
use crate::serve;

/// What to do with jobs.
#[derive(Debug, Subcommand)]
pub enum JobsCommand {
    /// List jobs; dead letters, which are jobs that were given up, first
    List {
        /// Only those that stand so
        #[arg(long, value_enum)]
        state: Option<StateChoice>,
        /// How to print them
        #[arg(long, value_enum, default_value = "text")]
        format: FormatChoice,
    },
    /// Put dead letters back to work, with all their tries before them: one by its id, or `--all`
    #[command(override_usage = "secondlook jobs requeue <ID>\n       secondlook jobs requeue --all")]
    Requeue {
        /// The dead letter's id, as `jobs list` and `doctor` print it
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        id: Option<String>,
        /// Every dead letter
        #[arg(long)]
        all: bool,
    },
    /// Delete a dead letter
    Discard {
        /// The dead letter's id, as `jobs list` and `doctor` print it
        id: String,
    },
}

/// How a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StateChoice {
    /// Given up
    Dead,
    /// Being worked on
    Running,
    /// Waiting for its time or its turn
    Queued,
}

/// How a list is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FormatChoice {
    /// A line for each job
    Text,
    /// An array with an object for each job
    Json,
}

/// Does what the command says.
///
/// # Errors
/// When the database cannot be used, or there is no such dead letter.
pub async fn run(command: JobsCommand, config: &Config) -> Result<ExitCode, Failure> {
    let queue = open(config).await?;
    match command {
        JobsCommand::List { state, format } => {
            let standings = match state {
                None => vec![Standing::Dead, Standing::Running, Standing::Queued],
                Some(StateChoice::Dead) => vec![Standing::Dead],
                Some(StateChoice::Running) => vec![Standing::Running],
                Some(StateChoice::Queued) => vec![Standing::Queued],
            };
            let mut entries = Vec::new();
            for standing in standings {
                entries.extend(queue.entries(standing).await.map_err(failed)?);
            }
            super::print(&render(&entries, format))?;
        }
        JobsCommand::Requeue { id: Some(id), .. } => {
            if !queue.requeue(&id).await.map_err(failed)? {
                return Err(unknown(&id));
            }
            super::print(&format!("requeued {id}\n"))?;
        }
        JobsCommand::Requeue { id: None, .. } => {
            let count = requeue_all(&queue).await.map_err(failed)?;
            super::print(&format!("requeued {count} {}\n", if count == 1 { "job" } else { "jobs" }))?;
        }
        JobsCommand::Discard { id } => {
            if !queue.discard(&id).await.map_err(failed)? {
                return Err(unknown(&id));
            }
            super::print(&format!("discarded {id}\n"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A job in a few words, with what became of it.
pub fn in_words(entry: &Entry<Job>) -> String {
    let what = match &entry.job {
        Some(job) => job.in_words(),
        None => format!("{} {} (written by another version)", entry.kind, entry.key),
    };
    let tries = |count: u32| format!("{count} {}", if count == 1 { "try" } else { "tries" });
    let reason = entry.reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
    match entry.standing {
        Standing::Dead => {
            let when = entry.given_up_at.map(|at| format!(" at {at:.0}")).unwrap_or_default();
            format!("{what} was given up{when} after {}{reason}", tries(entry.attempts))
        }
        Standing::Running => format!("{what}, try {}", entry.attempts),
        Standing::Queued if entry.attempts > 0 => {
            format!("{what}, again at {:.0} after {}{reason}", entry.run_at, tries(entry.attempts))
        }
        Standing::Queued => format!("{what}, due at {:.0}", entry.run_at),
    }
}

async fn open(config: &Config) -> Result<Queue<Job>, Failure> {
    // Opening makes what is missing, and an empty new file would only hide that another one is meant.
    if let Some(path) = config.database_url.expose_secret().strip_prefix("sqlite:") {
        let path = path.strip_prefix("//").unwrap_or(path);
        if !std::path::Path::new(path).exists() {
            return Err(Failure(format!(
                "there is no database at {path}: start `secondlook serve` first, or name the server's with --data-dir or \
                 --database-url"
            )));
        }
    }
    let db = serve::open_database(config).await.map_err(|error| Failure(error.to_string()))?;
    Ok(Queue::new(db, Arc::new(SystemClock), config.queue.clone()))
}

/// Each dead letter once: what is given up again while this runs is a new fault.
async fn requeue_all(queue: &Queue<Job>) -> Result<u64, DbError> {
    let mut seen = HashSet::new();
    let mut count = 0;
    loop {
        let letters = queue.dead_letters().await?;
        let fresh: Vec<String> = letters.into_iter().map(|letter| letter.id).filter(|id| !seen.contains(id)).collect();
        if fresh.is_empty() {
            return Ok(count);
        }
        for id in fresh {
            count += u64::from(queue.requeue(&id).await?);
            seen.insert(id);
        }
    }
}

fn render(entries: &[Entry<Job>], format: FormatChoice) -> String {
    match format {
        FormatChoice::Json => {
            let rows: Vec<Value> = entries.iter().map(object).collect();
            format!("{}\n", serde_json::to_string_pretty(&rows).unwrap_or_default())
        }
        FormatChoice::Text if entries.is_empty() => "no jobs\n".to_owned(),
        FormatChoice::Text => entries
            .iter()
            .map(|entry| format!("{:<7} {} {}\n", word(entry.standing), entry.id, output::one_line(&in_words(entry))))
            .collect(),
    }
}

fn object(entry: &Entry<Job>) -> Value {
    json!({
        "id": entry.id,
        "state": word(entry.standing),
        "kind": entry.kind,
        "key": entry.key,
        "what": entry.job.as_ref().map(Job::in_words),
        "attempts": entry.attempts,
        "reason": entry.reason,
        "enqueued_at": entry.enqueued_at,
        "run_at": entry.run_at,
        "given_up_at": entry.given_up_at,
    })
}

fn word(standing: Standing) -> &'static str {
    match standing {
        Standing::Queued => "queued",
        Standing::Running => "running",
        Standing::Dead => "dead",
    }
}

fn unknown(id: &str) -> Failure {
    Failure(format!(
        "no dead letter {id} can be changed now: see `secondlook jobs list --state dead`, and try again in a minute if it \
         is there, as a worker may just be reporting it"
    ))
}

fn failed(error: DbError) -> Failure {
    Failure(format!("the queue cannot be used: {error}; `secondlook doctor` says more"))
}
