//! What no delivery tells any more is found by comparing open pull requests with our records.

use std::time::Duration;

use secondlook::review::store::known::KnownPull;

use crate::harness::bot::{Bot, Setup, run_test};
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
const PULLS: &str = "GET /repos/*/*/pulls";
/// GitHub keeps deliveries for three days.
const LONG: Duration = Duration::from_secs(4 * 24 * 60 * 60);
const ROUND: Duration = Duration::from_secs(6 * 60 * 60);

fn finds(bot: &Bot) {
    bot.model.on_file("src/cache.rs").finds("*map.get(key).unwrap()", "Panics when the key is missing");
}

async fn reviewed(bot: &mut Bot, branch: &str) -> Pr {
    let pr = bot.github.open_pull(PullSpec::new(CHANGE).branch(branch));
    finds(bot);
    bot.settle().await;
    pr
}

/// The server is away for so long that GitHub keeps none of what happened, and starts again.
async fn away(bot: &mut Bot, happens: impl FnOnce(&Bot)) {
    happens(bot);
    bot.github.take_deliveries();
    bot.clock.advance(LONG);
    bot.restart();
    bot.begin_rounds().await;
}

async fn known(bot: &Bot, pr: &Pr) -> KnownPull {
    let repository = bot.github.repo(&pr.repo).id;
    let all = bot.assembled.app.pulls().known(repository).await.unwrap();
    all.into_iter().find(|known| known.number == pr.number).expect("a pull request that we have had to do with")
}

#[test]
fn a_push_and_an_opening_that_nobody_told_are_reviewed_once() {
    run_test(Setup::default(), async |bot| {
        let pushed = reviewed(bot, "pushed").await;
        bot.model.on_file("README.md").finds("Hello.", "Says too little");
        finds(bot);
        let mut opened = None;
        away(bot, |bot| {
            bot.github.push(&pushed, "//- README.md\n+Hello.");
            opened = Some(bot.github.open_pull(PullSpec::new(CHANGE).branch("opened")));
        })
        .await;
        let opened = opened.unwrap();
        assert_eq!(bot.github.reviews(&pushed).len(), 2, "{}", bot.github.page(&pushed));
        assert_eq!(bot.github.reviews(&opened).len(), 1, "{}", bot.github.page(&opened));
        bot.clock.advance(ROUND);
        bot.settle().await;
        assert_eq!((bot.github.reviews(&pushed).len(), bot.github.reviews(&opened).len()), (2, 1));
    });
}

#[test]
fn pull_requests_from_before_the_app_are_left_alone() {
    run_test(Setup::default(), async |bot| {
        let old = bot.github.open_pull(PullSpec::new(CHANGE));
        let other = bot.github.open_pull(PullSpec::new(CHANGE).repo("acme/later"));
        bot.github.take_deliveries();
        bot.clock.advance(LONG);
        bot.github.install("acme");
        bot.settle().await;
        bot.begin_rounds().await;
        assert_eq!(bot.github.count(PULLS), 2);
        bot.clock.advance(ROUND);
        bot.settle().await;
        assert_eq!((bot.github.reviews(&old).len(), bot.github.reviews(&other).len()), (0, 0));
        assert_eq!((bot.github.checks(&old).len(), bot.github.checks(&other).len()), (0, 0));
    });
}

#[test]
fn an_end_that_nobody_told_is_noticed() {
    run_test(Setup::default(), async |bot| {
        let (closed, open) = (reviewed(bot, "closed").await, reviewed(bot, "open").await);
        away(bot, |bot| bot.github.close(&closed)).await;
        assert!(known(bot, &closed).await.closed);
        assert!(!known(bot, &open).await.closed);
    });
}

#[test]
fn a_pause_holds_and_what_is_not_reviewed_by_itself_is_asked_for_once() {
    run_test(Setup::default(), async |bot| {
        let paused = reviewed(bot, "paused").await;
        bot.clock.advance(Duration::from_secs(1));
        bot.github.comment(&paused, "alice", "/secondlook pause");
        bot.settle().await;
        let rules = "//- .github/secondlook.yml\nreview:\n  trigger: opened\n";
        bot.github.commit_main("acme/app", rules);
        let opened = reviewed(bot, "opened").await;
        away(bot, |bot| {
            bot.github.push(&paused, "//- README.md\n+Hello.");
            bot.github.push(&opened, "//- README.md\n+Hello.");
        })
        .await;
        assert_eq!(bot.github.checks(&paused).len(), 0);
        assert_eq!(bot.github.checks(&opened).len(), 1, "one check says that there is no review by itself");
        bot.clock.advance(ROUND);
        bot.settle().await;
        assert_eq!(bot.github.checks(&opened).len(), 1);
        assert_eq!(bot.github.reviews(&opened).len(), 1);
    });
}

