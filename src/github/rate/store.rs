//! The SQL of what GitHub lets each installation do, shared by all instances on one database.

use jiff::Timestamp;
use sqlx::Row;
use sqlx::any::AnyRow;

use super::standing::{Budget, Standing};
use crate::db::{Backend, Db, DbError, Tx};

/// The columns in the order of [`read`].
macro_rules! columns {
    () => {
        "paused_until, level, next_write, writing_until, spent_until, budget_limit, budget_left, budget_reset"
    };
}

/// The standings of all installations.
#[derive(Debug, Clone)]
pub struct Standings {
    db: Db,
}

impl Standings {
    /// In `db`.
    pub fn new(db: Db) -> Self {
        Self { db }
    }

    /// Where an installation stands; as new when nothing is known of it.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn get(&self, installation: u64) -> Result<Standing, DbError> {
        let row = sqlx::query(concat!("SELECT ", columns!(), " FROM github_limits WHERE installation = $1"))
            .bind(installation.cast_signed())
            .fetch_optional(self.db.reader())
            .await?;
        row.as_ref().map_or_else(|| Ok(Standing::default()), read)
    }

    /// Changes where an installation stands, one instance after the other. Returns what `change` did, and the standing
    /// after it.
    ///
    /// # Errors
    /// When a statement fails; nothing is changed then.
    pub async fn change<T: Send>(
        &self,
        installation: u64,
        change: impl FnOnce(&mut Standing) -> T + Send,
    ) -> Result<(T, Standing), DbError> {
        let mut tx = self.db.begin().await?;
        let mut standing = self.lock(&mut tx, installation).await?;
        let done = change(&mut standing);
        write(&mut tx, installation, &standing).await?;
        tx.commit().await?;
        Ok((done, standing))
    }

    /// Reads the row so that nobody else changes it before the transaction ends.
    async fn lock(&self, tx: &mut Tx<'static>, installation: u64) -> Result<Standing, DbError> {
        // SQLite's transaction holds the one write lock already.
        let sql = match self.db.backend() {
            Backend::Sqlite => concat!("SELECT ", columns!(), " FROM github_limits WHERE installation = $1"),
            Backend::Postgres => {
                concat!("SELECT ", columns!(), " FROM github_limits WHERE installation = $1 FOR UPDATE")
            }
        };
        for _ in 0..2 {
            let row = sqlx::query(sql).bind(installation.cast_signed()).fetch_optional(&mut **tx).await?;
            if let Some(row) = row {
                return read(&row);
            }
            sqlx::query(
                "INSERT INTO github_limits (installation, paused_until, level, next_write, writing_until, spent_until)
                 VALUES ($1, 0, 0, 0, 0, 0) ON CONFLICT (installation) DO NOTHING",
            )
            .bind(installation.cast_signed())
            .execute(&mut **tx)
            .await?;
        }
        Err(DbError::Corrupt { what: "limit", reason: "its row was deleted while it was changed".into() })
    }
}

/// Frees the turns of writers that are gone. Only for who knows that no other process writes: a server that has just
/// started on a database of its own.
///
/// # Errors
/// When the statement fails.
pub async fn end_all_turns(db: &Db) -> Result<(), DbError> {
    sqlx::query("UPDATE github_limits SET writing_until = 0").execute(db.writer()).await?;
    Ok(())
}

async fn write(tx: &mut Tx<'static>, installation: u64, standing: &Standing) -> Result<(), DbError> {
    let budget = standing.core;
    sqlx::query(
        "UPDATE github_limits SET paused_until = $2, level = $3, next_write = $4, writing_until = $5, spent_until = $6,
           budget_limit = $7, budget_left = $8, budget_reset = $9
         WHERE installation = $1",
    )
    .bind(installation.cast_signed())
    .bind(standing.paused_until.as_millisecond())
    .bind(i64::from(standing.level))
    .bind(standing.next_write.as_millisecond())
    .bind(standing.writing_until.as_millisecond())
    .bind(standing.spent_until.as_millisecond())
    .bind(budget.map(|budget| budget.limit.cast_signed()))
    .bind(budget.map(|budget| budget.left.cast_signed()))
    .bind(budget.map(|budget| budget.reset.as_millisecond()))
    .execute(&mut **tx)
    .await?;
    Ok(())
}

fn read(row: &AnyRow) -> Result<Standing, DbError> {
    let instant = |column: usize| instant(row.try_get(column)?);
    let number = |column: usize| Ok::<_, DbError>(row.try_get::<Option<i64>, _>(column)?);
    let core = match (number(5)?, number(6)?, number(7)?) {
        (Some(limit), Some(left), Some(reset)) => {
            Some(Budget { limit: limit.cast_unsigned(), left: left.cast_unsigned(), reset: self::instant(reset)? })
        }
        _ => None,
    };
    Ok(Standing {
        paused_until: instant(0)?,
        level: u32::try_from(row.try_get::<i64, _>(1)?).unwrap_or_default(),
        next_write: instant(2)?,
        writing_until: instant(3)?,
        spent_until: instant(4)?,
        core,
    })
}

fn instant(milliseconds: i64) -> Result<Timestamp, DbError> {
    Timestamp::from_millisecond(milliseconds)
        .map_err(|error| DbError::Corrupt { what: "limit", reason: error.to_string() })
}
