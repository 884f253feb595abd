//! Answering people: commands and threads.

pub mod answer;
pub mod command;
pub mod thread;
