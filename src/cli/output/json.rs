//! JSON for scripts. The form is a contract: `secondlook schema output` prints its schema, and a field is never
//! removed or given another meaning without a new `version`.

use schemars::JsonSchema;
use serde::Serialize;

use super::Reviewed;
use crate::chat::TokenUsage;
use crate::diff::Side;
use crate::review::coverage::Coverage;
use crate::review::finding::{Category, Evidence, Severity};
use crate::review::report::{Reported, Score};

/// The number of the form.
const VERSION: u32 = 1;

/// The result of a review.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "secondlook review")]
pub struct Output {
    /// The number of this form.
    pub version: u32,
    /// `owner/repo#7`, when it is a pull request.
    pub pull: Option<String>,
    /// Base commit, or what stands for it.
    pub base: String,
    /// Head commit, or what stands for it.
    pub head: String,
    /// A short text about the change.
    pub summary: String,
    /// Marks of 0 to 100.
    pub score: Score,
    /// What was found, most important first.
    pub findings: Vec<OutputFinding>,
    /// What became of every file.
    pub coverage: Coverage,
    /// What it cost.
    pub usage: TokenUsage,
    /// The id under which the runs are found again.
    pub trace_id: String,
}

/// One finding.
#[derive(Debug, Serialize, JsonSchema)]
pub struct OutputFinding {
    /// Its identity over pushes.
    pub fingerprint: String,
    /// The file, from the root of the repository.
    pub path: String,
    /// The version of the file that the lines count in; null when the finding has no certain place.
    pub side: Option<Side>,
    /// First line; null when the finding has no certain place.
    pub start_line: Option<u32>,
    /// Last line; null when the finding has no certain place.
    pub line: Option<u32>,
    /// How bad.
    pub severity: Severity,
    /// What about.
    pub category: Category,
    /// One line.
    pub title: String,
    /// Why it matters and what to do, Markdown.
    pub body: String,
    /// Markdown of a committable suggestion, when one applies.
    pub suggestion: Option<String>,
    /// 0 to 1.
    pub confidence: f64,
    /// The rule's id, or the model's name.
    pub source: String,
    /// What supports it.
    pub evidence: Vec<Evidence>,
    /// Whether it stands on a line of the change.
    pub anchored: bool,
}

/// The result as JSON, indented, with a final newline.
pub fn render(reviewed: &Reviewed<'_>) -> String {
    let mut text = serde_json::to_string_pretty(&output(reviewed)).unwrap_or_default();
    text.push('\n');
    text
}

/// The result in its stable form.
pub fn output(reviewed: &Reviewed<'_>) -> Output {
    let report = reviewed.report;
    Output {
        version: VERSION,
        pull: reviewed.pull.map(str::to_owned),
        base: reviewed.base.to_owned(),
        head: reviewed.head.to_owned(),
        summary: report.summary.clone(),
        score: report.score,
        findings: report.findings.iter().map(finding).collect(),
        coverage: report.coverage.clone(),
        usage: report.usage,
        trace_id: report.trace_id.clone(),
    }
}

