//! The scenarios as values: what people do on GitHub, until everybody rests. How their pages look on a calm day is
//! held by the snapshots in `scenarios`; here it is the measure for the bad days.

use futures_util::future::BoxFuture;

use super::stage::Stage;
use crate::harness::github::actions::PullSpec;
use crate::harness::github::{Pr, files};
use crate::scenarios::{CACHE, CACHE_FAULT};

/// A name, and what happens.
pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) play: for<'s> fn(&'s mut Stage) -> BoxFuture<'s, ()>,
}

const TITLE: &str = "Panics when the key is missing";
const PARSE: &str = "//- src/parse.rs\n+pub fn port(text: &str) -> u16 {\n+    text.parse().unwrap()\n+}";
const FIXED: &str = "//- src/cache.rs\n use std::collections::HashMap;\n \n pub fn look_up(map: &HashMap<String, u32>, key: &str) -> u32 {\n-    *map.get(key).unwrap()\n+    map.get(key).copied().unwrap_or(0)\n }";

/// All of them.
pub(super) static ALL: &[Scenario] = &[
    Scenario { name: "opened", play: |stage| Box::pin(opened(stage)) },
    Scenario { name: "opened with two files and a look around", play: |stage| Box::pin(two_files(stage)) },
    Scenario { name: "opened clean", play: |stage| Box::pin(clean(stage)) },
    Scenario { name: "draft, then ready", play: |stage| Box::pin(draft(stage)) },
    Scenario { name: "push that adds a fault", play: |stage| Box::pin(push_adds(stage)) },
    Scenario { name: "push that fixes it", play: |stage| Box::pin(push_fixes(stage)) },
    Scenario { name: "rebase that changes nothing", play: |stage| Box::pin(rebase(stage)) },
    Scenario { name: "force-push of other work", play: |stage| Box::pin(force_push(stage)) },
    Scenario { name: "push while it is reviewed", play: |stage| Box::pin(push_meanwhile(stage)) },
    Scenario { name: "closed while it is reviewed", play: |stage| Box::pin(close_meanwhile(stage)) },
    Scenario { name: "retarget", play: |stage| Box::pin(retarget(stage)) },
    Scenario { name: "closed and reopened", play: |stage| Box::pin(reopened(stage)) },
    Scenario { name: "merged", play: |stage| Box::pin(merged(stage)) },
    Scenario { name: "reply in a thread", play: |stage| Box::pin(reply(stage)) },
    Scenario { name: "question on the timeline", play: |stage| Box::pin(question(stage)) },
    Scenario { name: "unknown command", play: |stage| Box::pin(unknown_command(stage)) },
    Scenario { name: "asked for another review", play: |stage| Box::pin(asked_again(stage)) },
    Scenario { name: "pause, push, resume", play: |stage| Box::pin(pause(stage)) },
    Scenario { name: "re-run of the check", play: |stage| Box::pin(rerun(stage)) },
    Scenario { name: "merge queue", play: |stage| Box::pin(merge_queue(stage)) },
    Scenario { name: "rename", play: |stage| Box::pin(rename(stage)) },
];

fn open(stage: &Stage) -> Pr {
    stage.bot.knowing.knows("src/cache.rs", CACHE_FAULT, TITLE);
    stage.bot.knowing.knows("src/parse.rs", "text.parse().unwrap()", "Panics on anything but a number");
    stage.bot.github.open_pull(PullSpec::new(CACHE))
}

/// Reviewed on a calm day; what follows is under the fault.
async fn reviewed(stage: &mut Stage) -> Pr {
    let pr = open(stage);
    stage.rest().await;
    stage.begin().await;
    pr
}

async fn opened(stage: &mut Stage) {
    stage.begin().await;
    open(stage);
    stage.rest().await;
}

async fn two_files(stage: &mut Stage) {
    stage.bot.github.commit_main("acme/app", "//- src/load.rs\npub const KEYS: [&str; 1] = [\"port\"];\n");
    open(stage);
    stage.bot.github.take_deliveries();
    stage.begin().await;
    let change = format!(
        "{CACHE}\n    //- src/parse.rs\n    +pub fn look_around(text: &str) -> u16 {{\n    +    text.parse().unwrap()\n    +}}\n"
    );
    stage.bot.github.open_pull(PullSpec::new(&change).branch("other"));
    stage.rest().await;
}

async fn clean(stage: &mut Stage) {
    stage.begin().await;
    stage
        .bot
        .github
        .open_pull(PullSpec::new("//- src/limit.rs\n-pub const LIMIT: u32 = 1;\n+pub const LIMIT: u32 = 2;\n"));
    stage.rest().await;
}

