//! GitHub, the network and the process fail in the middle; the page is the same as on a calm day.

use insta::assert_snapshot;

use super::{CACHE, CACHE_FAULT};
use crate::harness::bot::{Answers, Bot, Setup, run_test};
use crate::harness::github::Pr;
use crate::harness::github::actions::PullSpec;
use crate::harness::github::fault::Fault;

const CLEAN: &str = "//- src/limit.rs\n-pub const LIMIT: u32 = 1;\n+pub const LIMIT: u32 = 2;\n";
const POST_REVIEW: &str = "POST /repos/*/*/pulls/*/reviews";

/// Opens a pull request with one fault under the given GitHub fault, and works until nothing waits.
async fn under(bot: &Bot, fault: Fault) -> Pr {
    let pr = bot.github.open_pull(PullSpec::new(CACHE));
    bot.model.on_file("src/cache.rs").finds(CACHE_FAULT, "Panics when the key is missing");
    bot.github.fault(fault);
    until_nothing_waits(bot).await;
    pr
}

async fn until_nothing_waits(bot: &Bot) {
    bot.settle().await;
    while bot.assembled.queue.next_due().await.unwrap().is_some() {
        bot.until_next_due().await;
    }
}

fn posted_once(bot: &Bot, pr: &Pr) {
    let page = bot.github.page(pr);
    assert_eq!(bot.github.reviews(pr).len(), 1, "{page}");
    assert_eq!(bot.github.comments(pr).len(), 1, "{page}");
    let checks = bot.github.checks(pr);
    assert_eq!(checks.len(), 1, "{page}");
    assert_eq!(checks[0].status, "completed", "{page}");
}

#[test]
fn a_write_that_was_applied_and_lost_is_read_back() {
    run_test(Setup::default(), async |bot| {
        let pr = under(bot, Fault::apply_then_drop(POST_REVIEW)).await;
        posted_once(bot, &pr);
    });
}

#[test]
fn a_write_that_was_applied_and_answered_502_is_read_back() {
    run_test(Setup::default(), async |bot| {
        let pr = under(bot, Fault::apply_then_status(POST_REVIEW, 502)).await;
        posted_once(bot, &pr);
    });
}

#[test]
fn a_write_that_failed_is_made_again() {
    run_test(Setup::default(), async |bot| {
        let pr = under(bot, Fault::status(POST_REVIEW, 500, "Server Error")).await;
        posted_once(bot, &pr);
    });
}

#[test]
fn any_request_may_fail_once() {
    for route in [
        "POST /app/installations/*/access_tokens",
        "GET /repos/*/*/pulls/*",
        "GET /repos/*/*/pulls/*/files",
        "POST /repos/*/*/check-runs",
        "PATCH /repos/*/*/check-runs/*",
        "POST /graphql",
    ] {
        run_test(Setup::default(), async |bot| {
            let pr = under(bot, Fault::status(route, 502, "Bad Gateway")).await;
            posted_once(bot, &pr);
        });
        run_test(Setup::default(), async |bot| {
            let pr = under(bot, Fault::drop(route)).await;
            posted_once(bot, &pr);
        });
        run_test(Setup::default(), async |bot| {
            let pr = under(bot, Fault::truncated(route)).await;
            posted_once(bot, &pr);
        });
    }
}

#[test]
fn a_check_that_says_all_at_once_is_not_made_twice() {
    const CREATE: &str = "POST /repos/*/*/check-runs";
    let knowing = Setup { answers: Answers::Knowing, ..Setup::default() };
    run_test(knowing.clone(), async |bot| {
        let pr = bot.github.open_pull(PullSpec::new(CLEAN));
        bot.settle().await;
        bot.github.enqueue(&pr);
        bot.github.fault(Fault::apply_then_drop(CREATE));
        until_nothing_waits(bot).await;
        let head = bot.github.head(&pr);
        let of_the_queue = bot.github.all_checks(&pr.repo).into_iter().filter(|check| check.head_sha != head);
        assert_eq!(of_the_queue.count(), 1, "{}", bot.github.pages());
    });
    run_test(knowing.clone(), async |bot| {
        let pr = bot.github.open_pull(PullSpec::new(CLEAN));
        bot.github.comment(&pr, "alice", "/secondlook pause");
        bot.settle().await;
        bot.github.push(&pr, "//- src/limit.rs\n-pub const LIMIT: u32 = 2;\n+pub const LIMIT: u32 = 3;\n");
        bot.github.fault(Fault::apply_then_drop(CREATE));
        until_nothing_waits(bot).await;
        let said: Vec<_> = bot.github.checks(&pr).into_iter().map(|check| check.title).collect();
        assert_eq!(said, [Some("Paused".to_owned())]);
    });
}

#[test]
fn limits_are_waited_for() {
    run_test(Setup::default(), async |bot| {
        let pr = under(bot, Fault::secondary_limit(POST_REVIEW, Some("72"))).await;
        posted_once(bot, &pr);
    });
}

#[test]
fn a_pending_review_left_over_is_removed() {
    run_test(Setup::default(), async |bot| {
        let pr = bot.github.open_pull(PullSpec::new(CACHE));
        bot.github.leave_pending_review(&pr, "half a review");
        bot.model.on_file("src/cache.rs").finds(CACHE_FAULT, "Panics when the key is missing");
        until_nothing_waits(bot).await;
        posted_once(bot, &pr);
    });
}

#[test]
fn a_refused_comment_does_not_take_the_others_with_it() {
    run_test(Setup::default(), async |bot| {
        let refusal = ["Line could not be resolved"];
        let pr = under(bot, Fault::unprocessable(POST_REVIEW, &refusal)).await;
        assert_eq!(bot.github.reviews(&pr).len(), 1, "{}", bot.github.page(&pr));
        assert_snapshot!(bot.github.page(&pr), @r"
        #1 Change something [open] by alice
        check secondlook: neutral: 1 problem (major)

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
fn a_restart_between_webhook_and_review_loses_nothing() {
    run_test(Setup::default(), async |bot| {
        let pr = bot.github.open_pull(PullSpec::new(CACHE));
        bot.deliver_outbox().await;
        bot.restart();
        bot.model.on_file("src/cache.rs").finds(CACHE_FAULT, "Panics when the key is missing");
        bot.settle().await;
        posted_once(bot, &pr);
    });
}
