//! SARIF 2.1.0, for code scanning and editors.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::{Reviewed, category_words, gaps, one_line, printable, severity_word};
use crate::diff::Side;
use crate::review::finding::{Category, Severity};
use crate::review::report::Reported;

/// What stays as it is in a relative URI: the unreserved characters of RFC 3986 and `/`.
const PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A log with one run.
pub fn render(reviewed: &Reviewed<'_>) -> String {
    let report = reviewed.report;
    let mut rules: Vec<Rule> = Vec::new();
    let results: Vec<Value> = report
        .findings
        .iter()
        .map(|reported| {
            let rule = Rule::of(reported);
            let index = rules.iter().position(|known| known.id == rule.id).unwrap_or_else(|| {
                rules.push(rule);
                rules.len() - 1
            });
            result(reported, &rules[index], index)
        })
        .collect();
    let notifications: Vec<Value> = gaps(&report.coverage)
        .map(|(path, reason)| {
            json!({
                "level": "warning",
                "message": { "text": format!("Not reviewed: {}", one_line(reason)) },
                "locations": [{ "physicalLocation": { "artifactLocation": artifact(path) } }],
            })
        })
        .collect();
    let log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "secondlook",
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "rules": rules.iter().map(Rule::descriptor).collect::<Vec<_>>(),
            } },
            "automationDetails": { "id": "secondlook/" },
            "columnKind": "unicodeCodePoints",
            "originalUriBaseIds": { "SRCROOT": { "description": { "text": "The root of the repository." } } },
            "invocations": [{
                "executionSuccessful": report.coverage.complete(),
                "toolExecutionNotifications": notifications,
            }],
            "results": results,
            "properties": {
                "base": reviewed.base,
                "head": reviewed.head,
                "model": reviewed.model,
                "score": report.score,
                "usage": report.usage,
                "traceId": report.trace_id,
            },
        }],
    });
    let mut text = serde_json::to_string_pretty(&log).unwrap_or_default();
    text.push('\n');
    text
}

/// What a result is an instance of: one of our rules, or a category when a model found it.
struct Rule {
    id: String,
    category: Category,
}

impl Rule {
    fn of(reported: &Reported) -> Self {
        let finding = &reported.finding;
        let source = finding.source.trim();
        // A model's name is no rule: it would split one kind of problem by who noticed it.
        let is_rule = !source.is_empty() && !source.contains("::") && source != "embedded";
        let id = if is_rule { one_line(source) } else { category_words(finding.category).replace(' ', "-") };
        Self { id, category: finding.category }
    }

    fn descriptor(&self) -> Value {
        let words = category_words(self.category);
        json!({
            "id": self.id,
            "shortDescription": { "text": format!("A problem of {words}.") },
            "properties": { "tags": [words] },
        })
    }
}

fn result(reported: &Reported, rule: &Rule, index: usize) -> Value {
    let finding = &reported.finding;
    let level = match finding.severity {
        Severity::Critical | Severity::Major => "error",
        Severity::Minor => "warning",
        Severity::Nit => "note",
    };
    let mut location = json!({ "artifactLocation": artifact(&finding.path) });
    // Results stand in the head's files; a removed line is nowhere in them.
    if let Ok(anchor) = &reported.place
        && anchor.side == Side::Right
    {
        let snippet = json!({ "text": finding.quote });
        location["region"] = json!({ "startLine": anchor.start_line, "endLine": anchor.line, "snippet": snippet });
    }
    let title = one_line(&finding.title);
    let body = printable(&finding.body);
    json!({
        "ruleId": rule.id,
        "ruleIndex": index,
        "level": level,
        "message": { "text": format!("{title}\n\n{body}"), "markdown": format!("**{title}**\n\n{body}") },
        "locations": [{ "physicalLocation": location }],
        "partialFingerprints": { "secondlook/v1": reported.fingerprint },
        // 0 to 100; SARIF's `rank` is the priority of a result.
        "rank": (finding.confidence.clamp(0.0, 1.0) * 1000.0).round() / 10.0,
        "properties": {
            "severity": severity_word(finding.severity),
            "category": finding.category,
            "confidence": finding.confidence,
            "source": one_line(&finding.source),
            "anchored": reported.place.is_ok(),
        },
    })
}

fn artifact(path: &str) -> Value {
    json!({ "uri": utf8_percent_encode(path, PATH).to_string(), "uriBaseId": "SRCROOT" })
}

#[cfg(test)]
mod tests {
    use super::super::json::tests::sample;
    use super::*;

    #[test]
    fn the_log_keeps_to_the_standard() {
        let mut schema: Value =
            serde_json::from_str(include_str!("../../../fixtures/sarif/sarif-schema-2.1.0.json")).unwrap();
        // The standard's own pattern for this property is no regular expression, and nothing here writes it.
        for holder in ["run", "toolComponent"] {
            let language = &mut schema["definitions"][holder]["properties"]["language"];
            language.as_object_mut().unwrap().remove("pattern").unwrap();
        }
        let validator = jsonschema::validator_for(&schema).unwrap();
        sample(|reviewed| {
            let log: Value = serde_json::from_str(&render(reviewed)).unwrap();
            let faults: Vec<String> =
                validator.iter_errors(&log).map(|error| format!("{}: {error}", error.instance_path())).collect();
            assert!(faults.is_empty(), "{faults:?}");
            let mut broken = log.clone();
            broken["runs"][0]["results"][0]["level"] = "awful".into();
            assert!(!validator.is_valid(&broken));

            let run = &log["runs"][0];
            let place = |index: usize| run["results"][index]["locations"][0]["physicalLocation"].clone();
            assert_eq!(place(0)["artifactLocation"]["uri"], "src/a%20b.rs");
            let snippet = json!({ "text": "map.get(key).unwrap()" });
            assert_eq!(place(0)["region"], json!({ "startLine": 11, "endLine": 11, "snippet": snippet }));
            assert_eq!(place(1)["region"], Value::Null);
            assert_eq!(place(2)["region"], Value::Null);
            assert_eq!(run["results"][0]["partialFingerprints"]["secondlook/v1"], "00112233aabbccdd");
            assert_eq!(run["tool"]["driver"]["rules"].as_array().unwrap().len(), 1);
            assert_eq!(run["invocations"][0]["executionSuccessful"], false);
            assert_eq!(run["invocations"][0]["toolExecutionNotifications"].as_array().unwrap().len(), 1);
        });
    }
}
