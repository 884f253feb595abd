//! From the pieces of an answer to a [`ChatResponse`]. Pure.
//!
//! One accumulator reads both forms: the chunks of a stream (`delta`) and a whole answer (`message`). Servers deviate
//! in known ways, and each is read as it is meant: fragments of calls without an index, with one index for all, without
//! ids or with the same id twice, arguments as an object, content as a list of parts, a null where a list should be.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::failure::Said;
use crate::chat::{ChatError, ChatRequest, ChatResponse, FinishReason, TokenUsage, ToolCall};

/// Calls in one answer beyond which fragments are ignored.
const MAX_CALLS: usize = 128;

/// What went wrong within a stream.
#[derive(Debug, PartialEq)]
pub enum Problem {
    /// It is not a chunk.
    Unreadable(String),
    /// The server reported an error in place of a chunk, with its status where it told one.
    InBand(u16, Said),
}

/// An answer as far as it has come.
#[derive(Debug)]
pub struct Accumulator {
    max: usize,
    kept: usize,
    text: String,
    refusal: String,
    calls: Vec<Partial>,
    finish: Option<String>,
    usage: Option<TokenUsage>,
    pieces: usize,
    done: bool,
    cut_by_us: bool,
}

#[derive(Debug, Default)]
struct Partial {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
}

impl Partial {
    fn is_whole(&self) -> bool {
        !self.arguments.is_empty() && serde_json::from_str::<Map<String, Value>>(&self.arguments).is_ok()
    }
}

impl Accumulator {
    /// An empty answer that keeps at most `max` bytes of text and arguments.
    pub fn new(max: usize) -> Self {
        Self {
            max,
            kept: 0,
            text: String::new(),
            refusal: String::new(),
            calls: Vec::new(),
            finish: None,
            usage: None,
            pieces: 0,
            done: false,
            cut_by_us: false,
        }
    }

    /// Takes the data of one event.
    ///
    /// # Errors
    /// See [`Problem`].
    pub fn push(&mut self, data: &str) -> Result<(), Problem> {
        let data = data.trim();
        if data == "[DONE]" {
            self.done = true;
            return Ok(());
        }
        if data.is_empty() {
            return Ok(());
        }
        let chunk: Value = serde_json::from_str(data)
            .or_else(|error| match whole_surrogates(data) {
                Cow::Owned(mended) => serde_json::from_str(&mended),
                Cow::Borrowed(_) => Err(error),
            })
            .map_err(|_| Problem::Unreadable("a piece of the stream is not JSON".to_owned()))?;
        self.push_value(&chunk)
    }

    /// Takes a chunk, or a whole answer.
    ///
    /// # Errors
    /// See [`Problem`].
    pub fn push_value(&mut self, chunk: &Value) -> Result<(), Problem> {
        if let Some(error) = chunk.get("error").filter(|e| !e.is_null()) {
            let status = error.get("code").and_then(Value::as_u64).and_then(|c| u16::try_from(c).ok());
            return Err(Problem::InBand(status.unwrap_or(502), Said::of_value(chunk)));
        }
        if !chunk.is_object() {
            return Err(Problem::Unreadable("a piece of the answer is not an object".to_owned()));
        }
        if let Some(usage) = chunk.get("usage").and_then(usage) {
            self.usage = Some(usage);
        }
        let choices = chunk.get("choices").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let ours = |choice: &&Value| choice.get("index").and_then(Value::as_u64).unwrap_or(0) == 0;
        for choice in choices.iter().filter(ours) {
            self.pieces += 1;
            if let Some(delta) = choice.get("delta").or_else(|| choice.get("message")) {
                self.push_delta(delta);
            }
            if let Some(reason) = choice.get("finish_reason").and_then(Value::as_str).filter(|r| !r.is_empty()) {
                self.finish = Some(reason.to_owned());
            }
        }
        Ok(())
    }

    /// Whether the server has said why it stopped; what may still come is only the usage.
    pub fn has_finished(&self) -> bool {
        self.finish.is_some()
    }

    /// Whether nothing more is wanted: the end was seen, or there is more text than is kept.
    pub fn is_over(&self) -> bool {
        self.done || self.cut_by_us
    }

