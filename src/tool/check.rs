//! Runs the rules over a file, and says which of their hits the change brought.

use std::collections::HashSet;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::toolbox::MAX_RESULT_BYTES;
use super::{Observation, Tool, ToolContext, ToolError, parameters};
use crate::analysis::language::detect;
use crate::analysis::rules::{Category, Hit, Scan, scan};
use crate::chat::ToolSpecification;
use crate::compute::compute;
use crate::diff::{FileDiff, LineKind};

/// Room for what stands around the hits, in bytes.
const FRAME_BYTES: usize = 100;

/// `check_security`, `check_performance` or `check_style`.
pub struct Check {
    specification: ToolSpecification,
    categories: &'static [Category],
}

/// What a check answers, as JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckResult {
    /// Hits on changed lines first, then by line.
    pub hits: Vec<CheckHit>,
    /// What could not be checked, or was left out; empty when nothing.
    pub note: String,
}

/// One hit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckHit {
    /// The hit itself.
    #[serde(flatten)]
    pub hit: Hit,
    /// Whether any of its lines was added by this change; otherwise it was there before.
    pub changed: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Parameters {
    /// Path from the root of the repository; the file under review when left out.
    path: Option<String>,
    /// Which part of a long list of hits, counted from 1; `note` says whether there is another.
    #[schemars(range(min = 1))]
    part: Option<u32>,
}

impl Check {
    /// `check_security`.
    pub fn security() -> Self {
        let what = "Looks for security problems in a file as it is after the change: injection, unsafe deserialisation, \
                    weak cryptography, verification that is switched off, secrets.";
        let example = r#"{"rule":"python-shell-injection","severity":"critical","category":"security","title":"Command line built from values and run by a shell","why":"…","fix":"…","line":12,"end_line":12,"quote":"    os.system(\"rm -r \" + path)","replacement":null,"confidence":0.85,"cwe":78,"changed":true}"#;
        Self::new("check_security", what, "app.py", example, &[Category::Security])
    }

    /// `check_performance`.
    pub fn performance() -> Self {
        let what = "Looks for needless cost in a file as it is after the change: work repeated in loops, queries in loops, \
                    blocking calls in asynchronous code.";
        let example = r#"{"rule":"python-blocking-sleep-in-async","severity":"major","category":"performance","title":"Blocking sleep in an async function","why":"…","fix":"…","line":7,"end_line":7,"quote":"    time.sleep(1)","replacement":"    await asyncio.sleep(1)","confidence":0.9,"changed":false}"#;
        Self::new("check_performance", what, "worker.py", example, &[Category::Performance])
    }

    /// `check_style`: correctness, readability and best practice.
    pub fn style() -> Self {
        let what = "Looks for mistakes and bad habits in a file as it is after the change: code that does something else \
                    than it says (correctness), is hard to read (readability), or goes against what is known to work \
                    (best_practice).";
        let example = r#"{"rule":"python-mutable-default","severity":"major","category":"correctness","title":"Mutable default argument","why":"…","fix":"…","line":3,"end_line":3,"quote":"def add(item, items=[]):","replacement":null,"confidence":0.9,"changed":true}"#;
        let categories = &[Category::Correctness, Category::Readability, Category::BestPractice];
        Self::new("check_style", what, "cart.py", example, categories)
    }

    fn new(name: &str, what: &str, path: &str, example: &str, categories: &'static [Category]) -> Self {
        let description = format!(
            "{what} The result is JSON. `changed` says whether the hit is on a line this change added. The rules see one \
             file and no data flow: judge each hit before you report it.\nExample: {{\"path\": \"{path}\"}}\nResult:\n\
             {{\"hits\":[{example}],\"note\":\"\"}}"
        );
        Self { specification: parameters::specification::<Parameters>(name, &description), categories }
    }
}

#[async_trait]
impl Tool for Check {
    fn specification(&self) -> &ToolSpecification {
        &self.specification
    }

    async fn call(&self, arguments: &Value, cx: &ToolContext) -> Result<Observation, ToolError> {
        let wanted: Parameters = parameters::read(arguments)?;
        let path = parameters::path(wanted.path.as_deref(), cx)?;
        let text = parameters::text(&path, cx).await?;
        let language = detect(&path, text.split('\n').next().unwrap_or_default());
        let (categories, scanned) = (self.categories, path.clone());
        // Scanning takes up to seconds for hostile files.
        let scan = compute(move || scan(language, &scanned, &text, categories)).await;
        let scan = scan.map_err(|_| ToolError::Refused(format!("{path} cannot be checked")))?;
        let mut note = note(&scan);
        if language.is_none() {
            note.push_str("No rules for this language; only secrets are looked for. ");
        }
        let part = wanted.part.unwrap_or(1).max(1) as usize;
        let result = result(scan, parameters::change(&path, cx), &note, part)?;
        let text = serde_json::to_string(&result).map_err(|error| ToolError::Refused(error.to_string()))?;
        Ok(Observation { text })
    }
}

