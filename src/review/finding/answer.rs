//! From an answer's text to its items.

use serde_json::{Map, Value};

use super::json::{Loose, find_json, string_content};
use super::{MAX_ANSWER, MAX_FINDINGS, MAX_REJECTED, MAX_SUMMARY, ParsedFindings, Rejected, clip, item};

/// Names under which models put the list.
const LISTS: [&str; 6] = ["findings", "issues", "comments", "problems", "suggestions", "reviewcomments"];
/// Objects around the list that are looked into.
const MAX_WRAPPERS: usize = 3;

pub(super) fn parse(text: &str, path: &str) -> ParsedFindings {
    let (whole_length, end) = (text.len(), text.floor_char_boundary(MAX_ANSWER));
    let text = after_thinking(&text[..end]);
    let (mut answers, mut searched) = find_json(text, |loose| answer(loose, text));
    if answers.is_empty()
        && let Some(inner) = string_content(text)
    {
        (answers, searched) = find_json(&inner, |loose| answer(loose, &inner));
    }
    let best = answers.iter().map(|answer| answer.form).max();
    answers.retain(|answer| Some(answer.form) == best);

    let mut parsed = ParsedFindings::default();
    let mut cut = !searched || whole_length > end;
    if answers.is_empty() {
        let reason = if text.trim().is_empty() {
            "the answer is empty: give the JSON object, with an empty list when there is nothing to say"
        } else {
            "no findings were found in the answer: give one JSON object with `findings` and `summary`, and nothing else"
        };
        parsed.rejected.push(Rejected { reason: reason.into(), raw: clip(text, super::json::MAX_RAW) });
    }
    let mut dropped = 0usize;
    for answer in answers {
        cut |= !answer.whole;
        if parsed.summary.is_empty() {
            parsed.summary = clip(&answer.summary.replace('\0', ""), MAX_SUMMARY);
        }
        let items = answer.items.iter().map(|value| item::parse(value, path)).chain(answer.broken.into_iter().map(Err));
        for item in items {
            match item {
                Ok(finding) if parsed.findings.len() < MAX_FINDINGS => parsed.findings.push(finding),
                Err(rejected) if parsed.rejected.len() < MAX_REJECTED => parsed.rejected.push(rejected),
                _ => dropped += 1,
            }
        }
    }
    if dropped > 0 {
        parsed.rejected.push(Rejected {
            reason: format!("{dropped} more items were left out: give the {MAX_FINDINGS} most important ones at most"),
            raw: String::new(),
        });
    }
    if cut && parsed.rejected.is_empty() {
        let reason = "the answer ends too early: give the whole JSON object";
        let tail = text.char_indices().rev().nth(super::json::MAX_RAW).map_or(0, |(at, _)| at);
        parsed.rejected.push(Rejected { reason: reason.into(), raw: text[tail..].to_owned() });
    }
    parsed.complete = parsed.rejected.is_empty();
    parsed
}

/// How sure it is that a value is the answer, in rising order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Form {
    /// An empty list that is all there is.
    Nothing,
    /// An object that reads like a finding.
    Single,
    /// A list of such.
    List,
    /// An object that names its list.
    Named,
}

struct Answer {
    form: Form,
    items: Vec<Value>,
    broken: Vec<Rejected>,
    summary: String,
    whole: bool,
}

/// The answer that a value is, or holds; `text` is all that was written.
fn answer(loose: Loose, text: &str) -> Option<Answer> {
    let Loose { value, broken, whole } = loose;
    // A list whose only item was cut still reads like one of findings.
    let begun = |item: &Rejected| item.raw.trim_start_matches(['{', ' ', '\n', '\r', '\t']).starts_with('"');
    let around = Around { text, whole, begun: broken.iter().any(begun) };
    let mut answer = around.answer(value, 0)?;
    answer.broken.extend(broken);
    Some(answer)
}

/// What is known besides a value.
struct Around<'a> {
    text: &'a str,
    whole: bool,
    begun: bool,
}

