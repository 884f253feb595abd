//! A pull request that was reviewed gets new commits.

use std::sync::Arc;

use insta::assert_snapshot;
use secondlook::chat::ModelRole;

use super::{CACHE, CACHE_FAULT};
use crate::harness::bot::{Bot, Setup, run_test};
use crate::harness::github::actions::PullSpec;
use crate::harness::github::{Pr, files};
use crate::harness::model::Reply;

async fn reviewed(bot: &Bot) -> Pr {
    let pr = bot.github.open_pull(PullSpec::new(CACHE));
    bot.model.on_file("src/cache.rs").finds(CACHE_FAULT, "Panics when the key is missing");
    bot.settle().await;
    pr
}

#[test]
fn a_push_that_adds_a_fault() {
    run_test(Setup::default(), async |bot| {
        let pr = reviewed(bot).await;
        bot.github.push(&pr, "//- src/parse.rs\n+pub fn port(text: &str) -> u16 {\n+    text.parse().unwrap()\n+}");
        // Only the new file is asked about.
        bot.model.on_file("src/parse.rs").finds("text.parse().unwrap()", "Panics on anything but a number");
        bot.settle().await;
        assert_snapshot!(bot.github.page(&pr), @r"
        #1 Change something [open] by alice
        check secondlook: neutral: 1 problem (major); 1 from earlier still open

        secondlook[bot] reviewed head1
          Found 1 problem (major).

          src/cache.rs:4
          | +    *map.get(key).unwrap()
            **Panics when the key is missing** · major · correctness

            Panics when the key is missing. Handle the case where this does not hold, or say why it always does.

            <details><summary>Evidence</summary>

            - `critic`: Confirmed in round 1: The code does this.
            - Found by `scripted`, confidence 90 %

            </details>

        secondlook[bot] reviewed head2
          Found 1 problem (major).

          src/parse.rs:2
          | +    text.parse().unwrap()
            **Panics on anything but a number** · major · correctness

            Panics on anything but a number. Handle the case where this does not hold, or say why it always does.

            <details><summary>Evidence</summary>

            - `critic`: Confirmed in round 1: The code does this.
            - Found by `scripted`, confidence 90 %

            </details>
        ");
    });
}

#[test]
fn a_push_beside_a_known_finding_does_not_repeat_it() {
    run_test(Setup::default(), async |bot| {
        let pr = reviewed(bot).await;
        bot.github.push(&pr, "//- src/cache.rs\n use std::collections::HashMap;\n \n+/// Looks a key up.\n pub fn look_up(map: &HashMap<String, u32>, key: &str) -> u32 {\n     *map.get(key).unwrap()\n }");
        // The hunk is another one now, so it is reviewed, and the model says the same in other words.
        bot.model.on_file("src/cache.rs").finds_again(CACHE_FAULT, "A missing key makes this panic");
        bot.settle().await;
        assert_eq!(bot.github.comments(&pr).len(), 1, "{}", bot.github.page(&pr));
        assert_eq!(bot.github.reviews(&pr).len(), 1, "{}", bot.github.page(&pr));
    });
}

#[test]
fn a_rebase_that_changes_nothing_costs_nothing() {
    run_test(Setup::default(), async |bot| {
        let pr = reviewed(bot).await;
        let asked = bot.model.asked(ModelRole::Reviewer);
        bot.github.move_base(&pr, files::files("//- unrelated.txt\nA line.\n"));
        bot.github.force_push(&pr, &files::change(CACHE));
        bot.settle().await;
        assert_eq!(bot.model.asked(ModelRole::Reviewer), asked, "an unchanged hunk was reviewed again");
        assert_snapshot!(bot.github.page(&pr), @r"
        #1 Change something [open] by alice
        check secondlook: neutral: 1 from earlier still open

        secondlook[bot] reviewed head1
          Found 1 problem (major).

          src/cache.rs:4
          | +    *map.get(key).unwrap()
            **Panics when the key is missing** · major · correctness

            Panics when the key is missing. Handle the case where this does not hold, or say why it always does.

            <details><summary>Evidence</summary>

            - `critic`: Confirmed in round 1: The code does this.
            - Found by `scripted`, confidence 90 %

            </details>
        ");
    });
}

#[test]
fn a_head_that_moves_during_the_review() {
    run_test(Setup::default(), async |bot| {
        let pr = bot.github.open_pull(PullSpec::new(CACHE));
        let (github, moving) = (bot.github.clone(), pr.clone());
        let push = Arc::new(move || {
            github.push(&moving, "//- src/cache.rs\n use std::collections::HashMap;\n \n pub fn look_up(map: &HashMap<String, u32>, key: &str) -> u32 {\n-    *map.get(key).unwrap()\n+    map.get(key).copied().unwrap_or(0)\n }");
        });
        let nothing = serde_json::json!({"findings": [], "summary": ""}).to_string();
        bot.model.on_file("src/cache.rs").then(Reply::After(push, nothing)).finds_nothing();
        bot.settle().await;
        assert_snapshot!(bot.github.page(&pr), @r"
        #1 Change something [open] by alice
        check secondlook: success: No problems found
        ");
    });
}

#[test]
fn a_delivery_twice_and_a_re_run_say_nothing_twice() {
    run_test(Setup::default(), async |bot| {
        let pr = bot.github.open_pull(PullSpec::new(CACHE));
        bot.model.on_file("src/cache.rs").finds(CACHE_FAULT, "Panics when the key is missing");
        let deliveries = bot.github.take_deliveries();
        for delivery in deliveries.iter().chain(&deliveries) {
            assert_eq!(bot.deliver(delivery).await, 202);
        }
        bot.settle().await;
        for delivery in &deliveries {
            assert_eq!(bot.deliver(delivery).await, 202);
        }
        bot.settle().await;
        bot.github.rerequest_check(&pr, "alice");
        bot.model.on_file("src/cache.rs").finds_again(CACHE_FAULT, "Panics when the key is missing");
        bot.settle().await;
        assert_eq!(bot.github.comments(&pr).len(), 1, "{}", bot.github.page(&pr));
    });
}
