//! SQLite files that are held, cut, overwritten or empty.

use std::path::{Path, PathBuf};

use secondlook::db::{Backend, Db};
use sqlx::{AnyConnection, Connection};

use super::Receiver;
use crate::harness::database::fresh;
use crate::repository::run;

fn url(path: &Path) -> String {
    format!("sqlite:{}", path.display())
}

/// A database of about a megabyte with rows in it, closed.
async fn filled(directory: &Path) -> PathBuf {
    let path = directory.join("secondlook.db");
    let db = Db::connect(&url(&path)).await.unwrap();
    let mut tx = db.begin().await.unwrap();
    for id in 0..2_000_i64 {
        sqlx::query("INSERT INTO installations (id, account, updated_at) VALUES ($1, $2, 0)")
            .bind(id)
            .bind("acme".repeat(100))
            .execute(&mut *tx)
            .await
            .unwrap();
    }
    tx.commit().await.unwrap();
    db.close().await;
    path
}

/// What stands in a database's file and its log. An empty log is none.
fn bytes(path: &Path) -> [Vec<u8>; 2] {
    ["", "-wal"].map(|ending| std::fs::read(format!("{}{ending}", path.display())).unwrap_or_default())
}

#[tokio::test]
async fn a_new_file_has_its_name_only_when_it_holds_something() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("secondlook.db");
    // What a process left that was killed while it made one.
    std::fs::write(directory.path().join("secondlook.db.0123.new"), "").unwrap();
    // A process could be killed at any moment, so somebody looks all the time.
    let watched = file.clone();
    let watcher = std::thread::spawn(move || {
        loop {
            if let Ok(seen) = std::fs::metadata(&watched) {
                return seen.len();
            }
        }
    });
    let db = Db::connect(&format!("sqlite:{}", file.display())).await.unwrap();
    assert!(watcher.join().unwrap() > 0, "it was empty when it got its name");
    db.close().await;
    let mut left: Vec<_> =
        std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["secondlook.db", "secondlook.db.0123.new"]);
}

#[tokio::test]
async fn a_damaged_file_is_left_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let path = filled(directory.path()).await;
    let whole = std::fs::read(&path).unwrap();
    assert!(whole.len() > 500_000, "{}", whole.len());
    let overwritten = |from: usize, to: usize| {
        let mut damaged = whole.clone();
        damaged[from..to].fill(0x5a);
        damaged
    };
    let cases = [
        ("cut in the middle", whole[..whole.len() / 2].to_vec(), "restore a backup"),
        ("cut within its first page", whole[..1_000].to_vec(), "restore a backup"),
        ("a page overwritten", overwritten(8 * 4_096, 9 * 4_096), "restore a backup"),
        ("many pages overwritten", overwritten(40_000, 400_000), "restore a backup"),
        ("its head overwritten", overwritten(0, 100), "move that file away"),
        ("empty", Vec::new(), "restore a backup"),
        ("another kind of file", b"%PDF-1.7 is what this is. ".repeat(400), "move that file away"),
    ];
    for (name, content, advice) in cases {
        std::fs::write(&path, &content).unwrap();
        let before = bytes(&path);
        let error = Db::connect(&url(&path)).await.err().unwrap_or_else(|| panic!("{name} was opened")).to_string();
        assert!(error.contains("secondlook.db") && error.contains(advice), "{name}: {error}");
        assert!(!error.contains('\n'), "{name}: {error}");
        assert!(bytes(&path) == before, "{name}: something was written into it");
    }
    std::fs::write(&path, &whole).unwrap();
    Db::connect(&url(&path)).await.unwrap().close().await;
}

#[tokio::test]
async fn a_server_on_a_damaged_file_ends_with_one_sentence() {
    let directory = tempfile::tempdir().unwrap();
    let path = filled(directory.path()).await;
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--log", "off", "--database-url", &url(&path)];
    run(directory.path(), &arguments, &[], "").refuses("restore a backup");
    assert_eq!(std::fs::read(&path).unwrap(), whole[..whole.len() / 2]);
}

#[tokio::test]
async fn what_was_in_a_log_that_is_gone_is_all_that_is_lost() {
    let directory = tempfile::tempdir().unwrap();
    let path = filled(directory.path()).await;
    let db = Db::connect(&url(&path)).await.unwrap();
    sqlx::query("DELETE FROM installations WHERE id > 0").execute(db.writer()).await.unwrap();
    // As after a power cut, with the log lost and the index there.
    let left = tempfile::tempdir().unwrap();
    for ending in ["", "-shm"] {
        let name = format!("secondlook.db{ending}");
        std::fs::copy(directory.path().join(&name), left.path().join(&name)).unwrap();
    }
    db.close().await;
    let db = Db::connect(&url(&left.path().join("secondlook.db"))).await.unwrap();
    let rows = sqlx::query("SELECT id FROM installations").fetch_all(db.reader()).await.unwrap();
    assert_eq!(rows.len(), 2_000, "what was folded into the file before");
    db.close().await;
}

#[tokio::test]
async fn a_delivery_is_refused_while_another_program_holds_the_file() {
    let Some(db) = fresh(Backend::Sqlite).await else { return };
    let receiver = Receiver::over(db.clone()).await;
    assert_eq!(receiver.deliver("before").await, 202);
    let path = db.url().strip_prefix("sqlite:").unwrap().to_owned();
    let mut other = AnyConnection::connect(&format!("sqlite://{path}")).await.unwrap();
    sqlx::raw_sql("BEGIN EXCLUSIVE").execute(&mut other).await.unwrap();
    // Within the time that GitHub waits, and not after the whole busy time-out.
    assert_eq!(receiver.deliver("meanwhile").await, 503);
    // A worker waits for its turn instead of failing.
    let claim = receiver.queue.claim("w");
    tokio::pin!(claim);
    assert!(futures_util::poll!(&mut claim).is_pending());
    sqlx::raw_sql("ROLLBACK").execute(&mut other).await.unwrap();
    assert_eq!(claim.await.unwrap().unwrap().kind, "review_pull_request");
    assert!(!receiver.knows("meanwhile").await, "what was refused is not written down");
    assert_eq!(receiver.deliver("meanwhile").await, 202);
    assert!(receiver.knows("meanwhile").await);
}