impl Around<'_> {
    fn answer(&self, value: Value, wrappers: usize) -> Option<Answer> {
        let answer =
            |form, items, summary| Some(Answer { form, items, broken: Vec::new(), summary, whole: self.whole });
        match value {
            Value::Object(mut members) => {
                let named = members.keys().find(|key| LISTS.contains(&item::plain(key).as_str())).cloned();
                let list = named.and_then(|name| members.swap_remove(&name));
                let summary = members.get("summary").and_then(Value::as_str).unwrap_or_default().to_owned();
                match list {
                    Some(Value::Array(items)) => answer(Form::Named, items, summary),
                    Some(Value::Null) => answer(Form::Named, Vec::new(), summary),
                    Some(Value::Object(one)) if item::looks_like_one(&one) => {
                        answer(Form::Named, vec![Value::Object(one)], summary)
                    }
                    // `{"1": {…}, "2": {…}}`
                    Some(Value::Object(many)) => {
                        answer(Form::Named, many.into_iter().map(|(_, value)| value).collect(), summary)
                    }
                    Some(Value::String(inner)) if wrappers < MAX_WRAPPERS => self.inside(&inner, summary, wrappers),
                    // A number where the list belongs: not the form, so it is asked again.
                    Some(_) => None,
                    None if self.whole && item::looks_like_one(&members) => {
                        answer(Form::Single, vec![Value::Object(members)], String::new())
                    }
                    // `{"result": {"findings": […]}}` and the like.
                    None if wrappers < MAX_WRAPPERS => members
                        .into_iter()
                        .filter(|(_, value)| value.is_object() || value.is_array())
                        .find_map(|(_, value)| self.answer(value, wrappers + 1)),
                    None => None,
                }
            }
            Value::Array(items) => {
                let one = |value: &Value| value.as_object().is_some_and(item::looks_like_one);
                if items.iter().any(one) || (items.is_empty() && self.begun) {
                    return answer(Form::List, items, String::new());
                }
                let bare = self.text.trim_matches(|c: char| c.is_whitespace() || c == '`');
                let all = bare.strip_prefix("json").unwrap_or(bare).trim() == "[]";
                if all { answer(Form::Nothing, items, String::new()) } else { None }
            }
            _ => None,
        }
    }

    /// The list of findings as text of its own. Other text in its place (`"none"`) is not the form.
    fn inside(&self, text: &str, summary: String, wrappers: usize) -> Option<Answer> {
        let inner = find_json(text, Some).0.into_iter().next()?;
        let named = Map::from_iter([("findings".into(), inner.value), ("summary".into(), summary.into())]);
        let around = Around { text, whole: self.whole && inner.whole, begun: false };
        let mut answer = around.answer(Value::Object(named), wrappers + 1)?;
        answer.broken.extend(inner.broken);
        Some(answer)
    }
}

