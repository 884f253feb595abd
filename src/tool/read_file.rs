//! Reads a file at the head of the change.

use std::fmt::Write as _;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::toolbox::MAX_RESULT_BYTES;
use super::{Observation, Tool, ToolContext, ToolError, parameters};
use crate::chat::ToolSpecification;

/// Longest line that is shown, in characters.
const MAX_LINE: usize = 400;

/// Room for the sentence that says what is left out, in bytes.
const NOTE_BYTES: usize = 200;

const DESCRIPTION: &str = "\
Reads a file as it is after the change, with line numbers. Without lines it begins at the top and gives as much as fits; \
the end says where to go on.
Example: {\"path\": \"src/cache.rs\", \"start_line\": 10, \"end_line\": 12}
Result:
src/cache.rs, lines 10-12 of 80
10: fn get(&self, key: &str) -> &str {
11:     self.map.get(key).unwrap()
12: }";

/// `read_file`.
pub struct ReadFile {
    specification: ToolSpecification,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Parameters {
    /// Path from the root of the repository; the file under review when left out.
    path: Option<String>,
    /// First line, counted from 1.
    #[schemars(range(min = 1))]
    start_line: Option<u32>,
    /// Last line.
    #[schemars(range(min = 1))]
    end_line: Option<u32>,
}

impl ReadFile {
    /// The tool.
    pub fn new() -> Self {
        Self { specification: parameters::specification::<Parameters>("read_file", DESCRIPTION) }
    }
}

impl Default for ReadFile {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Tool for ReadFile {
    fn specification(&self) -> &ToolSpecification {
        &self.specification
    }

    async fn call(&self, arguments: &Value, cx: &ToolContext) -> Result<Observation, ToolError> {
        let wanted: Parameters = parameters::read(arguments)?;
        let path = parameters::path(wanted.path.as_deref(), cx)?;
        let text = parameters::text(&path, cx).await?;
        let start = wanted.start_line.unwrap_or(1) as usize;
        let end = wanted.end_line.map(|end| end as usize);
        if end.is_some_and(|end| end < start) {
            return Err(ToolError::BadArguments(format!("end_line is before start_line {start}")));
        }
        numbered(&path, &text, start, end).map(|text| Observation { text })
    }
}

fn numbered(path: &str, text: &str, start: usize, end: Option<usize>) -> Result<String, ToolError> {
    let body = text.strip_suffix('\n').unwrap_or(text);
    let total = if text.is_empty() { 0 } else { body.split('\n').count() };
    if total == 0 {
        return Ok(format!("{path} is empty"));
    }
    if start > total {
        return Err(ToolError::BadArguments(format!("start_line {start} is after the end: {path} has {total} lines")));
    }
    let end = end.unwrap_or(total).min(total);
    let mut lines = String::new();
    let mut last = start;
    for (number, line) in body.split('\n').enumerate().skip(start - 1).take(end + 1 - start) {
        let line = format!("{}: {}\n", number + 1, parameters::shown(line, MAX_LINE));
        if lines.len() + line.len() + path.len() + NOTE_BYTES > MAX_RESULT_BYTES && !lines.is_empty() {
            break;
        }
        lines.push_str(&line);
        last = number + 1;
    }
    let mut out = format!("{path}, lines {start}-{last} of {total}\n{lines}");
    if last < end {
        let _ = writeln!(out, "(lines {}-{end} did not fit; go on with start_line {})", last + 1, last + 1);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_numbered_and_ranges_kept() {
        assert_eq!(numbered("a", "x\ny\r\nz\n", 2, Some(9)), Ok("a, lines 2-3 of 3\n2: y\n3: z\n".into()));
        assert_eq!(numbered("a", "", 1, None), Ok("a is empty".into()));
        assert!(matches!(numbered("a", "x", 2, None), Err(ToolError::BadArguments(_))));
    }

    #[test]
    fn what_does_not_fit_is_named_and_the_rest_can_be_asked_for() {
        let text = "some line of code that is not short\n".repeat(1_000);
        let shown = numbered("a", &text, 1, None).unwrap();
        assert!(shown.len() <= MAX_RESULT_BYTES, "{}", shown.len());
        let last: usize = shown.lines().filter(|line| line.contains("some line")).count();
        assert!(shown.ends_with(&format!(
            "(lines {}-1000 did not fit; go on with start_line {})\n",
            last + 1,
            last + 1
        )));
        assert!(numbered("a", &"é".repeat(50_000), 1, None).unwrap().len() < 1_000);
    }
}
