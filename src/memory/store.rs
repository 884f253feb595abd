//! ChatHistory's SQL.

use sqlx::Row;

use crate::chat::ChatMessage;
use crate::clock::SharedClock;
use crate::db::{Db, DbError};

/// How often an append tries to get positions of its own beside another append to the same conversation.
const TRIES: u32 = 10;

/// The whole record of every conversation.
#[derive(Clone)]
pub struct ChatHistory {
    db: Db,
    clock: SharedClock,
}

impl ChatHistory {
    /// Over `db`.
    pub fn new(db: Db, clock: SharedClock) -> Self {
        Self { db, clock }
    }

    /// Appends messages once: `dedupe` names what caused them (a comment id), and a second append for it does nothing.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn append(&self, conversation: &str, dedupe: &str, messages: &[ChatMessage]) -> Result<(), DbError> {
        let texts: Vec<String> = messages
            .iter()
            .map(serde_json::to_string)
            .collect::<Result<_, _>>()
            .map_err(|error| DbError::Corrupt { what: "message", reason: error.to_string() })?;
        let mut tries = 0;
        loop {
            match self.insert(conversation, dedupe, &texts).await {
                // Another append took the positions: look again, also whether it was this very one.
                Err(error) if error.is_unique_violation() && tries < TRIES => tries += 1,
                done => return done,
            }
        }
    }

    /// Everything said in a conversation, oldest first.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn load(&self, conversation: &str) -> Result<Vec<ChatMessage>, DbError> {
        let rows = sqlx::query("SELECT message FROM messages WHERE conversation = $1 ORDER BY position")
            .bind(conversation)
            .fetch_all(self.db.reader())
            .await?;
        rows.iter()
            .map(|row| {
                serde_json::from_str(row.try_get(0)?)
                    .map_err(|error| DbError::Corrupt { what: "message", reason: error.to_string() })
            })
            .collect()
    }

    /// Deletes the conversations whose id begins with `prefix`.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn forget(&self, prefix: &str) -> Result<(), DbError> {
        sqlx::query("DELETE FROM messages WHERE substr(conversation, 1, length($1)) = $1")
            .bind(prefix)
            .execute(self.db.writer())
            .await?;
        Ok(())
    }

    async fn insert(&self, conversation: &str, cause: &str, texts: &[String]) -> Result<(), DbError> {
        let mut tx = self.db.begin().await?;
        let row = sqlx::query(
            "SELECT CAST(COALESCE(max(position), 0) AS BIGINT),
                    CAST(COALESCE(sum(CASE WHEN cause = $2 THEN 1 ELSE 0 END), 0) AS BIGINT)
             FROM messages WHERE conversation = $1",
        )
        .bind(conversation)
        .bind(cause)
        .fetch_one(&mut *tx)
        .await?;
        let (last, known): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
        if known > 0 {
            return Ok(());
        }
        for (text, position) in texts.iter().zip(last + 1..) {
            sqlx::query(
                "INSERT INTO messages (conversation, position, cause, message, created_at) VALUES ($1, $2, $3, $4, $5)",
            )
            .bind(conversation)
            .bind(position)
            .bind(cause)
            .bind(text)
            .bind(self.clock.now().as_millisecond())
            .execute(&mut *tx)
            .await?;
        }
        tx.commit().await?;
        Ok(())
    }
}
