//! Reads what a critic said and applies it. As lenient as the reading of findings: what is whole counts, the rest is
//! complained about. Pure.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::draft::{Draft, UnderReview, is_of, place, repeats, tidy};
use super::finding::json::{Loose, find_json};
use super::finding::{self, Evidence, Finding};
use super::gate::{Dimension, missing};
use crate::agent::strategy::{Judged, Lesson};

/// Most findings a critic can add.
const MAX_MISSED: usize = 5;

/// Characters of a reason that are kept.
const REASON_CHARS: usize = 600;

/// A finding that nobody looked at a second time is believed so much less.
const UNCONFIRMED: f64 = 0.7;

/// The JSON Schema of a critic's answer, strict as the one of findings is.
pub fn answer_schema() -> Value {
    let finding = finding::answer_schema()["properties"]["findings"]["items"].clone();
    let verdict = json!({
        "type": "object", "additionalProperties": false,
        "required": ["index", "verdict", "reason", "confidence", "finding"],
        "properties": {
            "index": {"type": "integer", "description": "Which finding, from 0."},
            "verdict": {"type": "string", "enum": ["keep", "fix", "drop"]},
            "reason": {"type": "string", "description": "What was seen, and where."},
            "confidence": {"type": "number", "description": "0 to 1."},
            "finding": {"anyOf": [finding, {"type": "null"}], "description": "The mended finding of a fix."},
        },
    });
    json!({
        "type": "object", "additionalProperties": false,
        "required": ["verdicts", "missed"],
        "properties": {
            "verdicts": {"type": "array", "items": verdict},
            "missed": {"type": "array", "items": finding},
        },
    })
}

