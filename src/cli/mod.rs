//! The command line: `serve`, `review`, `doctor`, `jobs`, `backup`, `schema`.
//!
//! Only the result goes to standard output; progress and complaints go to standard error. A complaint is one sentence
//! that says what to do. Exit codes: 0 well, 1 findings at or above `--fail-on`, 2 it could not be done.

pub mod change;
pub mod doctor;
pub mod git;
pub mod jobs;
pub mod output;
pub mod progress;
pub mod pull;
pub mod review;
pub mod schema;

use std::ffi::OsString;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use secrecy::ExposeSecret as _;

use crate::config::layers::{Environment, FileChoice, Flags, Layers};
use crate::config::{Config, ConfigError};
use crate::db;
use crate::serve::{self, logs};

/// Why a command could not do its work: one sentence that says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Failure(pub String);

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self(error.0)
    }
}

/// Exit code of a review with something at or above `--fail-on`.
pub const FOUND: u8 = 1;
/// Exit code when the work could not be done.
pub const FAILED: u8 = 2;

/// Reviews pull requests, and looks a second time before it speaks.
#[derive(Debug, Parser)]
#[command(name = "secondlook", version, about, arg_required_else_help = true, disable_help_subcommand = true)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Settings that every command knows.
    #[command(flatten)]
    pub settings: SettingArguments,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the GitHub App: receive webhooks, review pull requests, answer in threads
    Serve(ServeArguments),
    /// Review a change here, without a server
    Review(review::ReviewArguments),
    /// Check configuration, database, GitHub and model, and say how to mend what is wrong
    Doctor,
    /// Copy the SQLite database to a file, also while the server runs
    Backup {
        /// Where the copy goes; nothing is overwritten
        file: PathBuf,
    },
    /// List the jobs of a server, put back what was given up, or discard it
    #[command(subcommand)]
    Jobs(jobs::JobsCommand),
    /// Print a JSON Schema
    Schema {
        /// Of what
        #[arg(value_enum)]
        of: schema::SchemaOf,
    },
}

/// Settings that every command knows. Each can be given in the environment and in `secondlook.toml` too; secrets only
/// there, because a command line is visible to every user of the machine.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Settings")]
pub struct SettingArguments {
    /// Read this secondlook.toml
    #[arg(long, global = true, value_name = "FILE")]
    pub settings: Option<PathBuf>,
    /// Model: `embedded` or provider::name (SECONDLOOK_MODEL)
    #[arg(long, global = true, value_name = "MODEL")]
    pub model: Option<String>,
    /// How files are reviewed (SECONDLOOK_STRATEGY)
    #[arg(long, global = true, value_name = "NAME")]
    pub strategy: Option<String>,
    /// Directory for the SQLite file and the App's credentials (SECONDLOOK_DATA_DIR)
    #[arg(long, global = true, value_name = "DIR")]
    pub data_dir: Option<String>,
    /// sqlite:PATH or postgres://USER:PASSWORD@HOST/NAME (SECONDLOOK_DATABASE_URL)
    #[arg(long, global = true, value_name = "URL")]
    pub database_url: Option<String>,
    /// Log filter, for example info or secondlook=debug (SECONDLOOK_LOG)
    #[arg(long, global = true, value_name = "FILTER")]
    pub log: Option<String>,
    /// text or json (SECONDLOOK_LOG_FORMAT)
    #[arg(long, global = true, value_name = "FORMAT")]
    pub log_format: Option<String>,
}

/// What `serve` knows besides.
#[derive(Debug, Default, Args)]
pub struct ServeArguments {
    /// Address and port to listen on (SECONDLOOK_LISTEN)
    #[arg(long, value_name = "IP:PORT")]
    pub listen: Option<String>,
    /// Where GitHub and people reach this server (SECONDLOOK_PUBLIC_URL)
    #[arg(long, value_name = "URL")]
    pub public_url: Option<String>,
    /// Memory near which no further job begins, as in 512M; the container's limit by default (SECONDLOOK_MAX_MEMORY)
    #[arg(long, value_name = "BYTES")]
    pub max_memory: Option<String>,
    /// Receive deliveries through this smee.io channel, on a machine that GitHub cannot reach (SECONDLOOK_SMEE)
    #[arg(long, value_name = "URL")]
    pub smee: Option<String>,
}

/// Parses the command line and does what it says.
pub fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are no errors; a closed pipe is not ours to complain about.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(FAILED));
        }
    };
    match dispatch(arguments, Environment::of_process()) {
        Ok(code) => code,
        Err(failure) => {
            say(&format!("secondlook: {failure}"));
            ExitCode::from(FAILED)
        }
    }
}