fn note(scan: &Scan) -> String {
    match (&scan.unparsed, scan.generated) {
        (_, true) => "generated or vendored file: not checked. ".into(),
        (Some(reason), _) => format!("not checked by syntax: {reason}. "),
        (None, false) => String::new(),
    }
}

/// Part `part` of the hits, those on changed lines first. Every part fits whole, so that its JSON can be read.
fn result(scan: Scan, change: Option<&FileDiff>, note: &str, part: usize) -> Result<CheckResult, ToolError> {
    let lines = change.iter().flat_map(|file| &file.hunks).flat_map(|hunk| &hunk.lines);
    let added: HashSet<u32> = lines.filter(|line| line.kind == LineKind::Added).filter_map(|line| line.new).collect();
    let mark = |hit: Hit| CheckHit { changed: (hit.line..=hit.end_line).any(|line| added.contains(&line)), hit };
    let mut hits: Vec<CheckHit> = scan.hits.into_iter().map(mark).collect();
    hits.sort_by_key(|hit| !hit.changed);
    let total = hits.len();
    let room = MAX_RESULT_BYTES.saturating_sub(note.len() + FRAME_BYTES);
    let mut parts = vec![Vec::new()];
    let (mut used, mut unfit) = (0, 0);
    for hit in hits {
        let size = serde_json::to_string(&hit).map_or(usize::MAX, |text| text.len() + 1);
        if size > room {
            // Lines full of control characters grow sixfold in JSON; nothing of them can be shown whole.
            unfit += 1;
            continue;
        }
        if used + size > room && used > 0 {
            parts.push(Vec::new());
            used = 0;
        }
        used += size;
        if let Some(last) = parts.last_mut() {
            last.push(hit);
        }
    }
    let count = parts.len();
    let shown: usize = parts.iter().take(part).map(Vec::len).sum();
    let hits = parts.into_iter().nth(part - 1);
    let hits = hits.ok_or_else(|| ToolError::BadArguments(format!("there is no part {part}; there are {count}")))?;
    let mut note = note.to_owned();
    if part < count {
        note.push_str(&format!("{} more hits in part {}. ", total - unfit - shown, part + 1));
    }
    if unfit > 0 {
        note.push_str(&format!("{unfit} hits are too long to be shown."));
    }
    Ok(CheckResult { hits, note: note.trim_end().to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::rules::Severity;
    use crate::diff::{DiffLine, FileStatus, Hunk};

    fn hit(line: u32, end_line: u32) -> Hit {
        Hit {
            rule: "r".into(),
            severity: Severity::Major,
            category: Category::Security,
            title: "t".into(),
            why: "w".repeat(300),
            fix: "f".into(),
            line,
            end_line,
            quote: "é\u{2028}".repeat(50),
            replacement: None,
            confidence: 0.5,
            cwe: None,
        }
    }

    fn change(added: u32) -> FileDiff {
        let line =
            DiffLine { kind: LineKind::Added, old: None, new: Some(added), text: String::new(), no_newline: false };
        let hunk = Hunk { old_start: 0, old_count: 0, new_start: added, new_count: 1, lines: vec![line] };
        FileDiff { path: "a".into(), old_path: None, status: FileStatus::Modified, hunks: vec![hunk] }
    }

    #[test]
    fn hits_on_added_lines_come_first() {
        let scan = Scan { hits: vec![hit(1, 1), hit(5, 8)], ..Scan::default() };
        let result = result(scan, Some(&change(7)), "", 1).unwrap();
        let lines: Vec<(u32, bool)> = result.hits.iter().map(|hit| (hit.hit.line, hit.changed)).collect();
        assert_eq!(lines, [(5, true), (1, false)]);
    }

    #[test]
    fn a_hit_that_cannot_be_shown_is_counted() {
        let long = Hit { quote: "\u{1}".repeat(2_000), ..hit(1, 1) };
        let scan = Scan { hits: vec![long, hit(2, 2)], ..Scan::default() };
        let result = result(scan, None, "", 1).unwrap();
        assert_eq!((result.hits.len(), result.note.as_str()), (1, "1 hits are too long to be shown."));
    }

    #[test]
    fn a_long_list_comes_in_parts_of_whole_hits() {
        let scan = || Scan { hits: (1..=100).map(|line| hit(line, line)).collect(), ..Scan::default() };
        let mut lines = Vec::new();
        for part in 1.. {
            let result = result(scan(), Some(&change(90)), "cut. ", part).unwrap();
            let text = serde_json::to_string(&result).unwrap();
            assert!(text.len() <= MAX_RESULT_BYTES && !result.hits.is_empty(), "{}", text.len());
            assert_eq!(serde_json::from_str::<CheckResult>(&text).unwrap(), result);
            lines.extend(result.hits.iter().map(|hit| hit.hit.line));
            if result.note == "cut." {
                assert!(matches!(super::result(scan(), None, "", part + 1), Err(ToolError::BadArguments(_))));
                break;
            }
            assert_eq!(result.note, format!("cut. {} more hits in part {}.", 100 - lines.len(), part + 1));
        }
        assert_eq!(lines.first(), Some(&90));
        lines.sort_unstable();
        assert_eq!(lines, (1..=100).collect::<Vec<_>>());
    }
}
