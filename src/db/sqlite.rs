//! Opening a SQLite file: made for its owner alone, and looked at before anything is written into it.

use std::path::Path;
use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sqlx::any::AnyPoolOptions;
use sqlx::{AnyConnection, Connection, Row};

use super::{BUSY_TIMEOUT, DbError, Pools};
use crate::clock::Stopwatch;
use crate::ids::new_id;

/// How every SQLite connection is set up. The time-out is [`BUSY_TIMEOUT`]; it comes first, because the change to WAL
/// needs a lock. FULL makes a commit survive a power cut.
const PRAGMAS: &str = "PRAGMA busy_timeout = 15000; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
     PRAGMA foreign_keys = ON; PRAGMA journal_size_limit = 67108864";

/// Pause before a new SQLite file is tried again while another process sets it up.
const SET_UP_PAUSE: Duration = Duration::from_millis(20);

/// How long that may take.
const SET_UP_TIME: Duration = Duration::from_secs(3);

/// What sqlx decodes again when it takes a file name out of a URL.
const FILE_NAME: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'.').remove(b'-').remove(b'_');

/// What to do about a file whose content is not what was written.
const RESTORE: &str = "nothing was changed in it; keep a copy of it and of its -wal file, and restore a backup \
                       (README, \"Backup and restore\")";

/// What sets a connection apart that only reads.
const ONLY_READS: &str = "PRAGMA query_only = ON";

/// Pools on the file, one of readers and one of a single writer, after one connection has shown that it can be used.
pub(super) async fn open(path: &Path, readers: AnyPoolOptions) -> Result<Pools, DbError> {
    if !path.exists() {
        create(path).await?;
    }
    let url = prepare_file(path)?;
    wait_for_content(path).await?;
    inspect(path).await?;
    // A pool tries again until its own time-out and then says no more than that it timed out; so one connection goes
    // first.
    first_connection(&url).await.map_err(|error| explain(path, error))?;
    let open = || -> Result<Pools, sqlx::Error> {
        let reader = lasting(readers).after_connect(|connection, _| {
            Box::pin(async move {
                sqlx::raw_sql(PRAGMAS).execute(&mut *connection).await?;
                sqlx::raw_sql(ONLY_READS).execute(&mut *connection).await.map(drop)
            })
        });
        let writer = lasting(AnyPoolOptions::new().max_connections(1)).after_connect(|connection, _| {
            Box::pin(async move { sqlx::raw_sql(PRAGMAS).execute(&mut *connection).await.map(drop) })
        });
        Ok(Pools { reader: reader.connect_lazy(&url)?, writer: writer.connect_lazy(&url)? })
    };
    open().map_err(|error| explain(path, error))
}

/// Makes a new database under another name, and gives it its own once it has a first page: a process that dies in the middle
/// would leave an empty file, and nobody could tell it from one that has lost everything.
async fn create(path: &Path) -> Result<(), DbError> {
    // No other process may have the same one open when it gets its name.
    let part = path.with_file_name(format!("{}.{}.new", file_name(path), new_id()));
    let made = async {
        let url = prepare_file(&part)?;
        first_connection(&url).await.map_err(|error| explain(path, error))?;
        match std::fs::hard_link(&part, path) {
            // Another process was first.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
            // Not every file system has links.
            Err(_) => std::fs::rename(&part, path)
                .map_err(|error| DbError::Unavailable(format!("cannot write {} ({error})", path.display()))),
            Ok(()) => Ok(()),
        }
    };
    let outcome = made.await;
    let _ = std::fs::remove_file(&part);
    outcome.map_err(|error| match error {
        DbError::Unavailable(text) => DbError::Unavailable(text.replace(&file_name(&part), &file_name(path))),
        other => other,
    })
}

/// Connections to a file stay good.
fn lasting(options: AnyPoolOptions) -> AnyPoolOptions {
    options
        .acquire_timeout(BUSY_TIMEOUT * 2)
        .test_before_acquire(false)
        .idle_timeout(None)
        .max_lifetime(None)
        // A full disk ends a transaction in SQLite itself, and the driver counts it on for ever: such a connection could
        // never begin another one.
        .before_acquire(|connection, _| Box::pin(async move { Ok(!connection.is_in_transaction()) }))
}

/// Says what a fault while opening means, and what to do.
pub(super) fn explain(path: &Path, error: sqlx::Error) -> DbError {
    let sqlx::Error::Database(error) = error else {
        return DbError::Unavailable(format!("{}: {error}; name another file in the database URL", path.display()));
    };
    let advice = match error.message() {
        message if message.contains("not a database") => "move that file away, or name another one",
        message if message.contains("locked") => "another program holds it: stop that one first",
        message if message.contains("full") => "make room on its disk",
        message if message.contains("malformed") => RESTORE,
        _ => "check the permissions of the file and of its directory, or name another file in the database URL",
    };
    DbError::Unavailable(format!("{}: {}; {advice}", path.display(), error.message()))
}