fn dispatch(arguments: Arguments, environment: Environment) -> Result<ExitCode, Failure> {
    let Arguments { command, settings } = arguments;
    match command {
        Command::Schema { of } => print(&schema::render(of)).map(|()| ExitCode::SUCCESS),
        Command::Doctor => {
            let layers = layers(&settings, Flags::new(), environment, FileChoice::WorkingDirectory)?;
            runtime()?.block_on(doctor::run(&layers))
        }
        Command::Backup { file } => {
            let layers = layers(&settings, Flags::new(), environment, FileChoice::WorkingDirectory)?;
            let config = Config::load(&layers)?;
            runtime()?
                .block_on(db::backup(config.database_url.expose_secret(), &file))
                .map_err(|error| Failure(error.to_string()))?;
            say(&format!("secondlook: copied the database to {}", file.display()));
            Ok(ExitCode::SUCCESS)
        }
        Command::Jobs(jobs) => {
            let layers = layers(&settings, Flags::new(), environment, FileChoice::WorkingDirectory)?;
            let config = Config::load(&layers)?;
            logs::start(config.log.as_deref().unwrap_or(logs::QUIET), config.log_format).map_err(Failure)?;
            runtime()?.block_on(jobs::run(jobs, &config))
        }
        Command::Serve(serve) => {
            let mut flags = Flags::new();
            flags.extend(serve.listen.map(|value| ("SECONDLOOK_LISTEN", value)));
            flags.extend(serve.public_url.map(|value| ("SECONDLOOK_PUBLIC_URL", value)));
            flags.extend(serve.smee.map(|value| ("SECONDLOOK_SMEE", value)));
            flags.extend(serve.max_memory.map(|value| ("SECONDLOOK_MAX_MEMORY", value)));
            let layers = layers(&settings, flags, environment, FileChoice::WorkingDirectory)?;
            let config = Config::load(&layers)?;
            logs::start(config.log.as_deref().unwrap_or(logs::SERVING), config.log_format).map_err(Failure)?;
            runtime()?.block_on(serve::run(config)).map_err(|error| Failure(error.to_string()))?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Review(review) => {
            let layers = layers(&settings, Flags::new(), environment, FileChoice::UserOnly)?;
            let config = Config::load(&layers)?;
            logs::start(config.log.as_deref().unwrap_or(logs::QUIET), config.log_format).map_err(Failure)?;
            runtime()?.block_on(review::run(review, &config))
        }
    }
}

fn layers(
    settings: &SettingArguments,
    mut flags: Flags,
    environment: Environment,
    otherwise: FileChoice,
) -> Result<Layers, Failure> {
    let given = [
        ("SECONDLOOK_MODEL", &settings.model),
        ("SECONDLOOK_STRATEGY", &settings.strategy),
        ("SECONDLOOK_DATA_DIR", &settings.data_dir),
        ("SECONDLOOK_DATABASE_URL", &settings.database_url),
        ("SECONDLOOK_LOG", &settings.log),
        ("SECONDLOOK_LOG_FORMAT", &settings.log_format),
    ];
    flags.extend(given.into_iter().filter_map(|(name, value)| Some((name, value.clone()?))));
    let choice = settings.settings.clone().map_or(otherwise, FileChoice::Given);
    Ok(Layers::read(flags, environment, &choice)?)
}

/// The runtime is made only by commands that need one, so that `--version` and `schema` answer at once.
fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let built = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    built.map_err(|error| Failure(format!("cannot start: {error}; the machine may be out of threads or file handles")))
}

/// Writes a result to standard output. A reader that went away (`| head`) is no failure.
fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure(format!("cannot write the result: {error}")))
        }
        _ => Ok(()),
    }
}

/// Writes a styled result to standard output: styles are stripped where there is no terminal or nobody wants them.
fn print_styled(text: &str) -> Result<(), Failure> {
    let mut plain = anstream::AutoStream::new(Vec::new(), anstream::AutoStream::choice(&std::io::stdout()));
    plain.write_all(text.as_bytes()).map_err(|error| Failure(format!("cannot write the result: {error}")))?;
    print(&String::from_utf8_lossy(&plain.into_inner()))
}

/// Writes a line for people to standard error.
fn say(line: &str) {
    // Nobody is left to be told when this fails.
    let _ = writeln!(std::io::stderr().lock(), "{}", output::printable(line));
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
