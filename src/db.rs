//! One database under everything: SQLite for one instance, PostgreSQL for many. Knows no domain type.
//!
//! The schema keeps to what both speak through [`sqlx::Any`]: TEXT, BIGINT, DOUBLE PRECISION and bytes; times are epoch
//! milliseconds, truth is 0 or 1, JSON is text. An aggregate is cast (`CAST(count(*) AS BIGINT)`), because PostgreSQL
//! widens some of them to NUMERIC, which `Any` cannot read.
//!
//! # One writer, and no deadlock with oneself
//!
//! SQLite runs in WAL mode: many readers beside one writer. So there are two pools on its file: [`Db::reader`], whose
//! connections refuse to write, and [`Db::writer`] of one connection, for which those who write queue up in the order in
//! which they came. (SQLite's own lock has no order: who finds it taken sleeps and looks again, and a busy writer is met
//! again and again.) On PostgreSQL both are the same pool.
//!
//! From that follows the one rule: **while a transaction is open, write through it**, never through [`Db::writer`]; such a
//! write would wait for the transaction that waits for it. Reads do not wait, but they see the state before the
//! transaction. And keep transactions short: no network call within one, and no more than some hundred rows.

mod backup;
pub mod listen;
mod open;
mod postgres;
mod schema;
mod sqlite;

use std::time::Duration;

use secrecy::SecretString;

use crate::retry::Retry;

/// How long a SQLite statement waits for another program that writes before it fails.
pub const BUSY_TIMEOUT: Duration = Duration::from_secs(15);

/// Tries of a transaction whose connection is ended in the middle of it.
const TRIES: u32 = 3;

/// Which database is behind a [`Db`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// An embedded file with one writer.
    Sqlite,
    /// A server that several instances share.
    Postgres,
}

/// A running transaction. Dropped without commit, it rolls back.
pub type Tx<'a> = sqlx::Transaction<'a, sqlx::Any>;

/// An open database. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Db {
    pools: Pools,
    backend: Backend,
    /// Where PostgreSQL is, password and all, for a connection beside the pool.
    server: Option<SecretString>,
}

/// The connections.
#[derive(Debug, Clone)]
struct Pools {
    reader: sqlx::AnyPool,
    writer: sqlx::AnyPool,
}

/// A database fault.
#[derive(Debug, thiserror::Error)]
pub enum DbError {
    /// The URL is not one we can use; the text says what to do.
    #[error("{0}")]
    BadUrl(String),
    /// The database could not be reached or opened.
    #[error("cannot open the database: {0}")]
    Unavailable(String),
    /// A statement failed.
    #[error("database: {0}{advice}", advice = advice(.0))]
    Query(#[from] sqlx::Error),
    /// It did not answer in the time it was given.
    #[error("the database did not answer within {} s: another program holds it, or its disk or server is slow", .0.as_secs())]
    Slow(Duration),
    /// A stored value could not be read back.
    #[error("stored {what} cannot be read: {reason}")]
    Corrupt {
        /// Which value.
        what: &'static str,
        /// Why.
        reason: String,
    },
    /// The write was not made, because the work it belongs to is another's now.
    #[error("another worker has taken this job over; nothing was written")]
    Fenced,
}

impl DbError {
    /// Whether the same statement may succeed later.
    pub fn retry(&self) -> Retry {
        match self {
            Self::BadUrl(_) | Self::Corrupt { .. } => Retry::Never,
            Self::Unavailable(_) | Self::Query(_) | Self::Slow(_) | Self::Fenced => Retry::Backoff,
        }
    }

    /// Whether a unique index refused a row: somebody else was first.
    pub fn is_unique_violation(&self) -> bool {
        matches!(self, Self::Query(sqlx::Error::Database(error)) if error.is_unique_violation())
    }

    /// Whether the server ended the connection, so that its transaction is undone: PostgreSQL's idle transaction (25P03) and
    /// an administrator's word (57P01), or no word at all.
    fn is_cut_off(&self) -> bool {
        match self {
            Self::Query(sqlx::Error::Io(_)) => true,
            Self::Query(sqlx::Error::Database(error)) => matches!(error.code().as_deref(), Some("25P03" | "57P01")),
            _ => false,
        }
    }

