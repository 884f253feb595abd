//! A finding, and the lenient reading of findings out of whatever a model wrote.

use serde::{Deserialize, Serialize};

use crate::diff::Side;

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
pub fn parse_findings(text: &str, path: &str) -> ParsedFindings {
    todo!("{text}{path}")
}

/// The identity of a finding over pushes: path, quoted code without white space, and category. Hex, 16 characters.
pub fn fingerprint(finding: &Finding) -> String {
    todo!("{finding:?}")
}

/// How alike two claims are, 0 to 1: Jaccard over normalised tokens of title and body.
pub fn similarity(a: &Finding, b: &Finding) -> f64 {
    todo!("{a:?}{b:?}")
}
