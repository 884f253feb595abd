//! Deliveries that did not arrive are asked for, whatever kept them away.

use std::time::Duration;

use secondlook::clock::Clock;
use secondlook::db::Backend;
use secondlook::job::round;
use secondlook::webhook::store;
use serde_json::json;

use crate::harness::bot::{Bot, Setup, run_test};
use crate::harness::database::fresh;
use crate::harness::github::Pr;
use crate::harness::github::actions::PullSpec;
use crate::harness::github::fault::Fault;

const CHANGE: &str = "
    //- src/cache.rs
     pub fn look_up(map: &Map, key: &str) -> u32 {
    -    0
    +    *map.get(key).unwrap()
     }
";
const LIST: &str = "GET /app/hook/deliveries";
const DETAIL: &str = "GET /app/hook/deliveries/*";
const AGAIN: &str = "POST /app/hook/deliveries/*/attempts";

/// A pull request whose event nobody takes.
fn missed(bot: &Bot) -> Pr {
    let pr = bot.github.open_pull(PullSpec::new(CHANGE));
    bot.github.take_deliveries();
    pr
}

fn finds(bot: &Bot) {
    bot.model.on_file("src/cache.rs").finds("*map.get(key).unwrap()", "Panics when the key is missing");
}

fn reviews(bot: &Bot, pr: &Pr) -> usize {
    bot.github.reviews(pr).len()
}

/// Lets the time of one round pass, and no more.
async fn next_round(bot: &Bot) {
    bot.clock.advance(Duration::from_secs(3 * 60));
    bot.settle().await;
}

#[test]
fn an_outage_loses_no_review_and_makes_none_twice() {
    run_test(Setup::default(), async |bot| {
        let pr = bot.github.open_pull(PullSpec::new(CHANGE));
        let late = bot.github.take_deliveries();
        finds(bot);
        bot.begin_rounds().await;
        assert_eq!(reviews(bot, &pr), 1);
        assert_eq!((bot.github.count(LIST), bot.github.count(DETAIL)), (1, 1));
        // It arrives after all, as somebody pressed "Redeliver".
        bot.deliver(&late[0]).await;
        bot.settle().await;
        next_round(bot).await;
        assert_eq!(reviews(bot, &pr), 1);
        assert_eq!(bot.github.count(DETAIL), 1, "what is recorded is not read again");
    });
}

#[test]
fn a_round_without_anything_missed_is_one_request() {
    run_test(Setup::default(), async |bot| {
        bot.github.open_pull(PullSpec::new(CHANGE));
        finds(bot);
        bot.settle().await;
        bot.begin_rounds().await;
        for rounds in 2..6 {
            next_round(bot).await;
            assert_eq!(bot.github.count("* /app/hook/**"), rounds);
        }
        assert_eq!(bot.assembled.queue.depth().await.unwrap().planned, 3, "one row for each round");
    });
}

#[test]
fn what_a_forwarder_took_and_lost_is_fetched_but_nothing_from_before_our_time() {
    run_test(Setup::default(), async |bot| {
        // Somebody else's server took this one, before we came.
        let before = bot.github.open_pull(PullSpec::new(CHANGE));
        bot.github.answered(&bot.github.take_deliveries()[0], 200);
        bot.begin_rounds().await;
        assert_eq!((reviews(bot, &before), bot.github.count(DETAIL)), (0, 0));
        bot.clock.advance(Duration::from_secs(60));
        let lost = bot.github.open_pull(PullSpec::new(CHANGE).branch("other"));
        bot.github.answered(&bot.github.take_deliveries()[0], 200);
        finds(bot);
        next_round(bot).await;
        assert_eq!((reviews(bot, &before), reviews(bot, &lost)), (0, 1));
    });
}

#[test]
fn every_way_of_failing_counts() {
    run_test(Setup::default(), async |bot| {
        let mut all = Vec::new();
        for (at, status) in [0, 401, 404, 500, 502, 503, 504].into_iter().enumerate() {
            let pr = bot.github.open_pull(PullSpec::new(CHANGE).branch(&format!("b{at}")));
            bot.github.answered(&bot.github.take_deliveries()[0], status);
            all.push(pr);
            bot.model.on_file("src/cache.rs").finds("*map.get(key).unwrap()", "Panics when the key is missing");
        }
        bot.begin_rounds().await;
        assert!(all.iter().all(|pr| reviews(bot, pr) == 1));
    });
}

