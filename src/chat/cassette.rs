//! Recorded model calls: a run with a real model is written down once, and repeated without a key.
//!
//! A cassette is JSON lines, one call each: `{"model", "request", "response"}`. Requests are matched whole, not by their
//! order, because the files of a review are worked on at the same time; the same request asked twice gets its answers
//! in the order they were recorded. A request that was not recorded fails, and says how it differs from what was.

use std::collections::{HashMap, VecDeque};
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{ChatError, ChatModel, ChatRequest, ChatResponse};

/// Writes down every answered call of a model.
pub struct Recorder<W> {
    model: Arc<dyn ChatModel>,
    tape: Mutex<W>,
}

/// Answers from a cassette.
pub struct Replay {
    name: String,
    answers: Mutex<HashMap<[u8; 32], VecDeque<ChatResponse>>>,
    requests: Vec<ChatRequest>,
}

/// A line of a cassette that cannot be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the cassette is not a recorded call ({reason}); record it again")]
pub struct CassetteError {
    /// Counted from 1; 0 when there is no line at all.
    pub line: usize,
    /// What is wrong with it.
    pub reason: String,
}

#[derive(Serialize)]
struct Written<'a> {
    model: &'a str,
    request: &'a ChatRequest,
    response: &'a ChatResponse,
}

#[derive(Deserialize)]
struct Read {
    model: String,
    request: ChatRequest,
    response: ChatResponse,
}

impl<W: Write + Send> Recorder<W> {
    /// Records `model` on a tape, usually a file that is appended to.
    pub fn new(model: Arc<dyn ChatModel>, tape: W) -> Self {
        Self { model, tape: Mutex::new(tape) }
    }

    /// The tape, when nothing more is to be recorded.
    pub fn into_tape(self) -> W {
        self.tape.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Never local, whatever it records: the text goes to a file, so secrets are masked in it.
#[async_trait]
impl<W: Write + Send> ChatModel for Recorder<W> {
    fn name(&self) -> &str {
        self.model.name()
    }

    /// A call that cannot be written down fails: a recording with holes could not be replayed.
    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, ChatError> {
        let response = self.model.chat(request).await?;
        let call = Written { model: self.model.name(), request, response: &response };
        let line = serde_json::to_string(&call).map_err(|e| unwritten(&e))?;
        let mut tape = self.tape.lock().unwrap_or_else(PoisonError::into_inner);
        tape.write_all(line.as_bytes()).and_then(|()| tape.write_all(b"\n")).map_err(|e| unwritten(&e))?;
        tape.flush().map_err(|e| unwritten(&e))?;
        Ok(response)
    }
}

impl Replay {
    /// Reads a cassette. Blank lines are skipped.
    ///
    /// # Errors
    /// [`CassetteError`] when a line is not a recorded call, or there is none.
    pub fn new(text: &str) -> Result<Self, CassetteError> {
        let mut replay = Self { name: String::new(), answers: Mutex::default(), requests: Vec::new() };
        let mut answers: HashMap<[u8; 32], VecDeque<ChatResponse>> = HashMap::new();
        for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let call: Read = serde_json::from_str(line)
                .map_err(|error| CassetteError { line: index + 1, reason: error.to_string() })?;
            answers.entry(digest(&call.request)).or_default().push_back(call.response);
            replay.requests.push(call.request);
            replay.name = call.model;
        }
        if answers.is_empty() {
            return Err(CassetteError { line: 0, reason: "it is empty".to_owned() });
        }
        replay.answers = Mutex::new(answers);
        Ok(replay)
    }

    /// Recorded calls that were not asked for yet.
    pub fn unused(&self) -> usize {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).values().map(VecDeque::len).sum()
    }

    /// How a request differs from the recorded one of the same conversation that is most like it.
    fn difference(&self, request: &ChatRequest) -> String {
        let same = self.requests.iter().filter(|recorded| recorded.conversation == request.conversation);
        let agreeing = |recorded: &&ChatRequest| {
            recorded.messages.iter().zip(&request.messages).take_while(|(a, b)| a == b).count()
        };
        let likeness = |recorded: &&ChatRequest| {
            let longer = recorded.messages.len().abs_diff(request.messages.len());
            (agreeing(recorded), std::cmp::Reverse(longer))
        };
        let Some(nearest) = same.max_by_key(likeness) else {
            return "nothing of this conversation is recorded".to_owned();
        };
        let agree = agreeing(&nearest);
        if agree < nearest.messages.len().max(request.messages.len()) {
            let (recorded, asked) = (nearest.messages.len(), request.messages.len());
            return format!("message {} differs ({asked} messages asked, {recorded} recorded)", agree + 1);
        }
        if nearest.tools != request.tools {
            return "the tools differ".to_owned();
        }
        if nearest == request {
            return "it was recorded, but is asked more often than then".to_owned();
        }
        "the form or the length of the answer differs".to_owned()
    }
}

#[async_trait]
impl ChatModel for Replay {
    fn name(&self) -> &str {
        &self.name
    }

    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, ChatError> {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(answer) = answers.get_mut(&digest(request)).and_then(VecDeque::pop_front) {
            return Ok(answer);
        }
        let conversation = &request.conversation;
        Err(ChatError::Rejected(format!(
            "the cassette has no answer for {:?} on {}: {}; record it again",
            conversation.role,
            conversation.subject,
            self.difference(request)
        )))
    }
}

fn digest(request: &ChatRequest) -> [u8; 32] {
    Sha256::digest(serde_json::to_vec(request).unwrap_or_default()).into()
}

fn unwritten(error: &dyn std::error::Error) -> ChatError {
    ChatError::Rejected(format!("the call cannot be recorded: {error}"))
}

#[cfg(test)]
mod tests;
