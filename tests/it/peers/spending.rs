//! Spending stops at its limits: of a review, a pull request, a repository on a day, a server on a day. What was done is
//! posted, what is missing is named, and the next day goes on.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rstest::rstest;
use secondlook::agent::limits::{Cost, Most};
use secondlook::agent::spending::store::SpendingStore;
use secondlook::agent::spending::{Account, Purse};
use secondlook::chat::{ChatMessage, ModelRole, estimate_tokens};
use secondlook::db::Backend;
use secondlook::review::budget::{BudgetPolicy, Budgets, accounts};
use secondlook::review::change::Limits;
use secondlook::review::store::PullKey;

use super::{FILES, answer, check, files, found, keeps, path, places};
use crate::harness::bot::{Bot, Setup, run_test};
use crate::harness::database::fresh;
use crate::harness::github::Pr;
use crate::harness::github::actions::PullSpec;
use crate::harness::model::Reply;

/// About what the first call for one of the files costs; a second look costs less.
const CALL: u64 = 1_800;

/// Every file has its finding, however often it is looked at.
fn script(bot: &Bot, count: usize) {
    for n in 0..count {
        bot.model.on_file(&path(n)).always(Reply::Text(answer(&[found(n)])));
        bot.model.on_critic(&path(n)).always(Reply::Text(keeps(1)));
    }
}

/// Prompt tokens of all requests so far, as a provider would count them.
fn sent(bot: &Bot) -> u64 {
    bot.model.requests().iter().flat_map(|r| &r.messages).map(ChatMessage::text).map(estimate_tokens).sum()
}

fn with_limits(limits: Limits) -> Setup {
    Setup { limits, ..Setup::default() }
}

/// Asserts that some files were reviewed and the others named with this reason.
fn stopped(bot: &Bot, pr: &Pr, reason: &str) {
    let (conclusion, title, summary) = check(bot, pr);
    assert_eq!(conclusion, "neutral", "{summary}");
    assert!(title.contains("not reviewed"), "{title}");
    assert!(summary.contains(reason), "{summary}");
}

#[test]
fn files_side_by_side_do_not_spend_the_same_rest() {
    let limits = Limits { review: Most::tokens(5 * CALL), ..Limits::default() };
    run_test(with_limits(limits), async |bot| {
        let pr = bot.github.open_pull(files(FILES));
        script(bot, FILES);
        bot.settle().await;
        stopped(bot, &pr, "the token budget");
        assert!(sent(bot) <= 5 * CALL, "{} tokens were sent", sent(bot));
        assert!(bot.model.asked(ModelRole::Reviewer) >= 2 && !places(bot, &pr).is_empty(), "{}", bot.github.page(&pr));
    });
}

#[test]
fn a_repository_lowers_the_budget_of_its_reviews() {
    run_test(Setup::default(), async |bot| {
        let rules = format!("//- .github/secondlook.yml\nbudget:\n  review_tokens: {}\n", 5 * CALL);
        bot.github.commit_main("acme/app", &rules);
        let pr = bot.github.open_pull(files(FILES));
        script(bot, FILES);
        bot.settle().await;
        stopped(bot, &pr, "the token budget");
        assert!(sent(bot) <= 5 * CALL);
    });
}

#[test]
fn a_repository_that_has_used_its_day_up_goes_on_the_next_day() {
    run_test(Setup::default(), async |bot| {
        let rules = format!("//- .github/secondlook.yml\nbudget:\n  day_tokens: {}\n", 6 * CALL);
        bot.github.commit_main("acme/app", &rules);
        let pr = bot.github.open_pull(files(FILES));
        script(bot, FILES);
        bot.settle().await;
        stopped(bot, &pr, "budget of this repository is used up");
        let first = (sent(bot), bot.model.requests().len());
        assert!(first.0 <= 6 * CALL, "{}", first.0);

        // Another process, another pull request of the same repository: the day is over for both.
        bot.restart();
        let other = bot.github.open_pull(PullSpec { branch: "other".into(), ..files(1) });
        bot.settle().await;
        assert!(sent(bot) <= 6 * CALL, "{}", sent(bot));
        let elsewhere = bot.github.open_pull(files(1).repo("acme/lib"));
        bot.settle().await;
        assert_eq!(check(bot, &elsewhere).1, "1 problem (major)", "another repository has its own day");

        bot.clock.advance(Duration::from_secs(24 * 3600));
        bot.github.comment(&pr, "alice", "/secondlook review");
        bot.github.comment(&other, "alice", "/secondlook review");
        bot.settle().await;
        assert!(bot.model.requests().len() > first.1 + 2, "the next day has a budget of its own");
    });
}

#[test]
fn a_pull_request_has_a_budget_over_all_its_days() {
    let budgets = Budgets { pull_request: Most::tokens(2 * CALL), ..Budgets::default() };
    run_test(with_limits(Limits { budgets, ..Limits::default() }), async |bot| {
        let pr = bot.github.open_pull(files(3));
        script(bot, 3);
        bot.settle().await;
        stopped(bot, &pr, "the budget of this pull request is used up");
        let asked = bot.model.requests().len();
        bot.clock.advance(Duration::from_secs(24 * 3600));
        bot.github.comment(&pr, "alice", "/secondlook review full");
        bot.settle().await;
        assert!(bot.model.requests().len() <= asked + 1, "no day brings it back");
    });
}