#[test]
fn a_long_list_is_walked_in_steps_that_a_restart_goes_on_from() {
    run_test(Setup::default(), async |bot| {
        let pr = missed(bot);
        for number in 0..1_150 {
            bot.github.send("label", json!({ "action": "created", "label": { "name": number.to_string() } }));
        }
        bot.clock.advance(Duration::from_secs(5 * 60));
        bot.github.send("label", json!({ "action": "deleted" }));
        bot.github.take_deliveries();
        bot.begin_rounds().await;
        assert_eq!((bot.github.count(LIST), reviews(bot, &pr)), (10, 0), "so many pages and no more");
        bot.restart();
        finds(bot);
        bot.until_next_due().await;
        assert_eq!((bot.github.count(LIST), reviews(bot, &pr)), (12, 1), "and goes on from there, soon");
        // What came in the meantime is seen by the round after it.
        let later = bot.github.open_pull(PullSpec::new(CHANGE).branch("other"));
        bot.github.take_deliveries();
        bot.clock.advance(Duration::from_secs(10 * 60));
        finds(bot);
        bot.settle().await;
        assert_eq!((bot.github.count(LIST), reviews(bot, &later)), (13, 1));
    });
}

#[test]
fn many_missed_are_taken_in_so_many_at_a_time() {
    run_test(Setup::default(), async |bot| {
        bot.github.repo("acme/app");
        for number in 0..60 {
            bot.github.rename(
                &format!("acme/{}", if number == 0 { "app".into() } else { format!("n{number}") }),
                &format!("n{}", number + 1),
            );
        }
        bot.github.take_deliveries();
        bot.begin_rounds().await;
        assert_eq!(bot.github.count(DETAIL), 50);
        bot.until_next_due().await;
        assert_eq!(bot.github.count(DETAIL), 60);
        next_round(bot).await;
        assert_eq!(bot.github.count(DETAIL), 60);
    });
}

#[test]
fn without_a_payload_github_is_asked_to_deliver_again() {
    run_test(Setup::default(), async |bot| {
        let pr = missed(bot);
        bot.github.forget_payloads();
        finds(bot);
        bot.begin_rounds().await;
        assert_eq!((bot.github.count(AGAIN), reviews(bot, &pr)), (1, 1));

        // The same, where the payload is too much for GitHub itself.
        let pr = bot.github.open_pull(PullSpec::new(CHANGE).branch("other"));
        bot.github.take_deliveries();
        bot.github.fault(Fault::status(DETAIL, 502, "Server Error"));
        finds(bot);
        next_round(bot).await;
        assert_eq!((bot.github.count(AGAIN), reviews(bot, &pr)), (2, 1));

        // And where it cannot be had in any way, the others come all the same.
        let pr = missed(bot);
        bot.clock.advance(Duration::from_secs(5));
        bot.github.retitle(&pr, "Another title");
        bot.github.take_deliveries();
        bot.github.fault(Fault::status(DETAIL, 404, "Not Found"));
        bot.github.fault(Fault::status(AGAIN, 404, "Not Found"));
        finds(bot);
        next_round(bot).await;
        assert_eq!(reviews(bot, &pr), 1);
    });
}

#[test]
fn a_round_that_fails_is_made_up_for_by_the_next() {
    run_test(Setup::default(), async |bot| {
        let pr = missed(bot);
        bot.github.fault(Fault::status(LIST, 502, "Server Error"));
        bot.begin_rounds().await;
        bot.github.fault(Fault::not_json(LIST));
        next_round(bot).await;
        bot.github.fault(Fault::status(DETAIL, 502, "Server Error"));
        bot.github.fault(Fault::status(AGAIN, 502, "Server Error"));
        next_round(bot).await;
        bot.github.fault(Fault::secondary_limit(DETAIL, Some("60")));
        next_round(bot).await;
        assert_eq!(reviews(bot, &pr), 0);
        finds(bot);
        next_round(bot).await;
        assert_eq!(reviews(bot, &pr), 1);
        assert_eq!(bot.assembled.queue.depth().await.unwrap().dead, 0);
    });
}

