//! Which installations and repositories we know: kept in step by webhooks, asked by jobs.
//!
//! A repository is known by its id, which outlives renames and transfers. What is removed is only marked at first, so
//! that a removal by mistake costs nothing; [`removed_before`] tells what has been gone for long enough.

use jiff::Timestamp;
use sqlx::Row;

use super::Repository;
use crate::db::{Db, DbError, Tx};

/// Something that a webhook says of an installation or a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// An installation is there, on this account. Says nothing of whether it is suspended.
    Installation {
        /// Its id.
        installation: u64,
        /// The account's name.
        account: String,
    },
    /// Its owner put it to rest, or woke it.
    Suspended {
        /// Its id.
        installation: u64,
        /// The account's name.
        account: String,
        /// At rest, or awake.
        suspended: bool,
    },
    /// An installation is gone, and all its repositories with it.
    InstallationRemoved {
        /// Its id.
        installation: u64,
    },
    /// A repository is reached by this installation, under this name.
    Repository {
        /// The installation.
        installation: u64,
        /// The repository.
        repository: Repository,
    },
    /// A repository has another name or owner, and nobody said which installation reaches it.
    Moved {
        /// The repository, by its new name.
        repository: Repository,
    },
    /// A repository was reached by this installation once. Says nothing of now.
    Seen {
        /// The installation.
        installation: u64,
        /// The repository.
        repository: Repository,
    },
    /// The account of an installation has another name, and so has the owner of all its repositories.
    Renamed {
        /// The installation.
        installation: u64,
        /// The account's new name.
        account: String,
    },
    /// A repository is gone, or no longer this installation's to see. Another installation may reach it all the same.
    RepositoryRemoved {
        /// The installation; `None` when the repository itself is gone.
        installation: Option<u64>,
        /// Its id.
        repository: u64,
    },
}

/// Writes records down, within the caller's transaction.
///
/// # Errors
/// When a statement fails; the caller's transaction is then to be dropped.
pub async fn apply(tx: &mut Tx<'_>, records: &[Record], now: Timestamp) -> Result<(), DbError> {
    let now = now.as_millisecond();
    for record in records {
        match record {
            Record::Installation { installation, account } => {
                sqlx::query(
                    "INSERT INTO installations (id, account, updated_at) VALUES ($1, $2, $3)
                     ON CONFLICT (id) DO UPDATE SET account = excluded.account, updated_at = excluded.updated_at,
                       removed_at = NULL",
                )
                .bind(stored(*installation)?)
                .bind(account)
                .bind(now)
                .execute(&mut **tx)
                .await?;
            }
            Record::Suspended { installation, account, suspended } => {
                sqlx::query(
                    "INSERT INTO installations (id, account, suspended, updated_at) VALUES ($1, $2, $3, $4)
                     ON CONFLICT (id) DO UPDATE SET account = excluded.account, suspended = excluded.suspended,
                       updated_at = excluded.updated_at",
                )
                .bind(stored(*installation)?)
                .bind(account)
                .bind(i64::from(*suspended))
                .bind(now)
                .execute(&mut **tx)
                .await?;
                if !suspended {
                    // Nothing was told while it slept: all of it is to be compared with GitHub.
                    sqlx::query("UPDATE repositories SET reconciled_at = 0 WHERE installation = $1")
                        .bind(stored(*installation)?)
                        .execute(&mut **tx)
                        .await?;
                }
            }
            Record::InstallationRemoved { installation } => {
                for sql in [
                    "UPDATE installations SET removed_at = $2, updated_at = $2 WHERE id = $1",
                    "UPDATE repositories SET removed_at = $2, updated_at = $2
                     WHERE installation = $1 AND removed_at IS NULL",
                ] {
                    sqlx::query(sql).bind(stored(*installation)?).bind(now).execute(&mut **tx).await?;
                }
            }
            Record::Repository { installation, repository } => {
                // Most events say what is known already: then nothing is written.
                sqlx::query(
                    "INSERT INTO repositories (id, installation, owner, name, updated_at, known_since)
                     VALUES ($1, $2, $3, $4, $5, $5)
                     ON CONFLICT (id) DO UPDATE SET installation = excluded.installation, owner = excluded.owner,
                       name = excluded.name, updated_at = excluded.updated_at, removed_at = NULL,
                       known_since = CASE WHEN repositories.removed_at IS NULL THEN repositories.known_since
                                          ELSE excluded.known_since END
                     WHERE repositories.installation <> excluded.installation OR repositories.owner <> excluded.owner
                       OR repositories.name <> excluded.name OR repositories.removed_at IS NOT NULL",
                )
                .bind(stored(repository.id)?)
                .bind(stored(*installation)?)
                .bind(&repository.owner)
                .bind(&repository.name)
                .bind(now)
                .execute(&mut **tx)
                .await?;
            }
            Record::Seen { installation, repository } => {
                sqlx::query(
                    "INSERT INTO repositories (id, installation, owner, name, updated_at, known_since)
                     VALUES ($1, $2, $3, $4, $5, $5) ON CONFLICT (id) DO NOTHING",
                )
                .bind(stored(repository.id)?)
                .bind(stored(*installation)?)
                .bind(&repository.owner)
                .bind(&repository.name)
                .bind(now)
                .execute(&mut **tx)
                .await?;
            }
            Record::Renamed { installation, account } => {
                for sql in [
                    "UPDATE installations SET account = $2, updated_at = $3 WHERE id = $1",
                    "UPDATE repositories SET owner = $2, updated_at = $3 WHERE installation = $1",
                ] {
                    sqlx::query(sql).bind(stored(*installation)?).bind(account).bind(now).execute(&mut **tx).await?;
                }
            }
            Record::Moved { repository } => {
                sqlx::query("UPDATE repositories SET owner = $2, name = $3, updated_at = $4 WHERE id = $1")
                    .bind(stored(repository.id)?)
                    .bind(&repository.owner)
                    .bind(&repository.name)
                    .bind(now)
                    .execute(&mut **tx)
                    .await?;
            }
            Record::RepositoryRemoved { installation, repository } => {
                sqlx::query(
                    "UPDATE repositories SET removed_at = $2, updated_at = $2
                     WHERE id = $1 AND removed_at IS NULL AND ($3 = 0 OR installation = $3)",
                )
                .bind(stored(*repository)?)
                .bind(now)
                .bind(stored(installation.unwrap_or(0))?)
                .execute(&mut **tx)
                .await?;
            }
        }
    }
    Ok(())
}

