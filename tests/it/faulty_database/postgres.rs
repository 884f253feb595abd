//! PostgreSQL is restarted, put down to a standby, slow, full of connections, or not what we need: on a server of the
//! test's own.

use secondlook::db::{Db, DbError};
use sqlx::{AnyConnection, AssertSqlSafe, Connection, Row};

use super::Receiver;
use crate::harness::postgres::OwnPostgres;

/// Delivers until it is taken. The test's own time-out bounds it: each try waits for its answer.
async fn until_taken(receiver: &Receiver, id: &str) -> usize {
    let mut refused = 0;
    loop {
        match receiver.deliver(id).await {
            202 => return refused,
            503 => refused += 1,
            other => panic!("{id} was answered with {other}"),
        }
        assert!(refused < 50, "{id} is never taken again");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_goes_comes_back_for_the_same_process() {
    let Some(server) = OwnPostgres::start(&["max_connections=20"]) else { return };
    let receiver = Receiver::over(Db::connect(&server.url()).await.unwrap()).await;
    assert_eq!(receiver.deliver("first").await, 202);
    let lease = receiver.queue.claim("w").await.unwrap().unwrap();

    // Restarted: the connections that broke are replaced without anybody noticing.
    server.halt();
    server.go();
    until_taken(&receiver, "after-restart").await;
    assert!(receiver.knows("first").await);
    receiver.queue.extend(&lease).await.unwrap();

    // Away: said at once, and nothing is taken that was not written down.
    server.halt();
    assert_eq!(receiver.deliver("away").await, 503);
    assert_eq!(receiver.server.get("/readyz").await.0, 503);
    assert_eq!(receiver.server.get("/healthz").await.0, 200, "nobody kills a process for its database");
    server.go();
    until_taken(&receiver, "away").await;

    // All connections cut by an administrator.
    server.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()").await;
    until_taken(&receiver, "cut").await;

    // Only reading, as after a failover while the name still leads here: the open connections are given up too.
    server.run("ALTER SYSTEM SET default_transaction_read_only = on").await;
    server.run("SELECT pg_reload_conf()").await;
    while receiver.deliver("standby").await == 202 {
        // The server takes its new settings in when it likes to; a delivery that came before counts as known now.
        server.run("SELECT 1").await;
    }
    assert_eq!(receiver.deliver("standby-2").await, 503);
    assert_eq!(receiver.server.get("/readyz").await.0, 503);
    let error = Db::connect(&server.url()).await.unwrap_err().to_string();
    assert!(error.contains("only reads") && error.contains("primary"), "{error}");
    for statement in ["ALTER SYSTEM RESET default_transaction_read_only", "SELECT pg_reload_conf()"] {
        server.run(statement).await;
    }
    until_taken(&receiver, "standby-2").await;

    // Slow: somebody holds the table.
    let mut other = AnyConnection::connect(&server.url()).await.unwrap();
    sqlx::raw_sql("BEGIN; LOCK TABLE deliveries IN ACCESS EXCLUSIVE MODE").execute(&mut other).await.unwrap();
    assert_eq!(receiver.deliver("slow").await, 503);
    sqlx::raw_sql("ROLLBACK").execute(&mut other).await.unwrap();
    until_taken(&receiver, "slow").await;
    for id in ["first", "after-restart", "away", "cut", "standby-2", "slow"] {
        assert!(receiver.knows(id).await, "{id} was answered with 202 and is lost");
    }
    other.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cannot_be_used_says_why() {
    let settings =
        ["max_connections=12", "superuser_reserved_connections=0", "default_transaction_isolation=serializable"];
    let Some(server) = OwnPostgres::start(&settings) else { return };
    let refused = async |url: &str, expected: &[&str]| {
        let error = Db::connect(url).await.unwrap_err();
        assert!(matches!(error, DbError::Unavailable(_)), "{error}");
        let error = error.to_string();
        assert!(expected.iter().all(|word| error.contains(word)), "{error}");
        assert!(!error.contains("s3cret") && !error.contains("wr0ng") && !error.contains('\n'), "{error}");
    };
    server.run("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'").await;
    refused(&server.url_of("secondlook:s3cret", "latin"), &["LATIN1", "ENCODING 'UTF8'"]).await;
    refused(&server.url_of("secondlook:wr0ng", "postgres"), &["correct user and password"]).await;
    refused(&server.url_of("secondlook:s3cret", "nowhere"), &["nowhere", "create that database"]).await;
    server.run("CREATE ROLE guest LOGIN PASSWORD 'wr0ng'; REVOKE CREATE ON SCHEMA public FROM public").await;
    refused(&server.url_of("guest:wr0ng", "postgres"), &["grant this user CREATE"]).await;

    // Whatever the server's default is, transactions are what ours were written for.
    let db = Db::connect(&server.url()).await.unwrap();
    let row = sqlx::query("SHOW transaction_isolation").fetch_one(db.reader()).await.unwrap();
    assert_eq!(row.get::<String, _>(0), "read committed");
    let row = sqlx::query("SHOW statement_timeout").fetch_one(db.reader()).await.unwrap();
    assert_eq!(row.get::<String, _>(0), "30s", "no statement waits for ever");

    // Every connection taken: a start says so, and who runs waits for one.
    let receiver = Receiver::over(db.clone()).await;
    assert_eq!(receiver.deliver("before").await, 202);
    let mut taken = Vec::new();
    while let Ok(connection) = AnyConnection::connect(&server.url()).await {
        taken.push(connection);
    }
    refused(&server.url(), &["max_connections"]).await;
    assert_eq!(receiver.deliver("with-what-it-has").await, 202, "its own connection is still there");
    for connection in taken {
        connection.close().await.unwrap();
    }
    let mut again = Db::connect(&server.url()).await;
    while again.is_err() {
        // A closed connection takes the server a moment.
        again = Db::connect(&server.url()).await;
    }
    again.unwrap().close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_by_pg_dump_is_a_database() {
    let Some(server) = OwnPostgres::start(&[]) else { return };
    let receiver = Receiver::over(Db::connect(&server.url()).await.unwrap()).await;
    assert_eq!(receiver.deliver("first").await, 202);
    server.program("pg_dump", &["--format=custom", "--file=copy.dump", &server.url()]);
    assert_eq!(receiver.deliver("second").await, 202);
    server.run("CREATE DATABASE restored").await;
    let restored = server.url_of("secondlook:s3cret", "restored");
    server.program("pg_restore", &["--no-owner", &format!("--dbname={restored}"), "copy.dump"]);
    let receiver = Receiver::over(Db::connect(&restored).await.unwrap()).await;
    assert!(receiver.knows("first").await && !receiver.knows("second").await);
    assert_eq!(receiver.queue.claim("w").await.unwrap().unwrap().kind, "review_pull_request");
}

/// Two transactions that take the same rows in opposite order: one of them is ended by the server, and done again.
#[tokio::test(flavor = "multi_thread")]
async fn a_deadlock_is_told_from_other_faults() {
    let Some(server) = OwnPostgres::start(&["deadlock_timeout=20ms"]) else { return };
    let db = Db::connect(&server.url()).await.unwrap();
    for id in [1, 2] {
        let sql = format!("INSERT INTO installations (id, account, updated_at) VALUES ({id}, 'acme', 0)");
        sqlx::query(AssertSqlSafe(sql)).execute(db.writer()).await.unwrap();
    }
    let update = "UPDATE installations SET updated_at = updated_at + 1 WHERE id = $1";
    let (mut one, mut two) = (db.begin().await.unwrap(), db.begin().await.unwrap());
    sqlx::query(update).bind(1_i64).execute(&mut *one).await.unwrap();
    sqlx::query(update).bind(2_i64).execute(&mut *two).await.unwrap();
    let (first, second) = tokio::join!(
        sqlx::query(update).bind(2_i64).execute(&mut *one),
        sqlx::query(update).bind(1_i64).execute(&mut *two)
    );
    let lost: Vec<DbError> = [first, second].into_iter().filter_map(Result::err).map(DbError::from).collect();
    assert_eq!(lost.len(), 1);
    assert!(lost[0].is_conflict(), "{}", lost[0]);
}
