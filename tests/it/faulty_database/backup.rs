//! A copy that is made while the bot works, and what the bot does when it begins again on an older database than the one
//! it wrote to GitHub with: it repeats nothing.

use secondlook::db::{Backend, Db, backup};

use crate::harness::bot::{Bot, Setup, run_test};
use crate::harness::database::{Place, fresh, within};
use crate::harness::github::Pr;
use crate::harness::github::actions::PullSpec;
use crate::harness::github::fault::Fault;
use crate::repository::run;

const CHANGE: &str = "
    //- src/cache.rs
     use std::collections::HashMap;

     pub fn look_up(map: &HashMap<String, u32>, key: &str) -> u32 {
    -    0
    +    *map.get(key).unwrap()
     }
";
const FAULT: &str = "*map.get(key).unwrap()";
const TITLE: &str = "Panics when the key is missing";

/// A copy of the bot's database as it is now; `None` on PostgreSQL, whose own tools do that.
async fn copied(bot: &Bot) -> Option<Place> {
    if bot.database.backend() == Backend::Postgres {
        return None;
    }
    let place = Place::of(Backend::Sqlite).await?;
    let url = place.url();
    backup(bot.database.url(), url.strip_prefix("sqlite:")?.as_ref()).await.unwrap();
    Some(place)
}

/// Everything that stands on GitHub, counted: reviews (an answer is one too), line comments, comments on the timeline, and
/// checks of the head.
fn counted(bot: &Bot, pr: &Pr) -> [usize; 4] {
    let github = &bot.github;
    bot.github.page(pr);
    [github.reviews(pr).len(), github.comments(pr).len(), github.timeline(pr).len(), github.checks(pr).len()]
}

#[test]
fn an_older_database_repeats_nothing() {
    run_test(Setup::default(), async |bot| {
        let pr = bot.github.open_pull(PullSpec::new(CHANGE));
        bot.github.comment(&pr, "alice", "@secondlook is that fast?");
        let mut events = bot.github.take_deliveries();
        for event in &events {
            assert_eq!(bot.deliver(event).await, 202);
        }
        let Some(old) = copied(bot).await else {
            bot.model.on_file("src/cache.rs").finds(FAULT, TITLE);
            bot.model.on_thread().says_text("Fast enough.");
            bot.settle().await;
            assert_eq!(counted(bot, &pr), [1, 1, 2, 1]);
            return;
        };
        bot.model.on_file("src/cache.rs").finds(FAULT, TITLE);
        bot.model.on_thread().says_text("Fast enough.");
        bot.settle().await;
        let root = bot.github.comments(&pr)[0].id;
        bot.github.reply(&pr, root, "alice", "It is always there.");
        let reply = bot.github.take_deliveries();
        for event in &reply {
            assert_eq!(bot.deliver(event).await, 202);
        }
        events.extend(reply);
        bot.model.on_thread().says_text("Then say so with `expect`.");
        bot.settle().await;
        let before = counted(bot, &pr);
        assert_eq!(before, [3, 3, 2, 1]);

        // An hour later the copy is put in place: its jobs are those of an hour ago.
        bot.clock.advance(std::time::Duration::from_secs(3_600));
        bot.restart_on(within(old).await);
        bot.settle().await;
        assert_eq!(counted(bot, &pr), before, "{}", bot.github.page(&pr));
        // GitHub sends again what it sent before, and what the copy never heard of.
        for event in &events {
            assert_eq!(bot.deliver(event).await, 202);
        }
        bot.settle().await;
        assert_eq!(counted(bot, &pr), before, "{}", bot.github.page(&pr));

        // The bot goes on: what was said stays said, and what is new is new.
        bot.github.push(&pr, "//- src/parse.rs\n+pub fn port(text: &str) -> u16 {\n+    text.parse().unwrap()\n+}");
        bot.model.on_file("src/cache.rs").finds_again(FAULT, TITLE);
        bot.model.on_file("src/parse.rs").finds("text.parse().unwrap()", "Panics on anything but a number");
        bot.settle().await;
        assert_eq!(counted(bot, &pr), [4, 4, 2, 1], "{}", bot.github.page(&pr));
        bot.github.reply(&pr, root, "alice", "Which text?");
        bot.model.on_thread().says_text("`every key is inserted by load`.");
        bot.settle().await;
        assert_eq!(counted(bot, &pr), [6, 6, 2, 1], "{}", bot.github.page(&pr));
    });
}

