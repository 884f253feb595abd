//! A model that says what a test tells it to, by role and in order. What nobody scripted is an error.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;

use async_trait::async_trait;
use secondlook::chat::{
    ChatError, ChatMessage, ChatModel, ChatRequest, ChatResponse, FinishReason, ModelRole, TokenUsage, ToolCall,
};
use tokio_util::sync::CancellationToken;

/// One answer.
pub(crate) type Reply = Result<ChatResponse, ChatError>;

/// The model.
#[derive(Default)]
pub(crate) struct Scripted {
    replies: Mutex<HashMap<ModelRole, VecDeque<Reply>>>,
    requests: Mutex<Vec<ChatRequest>>,
    trouble: Option<(usize, Trouble)>,
}

/// What happens at one of the requests, counted from 1.
pub(crate) enum Trouble {
    /// It is answered, and meanwhile the run is asked to stop.
    Stop(CancellationToken),
    /// It is never answered.
    Hang,
}

impl Scripted {
    pub(crate) fn reviewer(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self::default().and(ModelRole::Reviewer, replies)
    }

    pub(crate) fn and(self, role: ModelRole, replies: impl IntoIterator<Item = Reply>) -> Self {
        self.replies.lock().unwrap().entry(role).or_default().extend(replies);
        self
    }

    pub(crate) fn with_trouble(self, at: usize, trouble: Trouble) -> Self {
        Self { trouble: Some((at, trouble)), ..self }
    }

    /// The same script from where this one stands.
    pub(crate) fn rest(&self) -> Self {
        let replies = self.replies.lock().unwrap().clone();
        Self { replies: Mutex::new(replies), ..Self::default() }
    }

    /// Every request so far.
    pub(crate) fn requests(&self) -> Vec<ChatRequest> {
        self.requests.lock().unwrap().clone()
    }

    /// How often a role was asked.
    pub(crate) fn calls(&self, role: ModelRole) -> usize {
        self.requests.lock().unwrap().iter().filter(|r| r.conversation.role == role).count()
    }

    /// Answers that were never asked for.
    pub(crate) fn unused(&self) -> usize {
        self.replies.lock().unwrap().values().map(VecDeque::len).sum()
    }
}

#[async_trait]
impl ChatModel for Scripted {
    fn name(&self) -> &str {
        "scripted::model"
    }

    async fn chat(&self, request: &ChatRequest) -> Reply {
        let count = {
            let mut requests = self.requests.lock().unwrap();
            requests.push(request.clone());
            requests.len()
        };
        match &self.trouble {
            Some((at, Trouble::Stop(stop))) if *at == count => stop.cancel(),
            Some((at, Trouble::Hang)) if *at == count => std::future::pending().await,
            _ => {}
        }
        let mut replies = self.replies.lock().unwrap();
        let reply = replies.get_mut(&request.conversation.role).and_then(VecDeque::pop_front);
        reply.unwrap_or_else(|| Err(ChatError::Rejected("nobody scripted this request".to_owned())))
    }
}

/// An answer without tool calls.
pub(crate) fn says(text: impl Into<String>) -> Reply {
    Ok(response(text.into(), Vec::new(), FinishReason::Stop))
}

/// An answer that ran into the output limit.
pub(crate) fn cut(text: impl Into<String>) -> Reply {
    Ok(response(text.into(), Vec::new(), FinishReason::Length))
}

/// Tool calls: (id, name, arguments).
pub(crate) fn calls(calls: &[(&str, &str, &str)]) -> Reply {
    let calls = calls.iter().map(|(id, name, arguments)| ToolCall {
        id: (*id).to_owned(),
        name: (*name).to_owned(),
        arguments: (*arguments).to_owned(),
    });
    Ok(response(String::new(), calls.collect(), FinishReason::ToolCalls))
}

fn response(text: String, tool_calls: Vec<ToolCall>, finish: FinishReason) -> ChatResponse {
    let usage = TokenUsage { calls: 1, input: 100, output: 10, ..TokenUsage::default() };
    ChatResponse { text, tool_calls, finish, usage }
}

/// The texts of the tool results in a request, in order.
pub(crate) fn tool_results(request: &ChatRequest) -> Vec<String> {
    let texts = request.messages.iter().filter_map(|m| match m {
        ChatMessage::Tool { call_id, text, .. } => Some(format!("{call_id}: {text}")),
        _ => None,
    });
    texts.collect()
}
