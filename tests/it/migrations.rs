//! Databases of every released schema, with rows in every table, are brought up to date and worked on.
//!
//! `fixtures/migration/NNNN.sql` holds the rows of a database of version NNNN, as that version wrote them. A new migration
//! needs a file of its own, which this makes once the migration is there (`fixtures/migration/README.md`):
//!
//! ```text
//! MIGRATION_DUMP=fixtures/migration cargo nextest run --test it -E 'test(a_lived_in_database_has_rows_everywhere)'
//! ```

use std::path::{Path, PathBuf};

use secondlook::agent::checkpoint::{Checkpoint, Checkpoints};
use secondlook::db::{Backend, Db};
use secondlook::github::Repository;
use secondlook::job::Job;
use secondlook::queue::store::Outcome;
use sqlx::{AnyConnection, AssertSqlSafe, Column, Connection, Row, ValueRef};

use crate::harness::bot::{Bot, Setup, run_test};
use crate::harness::database::{Place, within};
use crate::harness::github::actions::PullSpec;
use crate::harness::github::{FakeGitHub, Pr};

/// Names the directory that a dump of the present schema is written to.
const DUMP: &str = "MIGRATION_DUMP";

const FAULT: &str = "*map.get(key).unwrap()";
const TITLE: &str = "Panics when the key is missing";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The files of a directory that end like this, in the order of their numbers.
fn numbered(directory: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root().join(directory)).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|e| e == "sql")).collect();
    files.sort();
    files
}

/// Two pull requests of two files, each with a fault.
fn pulls(github: &FakeGitHub) -> (Pr, Pr) {
    let change = |path: &str| {
        format!(
            "\n//- {path}\n use std::collections::HashMap;\n \n pub fn look_up(map: &HashMap<String, u32>, key: &str) -> u32 \
             {{\n-    0\n+    {FAULT}\n }}\n"
        )
    };
    let first = github.open_pull(PullSpec::new(&change("src/cache.rs")));
    let second = github.open_pull(PullSpec::new(&change("src/other.rs")).branch("other"));
    (first, second)
}

/// A while of a bot's life: the first pull request is reviewed and talked about, the second waits, a repository was
/// taken away, something was given up, and a run stands at a checkpoint.
async fn live(bot: &Bot) {
    let gone = bot.github.repo("acme/gone");
    bot.begin_rounds().await;
    let (first, _) = pulls(&bot.github);
    let (waiting, now): (Vec<_>, Vec<_>) =
        bot.github.take_deliveries().into_iter().partition(|d| d.payload["pull_request"]["number"] == 2);
    for delivery in &now {
        assert_eq!(bot.deliver(delivery).await, 202);
    }
    bot.model.on_file("src/cache.rs").finds(FAULT, TITLE);
    bot.settle().await;
    let root = bot.github.comments(&first)[0].id;
    bot.github.reply(&first, root, "alice", "It is always there.");
    bot.model.on_thread().says_text("Then say so with `expect`.");
    bot.settle().await;
    bot.github.page(&first);
    bot.github.remove_from_installation("acme/gone");
    bot.settle().await;
    let queue = &bot.assembled.queue;
    let mut tx = bot.database.begin().await.unwrap();
    let repository = Repository { id: gone.id, owner: "acme".into(), name: "gone".into() };
    let job = Job::RerunCheck { installation: 1, repository, head_sha: "0".repeat(40) };
    queue.enqueue(&mut tx, &job.due(queue.clock().now())).await.unwrap();
    tx.commit().await.unwrap();
    let lease = queue.claim("test").await.unwrap().unwrap();
    queue.finish(&lease, &Outcome::Failed("the repository is gone".into())).await.unwrap();
    for delivery in &waiting {
        assert_eq!(bot.deliver(delivery).await, 202);
    }
    let checkpoints = Checkpoints::new(bot.database.clone(), queue.clock().clone());
    let half = Checkpoint { graph: "react".into(), next: Some("model".into()), state: "{}".into() };
    checkpoints.save("pr:1:99/src/a.rs/0123456789abcdef", &half).await.unwrap();
}

/// Names of the tables, but for the schema's version.
async fn tables(db: &Db) -> Vec<String> {
    let sql = match db.backend() {
        Backend::Sqlite => {
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name <> 'schema_version' ORDER BY name"
        }
        Backend::Postgres => {
            "SELECT CAST(tablename AS TEXT) FROM pg_tables WHERE schemaname = current_schema()
             AND tablename <> 'schema_version' ORDER BY tablename"
        }
    };
    sqlx::query(sql).fetch_all(db.reader()).await.unwrap().iter().map(|row| row.get(0)).collect()
}

async fn rows(db: &Db, table: &str) -> Vec<sqlx::any::AnyRow> {
    sqlx::query(AssertSqlSafe(format!("SELECT * FROM {table}"))).fetch_all(db.reader()).await.unwrap()
}

/// The rows of every table as statements that both databases take.
async fn dump(db: &Db) -> String {
    let mut out = String::new();
    for table in tables(db).await {
        for row in rows(db, &table).await {
            let names: Vec<&str> = row.columns().iter().map(Column::name).collect();
            let values: Vec<String> = (0..names.len()).map(|at| literal(&row, at)).collect();
            out.push_str(&format!("INSERT INTO {table} ({}) VALUES ({});\n", names.join(", "), values.join(", ")));
        }
    }
    out
}