#[test]
fn a_round_costs_one_request_for_each_repository() {
    run_test(Setup::default(), async |bot| {
        let pr = reviewed(bot, "topic").await;
        bot.begin_rounds().await;
        bot.github.forget_requests();
        for rounds in 1..4 {
            bot.clock.advance(ROUND);
            bot.settle().await;
            assert_eq!(bot.github.count("GET /repos/**"), rounds);
        }
        assert_eq!(bot.github.reviews(&pr).len(), 1);
        // Starting again and again does not make more of them.
        bot.begin_rounds().await;
        bot.begin_rounds().await;
        assert_eq!(bot.github.count("GET /repos/**"), 3);
    });
}

#[test]
fn one_repository_in_trouble_is_not_in_the_way_of_others() {
    run_test(Setup::default(), async |bot| {
        let first = reviewed(bot, "first").await;
        let second = bot.github.open_pull(PullSpec::new(CHANGE).repo("acme/second"));
        finds(bot);
        bot.settle().await;
        bot.github.fault(Fault::status(PULLS, 502, "Server Error"));
        bot.model.on_file("README.md").finds_nothing();
        away(bot, |bot| {
            bot.github.push(&first, "//- README.md\n+Hello.");
            bot.github.push(&second, "//- README.md\n+Hello.");
        })
        .await;
        bot.model.on_file("README.md").finds_nothing();
        bot.clock.advance(ROUND);
        bot.settle().await;
        for pr in [&first, &second] {
            assert_eq!(known(bot, pr).await.reviewed_head, Some(bot.github.head(pr)));
        }
    });
}

#[test]
fn what_happened_while_an_installation_slept_is_caught_up_with() {
    run_test(Setup::default(), async |bot| {
        let pr = reviewed(bot, "topic").await;
        bot.begin_rounds().await;
        bot.github.suspend("acme", true);
        bot.settle().await;
        // Nothing is told of a suspended installation.
        bot.github.push(&pr, "//- README.md\n+Hello.");
        assert!(bot.github.take_deliveries().is_empty());
        let opened = bot.github.open_pull(PullSpec::new(CHANGE).branch("opened"));
        bot.clock.advance(ROUND);
        bot.settle().await;
        assert_eq!(bot.github.reviews(&opened).len(), 0);
        bot.github.suspend("acme", false);
        bot.model.on_file("README.md").finds_nothing();
        finds(bot);
        bot.settle().await;
        assert_eq!(known(bot, &pr).await.reviewed_head, Some(bot.github.head(&pr)));
        assert_eq!(bot.github.reviews(&opened).len(), 1);
    });
}

/// Everything that waited is done: the review, and the answer to a comment.
async fn wakes_up_and_catches_up(bot: &Bot, pr: &Pr, comment: u64) {
    bot.github.suspend("acme", false);
    finds(bot);
    bot.settle().await;
    bot.clock.advance(Duration::from_secs(60 * 60));
    bot.settle().await;
    assert_eq!(bot.github.reviews(pr).len(), 1);
    assert!(bot.github.timeline(pr).iter().any(|talk| talk.id > comment), "{}", bot.github.page(pr));
}

#[test]
fn jobs_of_a_sleeping_installation_wait_and_are_neither_lost_nor_used_up() {
    run_test(Setup::default(), async |bot| {
        let pr = bot.github.open_pull(PullSpec::new(CHANGE));
        let comment = bot.github.comment(&pr, "alice", "/secondlook help");
        bot.github.suspend("acme", true);
        bot.settle().await;
        // Far more looks than a job has tries.
        for _ in 0..20 {
            bot.clock.advance(Duration::from_secs(60 * 60));
            bot.settle().await;
        }
        assert_eq!(bot.github.reviews(&pr).len(), 0);
        assert_eq!(bot.assembled.queue.depth().await.unwrap().dead, 0);
        wakes_up_and_catches_up(bot, &pr, comment).await;
    });
}

#[test]
fn what_a_sleeping_installation_has_waiting_outlives_an_outage_of_github() {
    run_test(Setup::default(), async |bot| {
        let pr = bot.github.open_pull(PullSpec::new(CHANGE));
        let comment = bot.github.comment(&pr, "alice", "/secondlook help");
        bot.deliver_outbox().await;
        bot.github.suspend("acme", true);
        bot.deliver_outbox().await;
        // Often enough that the breaker opens, and answers in GitHub's place.
        bot.github.fault(Fault::status("GET /repos/*/*/installation", 502, "Bad Gateway").up_to(6));
        bot.work().await;
        for _ in 0..12 {
            bot.clock.advance(Duration::from_secs(20 * 60));
            bot.work().await;
        }
        assert_eq!(bot.assembled.queue.depth().await.unwrap().dead, 0);
        wakes_up_and_catches_up(bot, &pr, comment).await;
    });
}
