//! Commands that come twice, late, edited, and in the wrong order.

use std::time::Duration;

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

async fn reviewed(bot: &mut Bot) -> Pr {
    let pr = bot.github.open_pull(PullSpec::new(CHANGE));
    bot.model.on_file("src/cache.rs").finds("*map.get(key).unwrap()", "Panics when the key is missing");
    bot.settle().await;
    pr
}

/// Somebody says something, a minute later.
fn say(bot: &Bot, pr: &Pr, text: &str) -> u64 {
    bot.clock.advance(Duration::from_secs(60));
    bot.github.comment(pr, "alice", text)
}

fn edit(bot: &Bot, pr: &Pr, comment: u64, text: &str) {
    bot.clock.advance(Duration::from_secs(60));
    bot.github.edit_comment(pr, comment, "alice", text);
}

async fn paused(bot: &Bot, pr: &Pr) -> bool {
    let known = bot.assembled.app.pulls().known(bot.github.repo(&pr.repo).id).await.unwrap();
    known.iter().any(|known| known.number == pr.number && known.paused)
}

#[test]
fn an_edit_that_leaves_the_command_as_it_is_does_nothing() {
    run_test(Setup::default(), async |bot| {
        let pr = reviewed(bot).await;
        let pause = say(bot, &pr, "/secondlook pause");
        bot.settle().await;
        assert!(paused(bot, &pr).await);
        say(bot, &pr, "/secondlook resume");
        bot.settle().await;
        assert!(!paused(bot, &pr).await);
        edit(bot, &pr, pause, "/secondlook pause\n\nI am still working on this.");
        bot.settle().await;
        assert!(!paused(bot, &pr).await, "that was carried out already");
        edit(bot, &pr, pause, "/secondlook resume");
        bot.settle().await;
        edit(bot, &pr, pause, "/secondlook pause");
        bot.settle().await;
        assert!(paused(bot, &pr).await, "another command is a new one");
    });
}

#[test]
fn the_later_word_counts_whichever_is_worked_on_first() {
    run_test(Setup::default(), async |bot| {
        let pr = reviewed(bot).await;
        say(bot, &pr, "/secondlook pause");
        say(bot, &pr, "/secondlook resume");
        // The first fails at first, and so the second is worked on before it.
        bot.github.fault(Fault::status("GET /repos/*/*/issues/comments/*", 502, "Server Error"));
        bot.settle().await;
        bot.clock.advance(Duration::from_secs(10));
        bot.settle().await;
        assert!(!paused(bot, &pr).await);
        assert!(bot.github.timeline(&pr).iter().all(|talk| !talk.reactions.is_empty()), "both are acknowledged");
    });
}

#[test]
fn a_command_that_is_delivered_again_after_months_is_not_carried_out_again() {
    run_test(Setup::default(), async |bot| {
        let pr = reviewed(bot).await;
        say(bot, &pr, "/secondlook pause");
        let told = bot.github.take_deliveries();
        bot.deliver(&told[0]).await;
        bot.settle().await;
        say(bot, &pr, "/secondlook resume");
        bot.settle().await;
        bot.clock.advance(Duration::from_secs(36 * 24 * 60 * 60));
        bot.begin_rounds().await;
        bot.deliver(&told[0]).await;
        bot.settle().await;
        assert!(!paused(bot, &pr).await);
    });
}

#[test]
fn a_review_asked_for_by_an_edit_is_made() {
    run_test(Setup::default(), async |bot| {
        let pr = reviewed(bot).await;
        let asked = say(bot, &pr, "/secondlook review");
        bot.settle().await;
        let checks = bot.github.checks(&pr).len();
        edit(bot, &pr, asked, "/secondlook review full");
        bot.model.on_file("src/cache.rs").finds_again("*map.get(key).unwrap()", "Panics when the key is missing");
        bot.settle().await;
        assert_eq!(bot.github.checks(&pr).len(), checks + 1);
        edit(bot, &pr, asked, "/secondlook review full\n\nPlease look at it with fresh eyes.");
        bot.settle().await;
        assert_eq!(bot.github.reviews(&pr).len(), 1);
    });
}
