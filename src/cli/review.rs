//! `secondlook review`: the same review as the App's, of a change at hand.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use tokio_util::sync::CancellationToken;

use super::change::{self, Origin, Prepared};
use super::output::{self, Format, Reviewed};
use super::pull::{self, PullName};
use super::{FAILED, FOUND, Failure, progress, say};
use crate::agent::checkpoint::Checkpoints;
use crate::agent::spending::Purse;
use crate::chat::ModelRole;
use crate::clock::{SharedClock, SystemClock};
use crate::config::Config;
use crate::event::store::EventLog;
use crate::review::change::{Change, Engine, Interrupted, review_change};
use crate::review::finding::Severity;
use crate::review::policy::read::parse_policy;
use crate::review::policy::{LoadedPolicy, Policy};
use crate::review::report::Report;
use crate::serve;

/// What to review, and how to show it.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 nothing at or above --fail-on; 1 something; 2 the review could not be done, or not of \
                        every file."
)]
pub struct ReviewArguments {
    /// A pull request, as owner/repo#7; GITHUB_TOKEN must be able to read it
    #[arg(value_name = "OWNER/REPO#NUMBER", conflicts_with_all = ["base", "head", "staged", "diff", "root", "config"])]
    pub pull: Option<PullName>,
    /// Compare with the point where the branch left this commit [default: the default branch]
    #[arg(long, value_name = "REF")]
    pub base: Option<String>,
    /// Review up to this commit [default: HEAD]
    #[arg(long, value_name = "REF", conflicts_with_all = ["staged", "diff"])]
    pub head: Option<String>,
    /// Review what is staged
    #[arg(long, conflicts_with = "diff")]
    pub staged: bool,
    /// Review a unified diff; - reads it from standard input
    #[arg(long, value_name = "FILE", conflicts_with = "base")]
    pub diff: Option<PathBuf>,
    /// Where the code is that --diff leads to [default: the working directory]
    #[arg(long, value_name = "DIR", requires = "diff")]
    pub root: Option<PathBuf>,
    /// Rules in place of .github/secondlook.yml of the base commit
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Post the review on the pull request; without it nothing is written on GitHub
    #[arg(long, requires = "pull")]
    pub post: bool,
    /// How the result is printed
    #[arg(long, value_enum, default_value = "pretty")]
    pub format: Format,
    /// Exit with 1 when a finding is at least this bad
    #[arg(long, value_enum, default_value = "none", value_name = "SEVERITY")]
    pub fail_on: FailOn,
}

/// From which severity on a review counts as failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum FailOn {
    /// Never.
    None,
    /// From a matter of taste on.
    Nit,
    /// From what is worth mending on.
    Minor,
    /// From what will hurt somebody on.
    Major,
    /// Only what must not be merged.
    Critical,
}

impl FailOn {
    fn severity(self) -> Option<Severity> {
        match self {
            Self::None => None,
            Self::Nit => Some(Severity::Nit),
            Self::Minor => Some(Severity::Minor),
            Self::Major => Some(Severity::Major),
            Self::Critical => Some(Severity::Critical),
        }
    }
}

/// Reviews and prints.
///
/// # Errors
/// When the change, the rules or the model cannot be had; nothing is printed on standard output then.
pub async fn run(arguments: ReviewArguments, config: &Config) -> Result<ExitCode, Failure> {
    let clock: SharedClock = Arc::new(SystemClock);
    let engine = Engine {
        models: serve::models(config, clock.clone()).map_err(|error| Failure(error.to_string()))?,
        checkpoints: Checkpoints::default(),
        events: EventLog::default(),
        clock: clock.clone(),
        limits: config.limits.clone(),
        purse: Purse::default(),
    };
    if let Some(name) = &arguments.pull {
        let pulled = pull::read(name, config, clock).await?;
        if pulled.prepared.change.files.is_empty() && nothing(&arguments) {
            return Ok(ExitCode::SUCCESS);
        }
        let done = review(&pulled.prepared, &engine).await;
        let code = show(&arguments, Some(&name.to_string()), &pulled.prepared, &engine, &done)?;
        if arguments.post && !done.interrupted {
            let posted = pull::post(name, &pulled, &done.report).await?;
            let comments = if posted == 1 { "comment" } else { "comments" };
            say(&format!("secondlook: {posted} {comments} posted on {name}"));
        }
        return Ok(code);
    }
    let mut prepared = change::prepare(&origin(&arguments), std::path::Path::new(".")).await?;
    if let Some(file) = &arguments.config {
        let text = tokio::fs::read_to_string(file).await.map_err(|error| {
            Failure(format!("cannot read the rules {}: {error}; check the path given with --config", file.display()))
        })?;
        prepared.policy = parse_policy(&text);
        if let Some(complaint) = prepared.policy.complaints.first() {
            // Rules that somebody names on purpose are meant to hold as a whole.
            let (line, column) = (complaint.line, complaint.column);
            return Err(Failure(format!("{}:{line}:{column}: {}", file.display(), complaint.message)));
        }
    }
    if prepared.change.files.is_empty() && prepared.complaints.is_empty() && nothing(&arguments) {
        return Ok(ExitCode::SUCCESS);
    }
    let done = review(&prepared, &engine).await;
    show(&arguments, None, &prepared, &engine, &done)
}

