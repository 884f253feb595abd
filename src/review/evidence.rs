//! What the checks said about the lines a finding quotes. Pure.

use serde_json::{Map, Value};

use super::draft::Draft;
use super::finding::{self, Evidence, Finding};
use crate::chat::ChatMessage;

/// Characters of one piece of evidence.
const TEXT_CHARS: usize = 300;

/// Most pieces of evidence that tools give to one finding.
const MOST: usize = 3;

/// Puts hits of the check tools with the findings that quote the same code of the same file. A finding that says what a
/// rule says is the rule's, and carries its id. `default` is the file that is checked where a call names none.
pub fn attach(draft: &mut Draft, transcript: &[ChatMessage], default: &str) {
    let results = transcript.iter().filter_map(|message| match message {
        ChatMessage::Tool { call_id, name, text } if name.starts_with("check_") => Some((call_id, name, text)),
        _ => None,
    });
    for (id, tool, text) in results {
        let Ok(result) = serde_json::from_str::<Value>(text) else { continue };
        let checked = checked(transcript, id).unwrap_or_else(|| default.to_owned());
        let mut hits = Vec::new();
        collect(&result, &mut hits, 0);
        for candidate in &mut draft.candidates {
            let finding = &mut candidate.finding;
            if !finding::names(&checked, &finding.path) {
                continue;
            }
            for hit in &hits {
                if quotes_same(hit, finding) {
                    add(finding, tool, hit);
                }
            }
        }
    }
}

/// The path that a call of a tool names.
fn checked(transcript: &[ChatMessage], id: &str) -> Option<String> {
    let calls = transcript.iter().filter_map(|message| match message {
        ChatMessage::Assistant { tool_calls, .. } => Some(tool_calls),
        _ => None,
    });
    let call = calls.flatten().find(|call| call.id == id)?;
    let arguments: Value = serde_json::from_str(&call.arguments).ok()?;
    Some(arguments.get("path")?.as_str()?.to_owned())
}

/// Objects that name a rule and quote code, wherever they stand.
fn collect<'a>(value: &'a Value, hits: &mut Vec<&'a Map<String, Value>>, depth: usize) {
    match value {
        Value::Object(members) if text(members, "rule").is_some() && text(members, "quote").is_some() => {
            hits.push(members)
        }
        Value::Object(members) if depth < 4 => members.values().for_each(|v| collect(v, hits, depth + 1)),
        Value::Array(items) if depth < 4 => items.iter().for_each(|v| collect(v, hits, depth + 1)),
        _ => {}
    }
}

fn quotes_same(hit: &Map<String, Value>, finding: &Finding) -> bool {
    let lines = |text: &str| -> Vec<String> {
        text.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect()
    };
    let (hit, finding) = (lines(text(hit, "quote").unwrap_or_default()), lines(&finding.quote));
    !hit.is_empty()
        && !finding.is_empty()
        && (hit.iter().all(|l| finding.contains(l)) || finding.iter().all(|l| hit.contains(l)))
}

fn add(finding: &mut Finding, tool: &str, hit: &Map<String, Value>) {
    let rule = text(hit, "rule").unwrap_or_default();
    let title = text(hit, "title").or_else(|| text(hit, "message")).unwrap_or_default();
    if !title.is_empty() && title == finding.title {
        rule.clone_into(&mut finding.source);
    }
    let evidence =
        Evidence { source: tool.to_owned(), text: format!("{rule}: {title}").chars().take(TEXT_CHARS).collect() };
    if finding.evidence.len() < MOST && !finding.evidence.contains(&evidence) {
        finding.evidence.push(evidence);
    }
}

fn text<'a>(members: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    members.get(name).and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::review::draft::Candidate;
    use crate::review::finding::parse_finding;
    use serde_json::json;

    fn result(name: &str, text: String) -> ChatMessage {
        ChatMessage::Tool { call_id: "c".to_owned(), name: name.to_owned(), text }
    }

    #[test]
    fn a_hit_on_the_quoted_code_is_evidence_and_the_same_claim_is_the_rules() {
        let item = |title: &str, quote: &str| parse_finding(&json!({"title": title, "quote": quote}), "a.py").unwrap();
        let mut draft = Draft::default();
        for (title, quote) in
            [("Runs a shell", "  run(cmd, shell=True)"), ("Mine", "run(cmd, shell=True)"), ("Else", "x = 1")]
        {
            draft.candidates.push(Candidate { finding: item(title, quote), settled: false });
        }
        let hits = json!({"hits": [{"rule": "py-shell", "title": "Runs a shell", "line": 3, "quote": "run(cmd, shell=True)"}]});
        let transcript = [
            result("check_security", hits.to_string()),
            result("check_security", hits.to_string()),
            result("check_style", "not json".to_owned()),
            result("read_file", hits.to_string()),
        ];
        attach(&mut draft, &transcript, "a.py");
        let seen: Vec<_> =
            draft.candidates.iter().map(|c| (c.finding.source.as_str(), c.finding.evidence.len())).collect();
        assert_eq!(seen, [("py-shell", 1), ("", 1), ("", 0)]);
        let expected = Evidence { source: "check_security".into(), text: "py-shell: Runs a shell".into() };
        assert_eq!(draft.candidates[0].finding.evidence, [expected]);
    }
}
