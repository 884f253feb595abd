//! The real binary, seen from outside: killed, frozen, stopped, starved, and left running for long. GitHub and the
//! model are stand-ins on loopback; the database is a real one.
//!
//! The campaigns are seeded. A sample of each is part of the suite; `tests/bench/README.md` says how to run them whole.

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "a test may panic, and says aloud what it found")]

#[expect(dead_code, reason = "the integration tests use more of it")]
#[path = "../it/harness/database.rs"]
mod database;
#[expect(dead_code, reason = "the integration tests use more of it")]
#[path = "../it/harness/delivery.rs"]
mod delivery;
#[path = "../it/harness/github/mod.rs"]
mod github;

mod campaign;
mod freeze;
mod handles;
mod kill;
mod model;
mod plot;
mod program;
mod seed;
mod soak;
mod story;
mod terminate;
mod verdict;
mod wire;
mod world;