fn literal(row: &sqlx::any::AnyRow, at: usize) -> String {
    if row.try_get_raw(at).unwrap().is_null() {
        return "NULL".into();
    }
    if let Ok(number) = row.try_get::<i64, _>(at) {
        return number.to_string();
    }
    if let Ok(number) = row.try_get::<f64, _>(at) {
        return format!("{number:?}");
    }
    format!("'{}'", row.get::<String, _>(at).replace('\'', "''"))
}

/// A database of an old version: its migrations, and the rows it had.
async fn old(backend: Backend, version: usize) -> Option<Place> {
    let place = Place::of(backend).await?;
    sqlx::any::install_default_drivers();
    let url = match backend {
        Backend::Sqlite => format!("{}?mode=rwc", place.url()),
        Backend::Postgres => place.url(),
    };
    let mut connection = AnyConnection::connect(&url).await.unwrap();
    let mut run = async |sql: String| {
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
    };
    run("CREATE TABLE schema_version (version BIGINT PRIMARY KEY, name TEXT NOT NULL)".into()).await;
    for (number, file) in (1..).zip(numbered("src/db/migrations")).take(version) {
        run(std::fs::read_to_string(&file).unwrap()).await;
        run(format!("INSERT INTO schema_version (version, name) VALUES ({number}, 'made by a test')")).await;
    }
    run(std::fs::read_to_string(&numbered("fixtures/migration")[version - 1]).unwrap()).await;
    connection.close().await.unwrap();
    Some(place)
}

#[test]
fn a_lived_in_database_has_rows_everywhere() {
    run_test(Setup { dead_letters: 1, ..Setup::default() }, async |bot| {
        live(bot).await;
        for table in tables(&bot.database).await {
            assert!(!rows(&bot.database, &table).await.is_empty(), "`live` leaves no row in {table}: let it");
        }
        if let Some(directory) = std::env::var_os(DUMP).filter(|_| bot.database.backend() == Backend::Sqlite) {
            let version = numbered("src/db/migrations").len();
            let path = root().join(directory).join(format!("{version:04}.sql"));
            assert!(!path.exists(), "{} is there: a released one never changes", path.display());
            std::fs::write(path, dump(&bot.database).await).unwrap();
        }
        // What waits is worked on, so that nothing is left at the end.
        bot.model.on_file("src/other.rs").finds(FAULT, TITLE);
        bot.work().await;
    });
}

#[test]
fn every_schema_has_its_rows() {
    let migrations = numbered("src/db/migrations");
    let rows = numbered("fixtures/migration");
    assert_eq!(rows.len(), migrations.len(), "a migration came without its rows: see fixtures/migration/README.md");
    for (number, (migration, rows)) in (1..).zip(migrations.iter().zip(&rows)) {
        let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
        assert!(name(migration).starts_with(&format!("{number:04}_")), "{}", name(migration));
        assert_eq!(name(rows), format!("{number:04}.sql"));
    }
}

#[test]
fn databases_of_every_version_are_worked_on() {
    for version in 1..=numbered("fixtures/migration").len() {
        run_test(Setup { dead_letters: 1, ..Setup::default() }, async |bot| {
            let place = old(bot.database.backend(), version).await.unwrap();
            bot.restart_on(within(place).await);
            let row = sqlx::query("SELECT CAST(max(version) AS BIGINT) FROM schema_version");
            let row = row.fetch_one(bot.database.reader()).await.unwrap();
            assert_eq!(row.get::<i64, _>(0), i64::try_from(numbered("src/db/migrations").len()).unwrap());

            // The same world as then, but what the bot wrote there.
            bot.github.repo("acme/gone");
            let (first, second) = pulls(&bot.github);
            bot.github.take_deliveries();
            let store = bot.assembled.app.pulls();
            let pull = secondlook::review::store::PullKey {
                repository: bot.github.repo("acme/app").id,
                number: 1,
                installation: bot.github.installation("acme/app"),
            };
            let head = store.state(pull).await.unwrap().reviewed.expect("it was reviewed").1;
            assert_eq!(head, bot.github.head(&first), "the stand-in makes other commits: make the rows anew");

            // The queue goes on with the job that waited.
            bot.model.on_file("src/other.rs").finds(FAULT, TITLE);
            bot.work().await;
            assert_eq!(bot.github.comments(&second).len(), 1, "{}", bot.github.page(&second));

            // The ledger knows what was said.
            bot.github
                .push(&first, "//- src/parse.rs\n+pub fn port(text: &str) -> u16 {\n+    text.parse().unwrap()\n+}");
            bot.model.on_file("src/parse.rs").finds("text.parse().unwrap()", "Panics on anything but a number");
            for delivery in bot.github.take_deliveries() {
                let delivery =
                    crate::harness::github::state::Delivery { id: format!("new-{}", delivery.id), ..delivery };
                assert_eq!(bot.deliver(&delivery).await, 202);
            }
            bot.work().await;
            let page = bot.github.page(&first);
            assert_eq!(bot.github.comments(&first).len(), 1, "{page}");
            assert!(page.contains("1 from earlier still open"), "{page}");
            let letters = bot.assembled.queue.dead_letters().await.unwrap();
            assert_eq!(letters[0].reason.as_deref(), Some("the repository is gone"));
        });
    }
}
