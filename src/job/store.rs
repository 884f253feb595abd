//! What jobs ask of the records of installations, which webhooks keep.

use sqlx::Row;

use crate::db::{Db, DbError};

/// The records of installations and repositories.
pub struct Installations {
    db: Db,
}

impl Installations {
    /// In `db`.
    pub fn new(db: Db) -> Self {
        Self { db }
    }

    /// Whether the installation was removed or suspended, or the repository taken out of it. What is not on record is
    /// taken to be there.
    ///
    /// # Errors
    /// When a statement fails.
    pub async fn out_of_reach(&self, installation: u64, repository: u64) -> Result<bool, DbError> {
        let row = sqlx::query(
            "SELECT CAST(count(*) AS BIGINT) FROM installations
             WHERE id = $1 AND (removed_at IS NOT NULL OR suspended = 1)",
        )
        .bind(installation.cast_signed())
        .fetch_one(self.db.pool())
        .await?;
        if row.try_get::<i64, _>(0)? > 0 {
            return Ok(true);
        }
        Ok(self.removed(installation, &[repository]).await?.contains(&repository))
    }

    /// Which of these repositories (all of the installation's when none is named) are removed now: they may have come
    /// back since the removal was noticed.
    ///
    /// # Errors
    /// When a statement fails.
    pub async fn removed(&self, installation: u64, repositories: &[u64]) -> Result<Vec<u64>, DbError> {
        let rows = sqlx::query(
            "SELECT repositories.id FROM repositories
             LEFT JOIN installations ON installations.id = repositories.installation
             WHERE repositories.installation = $1
               AND (repositories.removed_at IS NOT NULL OR installations.removed_at IS NOT NULL)",
        )
        .bind(installation.cast_signed())
        .fetch_all(self.db.pool())
        .await?;
        let mut removed = Vec::new();
        for row in &rows {
            let id = row.try_get::<i64, _>(0)?.cast_unsigned();
            if repositories.is_empty() || repositories.contains(&id) {
                removed.push(id);
            }
        }
        Ok(removed)
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
