//! The second look: every finding must be hit by a rule again. Pure.

use serde_json::{Value, json};

use super::block::json_blocks;
use super::hit::{Hit, Observed, observed, squeezed};
use super::{Turn, has_called, offered, since_asked};
use crate::chat::{ChatMessage, ChatRequest};

/// The next turn of a critic of findings on `path`.
pub(super) fn turn(request: &ChatRequest, path: &str) -> Turn {
    let tools = offered(request);
    let since = since_asked(&request.messages);
    if !tools.is_empty() && !has_called(since) {
        return Turn::Call { tools, path: path.to_owned() };
    }
    let observed = observed(since);
    let findings = findings(&request.messages);
    let verdicts: Vec<Value> = findings.iter().enumerate().map(|(index, f)| verdict(index, f, &observed)).collect();
    Turn::Say(json!({ "verdicts": verdicts, "missed": [] }).to_string())
}

/// The findings under judgement: the last block with any that we, not a person or a system prompt's example, put there.
fn findings(messages: &[ChatMessage]) -> Vec<Value> {
    let asked = messages.iter().rev().filter_map(|m| match m {
        ChatMessage::User { text } => Some(text),
        _ => None,
    });
    asked
        .flat_map(|text| json_blocks(text).into_iter().rev())
        .find_map(|block| block.get("findings").and_then(Value::as_array).cloned())
        .unwrap_or_default()
}

fn verdict(index: usize, finding: &Value, observed: &Observed) -> Value {
    let same = observed.hits.iter().find(|hit| hit.changed && is_same(hit, finding));
    let (verdict, reason, confidence) = match same {
        Some(hit) => ("keep", format!("Rule `{}` hits this code again.", hit.rule), 0.9),
        // What could not be looked at is not refuted.
        None if !observed.complete => {
            ("keep", "The checks gave no whole result, so this was not refuted.".to_owned(), 0.5)
        }
        None => ("drop", "No rule hits this code in the changed lines.".to_owned(), 0.9),
    };
    json!({ "index": index, "verdict": verdict, "reason": reason, "confidence": confidence })
}

fn is_same(hit: &Hit, finding: &Value) -> bool {
    let text = |name: &str| finding.get(name).and_then(Value::as_str).unwrap_or_default();
    let same_kind = text("source") == hit.rule || text("category") == hit.category;
    same_kind && squeezed(text("quote")) == squeezed(&hit.quote)
}
