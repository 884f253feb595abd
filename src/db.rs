//! One database under everything: SQLite for one instance, PostgreSQL for many. Knows no domain type.
//!
//! The schema keeps to what both speak through [`sqlx::Any`]: TEXT, BIGINT, DOUBLE PRECISION and bytes; times are epoch
//! milliseconds, truth is 0 or 1, JSON is text.

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

/// A pool of connections.
#[derive(Debug, Clone)]
pub struct Db {
    pool: sqlx::AnyPool,
    backend: Backend,
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
    #[error("database: {0}")]
    Query(#[from] sqlx::Error),
    /// A stored value could not be read back.
    #[error("stored {what} cannot be read: {reason}")]
    Corrupt {
        /// Which value.
        what: &'static str,
        /// Why.
        reason: String,
    },
}

impl Db {
    /// Opens the database at `url` (`sqlite:PATH` or `postgres://…`) and brings its schema up to date.
    ///
    /// # Errors
    /// [`DbError::BadUrl`] for another scheme, [`DbError::Unavailable`] when it cannot be opened.
    pub async fn connect(url: &str) -> Result<Self, DbError> {
        todo!("{url}")
    }

    /// The pool, for single statements.
    pub fn pool(&self) -> &sqlx::AnyPool {
        &self.pool
    }

    /// Which database this is.
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// Starts a transaction (a writing one on SQLite, so that it never fails half-way for a lock).
    ///
    /// # Errors
    /// When no connection is to be had.
    pub async fn begin(&self) -> Result<Tx<'static>, DbError> {
        todo!()
    }

    /// Checks that a statement runs.
    ///
    /// # Errors
    /// When it does not.
    pub async fn ping(&self) -> Result<(), DbError> {
        todo!()
    }
}
