//! What the check tools found, read back out of a conversation. Pure and lenient: their results may have been clipped.

use std::collections::{BTreeMap, HashSet};

use serde_json::Value;

use super::{CHECKS, clip};
use crate::chat::ChatMessage;

/// Bytes of a damaged result that are searched for whole hits; results are clipped long before.
const MAX_DAMAGED: usize = 64 * 1024;

/// Opening braces that are tried in a damaged result.
const MAX_TRIES: usize = 2_000;

/// One hit of a rule.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Hit {
    pub(super) rule: String,
    pub(super) severity: String,
    pub(super) category: String,
    pub(super) title: String,
    pub(super) why: String,
    pub(super) fix: String,
    pub(super) line: Option<u64>,
    pub(super) end_line: Option<u64>,
    pub(super) quote: String,
    pub(super) replacement: Option<String>,
    pub(super) confidence: f64,
    pub(super) changed: bool,
}

/// What the checks of a conversation came to.
#[derive(Debug, Default)]
pub(super) struct Observed {
    /// Hits, each once.
    pub(super) hits: Vec<Hit>,
    /// What was not checked, in sentences.
    pub(super) notes: Vec<String>,
    /// Whether every tool that was called gave a whole result.
    pub(super) complete: bool,
    /// Whether any tool gave a result.
    pub(super) any: bool,
}

/// Reads the results of the check tools. Of several results of one tool the last good one counts: a tool that was
/// called again in vain has still answered before.
pub(super) fn observed(messages: &[ChatMessage]) -> Observed {
    let mut results: BTreeMap<usize, Result<Checked, String>> = BTreeMap::new();
    for message in messages {
        let ChatMessage::Tool { name, text, .. } = message else { continue };
        let Some(place) = CHECKS.iter().position(|check| check == name) else { continue };
        let result = read(text);
        if result.is_ok() || !matches!(results.get(&place), Some(Ok(_))) {
            results.insert(place, result);
        }
    }
    let mut observed = Observed { complete: !results.is_empty(), any: false, ..Observed::default() };
    let mut seen = HashSet::new();
    for (place, result) in results {
        let tool = CHECKS.get(place).copied().unwrap_or_default();
        match result {
            Ok(checked) => {
                observed.any = true;
                observed.complete &= checked.whole;
                observed.hits.extend(
                    checked.hits.into_iter().filter(|h| seen.insert((h.rule.clone(), h.line, h.quote.clone()))),
                );
                if !checked.whole {
                    observed.notes.push(format!("Part of the result of {tool} was cut off."));
                }
                // The checks share their rules' languages, so that they mostly say the same.
                if !checked.note.is_empty() && !observed.notes.contains(&checked.note) {
                    observed.notes.push(checked.note);
                }
            }
            Err(why) => {
                observed.complete = false;
                observed.notes.push(format!("{tool} gave no result ({why})."));
            }
        }
    }
    observed
}

/// A text without white space, for comparing quotes.
pub(super) fn squeezed(text: &str) -> String {
    text.split_whitespace().collect()
}

struct Checked {
    hits: Vec<Hit>,
    note: String,
    whole: bool,
}

fn read(text: &str) -> Result<Checked, String> {
    if let Ok(value) = serde_json::from_str::<Value>(text)
        && let Some(hits) = value.get("hits").and_then(Value::as_array)
    {
        let note = value.get("note").and_then(Value::as_str).unwrap_or_default();
        let read: Vec<Hit> = hits.iter().filter_map(hit).collect();
        return Ok(Checked { whole: read.len() == hits.len(), hits: read, note: clip(note, 300) });
    }
    let looks_like_a_result = text.trim_start().starts_with("{\"hits\"");
    if looks_like_a_result {
        return Ok(Checked { hits: salvage(text), note: String::new(), whole: false });
    }
    Err(clip(text, 200))
}

/// The hits that are whole in a result that is not. Quoted code cannot pass for a hit: inside a JSON string its quotes
/// are escaped, so an object begun there does not parse.
fn salvage(text: &str) -> Vec<Hit> {
    let end = text.floor_char_boundary(MAX_DAMAGED);
    let text = text.get(..end).unwrap_or_default();
    let mut hits = Vec::new();
    let mut at = 0;
    for _ in 0..MAX_TRIES {
        let Some(start) = text.get(at..).and_then(|rest| rest.find('{')).map(|offset| at + offset) else { break };
        let mut values = serde_json::Deserializer::from_str(text.get(start..).unwrap_or_default()).into_iter::<Value>();
        match values.next() {
            Some(Ok(value)) => {
                hits.extend(hit(&value));
                at = start + values.byte_offset().max(1);
            }
            _ => at = start + 1,
        }
    }
    hits
}

fn hit(value: &Value) -> Option<Hit> {
    let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let number = |name: &str| value.get(name).and_then(Value::as_u64);
    let (rule, quote) = (text("rule"), text("quote"));
    if rule.is_empty() || quote.is_empty() {
        return None;
    }
    Some(Hit {
        rule,
        severity: text("severity"),
        category: text("category"),
        title: text("title"),
        why: text("why"),
        fix: text("fix"),
        line: number("line"),
        end_line: number("end_line").or_else(|| number("line")),
        quote,
        replacement: value.get("replacement").and_then(Value::as_str).map(str::to_owned),
        confidence: value.get("confidence").and_then(Value::as_f64).unwrap_or(0.5),
        changed: value.get("changed").and_then(Value::as_bool).unwrap_or(false),
    })
}
