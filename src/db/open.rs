//! From a URL to a pool of connections, with a plain sentence for everything that can be wrong.

use std::path::PathBuf;

use sqlx::any::AnyPoolOptions;
use url::Url;

use super::{Backend, DbError, Pools, postgres, sqlite};

/// Connections kept at most; on SQLite those that read. A PostgreSQL server is shared with others.
const CONNECTIONS: u32 = 10;

/// What a URL points at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    /// A file.
    Sqlite(PathBuf),
    /// A server, by its whole URL.
    Postgres(Url),
}

impl Target {
    /// Reads a URL. Its text is never repeated in an error, because it may hold a password.
    pub(super) fn parse(url: &str) -> Result<Self, DbError> {
        if let Some(path) = url.strip_prefix("sqlite:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            if path.is_empty() || path == ":memory:" || path.ends_with('/') {
                return Err(DbError::BadUrl(
                    "the database URL names no file: write sqlite:PATH, for example sqlite:/var/lib/secondlook/secondlook.db"
                        .to_owned(),
                ));
            }
            if path.contains('?') {
                return Err(DbError::BadUrl(
                    "the database URL has options after '?', and there are none for SQLite: write sqlite:PATH"
                        .to_owned(),
                ));
            }
            return Ok(Self::Sqlite(PathBuf::from(path)));
        }
        if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            return match Url::parse(url) {
                Ok(url) => Ok(Self::Postgres(url)),
                Err(error) => Err(DbError::BadUrl(format!(
                    "the PostgreSQL URL cannot be read ({error}): write postgres://USER:PASSWORD@HOST:PORT/DATABASE, with \
                     special characters in the password percent-encoded"
                ))),
            };
        }
        Err(DbError::BadUrl(
            "the database URL must begin with sqlite: or postgres://, for example sqlite:secondlook.db or \
             postgres://USER:PASSWORD@HOST/DATABASE"
                .to_owned(),
        ))
    }

    /// Which database it is.
    pub(super) fn backend(&self) -> Backend {
        match self {
            Self::Sqlite(_) => Backend::Sqlite,
            Self::Postgres(_) => Backend::Postgres,
        }
    }

    /// Opens the pools after one connection has shown that the database answers.
    pub(super) async fn open(&self) -> Result<Pools, DbError> {
        sqlx::any::install_default_drivers();
        let options = AnyPoolOptions::new().max_connections(CONNECTIONS);
        match self {
            Self::Sqlite(path) => sqlite::open(path, options).await,
            Self::Postgres(url) => {
                let pool = postgres::open(url, options).await?;
                Ok(Pools { reader: pool.clone(), writer: pool })
            }
        }
    }

    /// Says what a fault while opening means, and what to do.
    pub(super) fn explain(&self, error: DbError) -> DbError {
        let DbError::Query(error) = error else { return error };
        match self {
            Self::Postgres(url) => postgres::explain(url, error),
            Self::Sqlite(path) => sqlite::explain(path, error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_told_apart() {
        let file = |path: &str| Target::Sqlite(PathBuf::from(path));
        assert_eq!(Target::parse("sqlite:a.db").unwrap(), file("a.db"));
        assert_eq!(Target::parse("sqlite://a.db").unwrap(), file("a.db"));
        assert_eq!(Target::parse("sqlite:///var/a b%20#.db").unwrap(), file("/var/a b%20#.db"));
        assert!(matches!(Target::parse("postgresql://u@h/d").unwrap(), Target::Postgres(_)));
    }

    #[test]
    fn a_wrong_url_is_refused_without_repeating_it() {
        for url in ["", "sqlite:", "sqlite::memory:", "sqlite:a/", "sqlite:a?mode=ro", "mysql://u:hunter2@h/d", "a.db"]
        {
            let error = Target::parse(url).unwrap_err().to_string();
            assert!(error.contains("sqlite:"), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
        let error = Target::parse("postgres://u:hunter2@h:port/d").unwrap_err().to_string();
        assert!(error.contains("postgres://USER") && !error.contains("hunter2"), "{error}");
    }
}
