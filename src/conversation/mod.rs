//! Answering people: commands and threads.

pub mod command;
