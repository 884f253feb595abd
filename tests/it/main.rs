//! The integration tests: one binary, one file per topic.

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "a test may panic, and says aloud what it skipped")]

mod harness;

mod adversary;
mod corpus;
mod database;
mod github_client;
mod github_stand_in;
mod intake;
mod placement;
mod queue;
mod recorded;
mod webhook;
mod worker;
mod openai;
mod rules;
mod tools;
