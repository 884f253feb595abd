//! Opening a database, and what is kept in it besides jobs.

use std::sync::Arc;

use rstest::rstest;
use secondlook::agent::checkpoint::{Checkpoint, Checkpoints};
use secondlook::chat::ChatMessage;
use secondlook::clock::{Clock, SharedClock, SystemClock};
use secondlook::db::{Backend, Db, DbError};
use secondlook::event::store::EventLog;
use secondlook::event::{RunEvent, RunState};
use secondlook::ids::new_id;
use secondlook::memory::store::ChatHistory;
use sqlx::Row;

use crate::harness::database::{Place, fresh};

fn clock() -> SharedClock {
    Arc::new(SystemClock)
}

#[rstest]
#[case::sqlite(Backend::Sqlite)]
#[case::postgres(Backend::Postgres)]
#[tokio::test]
async fn several_instances_may_start_at_once(#[case] backend: Backend) {
    let Some(place) = Place::of(backend).await else { return };
    let url = place.url();
    let opened = futures_util::future::join_all((0..6).map(|_| Db::connect(&url))).await;
    for db in opened {
        let db = db.unwrap();
        db.ping().await.unwrap();
        let counted = "SELECT CAST(count(*) AS BIGINT), CAST(max(version) AS BIGINT) FROM schema_version";
        let row = sqlx::query(counted).fetch_one(db.reader()).await.unwrap();
        assert_eq!(row.get::<i64, _>(0), row.get::<i64, _>(1), "each migration was applied once");
        db.close().await;
    }
}

#[rstest]
#[case::sqlite(Backend::Sqlite)]
#[case::postgres(Backend::Postgres)]
#[tokio::test]
async fn a_database_of_a_newer_secondlook_is_refused(#[case] backend: Backend) {
    let Some(db) = fresh(backend).await else { return };
    sqlx::query("INSERT INTO schema_version (version, name) VALUES (99, 'later')").execute(db.writer()).await.unwrap();
    let error = Db::connect(db.url()).await.unwrap_err().to_string();
    assert!(error.contains("version 99") && error.contains("newer"), "{error}");
}

#[rstest]
#[case::sqlite(Backend::Sqlite)]
#[case::postgres(Backend::Postgres)]
#[tokio::test]
async fn a_dropped_transaction_leaves_nothing(#[case] backend: Backend) {
    let Some(db) = fresh(backend).await else { return };
    let insert = "INSERT INTO installations (id, account, updated_at) VALUES (1, 'acme', 0)";
    let mut tx = db.begin().await.unwrap();
    sqlx::query(insert).execute(&mut *tx).await.unwrap();
    // A reader goes on beside the open transaction, and does not see it.
    let seen = sqlx::query("SELECT id FROM installations").fetch_all(db.reader()).await.unwrap();
    assert!(seen.is_empty());
    drop(tx);
    let mut tx = db.begin().await.unwrap();
    sqlx::query(insert).execute(&mut *tx).await.unwrap();
    tx.commit().await.unwrap();
    let again = sqlx::query(insert).execute(db.writer()).await.map_err(DbError::from).unwrap_err();
    assert!(again.is_unique_violation());
}

#[rstest]
#[case::sqlite(Backend::Sqlite)]
#[case::postgres(Backend::Postgres)]
#[tokio::test]
async fn writers_wait_for_each_other(#[case] backend: Backend) {
    let Some(db) = fresh(backend).await else { return };
    sqlx::query("INSERT INTO installations (id, account, updated_at) VALUES (1, 'acme', 0)")
        .execute(db.writer())
        .await
        .unwrap();
    // Read, then write in one transaction: what fails half-way on SQLite unless the lock is taken at the beginning.
    let one = async || {
        let mut tx = db.begin().await.unwrap();
        let read = match backend {
            Backend::Sqlite => "SELECT updated_at FROM installations WHERE id = 1",
            Backend::Postgres => "SELECT updated_at FROM installations WHERE id = 1 FOR UPDATE",
        };
        let row = sqlx::query(read).fetch_one(&mut *tx).await.unwrap();
        sqlx::query("UPDATE installations SET updated_at = $1 WHERE id = 1")
            .bind(row.get::<i64, _>(0) + 1)
            .execute(&mut *tx)
            .await
            .unwrap();
        tx.commit().await.unwrap();
    };
    futures_util::future::join_all((0..40).map(|_| one())).await;
    let row = sqlx::query("SELECT updated_at FROM installations").fetch_one(db.reader()).await.unwrap();
    assert_eq!(row.get::<i64, _>(0), 40);
}