/// Reads through an existing file before it is opened for writing: a damaged one is left as it is, because every write
/// into it, even the folding in of its write-ahead log, can destroy what might still be saved.
pub(super) async fn inspect(path: &Path) -> Result<(), DbError> {
    let wal = |ending: &str| path.with_file_name(format!("{}{ending}", file_name(path)));
    // SQLite removes the index first and the log after it, so the log alone is never left out by SQLite itself.
    if wal("-shm").exists() && !wal("-wal").exists() {
        tracing::warn!(
            database.file = %path.display(),
            "The database's write-ahead log (-wal) is gone while its index (-shm) is there: what was written last is \
             lost, and work goes on from what was there before"
        );
    }
    let check = when_unlocked(async || {
        let mut connection = AnyConnection::connect(&read_only(path)?).await?;
        let found = quick_check(&mut connection).await;
        // Also after a fault, so that nothing of it is left beside the file.
        connection.close().await?;
        found
    });
    match check.await {
        Ok(found) if found == "ok" => Ok(()),
        // Its text names pages and rows, one to a line.
        Ok(found) => {
            let found = found.lines().map(|line| line.trim_matches([' ', '*'])).collect::<Vec<_>>().join("; ");
            Err(DbError::Unavailable(format!("{} is damaged ({found}); {RESTORE}", path.display())))
        }
        Err(error) => Err(explain(path, error)),
    }
}

async fn quick_check(connection: &mut AnyConnection) -> Result<String, sqlx::Error> {
    sqlx::raw_sql("PRAGMA busy_timeout = 15000").execute(&mut *connection).await?;
    sqlx::query("PRAGMA quick_check(1)").fetch_one(connection).await?.try_get(0)
}

/// The URL by which a file that is there is only read.
pub(super) fn read_only(path: &Path) -> Result<String, sqlx::Error> {
    Ok(format!("{}?mode=ro", url_of(&path.canonicalize()?)))
}

fn url_of(path: &Path) -> String {
    let text = path.to_string_lossy();
    // On Windows a path begins with a drive letter and holds backslashes; SQLite takes slashes everywhere.
    let text = if cfg!(windows) { text.replace('\\', "/") } else { text.into_owned() };
    format!("sqlite://{}", utf8_percent_encode(&text, FILE_NAME))
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// An empty file is one that another process has made this moment, or what an accident left of a database: to begin anew
/// in it would hide that everything is gone.
async fn wait_for_content(path: &Path) -> Result<(), DbError> {
    let waiting = Stopwatch::start();
    while std::fs::metadata(path).is_ok_and(|file| file.len() == 0) {
        if waiting.elapsed() > SET_UP_TIME {
            return Err(DbError::Unavailable(format!(
                "{} is empty: if it held a database, restore a backup (README, \"Backup and restore\"); to begin anew, \
                 remove it",
                path.display()
            )));
        }
        tokio::time::sleep(SET_UP_PAUSE).await;
    }
    Ok(())
}

/// Makes the directory and the file, so that nobody else may read either, and returns the URL that sqlx wants.
pub(super) fn prepare_file(path: &Path) -> Result<String, DbError> {
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
    if path.to_str().is_none() {
        return Err(DbError::BadUrl(format!("{} is not UTF-8; name another file", path.display())));
    }
    Ok(url_of(&path))
}

fn make_private_directory(directory: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}

fn open_private_file(path: &Path) -> std::io::Result<()> {
    let open = |new: bool| {
        let mut options = std::fs::OpenOptions::new();
        options.read(true).write(true).create_new(new);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.open(path)
    };
    match open(true) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => open(false).map(drop),
        made => made.map(drop),
    }
}

/// Opens and closes one connection that may write.
async fn first_connection(url: &str) -> Result<(), sqlx::Error> {
    when_unlocked(async || {
        let mut connection = AnyConnection::connect(url).await?;
        sqlx::raw_sql(PRAGMAS).execute(&mut connection).await?;
        connection.close().await
    })
    .await
}

/// SQLite does not keep to its busy time-out when several processes switch a new file to WAL at the same moment, so the
/// waiting is done here.
async fn when_unlocked<T>(attempt: impl AsyncFn() -> Result<T, sqlx::Error>) -> Result<T, sqlx::Error> {
    let waiting = Stopwatch::start();
    loop {
        match attempt().await {
            Err(sqlx::Error::Database(error))
                if error.message().contains("locked") && waiting.elapsed() < BUSY_TIMEOUT =>
            {
                tokio::time::sleep(SET_UP_PAUSE).await;
            }
            outcome => return outcome,
        }
    }
}
