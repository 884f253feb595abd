//! A copy of a SQLite database in use.

use std::path::{Path, PathBuf};

use sqlx::{AnyConnection, Connection};

use super::DbError;
use super::open::Target;
use super::sqlite::{self, inspect, prepare_file, read_only};

/// Copies by `VACUUM INTO`: one snapshot, beside readers and writers, without what was deleted. The copy is made under
/// another name, read through and brought to the disk, and only then has its own.
pub(super) async fn backup(target: &Target, file: &Path) -> Result<(), DbError> {
    let Target::Sqlite(source) = target else {
        return Err(DbError::BadUrl(
            "PostgreSQL is copied by its own tools: pg_dump --format=custom --file=FILE URL (see the README)"
                .to_owned(),
        ));
    };
    let refused = |what: &str, which: &Path, error: &dyn std::fmt::Display| {
        DbError::Unavailable(format!("{what} {} ({error}); name another file", which.display()))
    };
    if !source.is_file() {
        return Err(DbError::Unavailable(format!(
            "there is no database at {}; correct SECONDLOOK_DATABASE_URL or SECONDLOOK_DATA_DIR",
            source.display()
        )));
    }
    if file.exists() {
        return Err(refused("there is already", file, &"nothing is overwritten"));
    }
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    let part = file.with_file_name(name);
    // What an interrupted copy left is of no use to anybody.
    let _ = std::fs::remove_file(&part);
    sqlx::any::install_default_drivers();
    let copied = async {
        prepare_file(&part)?;
        let copy = async {
            let mut connection = AnyConnection::connect(&read_only(source)?).await?;
            sqlx::raw_sql("PRAGMA busy_timeout = 15000").execute(&mut connection).await?;
            sqlx::query("VACUUM INTO $1").bind(text(&part)).execute(&mut connection).await?;
            connection.close().await
        };
        copy.await.map_err(|error| sqlite::explain(source, error))?;
        inspect(&part).await?;
        std::fs::File::open(&part).and_then(|file| file.sync_all()).map_err(|e| refused("cannot write", &part, &e))?;
        // A link is refused where a name was taken in the meantime; not every file system has links.
        match std::fs::hard_link(&part, file) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                Err(refused("there is already", file, &"nothing is overwritten"))
            }
            Err(_) => std::fs::rename(&part, file).map_err(|error| refused("cannot write", file, &error)),
            Ok(()) => Ok(()),
        }
    };
    let outcome = copied.await;
    for left in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(PathBuf::from(format!("{}{left}", part.display())));
    }
    outcome
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