/// A review that ended, by itself or by Ctrl-C.
struct Done {
    report: Report,
    interrupted: bool,
}

fn origin(arguments: &ReviewArguments) -> Origin {
    if let Some(file) = &arguments.diff {
        let root = arguments.root.clone().unwrap_or_else(|| PathBuf::from("."));
        return Origin::Patch { file: file.clone(), root };
    }
    let base = arguments.base.clone();
    if arguments.staged {
        return Origin::Staged { base };
    }
    Origin::Range { base, head: arguments.head.clone().unwrap_or_else(|| "HEAD".into()) }
}

/// Says that the change is empty, and whether that was all: a program that reads the result gets an empty one.
fn nothing(arguments: &ReviewArguments) -> bool {
    let advice = match (&arguments.pull, &arguments.diff, arguments.staged) {
        (None, None, false) => " (what is not committed is reviewed with --staged)",
        (None, None, true) => " (git add puts changes in)",
        _ => "",
    };
    say(&format!("secondlook: nothing to review: the change is empty{advice}"));
    arguments.format == Format::Pretty
}

/// Reviews until the end or the first Ctrl-C; a second one ends the process at once.
async fn review(prepared: &Prepared, engine: &Engine) -> Done {
    let LoadedPolicy { policy, complaints } = &prepared.policy;
    for complaint in complaints {
        say(&format!(
            "secondlook: .github/secondlook.yml:{}:{}: {}",
            complaint.line, complaint.column, complaint.message
        ));
    }
    for complaint in &prepared.complaints {
        say(&format!("secondlook: line {} of the patch cannot be read: {}", complaint.line, complaint.message));
    }
    let display = progress::Display::new(change::reviewable(&prepared.change));
    let stop = CancellationToken::new();
    let outcome = interruptible(&prepared.change, policy, engine, &stop, &display).await;
    drop(display);
    match outcome {
        Ok(report) => Done { report, interrupted: false },
        Err(Interrupted { partial, .. }) => Done { report: *partial, interrupted: true },
    }
}

async fn interruptible(
    change: &Change,
    policy: &Policy,
    engine: &Engine,
    stop: &CancellationToken,
    display: &progress::Display,
) -> Result<Report, Interrupted> {
    let sink = display.sink();
    let mut review = std::pin::pin!(review_change(change, policy, engine, stop, &sink));
    loop {
        tokio::select! {
            outcome = &mut review => return outcome,
            signal = tokio::signal::ctrl_c() => {
                // Without the signal there is no way to be interrupted, and the review simply goes on to its end.
                if signal.is_err() {
                    return review.await;
                }
                if stop.is_cancelled() {
                    std::process::exit(i32::from(FAILED));
                }
                say("secondlook: stopping; what is finished will be printed (press Ctrl-C again to stop at once)");
                stop.cancel();
            }
        }
    }
}

fn show(
    arguments: &ReviewArguments,
    pull: Option<&str>,
    prepared: &Prepared,
    engine: &Engine,
    done: &Done,
) -> Result<ExitCode, Failure> {
    let change = &prepared.change;
    let files = change.diffs();
    let model = engine.models.name(ModelRole::Reviewer);
    let reviewed =
        Reviewed { pull, base: &change.base, head: &change.head, model, files: &files, report: &done.report };
    let text = output::render(arguments.format, &reviewed);
    match arguments.format {
        Format::Pretty => super::print_styled(&text)?,
        _ => super::print(&text)?,
    }
    let complete = done.report.coverage.complete() && prepared.complaints.is_empty();
    if done.interrupted {
        say("secondlook: interrupted; the result above holds what was finished");
    } else if !complete {
        let gaps = output::gaps(&done.report.coverage).count() + prepared.complaints.len();
        let parts = if gaps == 1 {
            "one part of the change was".to_owned()
        } else {
            format!("{gaps} parts of the change were")
        };
        say(&format!("secondlook: the review is incomplete: {parts} not reviewed; the result names what"));
    }
    Ok(ExitCode::from(code(&done.report, arguments.fail_on, complete && !done.interrupted)))
}

/// 1 when a finding reaches `fail_on`, whatever else happened; else 2 when something was not reviewed; else 0.
fn code(report: &Report, fail_on: FailOn, complete: bool) -> u8 {
    let reaches = |severity: Severity| {
        report.findings.iter().chain(&report.capped).any(|reported| reported.finding.severity >= severity)
    };
    match fail_on.severity() {
        Some(severity) if reaches(severity) => FOUND,
        _ if !complete => FAILED,
        _ => 0,
    }
}
