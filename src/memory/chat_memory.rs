//! The window of a conversation that a model is given. Pure.

use crate::chat::ChatMessage;

/// Sizes of the window.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    /// Most messages kept, system messages not counted.
    pub messages: usize,
    /// Most tokens, by [`crate::chat::estimate_tokens`].
    pub tokens: u64,
}

impl Default for Window {
    fn default() -> Self {
        Self { messages: 20, tokens: 4_000 }
    }
}

/// The newest messages that fit, with all system messages kept in front and a tool call never separated from its results.
pub fn fit(history: &[ChatMessage], window: Window) -> Vec<ChatMessage> {
    todo!("{history:?}{window:?}")
}