#[test]
fn a_round_that_was_planned_in_the_copy_and_written_since_is_recognised() {
    run_test(Setup::default(), async |bot| {
        let pr = bot.github.open_pull(PullSpec::new(CHANGE));
        bot.github.fault(Fault::secondary_limit("POST /repos/*/*/pulls/*/reviews", Some("72")));
        bot.model.on_file("src/cache.rs").finds(FAULT, TITLE);
        bot.settle().await;
        assert_eq!(counted(bot, &pr)[0], 0);
        let old = copied(bot).await;
        bot.until_next_due().await;
        let before = counted(bot, &pr);
        assert_eq!(before, [1, 1, 0, 1]);
        let Some(old) = old else { return };
        bot.clock.advance(std::time::Duration::from_secs(3_600));
        bot.restart_on(within(old).await);
        bot.settle().await;
        assert_eq!(counted(bot, &pr), before, "{}", bot.github.page(&pr));
    });
}

#[test]
fn a_new_database_repeats_nothing_either() {
    run_test(Setup::default(), async |bot| {
        let pr = bot.github.open_pull(PullSpec::new(CHANGE));
        bot.model.on_file("src/cache.rs").finds(FAULT, TITLE);
        bot.settle().await;
        let backend = bot.database.backend();
        bot.restart_on(fresh(backend).await.unwrap());
        bot.github.push(&pr, "//- src/parse.rs\n+pub fn port(text: &str) -> u16 {\n+    text.parse().unwrap()\n+}");
        bot.model.on_file("src/cache.rs").finds_again(FAULT, TITLE);
        bot.model.on_file("src/parse.rs").finds("text.parse().unwrap()", "Panics on anything but a number");
        bot.settle().await;
        assert_eq!(counted(bot, &pr), [2, 2, 0, 1], "{}", bot.github.page(&pr));
        assert!(bot.github.page(&pr).contains("1 from earlier still open"), "{}", bot.github.page(&pr));
    });
}

#[tokio::test]
async fn the_command_copies_a_database_in_use() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let url = format!("sqlite:{}", path("secondlook.db").display());
    let db = Db::connect(&url).await.unwrap();
    let insert = "INSERT INTO installations (id, account, updated_at) VALUES ($1, 'acme', 0)";
    sqlx::query(insert).bind(1_i64).execute(db.writer()).await.unwrap();
    // Another one is being written and does not count yet.
    let mut open = db.begin().await.unwrap();
    sqlx::query(insert).bind(2_i64).execute(&mut *open).await.unwrap();
    let copy = |name: &str, url: &str| {
        run(directory.path(), &["backup", path(name).to_str().unwrap(), "--database-url", url], &[], "")
    };
    let made = copy("copy.db", &url);
    assert_eq!(made.code, 0, "{}", made.err);
    open.commit().await.unwrap();
    let copied = Db::connect(&format!("sqlite:{}", path("copy.db").display())).await.unwrap();
    let rows = sqlx::query("SELECT id FROM installations").fetch_all(copied.reader()).await.unwrap();
    assert_eq!(rows.len(), 1, "of one moment");
    copied.close().await;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(std::fs::metadata(path("copy.db")).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let before = std::fs::read(path("copy.db")).unwrap();
    copy("copy.db", &url).refuses("nothing is overwritten");
    assert_eq!(std::fs::read(path("copy.db")).unwrap(), before);
    copy("other.db", "postgres://u:hush@h/d").refuses("pg_dump");
    copy("other.db", &format!("sqlite:{}", path("nowhere.db").display())).refuses("there is no database");
    let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().contains(".part")), "{left:?}");
    assert!(!path("nowhere.db").exists(), "what is not there is not made");
    db.close().await;
}
