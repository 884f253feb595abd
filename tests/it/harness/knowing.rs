//! A model that knows the faults of the changes under review. Its answer depends on the question alone, so it can be
//! asked again after a restart; how often it answered which question is counted, and it fails where a test says so.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use secondlook::chat::{
    ChatError, ChatMessage, ChatModel, ChatRequest, ChatResponse, FinishReason, ModelRole, TokenUsage, ToolCall,
    estimate_tokens,
};
use serde_json::{Value, json};

use super::github::fault::Gate;
use super::model::finding;

/// What goes wrong with a model call.
#[derive(Clone)]
pub(crate) enum ModelFault {
    /// There is no answer.
    Error(ChatError),
    /// It answers this.
    Says(&'static str),
    /// It answers the first half of what it would say, and says that it was cut.
    Cut,
    /// Its adapter panics.
    Panics,
    /// It never answers: whoever waits at the gate ends the process.
    Hangs(Gate),
}

/// A fault that the model finds, where the code holds `quote`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Known {
    path: &'static str,
    quote: &'static str,
    title: &'static str,
}

#[derive(Default)]
struct State {
    known: Vec<Known>,
    /// The role of every call.
    calls: Vec<ModelRole>,
    /// What was answered, and how often.
    answered: BTreeMap<String, usize>,
    fault: Option<Strike>,
    /// Something that happens while the first reviewer thinks.
    meanwhile: Option<Box<dyn FnOnce() + Send>>,
}

/// Calls `from .. from + times` fail.
struct Strike {
    from: usize,
    times: usize,
    fault: ModelFault,
    met: bool,
}

/// The model. Clones share what they know.
#[derive(Clone, Default)]
pub(crate) struct KnowingModel {
    state: Arc<Mutex<State>>,
}

impl KnowingModel {
    /// Finds a fault in `path` wherever the lines under review hold `quote`.
    pub(crate) fn knows(&self, path: &'static str, quote: &'static str, title: &'static str) {
        let known = Known { path, quote, title };
        let mut state = self.state.lock().unwrap();
        if !state.known.contains(&known) {
            state.known.push(known);
        }
    }

    /// Fails from the call `from` (counted from now) for `times` calls.
    pub(crate) fn fail(&self, from: usize, times: usize, fault: ModelFault) {
        let mut state = self.state.lock().unwrap();
        state.calls.clear();
        state.fault = Some(Strike { from, times, fault, met: false });
    }

    /// Does something while the next reviewer thinks.
    pub(crate) fn meanwhile(&self, act: impl FnOnce() + Send + 'static) {
        self.state.lock().unwrap().meanwhile = Some(Box::new(act));
    }

    /// Counts from here.
    pub(crate) fn forget_calls(&self) {
        let mut state = self.state.lock().unwrap();
        state.calls.clear();
        state.answered.clear();
    }

    /// The roles of the calls so far, in their order.
    pub(crate) fn calls(&self) -> Vec<ModelRole> {
        self.state.lock().unwrap().calls.clone()
    }

    /// How often each question was answered.
    pub(crate) fn answered(&self) -> BTreeMap<String, usize> {
        self.state.lock().unwrap().answered.clone()
    }

    /// Whether a fault is there that was never met.
    pub(crate) fn spared(&self) -> bool {
        self.state.lock().unwrap().fault.as_ref().is_some_and(|strike| !strike.met)
    }

    fn strike(&self, role: ModelRole) -> Option<ModelFault> {
        let mut state = self.state.lock().unwrap();
        let at = state.calls.len();
        state.calls.push(role);
        if role == ModelRole::Reviewer
            && let Some(act) = state.meanwhile.take()
        {
            drop(state);
            act();
            state = self.state.lock().unwrap();
        }
        let strike = state.fault.as_mut()?;
        let strikes = at >= strike.from && at - strike.from < strike.times;
        strike.met |= strikes;
        strikes.then(|| strike.fault.clone())
    }

    fn answer(&self, request: &ChatRequest) -> Result<String, Vec<ToolCall>> {
        let asked = request.messages.iter().map(ChatMessage::text).collect::<Vec<_>>().join("\n");
        let subject = request.conversation.subject.as_str();
        match request.conversation.role {
            ModelRole::Critic => {
                let keep = json!({"index": 0, "verdict": "keep", "reason": "The code does this.", "confidence": 0.9});
                Ok(json!({"verdicts": [keep], "missed": []}).to_string())
            }
            ModelRole::Reviewer => {
                let looked = request.messages.iter().any(|message| matches!(message, ChatMessage::Tool { .. }));
                if !looked && !request.tools.is_empty() && asked.contains("look_around") {
                    let arguments = json!({"path": "src/load.rs"}).to_string();
                    return Err(vec![ToolCall { id: "call-0".into(), name: "read_file".into(), arguments }]);
                }
                let hunks = asked.split_once("# Hunks to review").map_or("", |(_, rest)| rest);
                let hunks = hunks.split_once("\n# ").map_or(hunks, |(hunks, _)| hunks);
                let state = self.state.lock().unwrap();
                let found = state.known.iter().filter(|known| known.path == subject && hunks.contains(known.quote));
                let found: Vec<Value> = found.map(|known| finding(known.path, known.quote, known.title)).collect();
                Ok(json!({"findings": found, "summary": ""}).to_string())
            }
            _ => {
                let question = request.messages.iter().rfind(|message| matches!(message, ChatMessage::User { .. }));
                let words = question.map(ChatMessage::text).unwrap_or_default().split_whitespace().last();
                Ok(format!("An answer to what ends in {}", words.unwrap_or("nothing")))
            }
        }
    }
}

#[async_trait]
impl ChatModel for KnowingModel {
    fn name(&self) -> &str {
        "knowing"
    }

    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, ChatError> {
        let role = request.conversation.role;
        let fault = self.strike(role);
        let (mut text, tool_calls) = match self.answer(request) {
            Ok(text) => (text, Vec::new()),
            Err(calls) => (String::new(), calls),
        };
        let mut finish = if tool_calls.is_empty() { FinishReason::Stop } else { FinishReason::ToolCalls };
        match fault {
            None => {
                let question = format!("{role:?} {} {:?}", request.conversation.subject, request.messages);
                *self.state.lock().unwrap().answered.entry(question).or_default() += 1;
            }
            Some(ModelFault::Error(error)) => return Err(error),
            Some(ModelFault::Says(words)) => words.clone_into(&mut text),
            Some(ModelFault::Cut) => {
                text.truncate(text.floor_char_boundary(text.len() / 2));
                finish = FinishReason::Length;
            }
            // Without the hook that prints it, since it is wanted.
            Some(ModelFault::Panics) => std::panic::resume_unwind(Box::new("a model's adapter panics")),
            Some(ModelFault::Hangs(gate)) => gate.pass().await,
        }
        let input = request.messages.iter().map(|m| estimate_tokens(m.text())).sum();
        let usage = TokenUsage { calls: 1, input, output: estimate_tokens(&text), ..TokenUsage::default() };
        Ok(ChatResponse { text, tool_calls, finish, usage })
    }
}