/// Whether the owner of an installation put it to rest. One we never heard of is not.
///
/// # Errors
/// When the statement fails.
pub async fn suspended(db: &Db, installation: u64) -> Result<bool, DbError> {
    let row = sqlx::query("SELECT suspended FROM installations WHERE id = $1")
        .bind(stored(installation)?)
        .fetch_optional(db.reader())
        .await?;
    Ok(row.map(|row| row.try_get::<i64, _>(0)).transpose()?.is_some_and(|suspended| suspended != 0))
}

/// A repository under its present name, and the installation that reaches it; `None` when it is unknown or removed.
///
/// # Errors
/// When the statement fails.
pub async fn repository(db: &Db, id: u64) -> Result<Option<(u64, Repository)>, DbError> {
    let row = sqlx::query("SELECT installation, owner, name FROM repositories WHERE id = $1 AND removed_at IS NULL")
        .bind(stored(id)?)
        .fetch_optional(db.reader())
        .await?;
    let Some(row) = row else { return Ok(None) };
    let repository = Repository { id, owner: row.try_get(1)?, name: row.try_get(2)? };
    Ok(Some((known(row.try_get(0)?)?, repository)))
}

/// Repositories of an installation that were removed at `cutoff` or before and have not come back.
///
/// # Errors
/// When the statement fails.
pub async fn removed_before(db: &Db, installation: u64, cutoff: Timestamp) -> Result<Vec<u64>, DbError> {
    let rows = sqlx::query("SELECT id FROM repositories WHERE installation = $1 AND removed_at <= $2 ORDER BY id")
        .bind(stored(installation)?)
        .bind(cutoff.as_millisecond())
        .fetch_all(db.reader())
        .await?;
    rows.iter().map(|row| known(row.try_get(0)?)).collect()
}

/// Forgets the rows of repositories whose data is deleted, and the installation's when it was removed at `cutoff` or
/// before and no repository is left.
///
/// # Errors
/// When a statement fails; the caller's transaction is then to be dropped.
pub async fn forget(
    tx: &mut Tx<'_>,
    installation: u64,
    repositories: &[u64],
    cutoff: Timestamp,
) -> Result<(), DbError> {
    for id in repositories {
        sqlx::query("DELETE FROM repositories WHERE id = $1 AND removed_at <= $2")
            .bind(stored(*id)?)
            .bind(cutoff.as_millisecond())
            .execute(&mut **tx)
            .await?;
    }
    sqlx::query(
        "DELETE FROM installations WHERE id = $1 AND removed_at <= $2
           AND NOT EXISTS (SELECT 1 FROM repositories WHERE installation = $1)",
    )
    .bind(stored(installation)?)
    .bind(cutoff.as_millisecond())
    .execute(&mut **tx)
    .await?;
    Ok(())
}

fn stored(id: u64) -> Result<i64, DbError> {
    i64::try_from(id).map_err(|error| DbError::Corrupt { what: "id", reason: error.to_string() })
}

fn known(id: i64) -> Result<u64, DbError> {
    u64::try_from(id).map_err(|error| DbError::Corrupt { what: "id", reason: error.to_string() })
}
