//! ReactAgent: Model → Tools → Model … → end.

use crate::chat::router::Router;
use crate::chat::{ChatMessage, Conversation, ResponseSchema, TokenUsage};
use crate::tool::ToolContext;
use crate::tool::toolbox::Toolbox;

use super::graph::{RunContext, RunError};

/// A question to an agent.
#[derive(Debug, Clone)]
pub struct Ask {
    /// Which conversation it is.
    pub conversation: Conversation,
    /// The messages so far, the stable part first.
    pub messages: Vec<ChatMessage>,
    /// The form of the final answer.
    pub response_schema: Option<ResponseSchema>,
}

/// An agent's answer.
#[derive(Debug, Clone)]
pub struct Said {
    /// The final text.
    pub text: String,
    /// Everything said after the question: calls, results and the answer.
    pub transcript: Vec<ChatMessage>,
    /// What it cost.
    pub usage: TokenUsage,
    /// True when the answer ran into the output limit.
    pub cut: bool,
}

/// Runs the agent to its answer, from its checkpoint if it has one.
///
/// # Errors
/// See [`RunError`].
pub async fn ask(
    ask: Ask,
    models: &Router,
    toolbox: &Toolbox,
    tools: &ToolContext,
    run: &RunContext,
) -> Result<Said, RunError> {
    let _ = (ask, models, toolbox, tools, run);
    todo!()
}
