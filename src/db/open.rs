//! From a URL to a pool of connections, with a plain sentence for everything that can be wrong.

use std::path::{Path, PathBuf};
use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sqlx::AnyConnection;
use sqlx::Connection;
use sqlx::any::AnyPoolOptions;
use url::Url;

use super::{BUSY_TIMEOUT, Backend, DbError};
use crate::clock::Stopwatch;

/// How long a PostgreSQL server may take to answer when we start, and how long a statement waits for a free connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Connections kept at most. SQLite needs readers beside its one writer; a PostgreSQL server is shared with others.
const CONNECTIONS: u32 = 10;

/// How every SQLite connection is set up. The time-out is [`BUSY_TIMEOUT`]; it comes first, because the change to WAL
/// needs a lock. FULL makes a commit survive a power cut.
const PRAGMAS: &str = "PRAGMA busy_timeout = 15000; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
     PRAGMA foreign_keys = ON; PRAGMA journal_size_limit = 67108864";

/// How every PostgreSQL connection is set up. An instance that stands still in the middle of a transaction (a frozen
/// machine answers keep-alives) would hold its row locks, and so the work of all others, for as long as it stands; no
/// transaction here waits for anything but the database, so ten idle seconds in one are not normal.
const SESSION: &str = "SET idle_in_transaction_session_timeout = '10s'";

/// Pause before a new SQLite file is tried again while another process sets it up.
const SET_UP_PAUSE: Duration = Duration::from_millis(20);

/// What sqlx decodes again when it takes a file name out of a URL.
const FILE_NAME: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'.').remove(b'-').remove(b'_');

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

    /// Opens a pool after one connection has shown that the database answers.
    pub(super) async fn open(&self) -> Result<sqlx::AnyPool, DbError> {
        sqlx::any::install_default_drivers();
        let pool = AnyPoolOptions::new().max_connections(CONNECTIONS);
        match self {
            Self::Sqlite(path) => {
                let url = prepare_file(path)?;
                // A pool tries again until its own time-out and then says no more than that it timed out; so one
                // connection goes first, here and below.
                first_connection(&url).await.map_err(|error| self.explain(error.into()))?;
                pool.acquire_timeout(BUSY_TIMEOUT * 2)
                    .test_before_acquire(false)
                    .idle_timeout(None)
                    .max_lifetime(None)
                    .after_connect(|connection, _| {
                        Box::pin(async move { sqlx::raw_sql(PRAGMAS).execute(&mut *connection).await.map(drop) })
                    })
                    .connect_lazy(&url)
                    .map_err(|error| self.explain(error.into()))
            }
            Self::Postgres(url) => {
                match tokio::time::timeout(CONNECT_TIMEOUT, AnyConnection::connect(url.as_str())).await {
                    Ok(Ok(connection)) => drop(connection.close().await),
                    Ok(Err(error)) => return Err(self.explain(error.into())),
                    Err(_) => {
                        return Err(DbError::Unavailable(format!(
                            "PostgreSQL at {} did not answer within {} s; check that it runs and can be reached from here, or \
                             correct the database URL",
                            place(url),
                            CONNECT_TIMEOUT.as_secs()
                        )));
                    }
                }
                let pool = pool.acquire_timeout(CONNECT_TIMEOUT).after_connect(|connection, _| {
                    Box::pin(async move { sqlx::raw_sql(SESSION).execute(&mut *connection).await.map(drop) })
                });
                let pool = pool.connect_lazy(url.as_str());
                pool.map_err(|error| self.explain(error.into()))
            }
        }
    }

    /// Says what a fault while opening means, and what to do.
    pub(super) fn explain(&self, error: DbError) -> DbError {
        let DbError::Query(error) = error else { return error };
        DbError::Unavailable(match (self, error) {
            (Self::Postgres(url), sqlx::Error::Database(error)) => format!(
                "PostgreSQL at {} refused: {}; correct user, password and database name in the database URL, or the \
                 permissions there",
                place(url),
                error.message()
            ),
            (Self::Postgres(_), sqlx::Error::Configuration(error)) => {
                format!("the PostgreSQL URL cannot be used: {error}; write postgres://USER:PASSWORD@HOST:PORT/DATABASE")
            }
            (Self::Postgres(url), error) => format!(
                "PostgreSQL at {} cannot be reached ({error}); check that it runs, or correct the database URL",
                place(url)
            ),
            (Self::Sqlite(path), sqlx::Error::Database(error)) => {
                let advice = match error.message() {
                    message if message.contains("not a database") => "move that file away, or name another one",
                    message if message.contains("locked") => "another program holds it: stop that one first",
                    message if message.contains("full") => "make room on its disk",
                    _ => {
                        "check the permissions of the file and of its directory, or name another file in the database URL"
                    }
                };
                format!("{}: {}; {advice}", path.display(), error.message())
            }
            (Self::Sqlite(path), error) => {
                format!("{}: {error}; name another file in the database URL", path.display())
            }
        })
    }
}

