//! Talking to a model: the request and answer every provider is adapted to.

pub mod cassette;
pub mod embedded;
pub mod openai;
pub mod price;
pub mod router;

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::retry::Retry;

/// What part a conversation plays; a role may have a model of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ModelRole {
    /// Drafts findings for one file.
    Reviewer,
    /// Tries to refute findings.
    Critic,
    /// Plans steps for another model.
    Planner,
    /// Answers people in threads.
    Answer,
    /// Summarises a conversation.
    Summary,
}

/// Which conversation a request belongs to: for routing, metrics, logs and recorded models. Never sent to a provider.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Conversation {
    /// The part it plays.
    pub role: ModelRole,
    /// What it is about: the path under review, or several with commas between them, or the thread's id.
    pub subject: String,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum ChatMessage {
    /// Instructions.
    System {
        /// The text.
        text: String,
    },
    /// What a person, or our own code on their behalf, says.
    User {
        /// The text.
        text: String,
    },
    /// What the model said.
    Assistant {
        /// The text; may be empty beside tool calls.
        text: String,
        /// The tools it wants to call.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall>,
    },
    /// The result of one tool call.
    Tool {
        /// The id of the call it answers.
        call_id: String,
        /// The tool's name.
        name: String,
        /// What the model may read.
        text: String,
    },
}

impl ChatMessage {
    /// A system message.
    pub fn system(text: impl Into<String>) -> Self {
        Self::System { text: text.into() }
    }

    /// A user message.
    pub fn user(text: impl Into<String>) -> Self {
        Self::User { text: text.into() }
    }

    /// An answer without tool calls.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self::Assistant { text: text.into(), tool_calls: Vec::new() }
    }

    /// The text, whoever said it.
    pub fn text(&self) -> &str {
        match self {
            Self::System { text } | Self::User { text } | Self::Assistant { text, .. } | Self::Tool { text, .. } => {
                text
            }
        }
    }
}

/// A wish of the model to call a tool. The arguments stay text until the toolbox has validated them, so that a
/// malformed one costs a reply and not the run.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ToolCall {
    /// The provider's id of the call.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// JSON text.
    pub arguments: String,
}

/// What a model is told of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpecification {
    /// `snake_case` name.
    pub name: String,
    /// What it does, with an example of input and output.
    pub description: String,
    /// JSON Schema of its arguments.
    pub parameters: Value,
}

/// The schema an answer should keep to, where the server can enforce one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResponseSchema {
    /// A short name some servers want.
    pub name: String,
    /// JSON Schema.
    pub schema: Value,
}

/// A question to a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatRequest {
    /// Which conversation this belongs to.
    pub conversation: Conversation,
    /// Everything said so far, the stable part first.
    pub messages: Vec<ChatMessage>,
    /// Tools the model may call; empty on a last turn.
    pub tools: Vec<ToolSpecification>,
    /// The form of the final answer.
    pub response_schema: Option<ResponseSchema>,
    /// Most tokens to generate.
    pub max_output_tokens: Option<u32>,
}

/// Why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// It was done.
    Stop,
    /// It wants tools called.
    ToolCalls,
    /// It ran into the output limit.
    Length,
    /// The provider held something back.
    ContentFilter,
}

/// Tokens of one or many calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct TokenUsage {
    /// Model calls made.
    pub calls: u64,
    /// Prompt tokens, cached ones included.
    pub input: u64,
    /// Prompt tokens served from the provider's cache.
    pub cached_input: u64,
    /// Generated tokens.
    pub output: u64,
    /// Cost in millionths of a US dollar, by the price table; 0 where unknown or free.
    pub cost_micro_usd: u64,
}

impl TokenUsage {
    /// What goes beyond `other`, number by number.
    #[must_use]
    pub fn beyond(&self, other: &Self) -> Self {
        Self {
            calls: self.calls.saturating_sub(other.calls),
            input: self.input.saturating_sub(other.input),
            cached_input: self.cached_input.saturating_sub(other.cached_input),
            output: self.output.saturating_sub(other.output),
            cost_micro_usd: self.cost_micro_usd.saturating_sub(other.cost_micro_usd),
        }
    }
}

impl std::ops::AddAssign for TokenUsage {
    fn add_assign(&mut self, other: Self) {
        // Numbers that a server sent: however absurd, their sum is a number.
        self.calls = self.calls.saturating_add(other.calls);
        self.input = self.input.saturating_add(other.input);
        self.cached_input = self.cached_input.saturating_add(other.cached_input);
        self.output = self.output.saturating_add(other.output);
        self.cost_micro_usd = self.cost_micro_usd.saturating_add(other.cost_micro_usd);
    }
}

/// An answer of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatResponse {
    /// The text, possibly empty.
    pub text: String,
    /// Tools it wants called.
    pub tool_calls: Vec<ToolCall>,
    /// Why it stopped.
    pub finish: FinishReason,
    /// What it cost.
    pub usage: TokenUsage,
}

/// Why there is no answer. Texts are for people and never hold the prompt or a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChatError {
    /// The key or the permission is wrong.
    #[error("the model provider refused the credentials: {0}")]
    Unauthorized(String),
    /// The provider understood and refused: unknown model, too long a prompt, bad parameters.
    #[error("the model provider refused the request: {0}")]
    Rejected(String),
    /// Too many requests or out of quota.
    #[error("the model provider is limiting requests{}", asks_to_wait(retry_after.as_ref()))]
    RateLimited {
        /// When it said to come back.
        retry_after: Option<Duration>,
    },
    /// A 5xx, a cut connection, a stream that ended early.
    #[error("the model provider failed: {0}")]
    Unavailable(String),
    /// Nothing came in time.
    #[error("the model gave no answer in time ({0})")]
    TimedOut(&'static str),
    /// The answer could not be understood as a chat answer.
    #[error("the model provider's answer cannot be read: {0}")]
    Unreadable(String),
    /// The budget of tokens or money is used up.
    #[error("the budget is used up: {0}")]
    OverBudget(String),
}

impl ChatError {
    /// Whether asking again can help.
    pub fn retry(&self) -> Retry {
        match self {
            Self::Unauthorized(_) | Self::Rejected(_) | Self::OverBudget(_) => Retry::Never,
            Self::RateLimited { retry_after: Some(wait) } => Retry::After(*wait),
            Self::RateLimited { retry_after: None }
            | Self::Unavailable(_)
            | Self::TimedOut(_)
            | Self::Unreadable(_) => Retry::Backoff,
        }
    }
}

/// The end of a sentence about a rate limit; whole seconds are enough to know when to come back.
fn asks_to_wait(wait: Option<&Duration>) -> String {
    wait.map_or_else(String::new, |wait| format!("; it asks to wait {} s", wait.as_secs_f64().ceil()))
}

/// Something that answers chat requests.
#[async_trait]
pub trait ChatModel: Send + Sync {
    /// `provider::name`, as people configure it.
    fn name(&self) -> &str;

    /// Whether it answers within this process: then no text leaves, so none is masked, and its tokens cost nothing.
    fn is_local(&self) -> bool {
        false
    }

    /// Asks, and waits for the whole answer.
    ///
    /// # Errors
    /// See [`ChatError`].
    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, ChatError>;
}

/// An estimate of the tokens of a text: bytes / 3.5, rounded up.
pub fn estimate_tokens(text: &str) -> u64 {
    (text.len() as u64 * 2).div_ceil(7)
}