    /// The whole answer. `seed` makes up ids for calls without one; `prompt_bytes` estimates the usage when the server
    /// told none.
    ///
    /// # Errors
    /// [`ChatError::Unavailable`] when the stream was cut, [`ChatError::Unreadable`] when it held no chunk at all.
    pub fn finish(self, seed: &str, prompt_bytes: usize) -> Result<ChatResponse, ChatError> {
        if self.pieces == 0 && self.done {
            return Err(ChatError::Unreadable("the stream held no answer".to_owned()));
        }
        if self.finish.is_none() && !self.is_over() {
            return Err(ChatError::Unavailable("the stream was cut".to_owned()));
        }
        let mut finish = match self.finish.as_deref() {
            _ if self.cut_by_us => FinishReason::Length,
            Some("length" | "max_tokens" | "MAX_TOKENS") => FinishReason::Length,
            Some("content_filter" | "SAFETY") => FinishReason::ContentFilter,
            // OpenRouter's and DeepSeek's words for a fault behind the server.
            Some("error" | "insufficient_system_resource") => {
                return Err(ChatError::Unavailable("the model stopped with an error".to_owned()));
            }
            _ => FinishReason::Stop,
        };
        let output = self.text.len() + self.refusal.len() + self.calls.iter().map(|c| c.arguments.len()).sum::<usize>();
        let tool_calls = calls(self.calls, seed, finish == FinishReason::Length);
        let mut text = without_thoughts(self.text);
        if text.is_empty() && !self.refusal.is_empty() {
            (text, finish) = (self.refusal, FinishReason::ContentFilter);
        }
        if finish == FinishReason::Stop && !tool_calls.is_empty() {
            finish = FinishReason::ToolCalls;
        }
        let estimated =
            TokenUsage { calls: 1, input: tokens(prompt_bytes), output: tokens(output), ..Default::default() };
        Ok(ChatResponse { text, tool_calls, finish, usage: self.usage.unwrap_or(estimated) })
    }

    fn push_delta(&mut self, delta: &Value) {
        match delta.get("content") {
            Some(Value::String(text)) => self.keep_text(text),
            Some(Value::Array(parts)) => {
                for text in parts.iter().filter_map(|p| p.get("text").and_then(Value::as_str)) {
                    self.keep_text(text);
                }
            }
            _ => {}
        }
        if let Some(text) = delta.get("refusal").and_then(Value::as_str) {
            let room = self.room(text);
            self.refusal.push_str(room);
        }
        for fragment in delta.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
            self.push_fragment(fragment);
        }
    }

    fn keep_text(&mut self, text: &str) {
        let room = self.room(text);
        self.text.push_str(room);
    }

    /// As much of `text` as there is room for.
    fn room<'a>(&mut self, text: &'a str) -> &'a str {
        let left = self.max.saturating_sub(self.kept);
        let end = if text.len() <= left { text.len() } else { text.floor_char_boundary(left) };
        self.cut_by_us |= end < text.len();
        self.kept += end;
        &text[..end]
    }

    fn push_fragment(&mut self, fragment: &Value) {
        let function = fragment.get("function").unwrap_or(fragment);
        let index = fragment.get("index").and_then(Value::as_u64);
        let id = fragment.get("id").and_then(Value::as_str).unwrap_or_default();
        let name = function.get("name").and_then(Value::as_str).unwrap_or_default();
        let arguments = match function.get("arguments") {
            Some(Value::String(text)) => text.clone(),
            Some(value @ (Value::Object(_) | Value::Array(_))) => value.to_string(),
            _ => String::new(),
        };
        let position = match self.position(index, id, name, &arguments) {
            Some(position) => position,
            None if self.calls.len() < MAX_CALLS => {
                self.calls.push(Partial { index, ..Partial::default() });
                self.calls.len() - 1
            }
            None => return,
        };
        let arguments = self.room(&arguments).to_owned();
        let Some(call) = self.calls.get_mut(position) else { return };
        if call.id.is_empty() {
            id.clone_into(&mut call.id);
        }
        if call.name.is_empty() {
            name.clone_into(&mut call.name);
        }
        call.arguments.push_str(&arguments);
    }

    /// The call that a fragment continues; `None` for a new one.
    fn position(&self, index: Option<u64>, id: &str, name: &str, arguments: &str) -> Option<usize> {
        let last = self.calls.len().checked_sub(1);
        let candidate = match index {
            Some(_) => self.calls.iter().rposition(|c| c.index == index),
            None if !id.is_empty() => self.calls.iter().rposition(|c| c.id == id),
            None => last,
        }?;
        let call = self.calls.get(candidate)?;
        let other_id = !id.is_empty() && !call.id.is_empty() && call.id != id;
        let begins_again = id.is_empty() && !name.is_empty() && !arguments.is_empty() && call.is_whole();
        let other_name = index.is_none() && id.is_empty() && !name.is_empty() && call.name != name;
        let named_before = other_name && !call.name.is_empty();
        if other_id || begins_again || named_before { None } else { Some(candidate) }
    }
}

