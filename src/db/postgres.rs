//! Opening a PostgreSQL database, and keeping to servers that can be written to.

use std::time::Duration;

use sqlx::any::AnyPoolOptions;
use sqlx::{AnyConnection, Connection, Row};
use url::Url;

use super::DbError;

/// How long a server may take to answer when we start, and how long a statement waits for a free connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How every connection is set up. No statement of ours takes longer than moments, so one that does waits for something
/// that will not come; and our transactions are written for READ COMMITTED, whatever the server's default is. An instance
/// that stands still in the middle of a transaction (a frozen machine answers keep-alives) would hold its row locks, and
/// so the work of all others, for as long as it stands; no transaction here waits for anything but the database. The
/// others wait longer for a lock than such a one keeps it, so that it delays them and makes nothing of theirs fail.
const SESSION: &str = "SET statement_timeout = '30s'; SET lock_timeout = '8s';
     SET idle_in_transaction_session_timeout = '5s';
     SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED";

/// A pool on the server, after one connection has shown that it can be used.
pub(super) async fn open(url: &Url, options: AnyPoolOptions) -> Result<sqlx::AnyPool, DbError> {
    match tokio::time::timeout(CONNECT_TIMEOUT, inspect(url)).await {
        Ok(usable) => usable?,
        Err(_) => {
            return Err(DbError::Unavailable(format!(
                "PostgreSQL at {} did not answer within {} s; check that it runs and can be reached from here, or correct the \
                 database URL",
                place(url),
                CONNECT_TIMEOUT.as_secs()
            )));
        }
    }
    options
        .acquire_timeout(CONNECT_TIMEOUT)
        .after_connect(|connection, _| {
            Box::pin(async move {
                sqlx::raw_sql(SESSION).execute(&mut *connection).await?;
                // After a failover the name may still lead to the old server, which only reads now.
                match is_read_only(connection).await? {
                    true => Err(sqlx::Error::Protocol("the server only reads, as a standby does".to_owned())),
                    false => Ok(()),
                }
            })
        })
        // Takes the place of the pool's own look whether a connection is still alive.
        .test_before_acquire(false)
        .before_acquire(|connection, _| {
            Box::pin(async move { Ok(matches!(is_read_only(connection).await, Ok(false))) })
        })
        .connect_lazy(url.as_str())
        .map_err(|error| explain(url, error))
}

/// Says what a fault while opening means, and what to do.
pub(super) fn explain(url: &Url, error: sqlx::Error) -> DbError {
    let place = place(url);
    DbError::Unavailable(match error {
        sqlx::Error::Database(error) => {
            // Appendix A of PostgreSQL's manual lists the codes.
            let advice = match error.code().as_deref() {
                Some("28P01" | "28000") => "correct user and password in the database URL, or pg_hba.conf there",
                Some("3D000") => "correct the database name in the database URL, or create that database",
                Some("53300") => {
                    "all its connections are taken: raise max_connections there, or run fewer programs on it (each \
                     secondlook takes up to 10)"
                }
                Some("57P01" | "57P02" | "57P03") => "it is starting or stopping: start again in a moment",
                Some("25006") => "it only reads, as a standby does: name the primary in the database URL",
                Some("42501") => "grant this user CREATE and USAGE on the schema it uses there",
                Some("53100") => "make room on its disk",
                _ => "correct user, password and database name in the database URL, or the permissions there",
            };
            format!("PostgreSQL at {place} refused: {}; {advice}", error.message())
        }
        sqlx::Error::Configuration(error) => {
            format!("the PostgreSQL URL cannot be used: {error}; write postgres://USER:PASSWORD@HOST:PORT/DATABASE")
        }
        error => {
            format!(
                "PostgreSQL at {place} cannot be reached ({error}); check that it runs, or correct the database URL"
            )
        }
    })
}

/// Where a server is, without user and password.
fn place(url: &Url) -> String {
    let host = url.host_str().filter(|host| !host.is_empty()).unwrap_or("the local socket");
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

/// Opens and closes one connection, and looks whether the database can hold what we write.
async fn inspect(url: &Url) -> Result<(), DbError> {
    let look = async {
        let mut connection = AnyConnection::connect(url.as_str()).await?;
        let encoding: String = sqlx::query("SHOW server_encoding").fetch_one(&mut connection).await?.try_get(0)?;
        let read_only = is_read_only(&mut connection).await?;
        connection.close().await?;
        Ok((encoding, read_only))
    };
    let (encoding, read_only) = look.await.map_err(|error| explain(url, error))?;
    if encoding != "UTF8" {
        return Err(DbError::Unavailable(format!(
            "the database at {} is encoded as {encoding}, which cannot hold every text: create one with ENCODING 'UTF8' \
             TEMPLATE template0, and name that in the database URL",
            place(url)
        )));
    }
    if read_only {
        return Err(DbError::Unavailable(format!(
            "PostgreSQL at {} only reads, as a standby does: name the primary in the database URL, or wait until this one \
             is it",
            place(url)
        )));
    }
    Ok(())
}

/// Whether the server takes no writes: a standby, a primary that was put down, or a setting.
async fn is_read_only(connection: &mut AnyConnection) -> Result<bool, sqlx::Error> {
    let row = sqlx::query("SHOW transaction_read_only").fetch_one(connection).await?;
    Ok(row.try_get::<String, _>(0)? == "on")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_named_without_its_password() {
        assert_eq!(place(&Url::parse("postgres://u:hunter2@db.example:5433/d").unwrap()), "db.example:5433");
        assert_eq!(place(&Url::parse("postgres:///d?host=/run").unwrap()), "the local socket");
    }
}
