//! Drafting: call the checks, then report their hits on changed lines. Pure.

use serde_json::{Value, json};

use super::hit::{Hit, Observed, observed};
use super::{Turn, has_called, offered};
use crate::chat::ChatRequest;

/// The next turn of a review of `path`. Asked again, it gives the same answer: its rules see nothing new.
pub(super) fn turn(request: &ChatRequest, path: &str) -> Turn {
    let tools = offered(request);
    if !tools.is_empty() && !has_called(&request.messages) {
        return Turn::Call { tools, path: path.to_owned() };
    }
    let observed = observed(&request.messages);
    let findings: Vec<Value> = observed.hits.iter().filter(|h| h.changed).map(|hit| finding(hit, path)).collect();
    let summary = summary(&observed, findings.len());
    Turn::Say(json!({ "findings": findings, "summary": summary }).to_string())
}

fn finding(hit: &Hit, path: &str) -> Value {
    let body =
        [hit.why.trim(), hit.fix.trim()].iter().filter(|t| !t.is_empty()).copied().collect::<Vec<_>>().join("\n\n");
    json!({
        "path": path,
        "quote": hit.quote,
        "line": hit.line,
        "end_line": hit.end_line,
        "side": "RIGHT",
        "severity": hit.severity,
        "category": hit.category,
        "title": hit.title,
        "body": body,
        "replacement": hit.replacement,
        "confidence": hit.confidence,
        "source": hit.rule,
    })
}

fn summary(observed: &Observed, findings: usize) -> String {
    let mut sentences = vec![match (observed.any, findings) {
        (false, _) => "The embedded rules could not look at this file.".to_owned(),
        (true, 0) => "The embedded rules found nothing in the changed lines.".to_owned(),
        (true, 1) => "The embedded rules found one problem in the changed lines.".to_owned(),
        (true, n) => format!("The embedded rules found {n} problems in the changed lines."),
    }];
    sentences.extend(observed.notes.iter().cloned());
    sentences.join(" ")
}