/// What made-up ids grow from: everything that stands before the answer, so that they are stable for one request and
/// differ from turn to turn.
pub fn id_seed(request: &ChatRequest) -> String {
    let mut hash = Sha256::new();
    hash.update(request.messages.len().to_le_bytes());
    if let Some(last) = request.messages.last() {
        hash.update(serde_json::to_vec(last).unwrap_or_default());
    }
    hex::encode(hash.finalize())
}

/// The names in a list of models; empty when it is not one.
pub fn model_names(body: &str) -> Vec<String> {
    let list: Value = serde_json::from_str(body).unwrap_or_default();
    let items =
        list.get("data").or_else(|| list.get("models")).unwrap_or(&list).as_array().cloned().unwrap_or_default();
    items.iter().filter_map(|m| m.get("id").or_else(|| m.get("name"))?.as_str().map(str::to_owned)).collect()
}

/// Finished calls. Those cut in the middle are left out of an answer that ran into a limit, and so are those without a
/// name, which nobody could answer.
fn calls(partials: Vec<Partial>, seed: &str, cut: bool) -> Vec<ToolCall> {
    let mut seen = HashSet::new();
    let mut calls = Vec::new();
    for (position, partial) in partials.into_iter().enumerate() {
        if partial.name.is_empty() || (cut && !partial.is_whole()) {
            continue;
        }
        let mut id = partial.id;
        if id.is_empty() || seen.contains(&id) {
            let digest = Sha256::digest(format!("{seed} {position} {} {}", partial.name, partial.arguments));
            let made_up = format!("call{}", hex::encode(digest));
            id = made_up.chars().take(20).collect();
        }
        seen.insert(id.clone());
        let arguments = if partial.arguments.trim().is_empty() { "{}".to_owned() } else { partial.arguments };
        calls.push(ToolCall { id, name: partial.name, arguments });
    }
    calls
}

/// JSON with the escapes of lone surrogates replaced: some servers cut a character outside of the basic plane in two, and
/// one lost character is better than a lost answer.
fn whole_surrogates(data: &str) -> Cow<'_, str> {
    let unit = |text: &str| {
        let digits = text.strip_prefix("\\u").and_then(|rest| rest.get(..4))?;
        u16::from_str_radix(digits, 16).ok()
    };
    let mut mended = String::new();
    let (mut copied, mut at) = (0, 0);
    while let Some(step) = data[at..].find('\\') {
        at += step;
        let length = match unit(&data[at..]) {
            Some(0xd800..=0xdbff) if matches!(unit(&data[at + 6..]), Some(0xdc00..=0xdfff)) => 12,
            Some(0xd800..=0xdfff) => {
                mended.push_str(&data[copied..at]);
                mended.push_str("\\ufffd");
                copied = at + 6;
                6
            }
            // The escaped character may be a backslash itself.
            _ => 1 + data[at + 1..].chars().next().map_or(0, char::len_utf8),
        };
        at += length;
    }
    if copied == 0 {
        return Cow::Borrowed(data);
    }
    mended.push_str(&data[copied..]);
    Cow::Owned(mended)
}

/// The text without a leading `<think>` block, in which local reasoning models put what is not the answer.
fn without_thoughts(text: String) -> String {
    let thoughts = text.trim_start().strip_prefix("<think>").and_then(|rest| rest.split_once("</think>"));
    match thoughts {
        Some((_, answer)) => answer.trim_start().to_owned(),
        None => text,
    }
}

/// Tokens of one call beyond which a server's count is not believed: no model takes or gives a hundredth of that.
const MAX_BELIEVED: u64 = 100_000_000;

fn usage(value: &Value) -> Option<TokenUsage> {
    let field = |pointer: &str| value.pointer(pointer).and_then(number);
    let input = field("/prompt_tokens")?;
    if input.max(field("/completion_tokens").unwrap_or(0)) > MAX_BELIEVED {
        return None;
    }
    let cached = field("/prompt_tokens_details/cached_tokens").or_else(|| field("/prompt_cache_hit_tokens"));
    Some(TokenUsage {
        calls: 1,
        input,
        cached_input: cached.unwrap_or(0).min(input),
        output: field("/completion_tokens").unwrap_or(0),
        cost_micro_usd: 0,
    })
}

/// A count that may have been written as a float.
fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_f64().filter(|n| *n >= 0.0 && *n < 1e15).map(|n| n as u64))
}

fn tokens(bytes: usize) -> u64 {
    (bytes as u64 * 2).div_ceil(7)
}

#[cfg(test)]
mod tests;
