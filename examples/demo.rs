//! Plays a pull request, an answer to a finding and two pushes against a GitHub of our own on loopback, without a key
//! and without a network, and prints the page as people would see it after each step.
//!
//! `cargo run --release --example demo`

#![expect(clippy::print_stdout, reason = "printing the page is what the demo is for")]

#[expect(dead_code, clippy::unwrap_used, clippy::print_stderr, reason = "written for tests, which use more of it")]
#[path = "../tests/it/harness/mod.rs"]
mod harness;

use harness::bot::{Answers, Bot, Setup};
use harness::database::fresh;
use harness::github::Pr;
use harness::github::actions::PullSpec;
use secondlook::db::Backend;

const OPENED: &str = "
    //- app/report.py
     import subprocess


     def report(name, seen=[]):
    -    return name
    +    seen.append(name)
    +    return subprocess.run(f\"cat reports/{name}\", shell=True, capture_output=True).stdout
    //- src/cache.rs
    +/// Looks a key up.
    +pub fn look_up(map: &std::collections::HashMap<String, u32>, key: &str) -> Option<u32> {
    +    map.get(key).copied()
    +}
";

const MENDED: &str = "
    //- app/report.py
     import subprocess


     def report(name, seen=[]):
         seen.append(name)
    -    return subprocess.run(f\"cat reports/{name}\", shell=True, capture_output=True).stdout
    +    return subprocess.run([\"cat\", f\"reports/{name}\"], capture_output=True).stdout
";

const MORE: &str = "
    //- app/load.py
    +import pickle
    +
    +
    +def load(request):
    +    return pickle.loads(request.data)
";

#[tokio::main]
async fn main() {
    let setup = Setup { answers: Answers::Embedded, ..Setup::default() };
    let Some(database) = fresh(Backend::Sqlite).await else { return };
    let bot = Bot::start(&setup, database).await;

    let pr = bot.github.open_pull(PullSpec::new(OPENED).title("Show reports"));
    bot.settle().await;
    show("Alice opens a pull request", &bot, &pr);

    if let Some(root) = bot.github.comments(&pr).first().map(|comment| comment.id) {
        bot.github.reply(&pr, root, "alice", "Why is that a problem? Names come from our own list.");
        bot.settle().await;
        show("Alice answers the first finding", &bot, &pr);
    }

    bot.github.push(&pr, MENDED);
    bot.settle().await;
    show("Alice mends it: nothing new to say", &bot, &pr);

    bot.github.push(&pr, MORE);
    bot.settle().await;
    show("Alice adds a file with a new fault", &bot, &pr);

    let requests = bot.github.requests().len();
    println!("{requests} requests to GitHub in all.");
}

fn show(step: &str, bot: &Bot, pr: &Pr) {
    let rule = "=".repeat(100);
    println!("{rule}\n{step}\n{rule}\n{}", bot.github.page(pr));
}