/// Makes the directory and the file, so that nobody else may read either, and returns the URL that sqlx wants.
fn prepare_file(path: &Path) -> Result<String, DbError> {
    let refused = |what: &str, which: &Path, error: std::io::Error| {
        DbError::Unavailable(format!(
            "{what} {} ({error}); make it writable for this user, or name another file in the database URL",
            which.display()
        ))
    };
    let path = std::path::absolute(path).map_err(|error| refused("cannot find", path, error))?;
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(DbError::BadUrl(format!("{} is not a file name: write sqlite:PATH", path.display())));
    };
    make_private_directory(directory).map_err(|error| refused("cannot make the directory", directory, error))?;
    let directory = directory.canonicalize().map_err(|error| refused("cannot use the directory", directory, error))?;
    let path = directory.join(name);
    if path.is_dir() {
        return Err(DbError::Unavailable(format!(
            "{} is a directory; name a file in the database URL",
            path.display()
        )));
    }
    open_private_file(&path).map_err(|error| refused("cannot write", &path, error))?;
    let Some(text) = path.to_str() else {
        return Err(DbError::BadUrl(format!("{} is not UTF-8; name another file", path.display())));
    };
    // On Windows a path begins with a drive letter and holds backslashes; SQLite takes slashes everywhere.
    let text = if cfg!(windows) { text.replace('\\', "/") } else { text.to_owned() };
    Ok(format!("sqlite://{}", utf8_percent_encode(&text, FILE_NAME)))
}

fn make_private_directory(directory: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}

fn open_private_file(path: &Path) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(drop)
}

/// Where a server is, without user and password.
fn place(url: &Url) -> String {
    let host = url.host_str().filter(|host| !host.is_empty()).unwrap_or("the local socket");
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

/// Opens and closes one connection. SQLite does not keep to its busy time-out when several processes switch a new file to
/// WAL at the same moment, so the waiting is done here.
async fn first_connection(url: &str) -> Result<(), sqlx::Error> {
    let waiting = Stopwatch::start();
    loop {
        let attempt = async {
            let mut connection = AnyConnection::connect(url).await?;
            sqlx::raw_sql(PRAGMAS).execute(&mut connection).await?;
            connection.close().await
        };
        match attempt.await {
            Err(sqlx::Error::Database(error))
                if error.message().contains("locked") && waiting.elapsed() < BUSY_TIMEOUT =>
            {
                tokio::time::sleep(SET_UP_PAUSE).await;
            }
            outcome => return outcome,
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

    #[test]
    fn a_server_is_named_without_its_password() {
        assert_eq!(place(&Url::parse("postgres://u:hunter2@db.example:5433/d").unwrap()), "db.example:5433");
        assert_eq!(place(&Url::parse("postgres:///d?host=/run").unwrap()), "the local socket");
    }
}
