//! Brings the schema up to date. Migrations are compiled in; each is applied once, all in one transaction.

use sqlx::Row;

use super::{Backend, Db, DbError, Tx};

/// Every migration, oldest first; the version of a schema is how many of them it has. A released one never changes.
const MIGRATIONS: &[(&str, &str)] = &[
    ("initial", include_str!("migrations/0001_initial.sql")),
    ("backbone", include_str!("migrations/0002_backbone.sql")),
];

/// Applies what is missing.
pub(super) async fn migrate(db: &Db) -> Result<(), DbError> {
    let mut tx = db.begin().await?;
    if db.backend() == Backend::Postgres {
        // A large table may take its time, and who waits for it with us.
        sqlx::raw_sql("SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0").execute(&mut *tx).await?;
        // Instances that start together take turns. The number is arbitrary; the lock goes with the transaction.
        sqlx::raw_sql("DO $$ BEGIN PERFORM pg_advisory_xact_lock(7225150190462); END $$").execute(&mut *tx).await?;
    }
    sqlx::raw_sql("CREATE TABLE IF NOT EXISTS schema_version (version BIGINT PRIMARY KEY, name TEXT NOT NULL)")
        .execute(&mut *tx)
        .await?;
    let version = version(&mut tx).await?;
    let known = i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX);
    if version > known {
        return Err(DbError::Unavailable(format!(
            "its schema is version {version}, and this secondlook knows only up to {known}: a newer one has used it; run that \
             one, or restore a backup from before"
        )));
    }
    for ((name, sql), number) in MIGRATIONS.iter().zip(1_i64..).filter(|(_, number)| *number > version) {
        sqlx::raw_sql(*sql).execute(&mut *tx).await?;
        sqlx::query("INSERT INTO schema_version (version, name) VALUES ($1, $2)")
            .bind(number)
            .bind(*name)
            .execute(&mut *tx)
            .await?;
    }
    tx.commit().await?;
    Ok(())
}

async fn version(tx: &mut Tx<'_>) -> Result<i64, DbError> {
    let row = sqlx::query("SELECT CAST(COALESCE(max(version), 0) AS BIGINT) FROM schema_version")
        .fetch_one(&mut **tx)
        .await?;
    Ok(row.try_get(0)?)
}
