//! A model that needs no network: it drives the same graphs by calling the check tools and saying what they found.
//!
//! It is deterministic, and honest about what it is: rules, not a language model. It reads its instructions only so far
//! as they are data (the finding under discussion, the findings to refute), never as text.

mod answer;
mod block;
mod critic;
mod hit;
mod reviewer;

use std::collections::HashSet;

use async_trait::async_trait;
use serde_json::json;

use super::{
    ChatError, ChatMessage, ChatModel, ChatRequest, ChatResponse, FinishReason, ModelRole, TokenUsage, ToolCall,
};

/// The name by which it is configured.
pub const NAME: &str = "embedded";

/// The tools it looks through.
const CHECKS: [&str; 3] = ["check_security", "check_performance", "check_style"];

/// Entries of a summary, and characters of each.
const SUMMARY_ENTRIES: usize = 12;
const SUMMARY_CHARS: usize = 160;

/// The embedded model.
#[derive(Debug, Default, Clone, Copy)]
pub struct EmbeddedModel;

#[async_trait]
impl ChatModel for EmbeddedModel {
    fn name(&self) -> &str {
        NAME
    }

    fn is_local(&self) -> bool {
        true
    }

    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, ChatError> {
        Ok(respond(request))
    }
}

/// The answer to a request. Pure and total.
pub fn respond(request: &ChatRequest) -> ChatResponse {
    let subject = request.conversation.subject.as_str();
    let turn = match request.conversation.role {
        ModelRole::Reviewer => reviewer::turn(request, subject),
        ModelRole::Critic => critic::turn(request, subject),
        ModelRole::Answer => answer::turn(request),
        ModelRole::Planner => Turn::Say(json!({"steps": []}).to_string()),
        ModelRole::Summary => Turn::Say(summary(&request.messages)),
    };
    let (text, tool_calls) = match turn {
        Turn::Say(text) => (text, Vec::new()),
        Turn::Call { tools, path } => (String::new(), calls(&tools, &path, request.messages.len())),
    };
    let finish = if tool_calls.is_empty() { FinishReason::Stop } else { FinishReason::ToolCalls };
    // It costs no tokens; the call is counted so that runs show how often it was asked.
    let usage = TokenUsage { calls: 1, ..TokenUsage::default() };
    ChatResponse { text, tool_calls, finish, usage }
}

/// What it does next.
enum Turn {
    /// Answer.
    Say(String),
    /// Call these tools for a path, all at once.
    Call { tools: Vec<String>, path: String },
}

/// The check tools that a request offers.
fn offered(request: &ChatRequest) -> Vec<String> {
    CHECKS.iter().filter(|check| request.tools.iter().any(|t| t.name == **check)).map(|c| (*c).to_owned()).collect()
}

/// Whether check tools were called in these messages. An answer must follow even if their results are missing, or the
/// run would go in circles.
fn has_called(messages: &[ChatMessage]) -> bool {
    let is_check = |name: &str| CHECKS.contains(&name);
    messages.iter().any(|message| match message {
        ChatMessage::Assistant { tool_calls, .. } => tool_calls.iter().any(|call| is_check(&call.name)),
        ChatMessage::Tool { name, .. } => is_check(name),
        ChatMessage::System { .. } | ChatMessage::User { .. } => false,
    })
}

/// What was said since a person, or our own code, last asked something.
fn since_asked(messages: &[ChatMessage]) -> &[ChatMessage] {
    let asked = messages.iter().rposition(|m| matches!(m, ChatMessage::User { .. }));
    messages.get(asked.map_or(0, |at| at + 1)..).unwrap_or_default()
}

/// Ids count the messages before, so that no two calls of a conversation share one.
fn calls(tools: &[String], path: &str, turn: usize) -> Vec<ToolCall> {
    let arguments = json!({ "path": path }).to_string();
    let call =
        |name: &String| ToolCall { id: format!("{name}-{turn}"), name: name.clone(), arguments: arguments.clone() };
    tools.iter().map(call).collect()
}

/// The first sentence of each message: no more can be said without understanding them.
fn summary(messages: &[ChatMessage]) -> String {
    let line = |message: &ChatMessage| {
        let who = match message {
            ChatMessage::User { .. } => "person",
            ChatMessage::Assistant { .. } => "secondlook",
            ChatMessage::System { .. } | ChatMessage::Tool { .. } => return None,
        };
        let sentence = first_sentence(message.text());
        if sentence.is_empty() { None } else { Some(format!("- {who}: {sentence}")) }
    };
    let mut seen = HashSet::new();
    let lines: Vec<String> = messages.iter().filter_map(line).filter(|l| seen.insert(l.clone())).collect();
    let first = lines.len().saturating_sub(SUMMARY_ENTRIES);
    lines.get(first..).unwrap_or_default().join("\n")
}

fn first_sentence(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let end = line.find(". ").map_or(line.len(), |at| at + 1);
    clip(line.get(..end).unwrap_or(line), SUMMARY_CHARS)
}

/// At most `max` characters, on one line.
fn clip(text: &str, max: usize) -> String {
    let flat: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if flat.chars().count() <= max { flat } else { flat.chars().take(max.saturating_sub(1)).chain(['…']).collect() }
}

#[cfg(test)]
mod tests;
