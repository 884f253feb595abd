//! The command line.
//!
//! Only the result goes to standard output; progress and complaints go to standard error. A complaint is one sentence
//! that says what to do. Exit codes: 0 well, 1 findings at or above `--fail-on`, 2 it could not be done.

pub mod output;
pub mod schema;

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Exit code when the work could not be done.
pub const FAILED: u8 = 2;

/// Reviews pull requests, and looks a second time before it speaks.
#[derive(Debug, Parser)]
#[command(name = "secondlook", version, about, arg_required_else_help = true, disable_help_subcommand = true)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Print a JSON Schema
    Schema {
        /// Of what
        #[arg(value_enum)]
        of: schema::SchemaOf,
    },
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
    let Command::Schema { of } = arguments.command;
    let written = std::io::stdout().lock().write_all(schema::render(of).as_bytes());
    if written.is_err() { ExitCode::from(FAILED) } else { ExitCode::SUCCESS }
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
