//! The check run: how it ends, and what it tells. Pure.

use crate::github::Conclusion;
use crate::review::coverage::{Coverage, FileCoverage};
use crate::review::finding::Severity;
use crate::review::markdown::{clip, code_span, sanitise_line};
use crate::review::policy::read::PolicyComplaint;
use crate::review::policy::{POLICY_PATH, Policy};
use crate::review::report::{Report, Reported};

use super::gaps::gaps;
use super::{counted, severity_word};

/// Bytes of the summary; GitHub takes 65,535 characters.
const MAX_SUMMARY_BYTES: usize = 60_000;
/// Files listed that were left out.
const MAX_LEFT_OUT: usize = 50;

/// What a finished check run is made of.
#[derive(Debug, Clone, Copy)]
pub struct Round<'r> {
    /// What the review came to.
    pub report: &'r Report,
    /// Findings of earlier rounds that still stand.
    pub standing: &'r [Reported],
    /// The rules.
    pub policy: &'r Policy,
    /// What was wrong in the policy file.
    pub complaints: &'r [PolicyComplaint],
    /// Whether the change edits the policy file.
    pub edits_policy: bool,
    /// Whether new findings are said on lines of the pull request (false when nothing is posted).
    pub posts: bool,
}

/// How the check ends. A finding at or above `fail_on` fails it, whatever else is missing; something not reviewed for
/// another reason than configuration makes it neutral; and so do findings when nothing is configured to fail, because
/// green would say that there are none.
pub fn conclusion(report: &Report, standing: &[Reported], fail_on: Option<Severity>) -> Conclusion {
    let mut severities =
        report.findings.iter().chain(&report.capped).chain(standing).map(|reported| reported.finding.severity);
    match fail_on {
        Some(limit) if severities.any(|severity| severity >= limit) => Conclusion::Failure,
        _ if !report.coverage.complete() => Conclusion::Neutral,
        Some(_) => Conclusion::Success,
        None if severities.next().is_some() => Conclusion::Neutral,
        None => Conclusion::Success,
    }
}

/// The one line people see beside the check.
pub fn title(round: &Round<'_>) -> String {
    let report = round.report;
    let new: Vec<Reported> = report.findings.iter().chain(&report.capped).cloned().collect();
    let mut parts = Vec::new();
    let gaps = report.coverage.gaps().count() as u64 + report.coverage.unlisted;
    if gaps > 0 {
        parts.push(format!("{gaps} {} not reviewed", files(gaps)));
    }
    if !new.is_empty() {
        parts.push(counted(&new));
    }
    if !round.standing.is_empty() {
        parts.push(format!("{} from earlier still open", round.standing.len()));
    }
    if parts.is_empty() {
        let nothing_new = report.coverage.files.iter().any(|f| f.coverage == FileCoverage::Unchanged)
            && report.coverage.reviewed() == 0;
        parts.push(if nothing_new { "Nothing new to review".into() } else { "No problems found".into() });
    }
    sentence(&parts.join("; "))
}

/// The Markdown of the check's page: counts, score, coverage, complaints about the configuration, tokens and cost.
pub fn summary(round: &Round<'_>) -> String {
    let report = round.report;
    let mut parts = vec![findings_part(round)];
    parts.push(score_table(report));
    parts.push(format!("{}.", sentence(&report.coverage.in_words())));
    parts.extend(gaps(&report.coverage));
    parts.extend(left_out(&report.coverage));
    if !round.complaints.is_empty() {
        let lines: Vec<String> = round
            .complaints
            .iter()
            .map(|c| format!("- line {}, column {}: {}", c.line, c.column, sanitise_line(&c.message, 400)))
            .collect();
        parts.push(format!("In {} on the base branch:\n\n{}", code_span(POLICY_PATH), lines.join("\n")));
    }
    if round.edits_policy {
        parts.push(format!(
            "This change edits {}. The rules of the base branch hold until it is merged.",
            code_span(POLICY_PATH)
        ));
    }
    parts.push(cost(report));
    clip(&parts.join("\n\n"), MAX_SUMMARY_BYTES, "*The rest does not fit here.*")
}