async fn draft(stage: &mut Stage) {
    stage.bot.knowing.knows("src/cache.rs", CACHE_FAULT, TITLE);
    stage.begin().await;
    let pr = stage.bot.github.open_pull(PullSpec::new(CACHE).draft());
    stage.rest().await;
    stage.bot.github.ready_for_review(&pr);
    stage.rest().await;
}

async fn push_adds(stage: &mut Stage) {
    let pr = reviewed(stage).await;
    stage.bot.github.push(&pr, PARSE);
    stage.rest().await;
}

async fn push_fixes(stage: &mut Stage) {
    let pr = reviewed(stage).await;
    stage.bot.github.push(&pr, FIXED);
    stage.rest().await;
}

async fn rebase(stage: &mut Stage) {
    let pr = reviewed(stage).await;
    stage.bot.github.move_base(&pr, files::files("//- unrelated.txt\nA line.\n"));
    stage.bot.github.force_push(&pr, &files::change(CACHE));
    stage.rest().await;
}

async fn force_push(stage: &mut Stage) {
    let pr = reviewed(stage).await;
    stage.bot.github.force_push(&pr, &files::change(PARSE));
    stage.rest().await;
}

async fn push_meanwhile(stage: &mut Stage) {
    stage.begin().await;
    let pr = open(stage);
    let github = stage.bot.github.clone();
    stage.bot.knowing.meanwhile(move || drop(github.push(&pr, PARSE)));
    stage.rest().await;
}

async fn close_meanwhile(stage: &mut Stage) {
    stage.begin().await;
    let pr = open(stage);
    let github = stage.bot.github.clone();
    stage.bot.knowing.meanwhile(move || github.close(&pr));
    stage.rest().await;
}

async fn retarget(stage: &mut Stage) {
    stage.bot.github.commit_main("acme/app", "//- README.md\nHello.\n");
    stage.bot.github.commit("acme/app", "release", files::files("//- README.md\nHello.\n"));
    let pr = reviewed(stage).await;
    stage.bot.github.retarget(&pr, "release");
    stage.rest().await;
}

async fn reopened(stage: &mut Stage) {
    let pr = reviewed(stage).await;
    stage.bot.github.close(&pr);
    stage.rest().await;
    stage.bot.github.reopen(&pr);
    stage.rest().await;
}

async fn merged(stage: &mut Stage) {
    let pr = reviewed(stage).await;
    stage.bot.github.merge(&pr);
    stage.rest().await;
}

async fn reply(stage: &mut Stage) {
    let pr = reviewed(stage).await;
    let root = stage.bot.github.comments(&pr)[0].id;
    stage.bot.github.reply(&pr, root, "alice", "The key always exists");
    stage.rest().await;
    stage.bot.github.reply(&pr, root, "alice", "Which text would you give it?");
    stage.rest().await;
}

async fn question(stage: &mut Stage) {
    let pr = reviewed(stage).await;
    stage.bot.github.comment(&pr, "alice", "@secondlook is this safe?");
    stage.rest().await;
}

async fn unknown_command(stage: &mut Stage) {
    let pr = reviewed(stage).await;
    stage.bot.github.comment(&pr, "alice", "/secondlook dance");
    stage.rest().await;
}

async fn asked_again(stage: &mut Stage) {
    let pr = reviewed(stage).await;
    stage.bot.github.comment(&pr, "alice", "/secondlook review full");
    stage.rest().await;
}

async fn pause(stage: &mut Stage) {
    let pr = reviewed(stage).await;
    stage.bot.github.comment(&pr, "alice", "/secondlook pause");
    stage.rest().await;
    stage.bot.github.push(&pr, PARSE);
    stage.rest().await;
    stage.bot.github.comment(&pr, "alice", "/secondlook resume");
    stage.rest().await;
}

async fn rerun(stage: &mut Stage) {
    let pr = reviewed(stage).await;
    stage.bot.github.rerequest_check(&pr, "alice");
    stage.rest().await;
}

async fn merge_queue(stage: &mut Stage) {
    let pr = reviewed(stage).await;
    stage.bot.github.enqueue(&pr);
    stage.rest().await;
}

async fn rename(stage: &mut Stage) {
    let mut pr = reviewed(stage).await;
    stage.bot.github.rename("acme/app", "service");
    pr.repo = "acme/service".into();
    stage.rest().await;
    stage.bot.github.push(&pr, PARSE);
    stage.rest().await;
}
