//! The SQL of spending: one row for each account, or for each of its days.

use jiff::{SignedDuration, Timestamp};
use sqlx::Row;

use super::{Account, day};
use crate::agent::limits::Cost;
use crate::db::{Db, DbError, Tx};

/// How long a row is kept after its last change.
const KEPT: SignedDuration = SignedDuration::from_hours(90 * 24);

/// What accounts have spent, in the database. Cheap to clone.
#[derive(Clone)]
pub struct SpendingStore {
    db: Db,
}

impl SpendingStore {
    /// Over `db`.
    pub fn new(db: Db) -> Self {
        Self { db }
    }

    /// Adds a cost to all accounts; or to none, and returns the first whose limit would not hold it.
    ///
    /// # Errors
    /// When a statement fails.
    pub async fn book<'a>(
        &self,
        accounts: &'a [Account],
        cost: Cost,
        now: Timestamp,
    ) -> Result<Option<&'a Account>, DbError> {
        let mut tx = self.db.begin().await?;
        for account in accounts {
            let total = add(&mut tx, account, now, signed(cost.tokens), signed(cost.micro_usd)).await?;
            if !account.most.holds(total) {
                tx.rollback().await?;
                return Ok(Some(account));
            }
            if account.daily && total == cost {
                // The first call of a day finds time for the rows nobody will ask for again.
                forget_old(&mut tx, now).await?;
            }
        }
        tx.commit().await?;
        Ok(None)
    }

    /// Puts `actual` in the place of `booked`, on the day of `at`.
    ///
    /// # Errors
    /// When a statement fails.
    pub async fn correct(
        &self,
        accounts: &[Account],
        at: Timestamp,
        booked: Cost,
        actual: Cost,
    ) -> Result<(), DbError> {
        let tokens = signed(actual.tokens) - signed(booked.tokens);
        let money = signed(actual.micro_usd) - signed(booked.micro_usd);
        if tokens == 0 && money == 0 {
            return Ok(());
        }
        let mut tx = self.db.begin().await?;
        for account in accounts {
            add(&mut tx, account, at, tokens, money).await?;
        }
        tx.commit().await?;
        Ok(())
    }

    /// What an account has spent on the day of `now`, or in all when it is not daily.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn spent(&self, account: &Account, now: Timestamp) -> Result<Cost, DbError> {
        let row = sqlx::query("SELECT tokens, micro_usd FROM spending WHERE account = $1 AND day = $2")
            .bind(&account.key)
            .bind(day_of(account, now))
            .fetch_optional(self.db.reader())
            .await?;
        row.as_ref().map_or(Ok(Cost::default()), read)
    }

    /// Forgets the accounts whose key begins with `prefix`.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn forget(&self, prefix: &str) -> Result<(), DbError> {
        sqlx::query("DELETE FROM spending WHERE substr(account, 1, length($1)) = $1")
            .bind(prefix)
            .execute(self.db.writer())
            .await?;
        Ok(())
    }
}

async fn add(tx: &mut Tx<'_>, account: &Account, at: Timestamp, tokens: i64, micro_usd: i64) -> Result<Cost, DbError> {
    let row = sqlx::query(
        "INSERT INTO spending (account, day, tokens, micro_usd, updated_at) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (account, day) DO UPDATE SET tokens = spending.tokens + excluded.tokens,
           micro_usd = spending.micro_usd + excluded.micro_usd, updated_at = excluded.updated_at
         RETURNING tokens, micro_usd",
    )
    .bind(&account.key)
    .bind(day_of(account, at))
    .bind(tokens)
    .bind(micro_usd)
    .bind(at.as_millisecond())
    .fetch_one(&mut **tx)
    .await?;
    read(&row)
}

async fn forget_old(tx: &mut Tx<'_>, now: Timestamp) -> Result<(), DbError> {
    let before = now.saturating_sub(KEPT).unwrap_or(Timestamp::MIN);
    sqlx::query("DELETE FROM spending WHERE updated_at < $1").bind(before.as_millisecond()).execute(&mut **tx).await?;
    Ok(())
}

fn read(row: &sqlx::any::AnyRow) -> Result<Cost, DbError> {
    let amount = |at: usize| Ok::<u64, DbError>(u64::try_from(row.try_get::<i64, _>(at)?).unwrap_or(0));
    Ok(Cost { tokens: amount(0)?, micro_usd: amount(1)? })
}

fn day_of(account: &Account, at: Timestamp) -> String {
    if account.daily { day(at) } else { String::new() }
}

/// Far below the end of what the column holds, so that sums stay within.
fn signed(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX).min(1 << 50)
}
