//! Outlines a file by its syntax.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::toolbox::MAX_RESULT_BYTES;
use super::{Observation, Tool, ToolContext, ToolError, parameters};
use crate::analysis::language::{Language, detect};
use crate::analysis::outline::{Outline, enclosing, outline};
use crate::chat::ToolSpecification;
use crate::compute::compute;

/// Room for the sentence that says what is left out, in bytes.
const NOTE_BYTES: usize = 200;

const DESCRIPTION: &str = "\
Outlines a file as it is after the change: its imports and definitions with their line ranges, signatures and first line \
of documentation. With a line, what encloses that line too.
Example: {\"path\": \"src/cache.rs\", \"line\": 11}
Result:
src/cache.rs (rust), 80 lines
line 11 is in method Cache::get, lines 10-12
1: use std::collections::HashMap;

4-7: pub struct Cache
9-40: impl Cache
10-12:   fn get(&self, key: &str) -> &str  // Looks up.";

/// `parse_code`.
pub struct ParseCode {
    specification: ToolSpecification,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Parameters {
    /// Path from the root of the repository; the file under review when left out.
    path: Option<String>,
    /// A line whose enclosing definition is wanted.
    #[schemars(range(min = 1))]
    line: Option<u32>,
}

impl ParseCode {
    /// The tool.
    pub fn new() -> Self {
        Self { specification: parameters::specification::<Parameters>("parse_code", DESCRIPTION) }
    }
}

impl Default for ParseCode {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Tool for ParseCode {
    fn specification(&self) -> &ToolSpecification {
        &self.specification
    }

    async fn call(&self, arguments: &Value, cx: &ToolContext) -> Result<Observation, ToolError> {
        let wanted: Parameters = parameters::read(arguments)?;
        let path = parameters::path(wanted.path.as_deref(), cx)?;
        let text = parameters::text(&path, cx).await?;
        let language = detect(&path, text.split('\n').next().unwrap_or_default()).ok_or_else(|| {
            let known: Vec<&str> = Language::ALL.iter().map(|language| language.name()).collect();
            ToolError::Refused(format!("{path} is in none of the languages that are parsed ({})", known.join(", ")))
        })?;
        let lines = text.lines().count();
        let parsed = compute(move || outline(language, &text)).await;
        let outline = parsed
            .map_err(|_| ToolError::Refused(format!("{path} cannot be outlined")))?
            .map_err(|reason| ToolError::Refused(format!("{path} cannot be outlined: {reason}")))?;
        Ok(Observation { text: shown(&format!("{path} ({language}), {lines} lines\n"), &outline, wanted.line) })
    }
}

fn shown(head: &str, outline: &Outline, line: Option<u32>) -> String {
    let mut out = head.to_owned();
    if let Some(line) = line {
        match enclosing(outline, line) {
            Some(found) => {
                let scope = if found.scope.is_empty() { String::new() } else { format!("{} ", found.scope) };
                let kind = format!("{:?}", found.kind).to_lowercase();
                out.push_str(&format!(
                    "line {line} is in {kind} {scope}{}, lines {}-{}\n",
                    found.name, found.line, found.end_line
                ));
            }
            None => out.push_str(&format!("line {line} is in no definition\n")),
        }
    }
    if outline.imports.is_empty() && outline.definitions.is_empty() {
        out.push_str("(no imports or definitions)\n");
    }
    for line in outline.compact().lines() {
        if out.len() + line.len() + NOTE_BYTES > MAX_RESULT_BYTES {
            out.push_str("(the rest did not fit; search_code or read_file show parts)\n");
            break;
        }
        out.push_str(line);
        out.push('\n');
    }
    out
}
