//! Validates, runs, limits and clips calls.

use std::sync::Arc;

use super::{Tool, ToolContext};
use crate::chat::{ToolCall, ToolSpecification};

/// Tokens of a result beyond which only the first and the last half are kept.
pub const MAX_RESULT_TOKENS: usize = 2_000;

/// The tools of an agent.
#[derive(Clone)]
pub struct Toolbox {
    tools: Arc<Vec<Arc<dyn Tool>>>,
}

/// What came of a call: always a text for the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolResult {
    /// The text, clipped.
    pub text: String,
    /// `ok`, `bad_arguments`, `unknown_tool`, `refused`, `failed`, `timed_out`: for metrics and events.
    pub outcome: &'static str,
}

impl Toolbox {
    /// The given tools.
    pub fn new(tools: Vec<Arc<dyn Tool>>) -> Self {
        Self { tools: Arc::new(tools) }
    }

    /// The read-only tools of a review: read_file, list_files, search_code, read_diff, parse_code, check_security,
    /// check_performance, check_style.
    pub fn reviewing() -> Self {
        todo!()
    }

    /// What the model is told.
    pub fn specifications(&self) -> Vec<ToolSpecification> {
        self.tools.iter().map(|t| t.specification().clone()).collect()
    }

    /// Runs a call: unknown names, malformed or misfitting arguments, faults and time-outs all become text.
    pub async fn call(&self, call: &ToolCall, cx: &ToolContext) -> ToolResult {
        let _ = (call, cx);
        todo!()
    }
}
