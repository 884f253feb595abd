//! What reviews may cost: the operator's limits, which a repository may lower and never raise. Pure.

use serde::{Deserialize, Serialize};

use super::store::PullKey;
use crate::agent::limits::Most;
use crate::agent::spending::Account;

/// Millionths of a US dollar in a cent.
const CENT: u64 = 10_000;

/// The operator's limits beyond one review.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Budgets {
    /// Of one pull request, over all its reviews and answers.
    pub pull_request: Most,
    /// Of one repository on one day (UTC).
    pub repository_day: Most,
    /// Of everything on one day (UTC), over all instances.
    pub day: Most,
}

/// `budget:` of a repository. Each can only lower what the server allows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BudgetPolicy {
    /// Tokens of one review.
    pub review_tokens: Option<u64>,
    /// US cents of one review.
    pub review_cents: Option<u64>,
    /// Tokens of one pull request, over all its reviews and answers.
    pub pull_request_tokens: Option<u64>,
    /// US cents of one pull request.
    pub pull_request_cents: Option<u64>,
    /// Tokens of this repository on one day (UTC).
    pub day_tokens: Option<u64>,
    /// US cents of this repository on one day (UTC).
    pub day_cents: Option<u64>,
}

impl BudgetPolicy {
    /// The most that one review may cost.
    pub fn review(&self, allowed: Most) -> Most {
        allowed.min(most(self.review_tokens, self.review_cents))
    }
}

/// A limit of tokens and cents; what is not given is not limited.
pub fn most(tokens: Option<u64>, cents: Option<u64>) -> Most {
    Most { tokens: tokens.unwrap_or(u64::MAX), micro_usd: cents.map_or(u64::MAX, |cents| cents.saturating_mul(CENT)) }
}

/// The accounts that the calls for a pull request are booked on, the widest first.
pub fn accounts(pull: PullKey, allowed: &Budgets, policy: &BudgetPolicy) -> Vec<Account> {
    let repository = prefix(pull.repository);
    let of_pull = most(policy.pull_request_tokens, policy.pull_request_cents);
    let of_day = most(policy.day_tokens, policy.day_cents);
    vec![
        Account { key: "server".into(), daily: true, most: allowed.day, whose: "this server" },
        Account {
            key: repository.clone(),
            daily: true,
            most: allowed.repository_day.min(of_day),
            whose: "this repository",
        },
        Account {
            key: format!("{repository}pull:{}", pull.number),
            daily: false,
            most: allowed.pull_request.min(of_pull),
            whose: "this pull request",
        },
    ]
}

/// What the keys of a repository's accounts begin with.
pub fn prefix(repository: u64) -> String {
    format!("repository:{repository}:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_lowers_limits_and_never_raises_them() {
        let allowed = Budgets {
            pull_request: Most::tokens(1_000),
            repository_day: most(None, Some(50)),
            day: Most::tokens(9_000),
        };
        let policy = BudgetPolicy {
            pull_request_tokens: Some(5_000),
            day_tokens: Some(700),
            day_cents: Some(80),
            ..BudgetPolicy::default()
        };
        let pull = PullKey { repository: 4, number: 7, installation: 1 };
        let limits: Vec<_> = accounts(pull, &allowed, &policy).into_iter().map(|a| (a.key, a.daily, a.most)).collect();
        assert_eq!(
            limits,
            [
                ("server".to_owned(), true, Most::tokens(9_000)),
                ("repository:4:".to_owned(), true, Most { tokens: 700, micro_usd: 500_000 }),
                ("repository:4:pull:7".to_owned(), false, Most::tokens(1_000)),
            ]
        );
        assert_eq!(BudgetPolicy::default().review(Most::tokens(3)), Most::tokens(3));
    }
}
