//! What is remembered of a conversation: the whole history in the database, a window of it for the model.

pub mod chat_memory;
pub mod store;