/// Somebody who stands still in a transaction holds its locks only for so long, and so short that whoever waits for them
/// gets them before that one's patience is over.
#[tokio::test]
async fn an_idle_transaction_is_ended_by_postgresql() {
    let Some(db) = fresh(Backend::Postgres).await else { return };
    let mut tx = db.begin().await.unwrap();
    let row = sqlx::query("SHOW idle_in_transaction_session_timeout").fetch_one(&mut *tx).await.unwrap();
    assert_eq!(row.get::<String, _>(0), "5s");
    let row = sqlx::query("SHOW lock_timeout").fetch_one(&mut *tx).await.unwrap();
    assert_eq!(row.get::<String, _>(0), "8s");
}

/// As happens to one that stands still in the middle of its start.
#[tokio::test]
async fn an_instance_whose_connection_is_ended_while_it_starts_starts_all_the_same() {
    let Some(db) = fresh(Backend::Postgres).await else { return };
    let name = new_id();
    let mut url = url::Url::parse(db.url()).unwrap();
    url.query_pairs_mut().append_pair("application_name", &name);
    let mut holder = db.begin().await.unwrap();
    sqlx::query("LOCK TABLE schema_version IN ACCESS EXCLUSIVE MODE").execute(&mut *holder).await.unwrap();
    let ended = "SELECT CAST(pg_terminate_backend(pid) AS TEXT) FROM pg_stat_activity
                 WHERE application_name = $1 AND wait_event_type = 'Lock'";
    let end = async {
        while sqlx::query(ended).bind(&name).fetch_optional(db.reader()).await.unwrap().is_none() {
            tokio::task::yield_now().await;
        }
        drop(holder);
    };
    let (started, ()) = futures_util::join!(Db::connect(url.as_str()), end);
    started.unwrap();
}

#[tokio::test]
async fn a_sqlite_file_is_made_with_its_directories_for_its_owner_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("da ta/ü#%41").join("secondlook.db");
    let db = Db::connect(&format!("sqlite:{}", path.display())).await.unwrap();
    let mode: String = sqlx::query("PRAGMA journal_mode").fetch_one(db.reader()).await.unwrap().get(0);
    assert_eq!(mode, "wal");
    let synchronous: i64 = sqlx::query("PRAGMA synchronous").fetch_one(db.reader()).await.unwrap().get(0);
    assert_eq!(synchronous, 2, "FULL: what was answered with 202 survives a power cut");
    let foreign_keys: i64 = sqlx::query("PRAGMA foreign_keys").fetch_one(db.reader()).await.unwrap().get(0);
    assert_eq!(foreign_keys, 1);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(&path.with_extension("db-wal")), 0o600);
        assert_eq!(mode(path.parent().unwrap()), 0o700);
    }
    db.close().await;
}

#[tokio::test]
async fn what_cannot_be_opened_says_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let text = directory.path().join("notes.txt");
    std::fs::write(&text, "not a database, but long enough to be looked at as one: ".repeat(40)).unwrap();
    let sqlite = |path: &std::path::Path| format!("sqlite:{}", path.display());
    let cases = [
        (sqlite(directory.path()), "is a directory; name a file"),
        (sqlite(&text), "not a database; move that file away"),
        (sqlite(&text.join("in/secondlook.db")), "cannot make the directory"),
        ("sqlite:/proc/secondlook/secondlook.db".to_owned(), "make it writable for this user, or name another file"),
        ("postgres://nobody:hunter2@127.0.0.1:1/none".to_owned(), "127.0.0.1:1 cannot be reached"),
        ("postgres://nobody:hunter2@127.0.0.1:1/none?sslmode=perhaps".to_owned(), "the PostgreSQL URL cannot be used"),
        ("mysql://nobody:hunter2@127.0.0.1/none".to_owned(), "must begin with sqlite: or postgres://"),
    ];
    for (url, expected) in cases {
        let error = Db::connect(&url).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert!(!error.contains("hunter2") && !error.contains('\n'), "{error}");
    }
    assert!(std::fs::read_to_string(&text).unwrap().starts_with("not a database"), "left as it was");
}

#[tokio::test]
async fn a_server_that_refuses_is_named_with_its_reason() {
    let Some(Place::Schema(server, _)) = &Place::of(Backend::Postgres).await else { return };
    let mut url = url::Url::parse(server).unwrap();
    url.set_path("/no_such_database");
    let error = Db::connect(url.as_str()).await.unwrap_err().to_string();
    assert!(error.contains("refused") && error.contains("no_such_database"), "{error}");
}