    /// Whether the transaction lost against another one and may be done again at once: PostgreSQL's deadlock (40P01)
    /// and serialization failure (40001).
    pub fn is_conflict(&self) -> bool {
        let Self::Query(sqlx::Error::Database(error)) = self else { return false };
        matches!(error.code().as_deref(), Some("40P01" | "40001"))
    }
}

/// What an operator can do about a fault, where its own words leave that open.
fn advice(error: &sqlx::Error) -> &'static str {
    let sqlx::Error::Database(error) = error else { return "" };
    // SQLite's result codes, and those of PostgreSQL (Appendix A of its manual).
    match error.code().as_deref() {
        Some("13" | "53100") => "; make room on its disk",
        Some("778" | "1034" | "1290" | "4874") => "; its disk is full, at its quota or broken: make room there",
        Some("5" | "261" | "517") => "; another program holds the file: stop that one",
        Some("11" | "267" | "523" | "779" | "26") => {
            "; the file is damaged: stop, and restore a backup (see the README)"
        }
        Some("8" | "264" | "776" | "1032") => "; the file, its directory or its disk cannot be written",
        Some("25006") => "; the server only reads, as a standby does: it is asked again until a primary answers",
        Some("53300") => "; all its connections are taken: raise max_connections there, or run fewer programs on it",
        _ => "",
    }
}

/// Does what is one transaction, and does it again when its connection was ended, which is what a machine finds that stood
/// still in the middle of it. Then nothing of it was done; but where the answer to the commit got lost, all of it was, so
/// `work` has to bear being done twice.
///
/// # Errors
/// As `work`, when it is another error, or the last of three.
pub async fn despite_cuts<T>(work: impl AsyncFn() -> Result<T, DbError>) -> Result<T, DbError> {
    for _ in 1..TRIES {
        match work().await {
            Err(error) if error.is_cut_off() => {
                tracing::warn!(error = %error, "The connection to the database was ended; trying again");
            }
            done => return done,
        }
    }
    work().await
}

/// Writes a copy of a SQLite database to `file`, while whoever uses it goes on: whole and of one moment, or not at all.
///
/// # Errors
/// [`DbError::BadUrl`] for PostgreSQL, which has tools of its own, [`DbError::Unavailable`] when the copy cannot be made
/// or there is a file of that name.
pub async fn backup(url: &str, file: &std::path::Path) -> Result<(), DbError> {
    backup::backup(&open::Target::parse(url)?, file).await
}

impl Db {
    /// Opens the database at `url` (`sqlite:PATH` or `postgres://…`) and brings its schema up to date. For SQLite, missing
    /// directories are made (mode 0700) and a new file is readable by its owner alone (0600). Several instances may
    /// open one PostgreSQL database at the same time.
    ///
    /// # Errors
    /// [`DbError::BadUrl`] for another scheme, [`DbError::Unavailable`] when it cannot be opened, or when a newer
    /// secondlook has changed its schema.
    pub async fn connect(url: &str) -> Result<Self, DbError> {
        let target = open::Target::parse(url)?;
        let pools = target.open().await?;
        let server = (target.backend() == Backend::Postgres).then(|| url.into());
        let db = Self { pools, backend: target.backend(), server };
        match despite_cuts(async || schema::migrate(&db).await).await {
            Ok(()) => Ok(db),
            Err(error) => {
                db.close().await;
                Err(target.explain(error))
            }
        }
    }

    /// For single statements that only read. On SQLite any other fails.
    pub fn reader(&self) -> &sqlx::AnyPool {
        &self.pools.reader
    }

    /// For single statements that write. See the module's rule about open transactions.
    pub fn writer(&self) -> &sqlx::AnyPool {
        &self.pools.writer
    }

    /// Which database this is.
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// Starts a transaction (on SQLite one that takes the write lock at once, so that it never fails half-way for it).
    ///
    /// # Errors
    /// When no connection is to be had.
    pub async fn begin(&self) -> Result<Tx<'static>, DbError> {
        Ok(match self.backend {
            Backend::Sqlite => self.writer().begin_with("BEGIN IMMEDIATE").await?,
            Backend::Postgres => self.writer().begin().await?,
        })
    }

    /// Checks that a statement runs.
    ///
    /// # Errors
    /// When it does not.
    pub async fn ping(&self) -> Result<(), DbError> {
        sqlx::query("SELECT 1").execute(self.reader()).await?;
        Ok(())
    }

    /// Closes all connections; SQLite then folds its write-ahead log into the file.
    pub async fn close(&self) {
        // The last connection to close folds it in; one that only reads would have to be trusted with it.
        self.pools.reader.close().await;
        self.pools.writer.close().await;
    }
}
