//! A scripted model: every conversation (a file, its critic, a thread) has its own list of replies. A conversation about
//! several files that has none is answered with what its files would be answered, put together.
//!
//! A request that nobody scripted fails at once and is a complaint at the reckoning, and so is a reply nobody asked for.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use secondlook::chat::{
    ChatError, ChatMessage, ChatModel, ChatRequest, ChatResponse, FinishReason, ModelRole, TokenUsage, ToolCall,
    estimate_tokens,
};
use secondlook::review::file_review::SUBJECTS;
use serde_json::{Value, json};

/// One scripted reply.
#[derive(Clone)]
pub(crate) enum Reply {
    /// A text.
    Text(String),
    /// Tool calls: name and arguments.
    Calls(Vec<(String, Value)>),
    /// No answer.
    Error(ChatError),
    /// The text, after something was done (a push that comes while the model thinks, say).
    After(Arc<dyn Fn() + Send + Sync>, String),
}

#[derive(Default)]
struct State {
    scripts: HashMap<(ModelRole, String), VecDeque<Reply>>,
    lasting: HashMap<(ModelRole, String), Reply>,
    requests: Vec<ChatRequest>,
    complaints: Vec<String>,
}

/// The model. Clones share their scripts.
#[derive(Clone, Default)]
pub(crate) struct ScriptedModel {
    state: Arc<Mutex<State>>,
}

/// The script of one conversation.
pub(crate) struct Script<'a> {
    model: &'a ScriptedModel,
    role: ModelRole,
    subject: String,
}

impl ScriptedModel {
    /// The review of a file.
    pub(crate) fn on_file(&self, path: &str) -> Script<'_> {
        Script { model: self, role: ModelRole::Reviewer, subject: path.to_owned() }
    }

    /// The review of several files together, in whatever order they come.
    pub(crate) fn on_files(&self, paths: &[&str]) -> Script<'_> {
        self.on_file(&together(paths.iter().copied()))
    }

    /// The critic of the findings of several files together.
    pub(crate) fn on_critics(&self, paths: &[&str]) -> Script<'_> {
        self.on_critic(&together(paths.iter().copied()))
    }

    /// The critic of a file's findings.
    pub(crate) fn on_critic(&self, path: &str) -> Script<'_> {
        Script { model: self, role: ModelRole::Critic, subject: path.to_owned() }
    }

    /// The next answer in any thread.
    pub(crate) fn on_thread(&self) -> Script<'_> {
        Script { model: self, role: ModelRole::Answer, subject: String::new() }
    }

    /// Every request made so far.
    pub(crate) fn requests(&self) -> Vec<ChatRequest> {
        self.state.lock().unwrap().requests.clone()
    }

    /// How often the model was asked in this role.
    pub(crate) fn asked(&self, role: ModelRole) -> usize {
        self.state.lock().unwrap().requests.iter().filter(|r| r.conversation.role == role).count()
    }

    /// What went against the script, and what of it was never used.
    pub(crate) fn reckon(&self) -> Vec<String> {
        let state = self.state.lock().unwrap();
        let unused = state.scripts.iter().filter(|(_, replies)| !replies.is_empty());
        let unused = unused.map(|((role, subject), replies)| {
            format!("{} scripted replies of {role:?} on {subject:?} were never asked for", replies.len())
        });
        state.complaints.iter().cloned().chain(unused).collect()
    }

    fn next(&self, request: &ChatRequest) -> Result<Reply, ChatError> {
        let mut state = self.state.lock().unwrap();
        state.requests.push(request.clone());
        let role = request.conversation.role;
        let subject = if role == ModelRole::Answer { String::new() } else { request.conversation.subject.clone() };
        let paths: Vec<&str> = subject.split(SUBJECTS).collect();
        let key = (role, together(paths.iter().copied()));
        if let Some(reply) = state.scripts.get_mut(&key).and_then(VecDeque::pop_front) {
            return Ok(reply);
        }
        if let Some(reply) = state.lasting.get(&key) {
            return Ok(reply.clone());
        }
        if paths.len() > 1
            && let Some(text) = state.put_together(role, &paths)
        {
            return Ok(Reply::Text(text));
        }
        let last = request.messages.last().map(ChatMessage::text).unwrap_or_default();
        let last: String = last.chars().take(600).collect();
        state.complaints.push(format!("nothing scripted for {role:?} on {:?}, asked: {last}", key.1));
        Err(ChatError::Rejected("not scripted".into()))
    }
}

/// The name of a conversation about some files.
fn together<'p>(paths: impl Iterator<Item = &'p str>) -> String {
    let mut paths: Vec<&str> = paths.collect();
    paths.sort_unstable();
    paths.join(SUBJECTS)
}

