//! Faults of the database, without a word of it in the product: triggers count the rows that are written, and refuse the
//! one that a test names.
//!
//! On SQLite the refusal is an error of the statement. On PostgreSQL it is a serialisation failure, or the end of the
//! connection.

use secondlook::db::{Backend, Db};
use sqlx::{AssertSqlSafe, Row};

/// The tables whose writes are watched. The others are not the product's.
const TABLES: &[&str] = &[
    "deliveries",
    "installations",
    "repositories",
    "jobs",
    "checkpoints",
    "run_events",
    "messages",
    "pulls",
    "reviewed_hunks",
    "findings",
    "posts",
];

/// What becomes of the write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The statement fails.
    Fails,
    /// The connection is gone (on SQLite, which has none, the statement fails).
    Disconnects,
}

/// Counts writes from here on.
pub(super) async fn watch(db: &Db) {
    let mut sql = String::new();
    for table in TABLES {
        for operation in ["INSERT", "UPDATE", "DELETE"] {
            sql.push_str(&match db.backend() {
                Backend::Sqlite => format!(
                    "CREATE TRIGGER fault_{table}_{operation} BEFORE {operation} ON {table} BEGIN
                       UPDATE fault_points SET seen = seen + 1 WHERE place = '{operation} {table}';
                       SELECT RAISE(FAIL, 'injected fault') FROM fault_points
                       WHERE place = '{operation} {table}' AND seen = strike;
                     END;"
                ),
                Backend::Postgres => format!(
                    "CREATE SEQUENCE fault_{table}_{operation} MINVALUE 0 START 0;
                     CREATE TRIGGER fault_{table}_{operation} BEFORE {operation} ON {table}
                     FOR EACH ROW EXECUTE FUNCTION strike('{operation} {table}', 'fault_{table}_{operation}');"
                ),
            });
            sql.push_str(&format!("INSERT INTO fault_points VALUES ('{operation} {table}', 0, -1, 0);"));
        }
    }
    let before = match db.backend() {
        Backend::Sqlite => String::new(),
        Backend::Postgres => "CREATE FUNCTION strike() RETURNS trigger LANGUAGE plpgsql AS $$
             DECLARE at BIGINT; ends BIGINT; now BIGINT;
             BEGIN
               now := nextval(TG_ARGV[1]::regclass) + 1;
               SELECT strike, disconnects INTO at, ends FROM fault_points WHERE place = TG_ARGV[0];
               IF now = at AND ends = 1 THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF;
               IF now = at THEN RAISE EXCEPTION 'injected fault' USING ERRCODE = '40001'; END IF;
               IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
               RETURN NEW;
             END $$;"
            .to_owned(),
    };
    let table = "CREATE TABLE fault_points (place TEXT PRIMARY KEY, seen BIGINT, strike BIGINT, disconnects BIGINT);";
    run(db, &format!("{table}{before}{sql}")).await;
}

/// Refuses the `nth` row (from 0, counted from the watch).
pub(super) async fn arm(db: &Db, table: &str, operation: &str, nth: usize, how: Refusal) {
    let ends = i64::from(how == Refusal::Disconnects);
    let place = format!("{operation} {table}");
    let strike = nth + 1;
    run(db, &format!("UPDATE fault_points SET strike = {strike}, disconnects = {ends} WHERE place = '{place}'")).await;
}

/// Refuses nothing more.
pub(super) async fn disarm(db: &Db) {
    run(db, "UPDATE fault_points SET strike = -1").await;
}

/// Refuses nothing more once a job has felt it: on SQLite a transaction takes its own counting back.
pub(super) async fn disarm_if_met(db: &Db) {
    let felt = "SELECT CAST(count(*) AS BIGINT) FROM jobs WHERE reason LIKE '%injected fault%'";
    let row = sqlx::query(felt).fetch_one(db.reader()).await.unwrap();
    if row.get::<i64, _>(0) > 0 {
        disarm(db).await;
    }
}

/// Table, operation and how many rows were written.
pub(super) async fn written(db: &Db) -> Vec<(String, String, usize)> {
    let mut written = Vec::new();
    for table in TABLES {
        for operation in ["INSERT", "UPDATE", "DELETE"] {
            let sql = match db.backend() {
                Backend::Sqlite => {
                    format!("SELECT seen FROM fault_points WHERE place = '{operation} {table}'")
                }
                Backend::Postgres => {
                    format!("SELECT CASE WHEN is_called THEN last_value + 1 ELSE 0 END FROM fault_{table}_{operation}")
                }
            };
            let row = sqlx::query(AssertSqlSafe(sql)).fetch_one(db.reader()).await.unwrap();
            let rows = usize::try_from(row.get::<i64, _>(0)).unwrap_or(0);
            if rows > 0 {
                written.push(((*table).to_owned(), operation.to_owned(), rows));
            }
        }
    }
    written
}

async fn run(db: &Db, sql: &str) {
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(db.writer()).await.unwrap();
}
