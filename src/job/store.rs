//! What jobs ask of the records of installations, which webhooks keep.

use jiff::Timestamp;
use sqlx::Row;

use crate::db::{Db, DbError};
use crate::github::Repository;

/// The records of installations and repositories.
pub struct Installations {
    db: Db,
}

/// A repository that we reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reached {
    /// The installation that reaches it.
    pub installation: u64,
    /// The repository.
    pub repository: Repository,
    /// Since when we know of it.
    pub known_since: Timestamp,
}

impl Installations {
    /// In `db`.
    pub fn new(db: Db) -> Self {
        Self { db }
    }

    /// Whether the installation was removed, or the repository taken out of it. What is not on record is taken to be there.
    ///
    /// # Errors
    /// When a statement fails.
    pub async fn out_of_reach(&self, installation: u64, repository: u64) -> Result<bool, DbError> {
        let row = sqlx::query(
            "SELECT CAST(count(*) AS BIGINT) FROM installations
             WHERE id = $1 AND removed_at IS NOT NULL",
        )
        .bind(installation.cast_signed())
        .fetch_one(self.db.reader())
        .await?;
        if row.try_get::<i64, _>(0)? > 0 {
            return Ok(true);
        }
        Ok(!self.removed(installation, &[repository]).await?.is_empty())
    }

    /// Which of these repositories (all of the installation's when none is named) are removed now: they may have come
    /// back since the removal was noticed.
    ///
    /// # Errors
    /// When a statement fails.
    pub async fn removed(&self, installation: u64, repositories: &[u64]) -> Result<Vec<Repository>, DbError> {
        let rows = sqlx::query(
            "SELECT repositories.id, repositories.owner, repositories.name FROM repositories
             LEFT JOIN installations ON installations.id = repositories.installation
             WHERE repositories.installation = $1
               AND (repositories.removed_at IS NOT NULL OR installations.removed_at IS NOT NULL)",
        )
        .bind(installation.cast_signed())
        .fetch_all(self.db.reader())
        .await?;
        let mut removed = Vec::new();
        for row in &rows {
            let id = row.try_get::<i64, _>(0)?.cast_unsigned();
            if repositories.is_empty() || repositories.contains(&id) {
                removed.push(Repository { id, owner: row.try_get(1)?, name: row.try_get(2)? });
            }
        }
        Ok(removed)
    }

    /// Repositories whose pull requests were last compared at `before` or earlier, the longest ago first, at most
    /// `limit`. Those that are removed, or whose installation is removed or sleeps, are left out.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn to_reconcile(&self, before: Timestamp, limit: i64) -> Result<Vec<Reached>, DbError> {
        let rows = sqlx::query(
            "SELECT repositories.id, repositories.owner, repositories.name, repositories.installation,
               repositories.known_since
             FROM repositories LEFT JOIN installations ON installations.id = repositories.installation
             WHERE repositories.removed_at IS NULL AND repositories.reconciled_at <= $1
               AND (installations.id IS NULL OR (installations.removed_at IS NULL AND installations.suspended = 0))
             ORDER BY repositories.reconciled_at, repositories.id LIMIT $2",
        )
        .bind(before.as_millisecond())
        .bind(limit)
        .fetch_all(self.db.reader())
        .await?;
        rows.iter()
            .map(|row| {
                let id = row.try_get::<i64, _>(0)?.cast_unsigned();
                let known_since = Timestamp::from_millisecond(row.try_get(4)?)
                    .map_err(|error| DbError::Corrupt { what: "time of a repository", reason: error.to_string() })?;
                Ok(Reached {
                    installation: row.try_get::<i64, _>(3)?.cast_unsigned(),
                    repository: Repository { id, owner: row.try_get(1)?, name: row.try_get(2)? },
                    known_since,
                })
            })
            .collect()
    }

    /// Remembers that a repository's pull requests were compared.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn reconciled(&self, repository: u64, now: Timestamp) -> Result<(), DbError> {
        sqlx::query("UPDATE repositories SET reconciled_at = $2 WHERE id = $1")
            .bind(repository.cast_signed())
            .bind(now.as_millisecond())
            .execute(self.db.writer())
            .await?;
        Ok(())
    }

    /// Deletes the record of a removed repository, and of its installation when that was its last one and is removed.
    ///
    /// # Errors
    /// When a statement fails; nothing is deleted then.
    pub async fn forget(&self, installation: u64, repository: u64) -> Result<(), DbError> {
        let mut tx = self.db.begin().await?;
        sqlx::query("DELETE FROM repositories WHERE id = $1 AND installation = $2")
            .bind(repository.cast_signed())
            .bind(installation.cast_signed())
            .execute(&mut *tx)
            .await?;
        sqlx::query(
            "DELETE FROM installations WHERE id = $1 AND removed_at IS NOT NULL
             AND NOT EXISTS (SELECT 1 FROM repositories WHERE installation = $1)",
        )
        .bind(installation.cast_signed())
        .execute(&mut *tx)
        .await?;
        tx.commit().await?;
        Ok(())
    }
}
