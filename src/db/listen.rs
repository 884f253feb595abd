//! Hearing at once what another instance committed, where the database offers that (PostgreSQL's LISTEN and NOTIFY).
//!
//! A notification is a hint and nothing more: it goes lost with a connection, and SQLite knows none. Whoever waits for
//! work therefore looks by itself from time to time too. The channel carries the name of the schema, because channels
//! are the database's and several schemas of it may hold a queue each.

use secrecy::ExposeSecret;
use sqlx::Row;
use sqlx::postgres::PgListener;

use super::{Backend, Db, DbError, Tx};

/// A connection that hears notifications.
pub struct Listener {
    inner: PgListener,
}

impl Db {
    /// Tells the listeners of all instances, once this transaction is committed. Without effect on SQLite, which carries
    /// one instance.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn notify(&self, tx: &mut Tx<'_>, channel: &str) -> Result<(), DbError> {
        if self.backend == Backend::Postgres {
            sqlx::query("SELECT CAST(pg_notify($1 || '_' || current_schema(), '') AS TEXT)")
                .bind(channel)
                .execute(&mut **tx)
                .await?;
        }
        Ok(())
    }

    /// Begins to listen; `None` on SQLite.
    ///
    /// # Errors
    /// When the server cannot be reached.
    pub async fn listen(&self, channel: &str) -> Result<Option<Listener>, DbError> {
        let Some(server) = &self.server else { return Ok(None) };
        let row = sqlx::query("SELECT CAST(current_schema() AS TEXT)").fetch_one(self.reader()).await?;
        let schema: String = row.try_get(0)?;
        let mut inner = PgListener::connect(server.expose_secret()).await?;
        inner.listen(&format!("{channel}_{schema}")).await?;
        Ok(Some(Listener { inner }))
    }
}

impl Listener {
    /// Waits until something was notified, or may have been: after a lost connection nobody knows, and it listens again.
    ///
    /// # Errors
    /// When the server is gone; listen anew.
    pub async fn heard(&mut self) -> Result<(), DbError> {
        self.inner.try_recv().await?;
        Ok(())
    }
}
