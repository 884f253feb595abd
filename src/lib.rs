//! secondlook reviews pull requests, and looks a second time before it speaks.
//!
//! # How a pull request flows
//!
//! A signed webhook is verified and recorded together with a job in one transaction ([`webhook`], [`queue`]). A worker
//! claims the job ([`job`]) and reads the pull request afresh ([`github`]). Each changed file ([`diff`]) is reviewed by
//! an agent that reasons and calls tools ([`agent`], [`tool`], [`analysis`], [`chat`]) and then tries to refute its own
//! findings ([`review`]). What survives is anchored to lines that GitHub accepts and posted once. Answers in threads
//! are a [`conversation`] with a [`memory`].
//!
//! # Invariants
//!
//! - Everything that decides is pure; everything that acts is a thin edge around it.
//! - Waiting is data: a retry, an approval, a pause is a row, never a sleeping task.
//! - A module uses only what stands before it in the list below; `tests/architecture.rs` holds that and the other rules.
//! - Time comes from [`clock`], the environment is read by [`config`], SQL stands in `store.rs` files and [`db`], and
//!   only `github/client.rs` knows the HTTP client for GitHub.
//! - Nothing a model says can crash the process, post off the diff, mention people, or leave its schema.

pub mod ids;
pub mod clock;
pub mod retry;
pub mod redact;
pub mod room;
pub mod compute;
pub mod diff;
pub mod db;
pub mod queue;
pub mod event;
pub mod chat;
pub mod github;
pub mod memory;
pub mod analysis;
pub mod tool;
pub mod agent;
pub mod review;
pub mod conversation;
pub mod app;
pub mod job;
pub mod webhook;
pub mod dashboard;
pub mod config;
pub mod serve;
pub mod cli;
