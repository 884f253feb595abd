//! A review that is given up says so by its check run, by whatever way it came to its end.

use std::time::Duration;

use insta::assert_snapshot;
use secondlook::chat::ChatError;
use secondlook::clock::Clock;
use secondlook::queue::store::Outcome;

use crate::harness::bot::{Bot, Setup, run_test};
use crate::harness::github::Pr;
use crate::harness::github::actions::PullSpec;
use crate::harness::github::fault::Fault;
use crate::harness::model::Reply;

const CHANGE: &str = "
    //- src/cache.rs
     fn look_up(key: &str) -> u32 {
    -    0
    +    MAP.get(key).copied().unwrap()
     }
";

const LEASE: Duration = Duration::from_secs(60);

fn one_letter() -> Setup {
    Setup { dead_letters: 1, ..Setup::default() }
}

/// Has the workers of a job vanish until it is given up.
async fn vanish(bot: &Bot) {
    let queue = &bot.assembled.queue;
    for attempt in 1..=queue.settings().max_attempts {
        let lease = queue.claim("vanishing").await.unwrap().unwrap();
        assert_eq!((lease.attempt, &lease.given_up), (attempt, &None));
        bot.clock.advance(LEASE);
    }
}

fn check(bot: &Bot, pr: &Pr) -> String {
    let checks = bot.github.checks(pr);
    let [check] = &checks[..] else { panic!("one check run, not {}", checks.len()) };
    format!(
        "{} {}: {}",
        check.conclusion.as_deref().unwrap_or(check.status.as_str()),
        check.title.as_deref().unwrap_or_default(),
        check.summary.as_deref().unwrap_or_default()
    )
}

