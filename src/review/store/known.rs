//! What is kept of all pull requests of a repository, to compare it with what GitHub has.

use sqlx::Row;

use super::{PullKey, PullStore, signed};
use crate::db::{DbError, Tx};

/// A pull request that we have had to do with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownPull {
    /// Its number.
    pub number: u64,
    /// The head of the last finished review.
    pub reviewed_head: Option<String>,
    /// Whether somebody paused reviews here.
    pub paused: bool,
    /// Whether it was closed, as far as we know.
    pub closed: bool,
    /// The state for which a comparison asked for a review.
    pub noticed: Option<String>,
}

impl PullStore {
    /// The pull requests of a repository that we have had to do with.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn known(&self, repository: u64) -> Result<Vec<KnownPull>, DbError> {
        let rows = sqlx::query(
            "SELECT number, reviewed_head, paused, outcome, noticed FROM pulls WHERE repository = $1 ORDER BY number",
        )
        .bind(signed(repository))
        .fetch_all(self.db.reader())
        .await?;
        rows.iter()
            .map(|row| {
                Ok(KnownPull {
                    number: row.try_get::<i64, _>(0)?.cast_unsigned(),
                    reviewed_head: row.try_get(1)?,
                    paused: row.try_get::<i64, _>(2)? != 0,
                    closed: row.try_get::<Option<String>, _>(3)?.is_some(),
                    noticed: row.try_get(4)?,
                })
            })
            .collect()
    }

    /// Remembers, within the caller's transaction, for which state of a pull request a review was asked for.
    ///
    /// # Errors
    /// When a statement fails; the caller's transaction is then to be dropped.
    pub async fn notice(&self, tx: &mut Tx<'_>, pull: PullKey, state: &str) -> Result<(), DbError> {
        self.ensure_in(tx, pull).await?;
        sqlx::query("UPDATE pulls SET noticed = $3 WHERE repository = $1 AND number = $2")
            .bind(signed(pull.repository))
            .bind(signed(pull.number))
            .bind(state)
            .execute(&mut **tx)
            .await?;
        Ok(())
    }
}