/// Applies a critic's answer to the open claims of a draft, numbered from 0 in their order.
pub fn judge(mut draft: Draft, text: &str, round: u32, files: &[UnderReview<'_>], model: &str) -> Judged<Draft> {
    let open = draft.open().count();
    let Some(said) = read(text) else {
        let complaint = "No verdicts were found in the answer: give one JSON object with `verdicts` and `missed`.";
        return Judged {
            answer: draft,
            complaints: vec![complaint.to_owned()],
            missing: Vec::new(),
            lessons: Vec::new(),
        };
    };
    let verdicts = by_index(said.verdicts, open);
    let mut complaints = Vec::new();
    let mut lessons = Vec::new();
    let mut index = 0;
    let mut kept = Vec::with_capacity(draft.candidates.len());
    for mut candidate in std::mem::take(&mut draft.candidates) {
        if candidate.settled {
            kept.push(candidate);
            continue;
        }
        let verdict = verdicts.get(&index);
        match verdict.and_then(|v| v.word.map(|word| (word, v))) {
            None => complaints.push(format!("No verdict of keep, fix or drop for index {index}.")),
            Some((Word::Drop, v)) => {
                lessons.push(Lesson {
                    text: format!("Refuted, do not report it: {} ({})", candidate.finding.title, v.reason),
                });
                draft.refuted.push(candidate.finding);
                index += 1;
                continue;
            }
            Some((Word::Keep, v)) => {
                confirm(&mut candidate.finding, "Confirmed", v, round);
                candidate.settled = true;
            }
            Some((Word::Fix, v)) => match mended(&candidate.finding, v.finding.as_ref(), files) {
                Ok(finding) => {
                    candidate.finding = finding;
                    confirm(&mut candidate.finding, "Corrected", v, round);
                    candidate.settled = true;
                }
                Err(reason) => complaints.push(format!("The fix of index {index} cannot be used: {reason}.")),
            },
        }
        index += 1;
        kept.push(candidate);
    }
    draft.candidates = kept;
    let missing = missed(&mut draft, said.missed, files, model);
    Judged { answer: draft, complaints, missing, lessons }
}

/// Marks what is still open as looked at by nobody else, and therefore believed less.
pub fn unconfirmed(mut draft: Draft) -> Draft {
    for candidate in draft.candidates.iter_mut().filter(|c| !c.settled) {
        candidate.settled = true;
        candidate.finding.confidence *= UNCONFIRMED;
        let text = "Not confirmed: there was no second look at it.".to_owned();
        candidate.finding.evidence.push(Evidence { source: "critic".to_owned(), text });
    }
    draft
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Word {
    Keep,
    Fix,
    Drop,
}

struct Said {
    verdicts: Vec<One>,
    missed: Vec<Value>,
}

#[derive(Debug, Clone)]
struct One {
    index: usize,
    word: Option<Word>,
    reason: String,
    confidence: Option<f64>,
    finding: Option<Map<String, Value>>,
}

/// The last answer of the form in the text: a model that corrects itself means the later one.
fn read(text: &str) -> Option<Said> {
    let text = text.rsplit_once("</think>").map_or(text, |(_, answer)| answer);
    find_json(text, accept).0.pop()
}

fn accept(loose: Loose) -> Option<Said> {
    match loose.value {
        Value::Object(mut members) => {
            let verdicts = match members.remove("verdicts")? {
                Value::Array(verdicts) => verdicts,
                Value::Null => Vec::new(),
                _ => return None,
            };
            let missed = match members.remove("missed") {
                Some(Value::Array(missed)) => missed,
                _ => Vec::new(),
            };
            Some(Said { verdicts: verdicts.iter().filter_map(one).collect(), missed })
        }
        // The bare list, without the object around it.
        Value::Array(items) => {
            let verdicts: Vec<_> = items.iter().filter_map(one).collect();
            (!verdicts.is_empty()).then(|| Said { verdicts, missed: Vec::new() })
        }
        _ => None,
    }
}

fn one(value: &Value) -> Option<One> {
    let members = value.as_object()?;
    let index = match members.get("index")? {
        Value::String(text) => text.trim().parse().ok()?,
        // Loosely read numbers are floating-point ones; far more findings than there can be is no index.
        number => number.as_f64().filter(|n| n.fract() == 0.0 && (0.0..1e6).contains(n))? as usize,
    };
    let reason = members.get("reason").and_then(Value::as_str).unwrap_or_default();
    Some(One {
        index,
        word: members.get("verdict").and_then(Value::as_str).and_then(word),
        reason: reason.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(REASON_CHARS).collect(),
        confidence: members.get("confidence").and_then(confidence),
        finding: members.get("finding").and_then(Value::as_object).cloned(),
    })
}

fn word(text: &str) -> Option<Word> {
    let text = text.trim().to_lowercase();
    match text.as_str() {
        "keep" | "kept" | "confirm" | "confirmed" | "valid" | "accept" => Some(Word::Keep),
        "fix" | "fixed" | "mend" | "correct" | "revise" | "modify" => Some(Word::Fix),
        "drop" | "dropped" | "refute" | "refuted" | "reject" | "rejected" | "invalid" | "remove" | "false_positive" => {
            Some(Word::Drop)
        }
        _ => None,
    }
}

fn confidence(value: &Value) -> Option<f64> {
    let number = match value {
        Value::String(text) => text.trim().trim_end_matches('%').parse().ok()?,
        other => other.as_f64()?,
    };
    let share = if number > 1.0 { number / 100.0 } else { number };
    (0.0..=1.0).contains(&share).then_some(share)
}

/// Verdicts by index, the first of each; a critic that counts from 1 is understood.
fn by_index(verdicts: Vec<One>, open: usize) -> BTreeMap<usize, One> {
    let mut found = BTreeMap::new();
    for verdict in verdicts {
        found.entry(verdict.index).or_insert(verdict);
    }
    let from_one = !found.contains_key(&0) && found.contains_key(&open);
    if from_one { found.into_iter().map(|(index, one)| (index.saturating_sub(1), one)).collect() } else { found }
}

fn confirm(finding: &mut Finding, how: &str, verdict: &One, round: u32) {
    if let Some(confidence) = verdict.confidence {
        finding.confidence = confidence;
    }
    let end = if verdict.reason.is_empty() { ".".to_owned() } else { format!(": {}", verdict.reason) };
    finding.evidence.push(Evidence { source: "critic".to_owned(), text: format!("{how} in round {round}{end}") });
}

/// The finding with the fields that a fix names. A quote that has no place never replaces one that has.
fn mended(finding: &Finding, fix: Option<&Map<String, Value>>, files: &[UnderReview<'_>]) -> Result<Finding, String> {
    let under = files.iter().find(|under| under.diff().path == finding.path).ok_or("its file is not under review")?;
    let diff = under.diff();
    let fix = fix.ok_or("`finding` is missing")?;
    let Ok(Value::Object(mut members)) = serde_json::to_value(finding) else {
        return Err("it cannot be read".to_owned());
    };
    for (name, value) in fix {
        // A replacement may be taken back; of everything else, nothing said is nothing changed.
        if !value.is_null() || name == "replacement" {
            members.insert(name.clone(), value.clone());
        }
    }
    let mut new = finding::parse_finding(&Value::Object(members), &diff.path).map_err(|rejected| rejected.reason)?;
    if !is_of(&new.path, diff) {
        return Err("it is about another file".to_owned());
    }
    new.path.clone_from(&finding.path);
    new.source.clone_from(&finding.source);
    new.evidence.clone_from(&finding.evidence);
    if place(&new, diff).is_err() && place(finding, diff).is_ok() {
        if new.quote != finding.quote {
            new.replacement = None;
        }
        new.quote.clone_from(&finding.quote);
        (new.line, new.end_line, new.side) = (finding.line, finding.end_line, finding.side);
    }
    Ok(new)
}

/// Notes what the critic found missing, and asks the next round about it: it is reported only if that confirms it.
fn missed(
    draft: &mut Draft,
    items: Vec<Value>,
    files: &[UnderReview<'_>],
    model: &str,
) -> Vec<crate::agent::strategy::Missing> {
    let findings = items.iter().filter_map(|item| finding::parse_finding(item, "").ok()).collect();
    let mut asked = Vec::new();
    for candidate in tidy(findings, String::new(), files, model).candidates {
        let finding = candidate.finding;
        let known = draft.candidates.iter().map(|c| &c.finding).chain(&draft.refuted).chain(&draft.missed);
        if asked.len() == MAX_MISSED || known.into_iter().any(|other| repeats(other, &finding)) {
            continue;
        }
        let say = format!(
            "A second reader saw a problem that is not among your findings: \"{}\" at `{}`. {} Check it; report it if it is real.",
            finding.title,
            finding.quote.lines().next().unwrap_or_default().trim(),
            finding.body,
        );
        asked.push(missing(Dimension::Completeness, &finding, say));
        draft.missed.push(finding);
    }
    asked
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::diff::parse::parse_patch;
    use crate::diff::{FileDiff, FileStatus};
    use crate::github::PullFile;
    use crate::review::change::ChangedFile;

    fn file() -> ChangedFile {
        let hunks = parse_patch("@@ -1,2 +1,5 @@\n a\n+one();\n+two();\n+three();\n b").0;
        let diff = FileDiff { path: "a.rs".to_owned(), old_path: None, status: FileStatus::Modified, hunks };
        ChangedFile {
            file: PullFile { diff: Arc::new(diff), blob_sha: None, no_patch: None, self_made: false },
            new_hunks: vec![0],
            known: Vec::new(),
        }
    }

    fn draft() -> Draft {
        let finding = |quote: &str, title: &str| {
            let item = json!({"quote": quote, "title": title, "body": "Because.", "confidence": 0.5});
            finding::parse_finding(&item, "a.rs").unwrap()
        };
        let findings =
            vec![finding("one();", "First fault"), finding("two();", "Second one"), finding("three();", "Third")];
        tidy(findings, String::new(), &[UnderReview { file: &file(), head: None }], "m")
    }

    fn heard(text: &str) -> Judged<Draft> {
        judge(draft(), text, 1, &[UnderReview { file: &file(), head: None }], "m")
    }

    /// `title confidence settled` of every claim that is left.
    fn left(judged: &Judged<Draft>) -> Vec<String> {
        let line =
            |c: &super::super::draft::Candidate| format!("{} {} {}", c.finding.title, c.finding.confidence, c.settled);
        judged.answer.candidates.iter().map(line).collect()
    }

    #[test]
    fn keeps_mends_and_drops() {
        let judged = heard(
            r#"Here you are: {"verdicts":[
                {"index":0,"verdict":"keep","reason":"Seen in line 2.","confidence":0.9},
                {"index":1,"verdict":"drop","reason":"The caller checks.","confidence":0.8},
                {"index":2,"verdict":"fix","reason":"Only slow.","confidence":0.6,
                 "finding":{"severity":"nit","title":"Third, mended","quote":"nowhere","replacement":"x"}}],"missed":[]}"#,
        );
        assert_eq!(judged.complaints, [""; 0]);
        assert_eq!(left(&judged), ["First fault 0.9 true", "Third, mended 0.6 true"]);
        assert_eq!(judged.answer.refuted[0].title, "Second one");
        assert!(judged.lessons[0].text.contains("The caller checks."));
        let fixed = &judged.answer.candidates[1].finding;
        assert_eq!((fixed.quote.as_str(), fixed.severity), ("three();", finding::Severity::Nit), "a lost quote stays");
        assert_eq!(fixed.replacement, None, "a replacement of other code goes with its quote");
        let evidence = &judged.answer.candidates[0].finding.evidence;
        assert_eq!(
            evidence,
            &[Evidence { source: "critic".into(), text: "Confirmed in round 1: Seen in line 2.".into() }]
        );
    }

    #[test]
    fn is_lenient_about_words_numbers_and_where_counting_begins() {
        let judged = heard(
            r#"[{"index":"1","verdict":"Confirmed","confidence":"90%"},{"index":2,"verdict":"REFUTED","confidence":7},
               {"index":3,"verdict":"keep","confidence":-1}]"#,
        );
        assert_eq!(judged.complaints, [""; 0]);
        assert_eq!(left(&judged), ["First fault 0.9 true", "Third 0.5 true"]);
    }

    #[test]
    fn what_is_missing_or_unusable_stays_open_and_is_complained_about() {
        let judged = heard(
            r#"{"verdicts":[{"index":0,"verdict":"perhaps"},{"index":2,"verdict":"fix","finding":{"path":"b.rs"}},{"index":77,"verdict":"drop"}]}"#,
        );
        assert_eq!(judged.complaints.len(), 3, "{:?}", judged.complaints);
        assert_eq!(left(&judged), ["First fault 0.5 false", "Second one 0.5 false", "Third 0.5 false"]);
        for nothing in ["", "I agree with all of them.", "{\"verdicts\": 3}", "[1, 2]"] {
            let judged = heard(nothing);
            assert_eq!((judged.complaints.len(), judged.answer.candidates.len()), (1, 3), "{nothing}");
        }
    }

    #[test]
    fn an_answer_that_was_cut_counts_as_far_as_it_goes() {
        let judged = heard(r#"{"verdicts":[{"index":0,"verdict":"drop","reason":"no"},{"index":1,"verd"#);
        assert_eq!(left(&judged), ["Second one 0.5 false", "Third 0.5 false"]);
        assert_eq!(judged.complaints.len(), 2);
    }

    #[test]
    fn what_was_missed_is_asked_about_and_not_reported() {
        let judged = heard(
            r#"{"verdicts":[{"index":0,"verdict":"keep"},{"index":1,"verdict":"keep"},{"index":2,"verdict":"drop"}],"missed":[
                {"path":"a.rs","quote":"b","title":"The end is lost","body":"Nothing is flushed."},
                {"path":"a.rs","quote":"three();","title":"Third","body":"Because."},
                {"path":"other.rs","quote":"x","title":"Elsewhere","body":"y"}]}"#,
        );
        assert_eq!(judged.missing.len(), 1);
        assert!(judged.missing[0].say.contains("The end is lost"));
        assert_eq!(judged.answer.candidates.len(), 2);
        assert_eq!(judged.answer.missed.len(), 1);
    }

    #[test]
    fn unconfirmed_findings_say_so_and_are_believed_less() {
        let draft = unconfirmed(draft());
        let finding = &draft.candidates[0].finding;
        assert!((finding.confidence - 0.35).abs() < 1e-9);
        assert!(finding.evidence[0].text.contains("Not confirmed"));
    }

    #[test]
    fn the_schema_is_strict_and_describes_what_is_read() {
        let schema = answer_schema();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let answer = json!({
            "verdicts": [{"index": 0, "verdict": "keep", "reason": "r", "confidence": 0.5, "finding": null}], "missed": []
        });
        assert!(validator.is_valid(&answer));
        assert!(!validator.is_valid(&json!({"verdicts": []})));
        assert!(heard(&answer.to_string()).complaints.len() == 2);
    }
}