fn finding(reported: &Reported) -> OutputFinding {
    let finding = &reported.finding;
    let place = reported.place.as_ref().ok();
    OutputFinding {
        fingerprint: reported.fingerprint.clone(),
        path: finding.path.clone(),
        side: place.map(|anchor| anchor.side),
        start_line: place.map(|anchor| anchor.start_line),
        line: place.map(|anchor| anchor.line),
        severity: finding.severity,
        category: finding.category,
        title: finding.title.clone(),
        body: finding.body.clone(),
        suggestion: reported.suggestion.clone(),
        confidence: finding.confidence,
        source: finding.source.clone(),
        evidence: finding.evidence.clone(),
        anchored: place.is_some(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::diff::{DiffLine, FileDiff, FileStatus, Hunk, LineKind};
    use crate::review::anchor::{Anchor, Unplaced};
    use crate::review::coverage::{CoveredFile, FileCoverage};
    use crate::review::finding::Finding;
    use crate::review::report::Report;

    fn line(kind: LineKind, old: u32, new: u32, text: &str) -> DiffLine {
        DiffLine {
            kind,
            old: (kind != LineKind::Added).then_some(old),
            new: (kind != LineKind::Removed).then_some(new),
            text: text.into(),
            no_newline: false,
        }
    }

    fn reported(path: &str, severity: Severity, place: Result<Anchor, Unplaced>) -> Reported {
        Reported {
            finding: Finding {
                path: path.into(),
                quote: "map.get(key).unwrap()".into(),
                line: Some(11),
                end_line: None,
                side: None,
                severity,
                category: Category::Security,
                title: "Panics when the key, or 100% of keys, are missing".into(),
                body: "`get` returns `None`.\nUse `if let`.".into(),
                replacement: None,
                confidence: 0.9,
                source: "openai::m".into(),
                evidence: vec![Evidence { source: "critic".into(), text: "confirmed".into() }],
            },
            fingerprint: "00112233aabbccdd".into(),
            place,
            suggestion: Some("```suggestion\n    map.get(key)?;\n```".into()),
        }
    }

    /// A review with a finding on a line, one on a removed line and one without a place.
    pub(in crate::cli::output) fn sample(with: impl FnOnce(&Reviewed<'_>)) {
        let files = vec![Arc::new(FileDiff {
            path: "src/a b.rs".into(),
            old_path: None,
            status: FileStatus::Modified,
            hunks: vec![Hunk {
                old_start: 10,
                old_count: 3,
                new_start: 10,
                new_count: 3,
                lines: vec![
                    line(LineKind::Context, 10, 10, "fn get() {"),
                    line(LineKind::Removed, 11, 0, "    old();"),
                    line(LineKind::Added, 0, 11, "    map.get(key).unwrap();"),
                    line(LineKind::Context, 12, 12, "}"),
                ],
            }],
        })];
        let at = |side, start_line, line| Ok(Anchor { side, start_line, line });
        let report = Report {
            findings: vec![
                reported("src/a b.rs", Severity::Critical, at(Side::Right, 11, 11)),
                reported("src/a b.rs", Severity::Minor, at(Side::Left, 11, 11)),
                reported("src/a b.rs", Severity::Nit, Err(Unplaced::QuoteNotFound)),
            ],
            capped: vec![reported("src/a b.rs", Severity::Nit, at(Side::Right, 12, 12))],
            coverage: Coverage {
                files: vec![
                    CoveredFile { path: "src/a b.rs".into(), coverage: FileCoverage::Reviewed },
                    CoveredFile {
                        path: "gen.rs".into(),
                        coverage: FileCoverage::Excluded { reason: "paths.ignore".into() },
                    },
                    CoveredFile {
                        path: "b.rs".into(),
                        coverage: FileCoverage::NotReviewed { reason: "the model failed".into() },
                    },
                ],
                unlisted: 0,
            },
            score: Score { total: 70.5, security: 40.0, performance: 100.0, readability: 90.0, best_practice: 60.0 },
            usage: TokenUsage { calls: 4, input: 1000, cached_input: 100, output: 50, cost_micro_usd: 12_345 },
            summary: "Reads a map.".into(),
            trace_id: "t1".into(),
        };
        let files = files.as_slice();
        with(&Reviewed { pull: None, base: "b0", head: "h0", model: "openai::m", files, report: &report });
    }

    #[test]
    fn the_output_keeps_to_its_schema() {
        sample(|reviewed| {
            let text = render(reviewed);
            let value: serde_json::Value = serde_json::from_str(&text).unwrap();
            let schema = serde_json::to_value(schemars::schema_for!(Output)).unwrap();
            let validator = jsonschema::validator_for(&schema).unwrap();
            let faults: Vec<String> = validator.iter_errors(&value).map(|error| error.to_string()).collect();
            assert!(faults.is_empty(), "{faults:?}");
            let mut broken = value;
            broken["findings"][0]["severity"] = "awful".into();
            assert!(!validator.is_valid(&broken));
        });
    }

    #[test]
    fn the_fields_are_the_promised_ones() {
        sample(|reviewed| {
            let value = serde_json::to_value(output(reviewed)).unwrap();
            let keys =
                |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
            assert_eq!(keys(&value), "version pull base head summary score findings coverage usage trace_id");
            assert_eq!(
                keys(&value["findings"][0]),
                "fingerprint path side start_line line severity category title body suggestion confidence source \
                 evidence anchored"
            );
            assert_eq!(value["findings"][0]["line"], 11);
            assert_eq!(value["findings"][2]["line"], serde_json::Value::Null);
            assert_eq!(value["findings"][2]["anchored"], false);
        });
    }
}
