//! Repositories that are renamed, transferred, taken away and made again, and events of it that come late.

use std::time::Duration;

use secondlook::github::Repository;
use secondlook::github::store as records;
use serde_json::json;

use crate::harness::bot::{Bot, Setup, run_test};
use crate::harness::github::Pr;
use crate::harness::github::actions::PullSpec;

const CHANGE: &str = "
    //- src/cache.rs
     pub fn look_up(map: &Map, key: &str) -> u32 {
    -    0
    +    *map.get(key).unwrap()
     }
";
const WEEK: Duration = Duration::from_secs(7 * 24 * 60 * 60);

fn finds(bot: &Bot) {
    bot.model.on_file("src/cache.rs").finds("*map.get(key).unwrap()", "Panics when the key is missing");
}

async fn reviewed(bot: &mut Bot) -> Pr {
    let pr = bot.github.open_pull(PullSpec::new(CHANGE));
    finds(bot);
    bot.settle().await;
    pr
}

/// A push is reviewed for what is new, and so the memory of the rest is there.
async fn goes_on(bot: &mut Bot, pr: &Pr) {
    bot.github.push(pr, "//- README.md\n+Hello.");
    bot.model.on_file("README.md").finds_nothing();
    bot.settle().await;
    assert_eq!(bot.github.reviews(pr).len(), 1, "{}", bot.github.page(pr));
}

async fn record(bot: &Bot, id: u64) -> Option<(u64, Repository)> {
    records::repository(&bot.database, id).await.unwrap()
}

#[test]
fn a_transfer_to_another_installation_keeps_everything_in_whatever_order_it_is_told() {
    for reversed in [false, true] {
        run_test(Setup::default(), async |bot| {
            let mut pr = reviewed(bot).await;
            let id = bot.github.repo("acme/app").id;
            bot.github.transfer("acme/app", "other", true);
            pr.repo = "other/app".into();
            let mut told = bot.github.take_deliveries();
            if reversed {
                told.reverse();
            }
            for delivery in &told {
                bot.deliver(delivery).await;
            }
            assert_eq!(record(bot, id).await.unwrap().0, bot.github.installation("other/app"));
            bot.clock.advance(WEEK);
            bot.settle().await;
            goes_on(bot, &pr).await;
        });
    }
}

#[test]
fn a_job_goes_on_where_its_repository_went() {
    run_test(Setup::default(), async |bot| {
        let mut pr = bot.github.open_pull(PullSpec::new(CHANGE));
        // The event of the opening names the old installation, and is worked on when that has lost the repository.
        bot.deliver_outbox().await;
        bot.github.transfer("acme/app", "other", true);
        pr.repo = "other/app".into();
        bot.github.take_deliveries();
        finds(bot);
        bot.settle().await;
        assert_eq!(bot.github.reviews(&pr).len(), 1, "{}", bot.github.page(&pr));
        assert_eq!(bot.assembled.queue.depth().await.unwrap().dead, 0);
    });
}

#[test]
fn a_transfer_out_of_our_reach_ends_quietly_and_is_forgotten() {
    run_test(Setup::default(), async |bot| {
        let mut pr = reviewed(bot).await;
        let id = bot.github.repo("acme/app").id;
        bot.github.push(&pr, "//- README.md\n+Hello.");
        bot.deliver_outbox().await;
        bot.github.transfer("acme/app", "other", false);
        pr.repo = "other/app".into();
        bot.settle().await;
        assert_eq!(bot.github.reviews(&pr).len(), 1);
        assert_eq!(bot.assembled.queue.depth().await.unwrap().planned, 1, "the forgetting");
        bot.clock.advance(WEEK);
        bot.settle().await;
        assert!(bot.assembled.app.pulls().known(id).await.unwrap().is_empty());
        assert_eq!(record(bot, id).await, None);
    });
}

#[test]
fn a_removal_that_is_told_late_costs_nothing() {
    run_test(Setup::default(), async |bot| {
        let pr = reviewed(bot).await;
        let id = bot.github.repo("acme/app").id;
        let installation = bot.github.installation("acme/app");
        // It was taken out and put in again, and the first is told last.
        let payload = json!({
            "action": "removed", "installation": { "id": installation, "account": { "login": "acme" } },
            "repositories_removed": [{ "id": id, "name": "app", "full_name": "acme/app" }],
        });
        bot.github.send("installation_repositories", payload);
        bot.settle().await;
        assert_eq!(record(bot, id).await, None, "our records believe it");
        bot.clock.advance(WEEK);
        bot.settle().await;
        assert_eq!(record(bot, id).await.unwrap().0, installation, "and GitHub knows better");
        goes_on(bot, &pr).await;
    });
}

#[test]
fn an_uninstallation_that_is_told_late_takes_nothing_from_the_next_one() {
    run_test(Setup::default(), async |bot| {
        let pr = reviewed(bot).await;
        let id = bot.github.repo("acme/app").id;
        let installation = bot.github.installation("acme/app");
        let payload = json!({
            "action": "deleted", "installation": { "id": 77, "account": { "login": "acme" } },
            "repositories": [{ "id": id, "name": "app", "full_name": "acme/app" }],
        });
        bot.github.send("installation", payload);
        bot.settle().await;
        assert_eq!(record(bot, id).await.unwrap().0, installation);
        bot.clock.advance(WEEK);
        bot.settle().await;
        goes_on(bot, &pr).await;
    });
}

#[test]
fn a_renamed_owner_owns_all_its_repositories() {
    run_test(Setup::default(), async |bot| {
        reviewed(bot).await;
        let (app, installation) = (bot.github.repo("acme/app").id, bot.github.installation("acme/app"));
        let payload = json!({
            "action": "renamed", "target_type": "Organization", "installation": { "id": installation },
            "account": { "login": "apex", "id": 5 }, "changes": { "login": { "from": "acme" } },
        });
        bot.github.send("installation_target", payload);
        bot.settle().await;
        let (reached_by, repository) = record(bot, app).await.unwrap();
        assert_eq!((reached_by, repository.full_name().as_str()), (installation, "apex/app"));
    });
}

#[test]
fn a_repository_made_again_under_its_name_has_no_memory_of_the_old_one() {
    run_test(Setup::default(), async |bot| {
        let pr = reviewed(bot).await;
        let old = bot.github.repo("acme/app").id;
        bot.github.push(&pr, "//- README.md\n+Hello.");
        bot.deliver_outbox().await;
        bot.github.delete_repository("acme/app");
        bot.settle().await;
        assert_eq!(record(bot, old).await, None);
        let again = bot.github.open_pull(PullSpec::new(CHANGE));
        assert_eq!(again, pr, "the same name and the same number");
        finds(bot);
        bot.settle().await;
        let new = bot.github.repo("acme/app").id;
        assert_ne!(new, old);
        assert_eq!(bot.github.reviews(&again).len(), 1, "said anew: {}", bot.github.page(&again));
        bot.clock.advance(WEEK);
        bot.settle().await;
        assert!(bot.assembled.app.pulls().known(old).await.unwrap().is_empty());
        assert_eq!(bot.assembled.app.pulls().known(new).await.unwrap().len(), 1);
        assert_eq!(bot.assembled.queue.depth().await.unwrap().dead, 0);
    });
}
