//! The `secondlook` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    secondlook::cli::run(std::env::args_os())
}