#[rstest]
#[case::sqlite(Backend::Sqlite)]
#[case::postgres(Backend::Postgres)]
#[tokio::test]
async fn checkpoints_are_replaced_and_forgotten_by_prefix(#[case] backend: Backend) {
    let Some(db) = fresh(backend).await else { return };
    let checkpoints = Checkpoints::new(db.clone(), clock());
    let checkpoint = |next: Option<&str>, state: &str| Checkpoint {
        graph: "react".to_owned(),
        next: next.map(str::to_owned),
        state: state.to_owned(),
    };
    assert_eq!(checkpoints.load("run/1").await.unwrap(), None);
    checkpoints.save("run/1", &checkpoint(Some("model"), "{}")).await.unwrap();
    checkpoints.save("run/1", &checkpoint(None, r#"{"a":"ü"}"#)).await.unwrap();
    for other in ["run/12", "run_1", "r%/1", "Run/1"] {
        checkpoints.save(other, &checkpoint(None, "{}")).await.unwrap();
    }
    assert_eq!(checkpoints.load("run/1").await.unwrap(), Some(checkpoint(None, r#"{"a":"ü"}"#)));
    checkpoints.forget("run/1").await.unwrap();
    checkpoints.forget("r%").await.unwrap();
    let mut left = Vec::new();
    for id in ["run/1", "run/12", "run_1", "r%/1", "Run/1"] {
        if checkpoints.load(id).await.unwrap().is_some() {
            left.push(id);
        }
    }
    assert_eq!(left, ["run_1", "Run/1"]);

    let nowhere = Checkpoints::default();
    nowhere.save("run/1", &checkpoint(None, "{}")).await.unwrap();
    assert_eq!(nowhere.load("run/1").await.unwrap(), None);
    nowhere.forget("").await.unwrap();
}

#[rstest]
#[case::sqlite(Backend::Sqlite)]
#[case::postgres(Backend::Postgres)]
#[tokio::test]
async fn the_last_hundred_events_of_a_run_are_kept(#[case] backend: Backend) {
    let Some(db) = fresh(backend).await else { return };
    let log = EventLog::new(db.clone());
    let at = SystemClock.now();
    let event = |run: &str, n: i64| RunEvent {
        run_id: run.to_owned(),
        at,
        state: RunState::Thinking,
        node: "model".to_owned(),
        detail: n.to_string(),
    };
    for n in 1..=130 {
        log.append(&event("a", n)).await.unwrap();
    }
    log.append(&event("b", 1)).await.unwrap();
    let all = log.after("a", 0).await.unwrap();
    assert_eq!(all.len(), 100);
    assert_eq!(all.first().unwrap(), &(31, event("a", 31)));
    assert_eq!(all.last().unwrap(), &(130, event("a", 130)));
    assert_eq!(log.after("a", 128).await.unwrap().len(), 2);
    assert_eq!(log.after("b", 0).await.unwrap(), [(1, event("b", 1))]);

    let parallel = (0..8).map(|n| {
        let (log, event) = (log.clone(), event("c", n));
        async move { log.append(&event).await }
    });
    for appended in futures_util::future::join_all(parallel).await {
        appended.unwrap();
    }
    let numbers: Vec<i64> = log.after("c", 0).await.unwrap().into_iter().map(|(number, _)| number).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7, 8]);

    EventLog::default().append(&event("a", 1)).await.unwrap();
    assert!(EventLog::default().after("a", 0).await.unwrap().is_empty());
}

#[rstest]
#[case::sqlite(Backend::Sqlite)]
#[case::postgres(Backend::Postgres)]
#[tokio::test]
async fn a_message_is_kept_once_for_what_caused_it(#[case] backend: Backend) {
    let Some(db) = fresh(backend).await else { return };
    let history = ChatHistory::new(db.clone(), clock());
    let question = [ChatMessage::user("why?\u{0}\u{2028}"), ChatMessage::assistant("because")];
    let parallel = (0..6).map(|_| history.append("1/2/3", "comment:7", &question));
    for appended in futures_util::future::join_all(parallel).await {
        appended.unwrap();
    }
    history.append("1/2/3", "comment:8", &[ChatMessage::user("and?")]).await.unwrap();
    history.append("1/2/4", "comment:7", &[ChatMessage::user("elsewhere")]).await.unwrap();
    let loaded = history.load("1/2/3").await.unwrap();
    assert_eq!(loaded, [question[0].clone(), question[1].clone(), ChatMessage::user("and?")]);
    assert_eq!(history.load("1/2/4").await.unwrap(), [ChatMessage::user("elsewhere")]);
    assert!(history.load("nobody").await.unwrap().is_empty());
}

#[tokio::test]
async fn a_reader_of_sqlite_refuses_to_write() {
    let db = fresh(Backend::Sqlite).await.unwrap();
    let insert = "INSERT INTO installations (id, account, updated_at) VALUES (1, 'acme', 0)";
    let error = sqlx::query(insert).execute(db.reader()).await.unwrap_err().to_string();
    assert!(error.contains("readonly"), "{error}");
    sqlx::query(insert).execute(db.writer()).await.unwrap();
}
