//! A finding, and the lenient reading of findings out of whatever a model wrote.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::diff::Side;

mod answer;
mod identity;
mod item;
pub mod json;

/// Longest title, in characters; longer ones are cut.
pub const MAX_TITLE: usize = 200;
/// Longest body, in characters; longer ones are cut. Together with the rest of a comment it stays far below GitHub's
/// limit of 65,536 characters.
pub const MAX_BODY: usize = 8_000;
/// Longest summary of a file, in characters.
pub const MAX_SUMMARY: usize = 4_000;
/// Longest quote, in lines; a longer one is cut between lines, so that what is left still stands in the file.
pub const MAX_QUOTE_LINES: usize = 200;
/// Longest quote, in characters; cut between lines.
pub const MAX_QUOTE: usize = 16_000;
/// Longest replacement, in characters; a longer one is dropped, as half a replacement deletes code.
pub const MAX_REPLACEMENT: usize = 16_000;
/// Longest path, in characters; an item with a longer one is rejected.
pub const MAX_PATH: usize = 4_096;
/// Most items taken from one answer; the others are rejected together.
pub const MAX_FINDINGS: usize = 200;
/// Most rejected items that are listed one by one.
pub const MAX_REJECTED: usize = 50;
/// What is read of an answer, in bytes; what comes after counts as cut.
pub const MAX_ANSWER: usize = 4 << 20;
/// The confidence of a finding that states none, or none that makes sense.
pub const DEFAULT_CONFIDENCE: f64 = 0.5;

/// How bad a problem is, in rising order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// A matter of taste.
    Nit,
    /// Worth mending.
    Minor,
    /// Will hurt somebody.
    Major,
    /// Must not be merged.
    Critical,
}

/// What a problem is about; each has its weight in the score.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    /// It does the wrong thing.
    Correctness,
    /// It can be abused.
    Security,
    /// It is slower or larger than it needs to be.
    Performance,
    /// It is hard to understand.
    Readability,
    /// It goes against what is known to work.
    BestPractice,
}

/// What supports a finding: a tool result, or the round in which it was confirmed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Evidence {
    /// The tool's name, or `critic`.
    pub source: String,
    /// A short text.
    pub text: String,
}

/// One problem in one file, as claimed. Where it may be posted is decided by [`super::anchor`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Finding {
    /// The file.
    pub path: String,
    /// Verbatim code, one or more lines; empty when the model gave none.
    pub quote: String,
    /// The line the model believes the quote begins on.
    pub line: Option<u32>,
    /// The line the model believes it ends on.
    pub end_line: Option<u32>,
    /// The side the model means; right when it says nothing.
    pub side: Option<Side>,
    /// How bad.
    pub severity: Severity,
    /// What about.
    pub category: Category,
    /// One line.
    pub title: String,
    /// Why it matters and what to do, Markdown.
    pub body: String,
    /// Code to put in place of the quoted lines.
    pub replacement: Option<String>,
    /// 0 to 1.
    pub confidence: f64,
    /// The rule id, or the model's name.
    #[serde(default)]
    pub source: String,
    /// What supports it.
    #[serde(default)]
    pub evidence: Vec<Evidence>,
}

/// An item of a model's answer that could not be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejected {
    /// Why, in a sentence the model can act on.
    pub reason: String,
    /// The item, clipped.
    pub raw: String,
}

/// What was read out of a model's answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ParsedFindings {
    /// Items that are whole.
    pub findings: Vec<Finding>,
    /// Items that are not.
    pub rejected: Vec<Rejected>,
    /// The model's summary of the file.
    pub summary: String,
    /// False when the answer was cut, was not JSON, or items were rejected: then it is never called clean.
    pub complete: bool,
}

/// Reads findings out of an answer: JSON in prose or a fence, cut in the middle, with fields missing, misspelt or of
/// another type. Items that are whole are kept, the rest is rejected with a reason. `path` fills a missing path.
///
/// A missing or unknown severity is minor, a missing or unknown category correctness, a missing title is the first
/// sentence of the body; an item that claims nothing is rejected. Duplicates are kept. Several JSON values in one
/// answer count together; what a reasoning model wrote before `</think>` does not count.
pub fn parse_findings(text: &str, path: &str) -> ParsedFindings {
    answer::parse(text, path)
}

/// Reads one item as [`parse_findings`] does.
///
/// # Errors
/// The item with the reason when it claims nothing, or is no object.
pub fn parse_finding(item: &Value, path: &str) -> Result<Finding, Rejected> {
    item::parse(item, path)
}

/// Whether a path that a model wrote is this file, however it is spelt (`./x`, `b/x`, absolute, quoted).
pub fn names(named: &str, path: &str) -> bool {
    !named.is_empty() && item::file(named, path) == path
}

/// The identity of a finding over pushes: path, quoted code without white space, and category. Hex, 16 characters.
/// A finding without a quote is known by its title instead, in lower case and without punctuation.
pub fn fingerprint(finding: &Finding) -> String {
    identity::fingerprint(finding)
}

/// How alike two claims are, 0 to 1: Jaccard over normalised tokens of title and body.
pub fn similarity(a: &Finding, b: &Finding) -> f64 {
    identity::similarity(a, b)
}

/// The JSON Schema of an answer, in the strict form that OpenAI and others ask for: every field is required, none may
/// be added, and what may be missing may be null.
pub fn answer_schema() -> Value {
    let text = |description: &str| json!({"type": "string", "description": description});
    let number = |description: &str| json!({"type": ["integer", "null"], "description": description});
    let properties = json!({
        "path": text("The file under review."),
        "quote": text("Verbatim code, one or more whole lines, copied without line numbers or diff markers."),
        "line": number("The line the quote begins on."),
        "end_line": number("The line the quote ends on."),
        "side": {
            "type": ["string", "null"],
            "enum": ["LEFT", "RIGHT", null],
            "description": "LEFT for removed lines, RIGHT for added and unchanged ones.",
        },
        "severity": {"type": "string", "enum": ["critical", "major", "minor", "nit"]},
        "category": {
            "type": "string",
            "enum": ["correctness", "security", "performance", "readability", "best_practice"],
        },
        "title": text("The problem in one line."),
        "body": text("Why it matters and what to do, in Markdown."),
        "replacement": {
            "type": ["string", "null"],
            "description": "Exact code to put in place of all quoted lines, with their indentation; null if there is none.",
        },
        "confidence": {"type": "number", "description": "0 to 1."},
    });
    let required: Vec<&String> = properties.as_object().map(|fields| fields.keys().collect()).unwrap_or_default();
    let item = json!({
        "type": "object", "additionalProperties": false, "required": required, "properties": properties,
    });
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["findings", "summary"],
        "properties": {
            "findings": {"type": "array", "items": item},
            "summary": text("What the change does and how it looks, in one or two sentences."),
        },
    })
}

/// The first `max` characters, with `…` when something was cut.
fn clip(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", text[..end].trim_end()),
    }
}