#[test]
fn a_place_in_the_list_that_is_too_old_is_given_up() {
    run_test(Setup::default(), async |bot| {
        let pr = missed(bot);
        for _ in 0..1_150 {
            bot.github.send("label", json!({ "action": "created" }));
        }
        bot.github.take_deliveries();
        bot.begin_rounds().await;
        bot.github.fault(Fault::status(LIST, 422, "Invalid cursor"));
        bot.until_next_due().await;
        assert_eq!(reviews(bot, &pr), 0);
        finds(bot);
        bot.until_next_due().await;
        bot.until_next_due().await;
        assert_eq!(reviews(bot, &pr), 1, "the walk began again");
    });
}

#[test]
fn a_github_without_such_a_list_is_no_trouble_and_said_once() {
    run_test(Setup::default(), async |bot| {
        bot.github.fault(Fault::status(LIST, 404, "Not Found").times(3));
        bot.begin_rounds().await;
        let told = async || store::progress(&bot.database, 4711).await.unwrap().unwrap().told;
        assert!(told().await);
        next_round(bot).await;
        next_round(bot).await;
        let pr = missed(bot);
        finds(bot);
        next_round(bot).await;
        assert!(!told().await, "should it go away again, that is worth a word");
        assert_eq!(reviews(bot, &pr), 1);
        assert_eq!(bot.assembled.queue.depth().await.unwrap().dead, 0);
    });
}

#[test]
fn without_an_app_nobody_is_asked_and_with_one_the_rounds_begin() {
    run_test(Setup { without_app: true, ..Setup::default() }, async |bot| {
        let pr = missed(bot);
        bot.begin_rounds().await;
        next_round(bot).await;
        assert_eq!(bot.github.requests(), []);
        let clock = std::sync::Arc::new(bot.clock.clone());
        let app = secondlook::github::client::GitHubApp::new(&bot.github.credentials(), &bot.github.settings(), clock);
        bot.assembled.app.github.set(app.unwrap());
        finds(bot);
        next_round(bot).await;
        assert_eq!(reviews(bot, &pr), 1);
    });
}

#[test]
fn several_instances_make_one_round() {
    run_test(Setup::default(), async |bot| {
        for _ in 0..3 {
            round::begin(&bot.database, &bot.assembled.queue, bot.clock.now()).await.unwrap();
        }
        bot.settle().await;
        assert_eq!(bot.github.count(LIST), 1);
        assert_eq!(bot.assembled.queue.depth().await.unwrap().planned, 3);
        // One more starts while a round is waiting: it is made now, and then at its time.
        bot.begin_rounds().await;
        assert_eq!(bot.github.count(LIST), 2);
        next_round(bot).await;
        assert_eq!(bot.github.count(LIST), 3);
        assert_eq!(bot.assembled.queue.depth().await.unwrap().planned, 3);
    });
}

#[test]
fn a_delivery_that_comes_after_its_record_was_forgotten_does_no_harm() {
    run_test(Setup::default(), async |bot| {
        let pr = bot.github.open_pull(PullSpec::new(CHANGE));
        let opened = bot.github.take_deliveries();
        bot.deliver(&opened[0]).await;
        finds(bot);
        bot.settle().await;
        bot.clock.advance(Duration::from_secs(36 * 24 * 60 * 60));
        bot.begin_rounds().await;
        assert_eq!(store::outcome(&bot.database, &opened[0].id).await.unwrap(), None);
        bot.deliver(&opened[0]).await;
        bot.settle().await;
        assert_eq!(reviews(bot, &pr), 1);
        assert_eq!(bot.github.checks(&pr).len(), 1);
    });
}

#[tokio::test]
async fn two_rows_of_a_round_become_one() {
    for backend in [Backend::Sqlite, Backend::Postgres] {
        let Some(database) = fresh(backend).await else { continue };
        let bot = Bot::start(&Setup::default(), database).await;
        // As two instances that look at the same moment do it.
        let mut tx = bot.database.begin().await.unwrap();
        for _ in 0..2 {
            let round = secondlook::job::Job::FetchMissedDeliveries.due(bot.clock.now());
            bot.assembled.queue.enqueue(&mut tx, &round).await.unwrap();
        }
        tx.commit().await.unwrap();
        bot.settle().await;
        assert_eq!(bot.assembled.queue.depth().await.unwrap().planned, 3, "one of each round");
    }
}
