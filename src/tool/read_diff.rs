//! Reads what the change does to a file.

use std::fmt::Write as _;
use std::sync::Arc;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::toolbox::MAX_RESULT_BYTES;
use super::{Observation, Tool, ToolContext, ToolError, parameters};
use crate::chat::ToolSpecification;
use crate::diff::{DiffLine, FileDiff, LineKind};

/// Longest line that is shown, in characters.
const MAX_LINE: usize = 400;

/// Room for the sentence that says what is left out, in bytes.
const NOTE_BYTES: usize = 200;

const DESCRIPTION: &str = "\
Shows what this change does to a file: every hunk, with the line numbers before and after. Without a path, the files of \
the change with how many lines each adds and removes.
Example: {\"path\": \"src/cache.rs\"}
Result:
src/cache.rs (modified, +1 -1)
@@ -10,3 +10,3 @@
  10   10   fn get(&self, key: &str) -> &str {
  11      -     self.map.get(key).unwrap_or(\"\")
       11 +     self.map.get(key).unwrap()
  12   12   }";

/// `read_diff`.
pub struct ReadDiff {
    specification: ToolSpecification,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Parameters {
    /// Path of a changed file; all changed files are listed when left out.
    path: Option<String>,
    /// Which part of a long diff, counted from 1; the end of a part says whether there is another.
    #[schemars(range(min = 1))]
    part: Option<u32>,
}

impl ReadDiff {
    /// The tool.
    pub fn new() -> Self {
        Self { specification: parameters::specification::<Parameters>("read_diff", DESCRIPTION) }
    }
}

impl Default for ReadDiff {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Tool for ReadDiff {
    fn specification(&self) -> &ToolSpecification {
        &self.specification
    }

    async fn call(&self, arguments: &Value, cx: &ToolContext) -> Result<Observation, ToolError> {
        let wanted: Parameters = parameters::read(arguments)?;
        let Some(path) = wanted.path else {
            return Ok(Observation { text: files(&cx.files) });
        };
        let path = parameters::path(Some(&path), cx)?;
        let file = parameters::change(&path, cx).ok_or_else(|| {
            ToolError::Refused(format!(
                "{path:?} is not part of this change; without a path the changed files are listed"
            ))
        })?;
        Ok(Observation { text: hunks(file, wanted.part.unwrap_or(1).max(1) as usize)? })
    }
}

fn head(file: &FileDiff) -> String {
    let status = format!("{:?}", file.status).to_lowercase();
    let (added, removed) = file.counts();
    let from = file.old_path.as_ref().map(|old| format!(" from {old}")).unwrap_or_default();
    format!("{} ({status}{from}, +{added} -{removed})", file.path)
}

fn files(files: &[Arc<FileDiff>]) -> String {
    let mut out = format!("{} changed files\n", files.len());
    for (index, file) in files.iter().enumerate() {
        let line = head(file);
        if out.len() + line.len() + NOTE_BYTES > MAX_RESULT_BYTES {
            let _ = writeln!(out, "(and {} more)", files.len() - index);
            break;
        }
        let _ = writeln!(out, "{line}");
    }
    out
}

/// Part `part` of the hunks. Every part fits; a hunk that goes over into the next part repeats its head there.
fn hunks(file: &FileDiff, part: usize) -> Result<String, ToolError> {
    let head = head(file);
    let room = MAX_RESULT_BYTES.saturating_sub(head.len() + NOTE_BYTES);
    let mut parts = vec![String::new()];
    for hunk in &file.hunks {
        let hunk_head =
            format!("@@ -{},{} +{},{} @@\n", hunk.old_start, hunk.old_count, hunk.new_start, hunk.new_count);
        let mut begun = false;
        for line in &hunk.lines {
            let shown = shown(line);
            if parts.last().is_some_and(|part| part.len() + hunk_head.len() + shown.len() > room) {
                parts.push(String::new());
                begun = false;
            }
            if let Some(part) = parts.last_mut() {
                if !begun {
                    part.push_str(&hunk_head);
                    begun = true;
                }
                part.push_str(&shown);
            }
        }
    }
    let body = parts.get(part - 1).ok_or_else(|| {
        ToolError::BadArguments(format!("there is no part {part}; the diff of {} has {}", file.path, parts.len()))
    })?;
    Ok(match parts.len() {
        1 if body.is_empty() => format!("{head}\n(no change of text)\n"),
        1 => format!("{head}\n{body}"),
        n if part < n => format!("{head}\n{body}(part {part} of {n}; go on with part {})\n", part + 1),
        n => format!("{head}\n{body}(part {part} of {n})\n"),
    })
}

fn shown(line: &DiffLine) -> String {
    let number = |side: Option<u32>| side.map(|n| n.to_string()).unwrap_or_default();
    let marker = match line.kind {
        LineKind::Context => ' ',
        LineKind::Added => '+',
        LineKind::Removed => '-',
    };
    format!("{:>4} {:>4} {marker} {}\n", number(line.old), number(line.new), parameters::shown(&line.text, MAX_LINE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diff::{FileStatus, Hunk};

    fn file(lines: Vec<DiffLine>) -> FileDiff {
        let count = |of: fn(&DiffLine) -> Option<u32>| u32::try_from(lines.iter().filter_map(of).count()).unwrap();
        let hunk = Hunk { old_start: 1, old_count: count(|l| l.old), new_start: 1, new_count: count(|l| l.new), lines };
        FileDiff { path: "a".into(), old_path: Some("b".into()), status: FileStatus::Renamed, hunks: vec![hunk] }
    }

    fn line(kind: LineKind, old: Option<u32>, new: Option<u32>, text: &str) -> DiffLine {
        DiffLine { kind, old, new, text: text.into(), no_newline: false }
    }

    #[test]
    fn hunks_carry_both_numbers() {
        let file = file(vec![
            line(LineKind::Context, Some(1), Some(1), "x"),
            line(LineKind::Removed, Some(2), None, "y"),
            line(LineKind::Added, None, Some(2), "z\r"),
        ]);
        let expected = "a (renamed from b, +1 -1)\n@@ -1,2 +1,2 @@\n   1    1   x\n   2      - y\n        2 + z\n";
        assert_eq!(hunks(&file, 1), Ok(expected.into()));
        assert!(matches!(hunks(&file, 2), Err(ToolError::BadArguments(_))));
        assert_eq!(files(&[Arc::new(file)]), "1 changed files\na (renamed from b, +1 -1)\n");
    }

    #[test]
    fn long_diffs_are_read_on_piece_by_piece_to_their_end() {
        let lines = (1..=1_000).flat_map(|n| {
            let removed = line(LineKind::Removed, Some(n), None, &format!("old line number {n} of many"));
            [removed, line(LineKind::Added, None, Some(n), &format!("new line number {n} of many"))]
        });
        let file = file(lines.collect());
        let mut seen = 0;
        for part in 1.. {
            let text = hunks(&file, part).unwrap();
            assert!(text.len() <= MAX_RESULT_BYTES);
            assert_eq!(text.matches("@@ -1,1000 +1,1000 @@").count(), 1);
            seen += text.matches("line number").count();
            if !text.contains(&format!("go on with part {}", part + 1)) {
                break;
            }
        }
        assert_eq!(seen, 2_000);
    }
}