impl State {
    /// What is scripted for each of these files, as one answer. A critic has a reply only where something was found.
    fn put_together(&mut self, role: ModelRole, paths: &[&str]) -> Option<String> {
        let list = if role == ModelRole::Critic { "verdicts" } else { "findings" };
        let mut all: Vec<Value> = Vec::new();
        for path in paths {
            let script = self.scripts.get_mut(&(role, (*path).to_owned())).and_then(VecDeque::pop_front);
            let Some(Reply::Text(text)) = script else {
                if role == ModelRole::Critic && script.is_none() {
                    continue;
                }
                return None;
            };
            let mut answer: Value = serde_json::from_str(&text).ok()?;
            let before = all.len();
            for mut item in answer[list].as_array_mut()?.drain(..) {
                if let Some(index) = item["index"].as_u64() {
                    item["index"] = json!(index + u64::try_from(before).ok()?);
                }
                all.push(item);
            }
        }
        let answer = match role {
            ModelRole::Critic => json!({"verdicts": all, "missed": []}),
            _ => json!({"findings": all, "summary": ""}),
        };
        Some(answer.to_string())
    }
}

impl Script<'_> {
    /// Answers with one finding; the critic keeps it.
    pub(crate) fn finds(self, quote: &str, title: &str) -> Self {
        let finding = finding(&self.subject, quote, title);
        self.finds_all(&[finding])
    }

    /// Answers with these findings (in the contract's form); the critic keeps them.
    pub(crate) fn finds_all(self, findings: &[Value]) -> Self {
        let verdicts: Vec<Value> = (0..findings.len())
            .map(|index| json!({"index": index, "verdict": "keep", "reason": "The code does this.", "confidence": 0.9}))
            .collect();
        self.model.on_critic(&self.subject).says(json!({"verdicts": verdicts, "missed": []}));
        self.says(json!({"findings": findings, "summary": ""}))
    }

    /// Answers with a finding that was told before, so that no critic is asked.
    pub(crate) fn finds_again(self, quote: &str, title: &str) -> Self {
        let finding = finding(&self.subject, quote, title);
        self.says(json!({"findings": [finding], "summary": ""}))
    }

    /// Answers that nothing is wrong.
    pub(crate) fn finds_nothing(self) -> Self {
        self.says(json!({"findings": [], "summary": ""}))
    }

    /// Answers with this JSON.
    pub(crate) fn says(self, answer: Value) -> Self {
        self.says_text(&answer.to_string())
    }

    /// Answers with this text.
    pub(crate) fn says_text(self, text: &str) -> Self {
        self.then(Reply::Text(text.to_owned()))
    }

    /// Calls a tool.
    pub(crate) fn calls(self, tool: &str, arguments: Value) -> Self {
        self.then(Reply::Calls(vec![(tool.to_owned(), arguments)]))
    }

    /// Gives no answer, however often it is asked.
    pub(crate) fn always_fails(self, error: ChatError) -> Self {
        self.always(Reply::Error(error))
    }

    /// The same reply from now on, however often it is asked.
    pub(crate) fn always(self, reply: Reply) -> Self {
        let key = (self.role, self.subject.clone());
        self.model.state.lock().unwrap().lasting.insert(key, reply);
        self
    }

    /// The next reply.
    pub(crate) fn then(self, reply: Reply) -> Self {
        let key = (self.role, self.subject.clone());
        self.model.state.lock().unwrap().scripts.entry(key).or_default().push_back(reply);
        self
    }
}

/// A finding in the form a model answers with.
pub(crate) fn finding(path: &str, quote: &str, title: &str) -> Value {
    json!({
        "path": path,
        "quote": quote,
        "line": null,
        "end_line": null,
        "side": "RIGHT",
        "severity": "major",
        "category": "correctness",
        "title": title,
        "body": format!("{title}. Handle the case where this does not hold, or say why it always does."),
        "replacement": null,
        "confidence": 0.9,
    })
}

#[async_trait]
impl ChatModel for ScriptedModel {
    fn name(&self) -> &str {
        "scripted"
    }

    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, ChatError> {
        let input = request.messages.iter().map(|m| estimate_tokens(m.text())).sum();
        let (text, calls) = match self.next(request)? {
            Reply::Error(error) => return Err(error),
            Reply::Text(text) => (text, Vec::new()),
            Reply::After(act, text) => {
                act();
                (text, Vec::new())
            }
            Reply::Calls(calls) => (String::new(), calls),
        };
        let tool_calls: Vec<_> = calls
            .into_iter()
            .enumerate()
            .map(|(index, (name, arguments))| ToolCall {
                id: format!("call-{index}"),
                name,
                arguments: arguments.to_string(),
            })
            .collect();
        let finish = if tool_calls.is_empty() { FinishReason::Stop } else { FinishReason::ToolCalls };
        let usage = TokenUsage { calls: 1, input, output: estimate_tokens(&text), ..TokenUsage::default() };
        Ok(ChatResponse { text, tool_calls, finish, usage })
    }
}