/// What follows the last `</think>`: drafts in a reasoning model's thoughts are not its answer, and thoughts that do not end
/// hold none.
fn after_thinking(text: &str) -> &str {
    match text.rsplit_once("</think>") {
        Some((_, answer)) => answer,
        None if text.trim_start().starts_with("<think>") => "",
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// Titles of what was found, number rejected, complete.
    fn read(text: &str) -> (String, usize, bool) {
        let parsed = parse(text, "src/a.rs");
        let titles: Vec<_> = parsed.findings.iter().map(|finding| finding.title.as_str()).collect();
        (titles.join(","), parsed.rejected.len(), parsed.complete)
    }

    #[rstest]
    #[case::exact(r#"{"findings":[{"path":"src/a.rs","title":"A"},{"title":"B"}],"summary":"s"}"#, "A,B", 0, true)]
    #[case::clean(r#"{"findings":[],"summary":"fine"}"#, "", 0, true)]
    #[case::null_list(r#"{"findings":null}"#, "", 0, true)]
    #[case::fence("Sure!\n```json\n{\"findings\":[{\"title\":\"A\"}]}\n```\nAnything else?", "A", 0, true)]
    #[case::code_in_prose("In `fn f() { vec![1] }` [see below]:\n{\"findings\":[{\"title\":\"A\"}]}", "A", 0, true)]
    #[case::list(r#"[{"title":"A","line":3}]"#, "A", 0, true)]
    #[case::empty_list("```json\n[]\n```", "", 0, true)]
    #[case::empty_list_in_prose("I looked at `a[]`, all good", "", 1, false)]
    #[case::one_object(r#"{"title":"A","line":3}"#, "A", 0, true)]
    #[case::one_per_line("{\"title\":\"A\",\"line\":3}\n{\"title\":\"B\",\"line\":4}", "A,B", 0, true)]
    #[case::single_in_findings(r#"{"findings":{"title":"A","line":3}}"#, "A", 0, true)]
    #[case::numbered(r#"{"findings":{"1":{"title":"A"},"2":{"title":"B"}}}"#, "A,B", 0, true)]
    #[case::other_name(r#"{"Review-Comments":[{"title":"A"}]}"#, "A", 0, true)]
    #[case::wrapped(r#"{"result":{"output":{"findings":[{"title":"A"}]}}}"#, "A", 0, true)]
    #[case::encoded(r#""{\"findings\":[{\"title\":\"A\"}]}""#, "A", 0, true)]
    #[case::encoded_list(r#"{"findings":"[{\"title\":\"A\"}]"}"#, "A", 0, true)]
    #[case::thoughts(
        "<think>{\"findings\":[{\"title\":\"draft\"}]}</think>{\"findings\":[{\"title\":\"A\"}]}",
        "A",
        0,
        true
    )]
    #[case::endless_thoughts("<think>so far {\"findings\":[]} but wait", "", 1, false)]
    #[case::two_blocks("{\"findings\":[{\"title\":\"A\"}]}\nand\n{\"findings\":[{\"title\":\"B\"}]}", "A,B", 0, true)]
    #[case::cut_in_the_first(r#"[{"title":"A","line":"#, "", 1, false)]
    #[case::cut(r#"{"findings":[{"title":"A"},{"title":"B","body":"xx"#, "A", 1, false)]
    #[case::cut_between(r#"{"findings":[{"title":"A"},"#, "A", 1, false)]
    #[case::cut_in_summary(r#"{"findings":[{"title":"A"}],"summary":"so "#, "A", 1, false)]
    #[case::one_cut_object(r#"{"title":"A","line":3,"body":"xx"#, "", 1, false)]
    #[case::bad_item(r#"{"findings":[{"title":"A"},{"title": },{"title":"C"}]}"#, "A,C", 1, false)]
    #[case::list_without_end(r#"{"findings": [}{, it is fine"#, "", 1, false)]
    #[case::silent_item(r#"{"findings":[{"title":"A"},{"line":3}]}"#, "A", 1, false)]
    #[case::not_an_object(r#"{"findings":[{"title":"A"},"none",7,null]}"#, "A", 3, false)]
    #[case::empty("", "", 1, false)]
    #[case::prose("No issues found.", "", 1, false)]
    #[case::other_json(r#"{"verdict":"fine"}"#, "", 1, false)]
    #[case::text_for_list(r#"{"findings":"none"}"#, "", 1, false)]
    fn finds_what_is_there(#[case] text: &str, #[case] titles: &str, #[case] rejected: usize, #[case] complete: bool) {
        assert_eq!(read(text), (titles.to_owned(), rejected, complete));
    }

    #[test]
    fn a_flood_is_bounded() {
        let item = r#"{"title":"A"},"#;
        let parsed = parse(&format!("{{\"findings\":[{}]}}", item.repeat(1_000)), "x");
        assert_eq!((parsed.findings.len(), parsed.rejected.len(), parsed.complete), (MAX_FINDINGS, 1, false));
        assert!(parsed.rejected[0].reason.starts_with("800 more items"), "{:?}", parsed.rejected);
        let parsed = parse(&format!("{{\"findings\":[{}]}}", "1,".repeat(100_000)), "x");
        assert_eq!((parsed.findings.len(), parsed.rejected.len()), (0, MAX_REJECTED + 1));
    }

    #[test]
    fn hostile_answers_take_linear_time() {
        let objects = r#""a":{},"#.repeat(20_000);
        let broken = r#"{"a":x{},"#.repeat(20_000);
        for text in [
            format!(r#"{{"r":[{broken}],{objects}}}"#),
            format!(r#"{{"findings":[{broken}],{objects}}}"#),
            r#"{"findings":[{"title":"A"}]}"#.repeat(10_000),
            r#"{"findings":"{\"findings\":\""#.repeat(10_000),
        ] {
            let parsed = parse(&text, "x");
            assert!(parsed.findings.len() <= MAX_FINDINGS && parsed.rejected.len() <= MAX_REJECTED + 2);
        }
    }

    #[test]
    fn a_huge_answer_is_read_once_and_clipped() {
        let long = "wörd ".repeat(400_000);
        let text =
            format!(r#"{{"findings":[{{"title":"{long}","body":"{long}","quote":"{long}"}}],"summary":"{long}"}}"#);
        let parsed = parse(&text, "x");
        assert!(!parsed.complete, "it is over the limit");
        let text = format!(r#"{{"findings":[{{"title":"{long}","body":"b"}}],"summary":"{}"}}"#, "x".repeat(10_000));
        let parsed = parse(&text, "x");
        assert!(parsed.complete);
        assert_eq!(parsed.findings[0].title.chars().count(), super::super::MAX_TITLE);
        assert_eq!(parsed.summary.chars().count(), MAX_SUMMARY + 1);
    }

    #[test]
    fn the_schema_and_the_reader_know_the_same_form() {
        let schema = super::super::answer_schema();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let item = serde_json::json!({
            "path": "src/a.rs", "quote": "a\u{2028}b\u{85}\rc", "line": 3, "end_line": null, "side": "LEFT",
            "severity": "critical", "category": "best_practice", "title": "T", "body": "B", "replacement": null,
            "confidence": 0.75,
        });
        let answer = serde_json::json!({"findings": [item], "summary": "s"});
        assert!(validator.is_valid(&answer));
        let parsed = parse(&answer.to_string(), "other");
        let mut back = serde_json::to_value(&parsed.findings[0]).unwrap();
        let members = back.as_object_mut().unwrap();
        members.remove("source");
        members.remove("evidence");
        assert_eq!(back, item);
        for wrong in [serde_json::json!({"findings": []}), serde_json::json!({"findings": [{}], "summary": ""})] {
            assert!(!validator.is_valid(&wrong), "{wrong}");
        }
    }
}