fn findings_part(round: &Round<'_>) -> String {
    let report = round.report;
    let mut text = format!("Found {}.", counted(&report.findings));
    if !report.capped.is_empty() {
        let more = counted(&report.capped);
        text.push_str(&format!(" Left out by `review.max_comments`: {more}."));
    }
    if !round.standing.is_empty() {
        text.push_str(&format!(" From earlier rounds still open: {}.", counted(round.standing)));
    }
    match round.policy.review.fail_on {
        Some(limit) => text.push_str(&format!(" The check fails from `{}` on.", severity_word(limit))),
        None if !report.findings.is_empty() || !round.standing.is_empty() => {
            text.push_str(" The check does not fail for findings, because `review.fail_on` is not set.");
        }
        None => {}
    }
    if !round.posts && !report.findings.is_empty() {
        text.push_str(" They were not posted.");
    }
    text
}

fn score_table(report: &Report) -> String {
    let score = &report.score;
    format!(
        "| score | security | performance | readability | best practice |\n| ---: | ---: | ---: | ---: | ---: |\n\
         | {} | {} | {} | {} | {} |",
        score.total, score.security, score.performance, score.readability, score.best_practice
    )
}

fn left_out(coverage: &Coverage) -> Option<String> {
    let reasons: Vec<(&str, &str)> = coverage
        .files
        .iter()
        .filter_map(|file| match &file.coverage {
            FileCoverage::Excluded { reason } | FileCoverage::NothingToReview { reason } => {
                Some((file.path.as_str(), reason.as_str()))
            }
            _ => None,
        })
        .collect();
    if reasons.is_empty() {
        return None;
    }
    let mut lines: Vec<String> = reasons
        .iter()
        .take(MAX_LEFT_OUT)
        .map(|(path, reason)| format!("- {}: {}", code_span(path), sanitise_line(reason, 200)))
        .collect();
    if reasons.len() > MAX_LEFT_OUT {
        lines.push(format!("- and {} more", reasons.len() - MAX_LEFT_OUT));
    }
    Some(format!("Left out on purpose:\n\n{}", lines.join("\n")))
}

fn cost(report: &Report) -> String {
    let usage = &report.usage;
    if usage.calls == 0 {
        return format!("No model was asked. Trace {}.", code_span(&report.trace_id));
    }
    let money = match usage.cost_micro_usd {
        0 => String::new(),
        micro => format!(", {}.{:04} US dollars", micro / 1_000_000, micro % 1_000_000 / 100),
    };
    format!(
        "{} model {}, {} tokens in ({} cached), {} out{money}. Trace {}.",
        usage.calls,
        if usage.calls == 1 { "call" } else { "calls" },
        usage.input,
        usage.cached_input,
        usage.output,
        code_span(&report.trace_id)
    )
}

fn files(count: u64) -> &'static str {
    if count == 1 { "file" } else { "files" }
}

fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::TokenUsage;
    use crate::review::anchor::Unplaced;
    use crate::review::coverage::CoveredFile;
    use crate::review::finding::{Category, Finding};
    use crate::review::score::score;
    use insta::assert_snapshot;
    use rstest::rstest;

    fn found(severity: Severity) -> Reported {
        let finding = Finding {
            path: "a.rs".into(),
            quote: String::new(),
            line: None,
            end_line: None,
            side: None,
            severity,
            category: Category::Security,
            title: "T".into(),
            body: "B".into(),
            replacement: None,
            confidence: 1.0,
            source: String::new(),
            evidence: vec![],
        };
        Reported { finding, fingerprint: "f".into(), place: Err(Unplaced::NoQuote), suggestion: None }
    }

    fn report(findings: Vec<Reported>, coverage: Vec<(&str, FileCoverage)>) -> Report {
        let files = coverage.into_iter().map(|(path, coverage)| CoveredFile { path: path.into(), coverage }).collect();
        Report {
            score: score(findings.iter().map(|f| &f.finding)),
            findings,
            capped: vec![],
            coverage: Coverage { files, unlisted: 0 },
            usage: TokenUsage { calls: 3, input: 1200, cached_input: 200, output: 90, cost_micro_usd: 12_300 },
            summary: String::new(),
            trace_id: "pr:1:2:b:h".into(),
        }
    }

    fn gap() -> (&'static str, FileCoverage) {
        ("b.rs", FileCoverage::NotReviewed { reason: "the model gave no answer".into() })
    }

    #[rstest]
    #[case(vec![], false, None, Conclusion::Success)]
    #[case(vec![], true, None, Conclusion::Neutral)]
    #[case(vec![Severity::Critical], false, None, Conclusion::Neutral)]
    #[case(vec![Severity::Minor], false, Some(Severity::Major), Conclusion::Success)]
    #[case(vec![Severity::Major], false, Some(Severity::Major), Conclusion::Failure)]
    #[case(vec![Severity::Major], true, Some(Severity::Major), Conclusion::Failure)]
    #[case(vec![Severity::Minor], true, Some(Severity::Major), Conclusion::Neutral)]
    fn the_check_is_never_green_without_cause(
        #[case] severities: Vec<Severity>,
        #[case] gaps: bool,
        #[case] fail_on: Option<Severity>,
        #[case] ends: Conclusion,
    ) {
        let found: Vec<Reported> = severities.into_iter().map(found).collect();
        let coverage = || if gaps { vec![gap()] } else { vec![("a.rs", FileCoverage::Reviewed)] };
        assert_eq!(conclusion(&report(found.clone(), coverage()), &[], fail_on), ends);
        assert_eq!(conclusion(&report(vec![], coverage()), &found, fail_on), ends);
    }

    #[test]
    fn the_page_tells_everything_that_counts() {
        let report = report(
            vec![found(Severity::Major)],
            vec![
                ("a.rs", FileCoverage::Reviewed),
                gap(),
                ("Cargo.lock", FileCoverage::Excluded { reason: "lock file".into() }),
            ],
        );
        let standing = [found(Severity::Minor)];
        let complaints = [PolicyComplaint { line: 3, column: 5, message: "There is no key `x`.".into() }];
        let policy = Policy::default();
        let round = Round {
            report: &report,
            standing: &standing,
            policy: &policy,
            complaints: &complaints,
            edits_policy: true,
            posts: true,
        };
        assert_snapshot!(title(&round), @"1 file not reviewed; 1 problem (major); 1 from earlier still open");
        assert_snapshot!(summary(&round), @"
        Found 1 problem (major). From earlier rounds still open: 1 problem (minor). The check does not fail for findings, because `review.fail_on` is not set.

        | score | security | performance | readability | best practice |
        | ---: | ---: | ---: | ---: | ---: |
        | 94 | 80 | 100 | 100 | 100 |

        1 file reviewed, 1 left out by configuration, 1 not reviewed.

        Not reviewed:

        - `b.rs`: the model gave no answer

        Left out on purpose:

        - `Cargo.lock`: lock file

        In `.github/secondlook.yml` on the base branch:

        - line 3, column 5: There is no key `x`.

        This change edits `.github/secondlook.yml`. The rules of the base branch hold until it is merged.

        3 model calls, 1200 tokens in (200 cached), 90 out, 0.0123 US dollars. Trace `pr:1:2:b:h`.
        ");
    }

    #[test]
    fn titles_of_quiet_rounds() {
        let policy = Policy::default();
        let of = |report: &Report| {
            title(&Round { report, standing: &[], policy: &policy, complaints: &[], edits_policy: false, posts: false })
        };
        assert_eq!(of(&report(vec![], vec![("a.rs", FileCoverage::Reviewed)])), "No problems found");
        assert_eq!(of(&report(vec![], vec![("a.rs", FileCoverage::Unchanged)])), "Nothing new to review");
    }
}
