//! The integration tests: one binary, one file per topic.

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "a test may panic, and says aloud what it skipped")]

mod harness;

mod adversary;
mod agent;
mod alerts;
mod big;
mod cases;
mod cli;
mod clock_jumps;
mod commands;
mod connections;
mod corpus;
mod database;
mod embedded;
mod fairness;
mod faults;
mod faulty_database;
mod file_review;
mod fuzzed;
mod github_client;
mod github_stand_in;
mod giving_up;
mod hostile;
mod intake;
mod jobs;
mod jobs_cli;
mod kill;
mod limits;
mod migrations;
mod missed;
mod moved;
mod openai;
mod peers;
mod placement;
mod program;
mod publish;
mod queue;
mod ranges;
mod reconcile;
mod recorded;
mod repository;
mod rules;
mod scenarios;
mod scripted;
mod serve;
mod setup;
mod takeover;
mod tools;
mod webhook;
mod worker;
