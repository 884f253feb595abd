//! The numbers of `secondlook.toml`, each held against what it may be.

use std::time::Duration;

use super::layers::Layers;
use super::{ConfigError, STRATEGY};
use crate::queue;
use crate::review::budget::{Budgets, most};
use crate::review::change::Limits;

/// `[queue]`.
pub(super) fn queue_settings(layers: &Layers) -> Result<queue::Settings, ConfigError> {
    let section = &layers.file().queue;
    let mut settings = queue::Settings::default();
    if let Some(workers) = between("queue.workers", section.workers, 1, 64)? {
        settings.workers = usize::try_from(workers).unwrap_or(settings.workers);
    }
    if let Some(most) = between("queue.per_installation", section.per_installation, 1, 1_000)? {
        settings.per_owner = u32::try_from(most).ok();
    }
    if let Some(attempts) = between("queue.max_attempts", section.max_attempts, 1, 100)? {
        settings.max_attempts = u32::try_from(attempts).unwrap_or(settings.max_attempts);
    }
    if let Some(seconds) = between("queue.lease_seconds", section.lease_seconds, 5, 3_600)? {
        settings.lease = Duration::from_secs(seconds);
    }
    if let Some(seconds) = between("queue.grace_seconds", section.grace_seconds, 0, 3_600)? {
        settings.grace = Duration::from_secs(seconds);
    }
    Ok(settings)
}

/// `[review]` and `[budget]`.
pub(super) fn limits(layers: &Layers) -> Result<Limits, ConfigError> {
    if let Some(given) = layers.get("SECONDLOOK_STRATEGY")
        && given.value.trim() != STRATEGY
    {
        return Err(ConfigError(format!(
            "{} is \"{}\", but this version knows the strategy `{STRATEGY}` only: write that, or leave it out",
            given.origin, given.value
        )));
    }
    let section = &layers.file().review;
    let mut limits = Limits::default();
    if let Some(files) = between("review.concurrent_files", section.concurrent_files, 1, 64)? {
        limits.concurrent_files = usize::try_from(files).unwrap_or(limits.concurrent_files);
    }
    if let Some(files) = between("review.group_files", section.group_files, 1, 16)? {
        limits.group_files = usize::try_from(files).unwrap_or(limits.group_files);
    }
    if let Some(rounds) = between("review.max_rounds", section.max_rounds, 1, 10)? {
        limits.max_rounds = u32::try_from(rounds).unwrap_or(limits.max_rounds);
    }
    if let Some(seconds) = between("review.time_seconds", section.time_seconds, 1, 86_400)? {
        limits.review_time = Duration::from_secs(seconds);
    }
    if let Some(tokens) = between("review.tokens", section.tokens, 1_000, u64::MAX)? {
        limits.review.tokens = tokens;
    }
    limits.review = limits.review.min(most(None, section.cents));
    let budget = &layers.file().budget;
    limits.budgets = Budgets {
        pull_request: most(budget.pull_request_tokens, budget.pull_request_cents),
        repository_day: most(budget.repository_day_tokens, budget.repository_day_cents),
        day: most(budget.day_tokens, budget.day_cents),
    };
    Ok(limits)
}

fn between(key: &str, value: Option<u64>, least: u64, most: u64) -> Result<Option<u64>, ConfigError> {
    match value {
        Some(value) if !(least..=most).contains(&value) => {
            Err(ConfigError(format!("`{key}` in secondlook.toml is {value}: write a number from {least} to {most}")))
        }
        other => Ok(other),
    }
}
