//! A process that is frozen past its lease while another does its job, and then wakes in the middle of it: it writes
//! nothing more, neither on GitHub nor into the books.

use std::time::Duration;

use secondlook::db::DbError;
use secondlook::queue::store::Hold;
use secondlook::queue::store::tenure::NotHeld;
use secondlook::queue::worker::run_next;
use secondlook::review::store::PullKey;
use tokio_util::sync::CancellationToken;

use crate::harness::bot::{Answers, Bot, Setup, run_test};
use crate::harness::github::actions::PullSpec;
use crate::harness::github::fault::{Fault, Gate};

const FAULTY: &str = "
    //- app/report.py
     import os


     def report(name):
    -    return name
    +    os.system(f\"cat {name}\")
    +    return name
";

/// Longer than a lease.
const FROZEN: Duration = Duration::from_secs(90);

/// Freezes a worker at a request of its job, has another process do the work, and lets the first one wake.
async fn freeze_at(bot: &mut Bot, route: &str, skip: usize) {
    let gate = Gate::new();
    bot.github.fault(Fault::hold(route, &gate).after(skip));
    let (queue, worker) = (bot.assembled.queue.clone(), bot.assembled.worker.clone());
    bot.deliver_outbox().await;
    let frozen = tokio::spawn(async move { run_next(&queue, &*worker, "frozen").await });
    gate.reached().await;
    bot.clock.advance(FROZEN);
    bot.restart();
    bot.settle().await;
    gate.open();
    assert!(frozen.await.unwrap().unwrap());
    bot.settle().await;
}

#[test]
fn a_woken_worker_writes_no_second_review() {
    let setup = Setup { answers: Answers::Embedded, ..Setup::default() };
    for (route, skip) in [
        ("POST /app/installations/*/access_tokens", 0),
        ("GET /repos/*/*/pulls/*", 0),
        ("GET /repos/*/*/pulls/*/files", 0),
        ("GET /repos/*/*/pulls/*", 1),
    ] {
        run_test(setup.clone(), async |bot| {
            let pr = bot.github.open_pull(PullSpec::new(FAULTY));
            freeze_at(bot, route, skip).await;
            let page = bot.github.page(&pr);
            assert_eq!(bot.github.reviews(&pr).len(), 1, "{route} {skip}: {page}");
            assert_eq!(bot.github.comments(&pr).len(), 1, "{route} {skip}: {page}");
            assert_eq!(bot.github.checks(&pr).len(), 1, "{route} {skip}: {page}");
            let check = &bot.github.checks(&pr)[0];
            assert_eq!(check.status, "completed", "{route} {skip}: {page}");
            let before = page;

            // What it left in the books leads to nothing either, when everything is looked at once more.
            bot.github.comment(&pr, "alice", "/secondlook review");
            bot.settle().await;
            assert_eq!(bot.github.reviews(&pr).len(), 1, "{before}\n{}", bot.github.page(&pr));
        });
    }
}

#[test]
fn a_woken_worker_gives_no_second_answer() {
    let setup = Setup { answers: Answers::Embedded, ..Setup::default() };
    run_test(setup, async |bot| {
        let pr = bot.github.open_pull(PullSpec::new(FAULTY));
        bot.settle().await;
        bot.github.comment(&pr, "alice", "/secondlook help");
        let before = bot.github.timeline(&pr).len();
        freeze_at(bot, "GET /repos/*/*/issues/comments/*", 0).await;
        assert_eq!(bot.github.timeline(&pr).len(), before + 1, "{}", bot.github.page(&pr));
    });
}

#[test]
fn a_lease_is_asked_for_before_every_write() {
    run_test(Setup::default(), async |bot| {
        bot.github.open_pull(PullSpec::new(FAULTY));
        bot.deliver_outbox().await;
        let queue = &bot.assembled.queue;
        let first = queue.claim("first").await.unwrap().unwrap();
        let stop = CancellationToken::new();
        let tenure = queue.tenure(&first, stop.clone());
        tenure.ensure().await.unwrap();
        bot.clock.advance(FROZEN);
        tenure.ensure().await.expect("nobody has taken it over, so it is still ours");
        bot.clock.advance(FROZEN);
        let second = queue.claim("second").await.unwrap().unwrap();
        assert!(!stop.is_cancelled());
        assert!(matches!(tenure.ensure().await, Err(NotHeld::Lost)));
        assert!(stop.is_cancelled(), "the job stops at its next checkpoint");
        assert_eq!(tenure.look().await.unwrap(), Hold::Lost);

        // The books are closed to it, and nothing is half written.
        let pull = PullKey { repository: 1, number: 1, installation: 1 };
        let books = bot.assembled.app.pulls().while_held(Some(tenure));
        let refused = books.set_open_check(pull, Some(("head", 1))).await;
        assert!(matches!(refused, Err(DbError::Fenced)), "{refused:?}");
        assert_eq!(books.state(pull).await.unwrap(), Default::default());
        let held = Some(queue.tenure(&second, CancellationToken::new()));
        let books = bot.assembled.app.pulls().while_held(held);
        books.set_open_check(pull, Some(("head", 2))).await.unwrap();
        assert_eq!(books.state(pull).await.unwrap().open_check, Some(("head".to_owned(), 2)));

        bot.clock.advance(FROZEN);
        let mut tx = bot.database.begin().await.unwrap();
        queue.cancel(&mut tx, &second.key).await.unwrap();
        tx.commit().await.unwrap();
        bot.settle().await;
    });
}