#[test]
fn a_server_has_a_budget_for_all_repositories_and_says_so_to_who_asks() {
    let budgets = Budgets { day: Most::tokens(100), ..Budgets::default() };
    run_test(with_limits(Limits { budgets, ..Limits::default() }), async |bot| {
        let pr = bot.github.open_pull(files(1));
        bot.settle().await;
        stopped(bot, &pr, "budget of this server is used up");
        bot.github.comment(&pr, "alice", "/secondlook ask why is it zero?");
        bot.settle().await;
        assert!(bot.model.requests().is_empty(), "nobody was asked");
        let page = bot.github.page(&pr);
        assert!(page.contains("I cannot answer this: "), "{page}");
    });
}

#[test]
fn money_is_counted_too() {
    let budgets = Budgets { day: Most { tokens: u64::MAX, micro_usd: 1 }, ..Budgets::default() };
    run_test(with_limits(Limits { budgets, ..Limits::default() }), async |bot| {
        let pr = bot.github.open_pull(files(1));
        script(bot, 1);
        bot.settle().await;
        // A model without a price costs nothing, so a limit of money does not stop it.
        assert_eq!(check(bot, &pr).1, "1 problem (major)");
    });
}

fn account(most: u64) -> Account {
    let pull = PullKey { repository: 1, number: 2, installation: 3 };
    let allowed = Budgets { day: Most::tokens(most), ..Budgets::default() };
    accounts(pull, &allowed, &BudgetPolicy::default()).remove(0)
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

#[rstest]
#[case(Backend::Sqlite)]
#[case(Backend::Postgres)]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn calls_of_many_instances_never_go_over_a_limit_together(#[case] backend: Backend) {
    let Some(db) = fresh(backend).await else { return };
    let now = at("2026-03-04T05:06:07Z");
    let purse = Arc::new(Purse::new(SpendingStore::new((*db).clone()), vec![account(100)]));
    let cost = Cost { tokens: 30, micro_usd: 1 };
    let tasks: Vec<_> = (0..20)
        .map(|_| {
            let purse = Arc::clone(&purse);
            tokio::spawn(async move { purse.book(cost, now).await.ok() })
        })
        .collect();
    let booked: Vec<_> = futures_util::future::join_all(tasks).await.into_iter().filter_map(Result::unwrap).collect();
    assert_eq!(booked.len(), 3);
    // What a call did cost takes the place of what it was thought to, also when that is less.
    purse.settle(booked[0], Cost { tokens: 10, micro_usd: 1 }).await;
    purse.settle(booked[1], Cost::default()).await;
    let store = SpendingStore::new((*db).clone());
    assert_eq!(store.spent(&account(100), now).await.unwrap(), Cost { tokens: 40, micro_usd: 2 });
    assert!(purse.book(Cost { tokens: 60, micro_usd: 0 }, now).await.is_ok());
    assert!(purse.book(Cost { tokens: 1, micro_usd: 0 }, now).await.is_err());
    let tomorrow = at("2026-03-05T00:00:00Z");
    assert!(purse.book(Cost { tokens: 100, micro_usd: 0 }, tomorrow).await.is_ok());
    // A settlement after midnight goes to the day of the call.
    purse.settle(booked[2], Cost { tokens: 31, micro_usd: 1 }).await;
    assert_eq!(store.spent(&account(100), now).await.unwrap().tokens, 101);
    // The first call of a later day drops what nobody will ask for again.
    purse.book(Cost { tokens: 1, micro_usd: 0 }, at("2026-09-01T00:00:00Z")).await.unwrap();
    assert_eq!(store.spent(&account(100), now).await.unwrap(), Cost::default());
}

#[rstest]
#[case(Backend::Sqlite)]
#[case(Backend::Postgres)]
#[tokio::test]
async fn a_repository_that_goes_takes_its_accounts_with_it(#[case] backend: Backend) {
    let Some(db) = fresh(backend).await else { return };
    let store = SpendingStore::new((*db).clone());
    let now = at("2026-03-04T05:06:07Z");
    let of = |repository| {
        let pull = PullKey { repository, number: 2, installation: 3 };
        accounts(pull, &Budgets::default(), &BudgetPolicy::default())
    };
    for repository in [1, 12] {
        store.book(&of(repository), Cost { tokens: 5, micro_usd: 0 }, now).await.unwrap();
    }
    store.forget(&secondlook::review::budget::prefix(1)).await.unwrap();
    for (repository, expected) in [(1, [10, 0, 0]), (12, [10, 5, 5])] {
        for (account, expected) in of(repository).iter().zip(expected) {
            assert_eq!(store.spent(account, now).await.unwrap().tokens, expected, "{}", account.key);
        }
    }
}
