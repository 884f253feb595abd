//! Validates, runs, limits and clips calls.

mod arguments;
mod clip;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::check::Check;
use super::list_files::ListFiles;
use super::parse_code::ParseCode;
use super::read_diff::ReadDiff;
use super::read_file::ReadFile;
use super::search_code::SearchCode;
use super::{Observation, Tool, ToolContext, ToolError};
use crate::chat::{ToolCall, ToolSpecification};

/// Tokens of a result beyond which only the first and the last half are kept.
pub const MAX_RESULT_TOKENS: usize = 2_000;

/// Bytes that [`MAX_RESULT_TOKENS`] come to by [`crate::chat::estimate_tokens`]. Tools that can stop at a whole line or
/// item stop there themselves, so that nothing is cut in the middle.
pub const MAX_RESULT_BYTES: usize = MAX_RESULT_TOKENS * 7 / 2;

/// Most arguments text that is looked at, in bytes.
const MAX_ARGUMENT_BYTES: usize = 64 << 10;

/// Times and attempts of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Whole time of one call, attempts and waits included.
    pub time: Duration,
    /// Most attempts when a fault is transient.
    pub attempts: u32,
    /// Wait after the first failed attempt; it doubles with each.
    pub backoff: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { time: Duration::from_secs(30), attempts: 3, backoff: Duration::from_millis(250) }
    }
}

/// The tools of an agent.
#[derive(Clone)]
pub struct Toolbox {
    tools: Arc<Vec<Entry>>,
    limits: Limits,
}

struct Entry {
    tool: Arc<dyn Tool>,
    /// `None` when the tool's own schema is unusable: then the tool's own reading of its arguments decides.
    schema: Option<jsonschema::Validator>,
}

/// What came of a call: always a text for the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolResult {
    /// The text, clipped.
    pub text: String,
    /// `ok`, `bad_arguments`, `unknown_tool`, `refused`, `failed`, `timed_out`: for metrics and events.
    pub outcome: &'static str,
}

/// A call in one spelling: its name and its arguments with sorted keys, however they were written. Two calls with the
/// same form ask for the same thing, which is how a loop of an agent is noticed.
pub fn canonical(call: &ToolCall) -> String {
    arguments::canonical(call)
}

impl Toolbox {
    /// The given tools.
    pub fn new(tools: Vec<Arc<dyn Tool>>) -> Self {
        let entry = |tool: Arc<dyn Tool>| {
            let schema = jsonschema::validator_for(&tool.specification().parameters);
            if let Err(error) = &schema {
                tracing::error!(tool = tool.specification().name, %error, "a tool's schema is unusable");
            }
            Entry { tool, schema: schema.ok() }
        };
        Self { tools: Arc::new(tools.into_iter().map(entry).collect()), limits: Limits::default() }
    }

    /// The read-only tools of a review: read_file, list_files, search_code, read_diff, parse_code, check_security,
    /// check_performance, check_style.
    pub fn reviewing() -> Self {
        Self::new(vec![
            Arc::new(ReadFile::new()),
            Arc::new(ListFiles::new()),
            Arc::new(SearchCode::new()),
            Arc::new(ReadDiff::new()),
            Arc::new(ParseCode::new()),
            Arc::new(Check::security()),
            Arc::new(Check::performance()),
            Arc::new(Check::style()),
        ])
    }

    /// The same tools with other limits.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// What the model is told.
    pub fn specifications(&self) -> Vec<ToolSpecification> {
        self.tools.iter().map(|entry| entry.tool.specification().clone()).collect()
    }

    /// The tool of a name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.entry(name).map(|entry| &entry.tool)
    }

    /// Runs a call: unknown names, malformed or misfitting arguments, faults and time-outs all become text.
    pub async fn call(&self, call: &ToolCall, cx: &ToolContext) -> ToolResult {
        let result = match self.entry(&call.name) {
            None => ToolResult { text: self.unknown(&call.name), outcome: "unknown_tool" },
            Some(entry) => match entry.arguments(&call.arguments) {
                Err(text) => ToolResult { text, outcome: "bad_arguments" },
                Ok(arguments) => self.run(entry, &arguments, cx).await,
            },
        };
        ToolResult { text: clip::halves(&result.text, MAX_RESULT_BYTES), ..result }
    }

    async fn run(&self, entry: &Entry, arguments: &Value, cx: &ToolContext) -> ToolResult {
        match tokio::time::timeout(self.limits.time, self.attempt(entry, arguments, cx)).await {
            Err(_) => {
                let seconds = self.limits.time.as_secs_f64();
                let text = format!("timed out after {seconds} s; ask for less (one file, fewer lines)");
                ToolResult { text, outcome: "timed_out" }
            }
            Ok(Ok(observation)) => ToolResult { text: observation.text, outcome: "ok" },
            Ok(Err(error)) => {
                let outcome = match &error {
                    ToolError::BadArguments(_) => "bad_arguments",
                    ToolError::Transient(_) => "failed",
                    ToolError::Refused(_) => "refused",
                };
                let form = match &error {
                    ToolError::BadArguments(_) => entry.expected(),
                    _ => String::new(),
                };
                ToolResult { text: format!("{error}{form}"), outcome }
            }
        }
    }

    /// Tries until it works, fails for good, or has been tried often enough. Only what looks is tried again: a write
    /// that failed may have happened.
    async fn attempt(&self, entry: &Entry, arguments: &Value, cx: &ToolContext) -> Result<Observation, ToolError> {
        let mut wait = self.limits.backoff;
        let mut attempt = 1;
        loop {
            let result = entry.tool.call(arguments, cx).await;
            let again = entry.tool.risk() == super::Risk::ReadOnly && attempt < self.limits.attempts;
            match result {
                Err(ToolError::Transient(reason)) if again => {
                    tracing::debug!(
                        tool = entry.tool.specification().name,
                        attempt,
                        reason,
                        "a tool call failed, trying again"
                    );
                    tokio::time::sleep(wait).await;
                    wait *= 2;
                    attempt += 1;
                }
                result => return result,
            }
        }
    }

    fn entry(&self, name: &str) -> Option<&Entry> {
        self.tools.iter().find(|entry| entry.tool.specification().name == name)
    }

    fn unknown(&self, name: &str) -> String {
        let names: Vec<&str> = self.tools.iter().map(|entry| entry.tool.specification().name.as_str()).collect();
        format!("there is no tool {:?}; the tools are: {}", clip::halves(name, 100), names.join(", "))
    }
}

impl Entry {
    /// The arguments, repaired where that is trivial, and found to fit the schema.
    fn arguments(&self, text: &str) -> Result<Value, String> {
        let parameters = &self.tool.specification().parameters;
        if text.len() > MAX_ARGUMENT_BYTES {
            return Err(format!("bad arguments: longer than {MAX_ARGUMENT_BYTES} bytes{}", self.expected()));
        }
        let value = arguments::read(text).map_err(|error| format!("bad arguments: {error}{}", self.expected()))?;
        let value = arguments::coerce(value, parameters);
        let errors: Vec<String> = self
            .schema
            .iter()
            .flat_map(|schema| schema.iter_errors(&value))
            .take(5)
            .map(|error| clip::halves(&format!("{error} (at {:?})", error.instance_path().to_string()), 300))
            .collect();
        if errors.is_empty() {
            Ok(value)
        } else {
            Err(format!("bad arguments: {}{}", errors.join("; "), self.expected()))
        }
    }

    fn expected(&self) -> String {
        let specification = self.tool.specification();
        format!("\nexpected by {}: {}", specification.name, specification.parameters)
    }
}