#[test]
fn a_job_whose_workers_vanished_ends_its_check() {
    run_test(one_letter(), async |bot| {
        let pr = bot.github.open_pull(PullSpec::new(CHANGE));
        // The first try gets as far as its check run.
        bot.github.fault(Fault::status("GET /repos/*/*/pulls/*/files", 503, "Unavailable"));
        bot.settle().await;
        let due = bot.assembled.queue.next_due().await.unwrap().unwrap();
        bot.clock.advance(due.duration_since(bot.clock.now()).try_into().unwrap());
        let queue = &bot.assembled.queue;
        for _ in 1..queue.settings().max_attempts {
            queue.claim("vanishing").await.unwrap().unwrap();
            bot.clock.advance(LEASE);
        }
        assert_snapshot!(check(bot, &pr), @"in_progress Reviewing: The changed files are being reviewed.");

        // GitHub is down just then, and the process is killed twice between the end of hope and the word of it.
        let told = queue.claim("killed").await.unwrap().unwrap();
        assert!(told.given_up.is_some());
        bot.clock.advance(LEASE);
        bot.restart();
        bot.github.fault(Fault::status("PATCH /repos/*/*/check-runs/*", 503, "Unavailable").times(2));
        bot.settle().await;
        assert_eq!(bot.assembled.queue.depth().await.unwrap().dead, 1);
        assert!(check(bot, &pr).starts_with("in_progress"));
        bot.restart();
        bot.until_next_due().await;
        bot.until_next_due().await;
        assert_snapshot!(check(bot, &pr), @r"
        neutral Not reviewed: The review was given up: its worker vanished, and this was the last attempt.

        `/secondlook review` asks for it again.
        ");
        assert!(bot.assembled.queue.dead_letters().await.unwrap()[0].told);
    });
}

#[test]
fn a_review_that_fails_before_its_check_gets_one() {
    run_test(one_letter(), async |bot| {
        let pr = bot.github.open_pull(PullSpec::new(CHANGE));
        bot.deliver_outbox().await;
        vanish(bot).await;
        // The creation is answered by a cut connection: it is looked up, and not made twice.
        bot.github.fault(Fault::apply_then_drop("POST /repos/*/*/check-runs"));
        bot.settle().await;
        bot.until_next_due().await;
        assert!(check(bot, &pr).starts_with("neutral Not reviewed: "), "{}", check(bot, &pr));
    });
}

#[test]
fn a_push_takes_the_place_of_a_review_that_is_given_up() {
    run_test(Setup::default(), async |bot| {
        let pr = bot.github.open_pull(PullSpec::new(CHANGE));
        bot.deliver_outbox().await;
        vanish(bot).await;
        bot.settle().await;
        assert_eq!(bot.assembled.queue.depth().await.unwrap().dead, 1);
        bot.model.on_file("src/cache.rs").finds("MAP.get(key).copied().unwrap()", "Panics when the key is missing");
        bot.github.push(&pr, CHANGE);
        bot.settle().await;
        assert!(check(bot, &pr).starts_with("neutral 1 problem (major): "), "{}", check(bot, &pr));
        assert_eq!(bot.github.reviews(&pr).len(), 1);
        assert_eq!(bot.assembled.queue.depth().await.unwrap(), Default::default(), "nobody need look after it");
    });
}

#[test]
fn a_requeued_review_is_made_and_replaces_the_word_of_its_end() {
    run_test(Setup::default(), async |bot| {
        let pr = bot.github.open_pull(PullSpec::new(CHANGE));
        bot.deliver_outbox().await;
        let queue = bot.assembled.queue.clone();
        let lease = queue.claim("w").await.unwrap().unwrap();
        assert!(queue.finish(&lease, &Outcome::Failed("the model's key is wrong".into())).await.unwrap());
        bot.settle().await;
        assert!(check(bot, &pr).contains("the model's key is wrong"));
        bot.model.on_file("src/cache.rs").finds("MAP.get(key).copied().unwrap()", "Panics when the key is missing");
        assert!(queue.requeue(&lease.id).await.unwrap());
        bot.settle().await;
        assert_eq!(bot.github.reviews(&pr).len(), 1);
        let last = bot.github.checks(&pr).into_iter().next_back().unwrap();
        assert_eq!(last.title.as_deref(), Some("1 problem (major)"), "{}", bot.github.page(&pr));
    });
}

#[test]
fn a_review_waits_for_a_model_that_is_down_and_says_so() {
    run_test(Setup::default(), async |bot| {
        let pr = bot.github.open_pull(PullSpec::new(CHANGE));
        let file = || bot.model.on_file("src/cache.rs");
        let down = || Reply::Error(ChatError::Unavailable("503 from the provider".into()));
        file().then(down()).then(down()).then(down());
        bot.settle().await;
        assert_snapshot!(check(bot, &pr), @r"
        in_progress Waiting to try again: the model provider failed: 503 from the provider.

        The review goes on by itself.
        ");
        assert!(bot.github.reviews(&pr).is_empty());
        file().finds("MAP.get(key).copied().unwrap()", "Panics when the key is missing");
        bot.until_next_due().await;
        assert!(check(bot, &pr).starts_with("neutral 1 problem (major): "), "{}", check(bot, &pr));
        assert_eq!(bot.github.reviews(&pr).len(), 1);
    });
}

#[test]
fn a_review_whose_model_stays_down_says_so_after_hours() {
    run_test(Setup::default(), async |bot| {
        let pr = bot.github.open_pull(PullSpec::new(CHANGE));
        bot.model.on_file("src/cache.rs").always_fails(ChatError::TimedOut("60 s"));
        bot.settle().await;
        let begun = bot.clock.now();
        while bot.assembled.queue.next_due().await.unwrap().is_some() {
            bot.until_next_due().await;
        }
        assert!(bot.clock.now().duration_since(begun).as_mins() > 90);
        assert_snapshot!(check(bot, &pr), @r"
        neutral 1 file not reviewed: Found no problems.

        | score | security | performance | readability | best practice |
        | ---: | ---: | ---: | ---: | ---: |
        | 100 | 100 | 100 | 100 | 100 |

        0 files reviewed, 1 not reviewed.

        Not reviewed:

        - `src/cache.rs`: the model provider failed: scripted failed 5 times in a row; it is asked again in 60 s

        No model was asked. Trace `pr:1003:1`.
        ");
    });
}
