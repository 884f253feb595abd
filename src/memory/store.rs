//! ChatHistory's SQL.

use crate::chat::ChatMessage;
use crate::clock::SharedClock;
use crate::db::{Db, DbError};

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
        let _ = (&self.db, &self.clock, conversation, dedupe, messages);
        todo!()
    }

    /// Everything said in a conversation, oldest first.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn load(&self, conversation: &str) -> Result<Vec<ChatMessage>, DbError> {
        todo!("{conversation}")
    }
}
