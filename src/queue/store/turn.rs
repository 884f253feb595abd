//! Whose turn it is: a claim picks the tenant first, and then its oldest job.
//!
//! A tenant is a repository, and tenants have an owner, the installation. Next comes who has the fewest jobs running,
//! then who was served longest ago; first of all owners, then of the owner's tenants. So neither a noisy repository nor a
//! noisy installation can starve another, however much it has waiting. The order of service is a counter and no time, so
//! that a clock that jumps changes nothing.
//!
//! Claims take turns too: on SQLite by its one write lock, on PostgreSQL by an advisory lock that lasts for one short
//! transaction. Two at the same moment would otherwise serve the same tenant.

use sqlx::Row;
use sqlx::any::AnyRow;

use super::Queue;
use crate::db::{Backend, DbError, Tx};

/// The tenants that have work waiting, found by one step of an index each, with the oldest job of each that could run;
/// of those, the one whose turn it is. `$1` is now, `$2` the most jobs that one owner may have running.
const PICK: &str = "
    WITH RECURSIVE active(tenant) AS (
      SELECT min(tenant) FROM jobs WHERE state = 'queued' AND tenant >= ''
      UNION ALL
      SELECT (SELECT min(further.tenant) FROM jobs further
              WHERE further.state = 'queued' AND further.tenant > active.tenant)
      FROM active WHERE active.tenant IS NOT NULL
    ),
    busy(owner, tenant, jobs) AS (
      SELECT owner, tenant, count(*) FROM jobs WHERE state = 'running' GROUP BY owner, tenant
    ),
    ready AS (
      SELECT oldest.id, oldest.run_at, oldest.enqueued_at, oldest.owner, oldest.tenant,
        COALESCE((SELECT sum(busy.jobs) FROM busy WHERE busy.owner = oldest.owner), 0) AS owners_jobs,
        COALESCE((SELECT served FROM turns WHERE name = 'owner ' || oldest.owner), 0) AS owner_served,
        COALESCE((SELECT sum(busy.jobs) FROM busy WHERE busy.tenant = oldest.tenant), 0) AS tenants_jobs,
        COALESCE((SELECT served FROM turns WHERE name = 'tenant ' || oldest.tenant), 0) AS tenant_served
      FROM active JOIN jobs oldest ON oldest.id = (
        SELECT waiting.id FROM jobs waiting
        WHERE waiting.state = 'queued' AND waiting.tenant = active.tenant AND waiting.run_at <= $1
          AND NOT EXISTS (SELECT 1 FROM jobs rival WHERE rival.key = waiting.key AND rival.state = 'running')
        ORDER BY waiting.run_at, waiting.enqueued_at, waiting.id LIMIT 1)
    )
    SELECT id, owner, tenant FROM ready WHERE owners_jobs < $2
    ORDER BY owners_jobs, owner_served, tenants_jobs, tenant_served, run_at, enqueued_at, id LIMIT 1";

/// Services after which it does not matter any more when a tenant was served.
const REMEMBERED: i64 = 10_000;

/// A job whose turn it is.
pub(super) struct Next {
    /// The row.
    pub id: String,
    owner: String,
    tenant: String,
}

impl<J> Queue<J> {
    /// Begins a claim: until its end no other claims.
    pub(super) async fn begin_claim(&self) -> Result<Tx<'static>, DbError> {
        let mut tx = self.db.begin().await?;
        if self.db.backend() == Backend::Postgres {
            // The number is arbitrary; the lock goes with the transaction. Such locks are the database's, and several
            // schemas of it may hold a queue each.
            sqlx::raw_sql("DO $$ BEGIN PERFORM pg_advisory_xact_lock(7225150, hashtext(current_schema())); END $$")
                .execute(&mut *tx)
                .await?;
        }
        Ok(tx)
    }

    /// The job whose turn it is.
    pub(super) async fn next(&self, tx: &mut Tx<'_>) -> Result<Option<Next>, DbError> {
        let most = self.settings.per_owner.map_or(i64::MAX, i64::from);
        let row = sqlx::query(PICK).bind(self.now()).bind(most).fetch_optional(&mut **tx).await?;
        row.as_ref().map(read).transpose()
    }

    /// Remembers that a tenant and its owner were served.
    pub(super) async fn note_served(&self, tx: &mut Tx<'_>, next: &Next) -> Result<(), DbError> {
        let row = sqlx::query("SELECT COALESCE(max(served), 0) + 1 FROM turns").fetch_one(&mut **tx).await?;
        let count: i64 = row.try_get(0)?;
        sqlx::query(
            "INSERT INTO turns (name, served) VALUES ('owner ' || $1, $3), ('tenant ' || $2, $3)
             ON CONFLICT (name) DO UPDATE SET served = excluded.served",
        )
        .bind(&next.owner)
        .bind(&next.tenant)
        .bind(count)
        .execute(&mut **tx)
        .await?;
        if count % REMEMBERED == 0 {
            sqlx::query("DELETE FROM turns WHERE served <= $1").bind(count - REMEMBERED).execute(&mut **tx).await?;
        }
        Ok(())
    }

    /// Whether anything waits that is due. Asked before the right to claim is taken.
    pub(super) async fn anything_due(&self) -> Result<bool, DbError> {
        let due = "SELECT id FROM jobs WHERE state = 'queued' AND run_at <= $1 LIMIT 1";
        Ok(sqlx::query(due).bind(self.now()).fetch_optional(self.db.reader()).await?.is_some())
    }
}

fn read(row: &AnyRow) -> Result<Next, DbError> {
    Ok(Next { id: row.try_get(0)?, owner: row.try_get(1)?, tenant: row.try_get(2)? })
}
