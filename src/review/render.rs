//! The Markdown people read on a pull request. Pure.
//!
//! Everything that a model or a stranger wrote passes through [`super::markdown`] first. What is ours alone, and never
//! cut, is the hidden marker on the last line: by it our own posts are found again.

pub mod check;
pub mod gaps;
pub mod marker;

use super::anchor::Unplaced;
use super::coverage::Coverage;
use super::finding::{Category, Evidence, Finding, Severity};
use super::markdown::{clip, code_block, code_span, sanitise, sanitise_line};
use super::report::Reported;

/// Bytes of one comment or review body. GitHub's limit is 65,536 characters; this leaves room for its own additions.
pub const MAX_BODY_BYTES: usize = 60_000;

/// Bytes of the text of one finding.
const MAX_TEXT_BYTES: usize = 16_000;
/// Bytes of one suggestion; a larger one is not offered, since half of one would delete code.
const MAX_SUGGESTION_BYTES: usize = 24_000;
/// Bytes of one quotation.
const MAX_QUOTE_BYTES: usize = 2_000;
/// Items of evidence, and characters of each.
const MAX_EVIDENCE: usize = 8;
const MAX_EVIDENCE_CHARS: usize = 300;
/// Characters of the name of what found a problem.
const MAX_SOURCE_CHARS: usize = 80;
/// Characters of a title.
const MAX_TITLE_CHARS: usize = 160;
/// Stands where a text was cut.
const CUT: &str = "*This text was too long and ends here.*";

/// The body of a line comment: what, why, what to do, a suggestion if one applies, and the evidence folded away.
pub fn comment_body(reported: &Reported) -> String {
    let finding = &reported.finding;
    let mut body = format!("{}\n\n{}", headline(finding), text(finding));
    if let Some(suggestion) = reported.suggestion.as_deref().filter(|s| s.len() <= MAX_SUGGESTION_BYTES) {
        body.push_str("\n\n");
        body.push_str(suggestion.trim_end_matches('\n'));
    }
    body.push_str(&format!(
        "\n\n<details><summary>Evidence</summary>\n\n{}\n\n</details>\n\n{}",
        evidence(finding),
        marker::finding(&reported.fingerprint)
    ));
    body
}

/// What the body of a review tells, besides its line comments.
#[derive(Debug, Clone, Copy)]
pub struct ReviewSummary<'r> {
    /// All findings that are said in this round.
    pub findings: &'r [Reported],
    /// How many more the cap left out.
    pub capped: usize,
    /// What was reviewed.
    pub coverage: &'r Coverage,
}

/// The body of a round's first review, without its marker.
pub fn review_body(summary: &ReviewSummary<'_>) -> String {
    let mut parts = vec![format!("Found {}.", counted(summary.findings))];
    let unplaced: Vec<&Reported> = summary.findings.iter().filter(|f| f.place.is_err()).collect();
    if !unplaced.is_empty() {
        parts.push(unplaced_section("Without a line to comment on:", &unplaced));
    }
    if summary.capped > 0 {
        let (more, were) = if summary.capped == 1 { ("finding", "was") } else { ("findings", "were") };
        parts.push(format!(
            "{} more {more} of lower rank {were} left out; `review.max_comments` sets how many are said.",
            summary.capped
        ));
    }
    parts.extend(gaps::gaps(summary.coverage));
    clip(&parts.join("\n\n"), MAX_BODY_BYTES - 2_000, CUT)
}

/// The body of a later review of the same round, without its marker.
pub fn later_review_body(part: usize, of: usize) -> String {
    format!("Part {part} of {of} of this review.")
}

/// A review's body with findings that GitHub refused as line comments, below what it said already.
pub fn with_refused(body: &str, refused: &[&Reported]) -> String {
    if refused.is_empty() {
        return body.to_owned();
    }
    let section = unplaced_section("GitHub takes no comment on the lines of these:", refused);
    clip(&format!("{body}\n\n{section}"), MAX_BODY_BYTES - 2_000, CUT)
}

/// `3 problems: 1 critical, 2 minor`, or `no problems`.
pub fn counted(findings: &[Reported]) -> String {
    let of = |severity| findings.iter().filter(|f| f.finding.severity == severity).count();
    let severities = [Severity::Critical, Severity::Major, Severity::Minor, Severity::Nit];
    let parts: Vec<String> =
        severities.into_iter().filter(|s| of(*s) > 0).map(|s| format!("{} {}", of(s), severity_word(s))).collect();
    match findings.len() {
        0 => "no problems".into(),
        1 => format!("1 problem ({})", parts.concat().trim_start_matches("1 ")),
        n => format!("{n} problems: {}", parts.join(", ")),
    }
}

/// The word for a severity.
pub fn severity_word(severity: Severity) -> &'static str {
    match severity {
        Severity::Critical => "critical",
        Severity::Major => "major",
        Severity::Minor => "minor",
        Severity::Nit => "nit",
    }
}

/// The word for a category.
pub fn category_word(category: Category) -> &'static str {
    match category {
        Category::Correctness => "correctness",
        Category::Security => "security",
        Category::Performance => "performance",
        Category::Readability => "readability",
        Category::BestPractice => "best practice",
    }
}

fn headline(finding: &Finding) -> String {
    let title = sanitise_line(&finding.title, MAX_TITLE_CHARS);
    let title = if title.is_empty() { "Problem".to_owned() } else { title };
    format!("**{title}** · {} · {}", severity_word(finding.severity), category_word(finding.category))
}

fn text(finding: &Finding) -> String {
    clip(&sanitise(&finding.body), MAX_TEXT_BYTES, CUT)
}

fn evidence(finding: &Finding) -> String {
    let mut lines: Vec<String> = finding.evidence.iter().take(MAX_EVIDENCE).map(evidence_line).collect();
    let percent = (finding.confidence.clamp(0.0, 1.0) * 100.0).round();
    let by =
        if finding.source.is_empty() { String::new() } else { format!("Found by {}, ", code_span(&finding.source)) };
    lines.push(format!("- {by}{} {percent} %", if by.is_empty() { "Confidence" } else { "confidence" }));
    lines.join("\n")
}

fn evidence_line(evidence: &Evidence) -> String {
    format!("- {}: {}", source(&evidence.source), sanitise_line(&evidence.text, MAX_EVIDENCE_CHARS))
}

fn source(name: &str) -> String {
    code_span(&name.chars().take(MAX_SOURCE_CHARS).collect::<String>())
}

fn unplaced_section(heading: &str, findings: &[&Reported]) -> String {
    let items: Vec<String> = findings.iter().map(|reported| unplaced_item(reported)).collect();
    format!("{heading}\n\n{}", items.join("\n\n"))
}

fn unplaced_item(reported: &Reported) -> String {
    let finding = &reported.finding;
    let why = match &reported.place {
        Ok(anchor) => format!("line {}", anchor.line),
        Err(Unplaced::NoDiff) => "GitHub shows no diff of this file".into(),
        Err(Unplaced::Ambiguous) => "the code stands there several times".into(),
        Err(Unplaced::NoQuote | Unplaced::OtherFile) => "about the file as a whole".into(),
        Err(Unplaced::QuoteNotFound) => "the code is not part of the diff".into(),
    };
    let quote = match finding.quote.trim() {
        "" => String::new(),
        _ => {
            let quote = finding.quote.get(..finding.quote.floor_char_boundary(MAX_QUOTE_BYTES)).unwrap_or_default();
            format!("\n\n{}", code_block(quote, ""))
        }
    };
    format!("{}\n{} ({why}){quote}\n\n{}", headline(finding), code_span(&finding.path), text(finding))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diff::Side;
    use crate::review::anchor::Anchor;
    use crate::review::coverage::{CoveredFile, FileCoverage};
    use insta::assert_snapshot;

    fn reported(title: &str, place: Result<Anchor, Unplaced>) -> Reported {
        let finding = Finding {
            path: "src/cache.rs".into(),
            quote: "MAP.get(key).unwrap()".into(),
            line: Some(3),
            end_line: None,
            side: None,
            severity: Severity::Major,
            category: Category::Correctness,
            title: title.into(),
            body: "The key may be missing, says @bob.\n\nReturn the option instead.".into(),
            replacement: None,
            confidence: 0.86,
            source: "openai::gpt".into(),
            evidence: vec![Evidence { source: "parse_code".into(), text: "in `fn lookup`".into() }],
        };
        Reported { finding, fingerprint: "0123456789abcdef".into(), place, suggestion: None }
    }

    fn placed(title: &str) -> Reported {
        reported(title, Ok(Anchor { side: Side::Right, start_line: 3, line: 3 }))
    }

    #[test]
    fn a_comment_says_what_why_and_from_where() {
        let mut reported = placed("Panics when the key is missing");
        reported.suggestion = Some("```suggestion\n    MAP.get(key)\n```\n".into());
        assert_snapshot!(comment_body(&reported), @"
        **Panics when the key is missing** · major · correctness

        The key may be missing, says @&#8203;bob.

        Return the option instead.

        ```suggestion
            MAP.get(key)
        ```

        <details><summary>Evidence</summary>

        - `parse_code`: in `fn lookup`
        - Found by `openai::gpt`, confidence 86 %

        </details>

        <!-- secondlook:finding 0123456789abcdef -->
        ");
    }

    #[test]
    fn a_review_names_what_has_no_line_and_what_is_missing() {
        let coverage = Coverage {
            files: vec![CoveredFile {
                path: "src/b.rs".into(),
                coverage: FileCoverage::NotReviewed { reason: "the model gave no answer".into() },
            }],
            unlisted: 2,
        };
        let findings = [placed("A"), reported("B", Err(Unplaced::QuoteNotFound))];
        let body = review_body(&ReviewSummary { findings: &findings, capped: 3, coverage: &coverage });
        assert_snapshot!(body, @"
        Found 2 problems: 2 major.

        Without a line to comment on:

        **B** · major · correctness
        `src/cache.rs` (the code is not part of the diff)

        ```
        MAP.get(key).unwrap()
        ```

        The key may be missing, says @&#8203;bob.

        Return the option instead.

        3 more findings of lower rank were left out; `review.max_comments` sets how many are said.

        Not reviewed:

        - `src/b.rs`: the model gave no answer
        - 2 files that GitHub does not list (it stops at 3,000)
        ");
    }

    #[test]
    fn refused_comments_go_below_the_summary() {
        let body = with_refused("Found 1 problem (major).", &[&placed("A")]);
        assert!(body.starts_with("Found 1 problem (major).\n\nGitHub takes no comment"), "{body}");
        assert!(body.contains("`src/cache.rs` (line 3)"));
        assert_eq!(with_refused("x", &[]), "x");
    }

    #[test]
    fn bodies_stay_within_the_limit_with_fences_closed() {
        let mut long = placed(&"title ".repeat(200));
        long.finding.body = format!("Look, ``` here:\n```rust\n{}", "let a = 1;\n".repeat(20_000));
        long.finding.quote = "x = 1;\n".repeat(10_000);
        long.finding.evidence = vec![Evidence { source: "s".repeat(300), text: "@a#1<".repeat(50_000) }; 100];
        long.suggestion = Some(format!("```suggestion\n{}```", "x\n".repeat(40_000)));
        assert!(!comment_body(&long).contains("```suggestion"));
        long.suggestion = Some(format!("```suggestion\n{}```", "x\n".repeat(11_900)));
        let body = comment_body(&long);
        assert!(body.len() <= MAX_BODY_BYTES, "{}", body.len());
        assert!(body.contains("```suggestion"));
        assert!(body.contains("let a = 1;\n```\n\n*This text was too long"), "the fence is closed before the note");
        assert_eq!(marker::read_finding(&body), Some("0123456789abcdef"));
        long.place = Err(Unplaced::NoDiff);
        let many = vec![long; 100];
        let body = review_body(&ReviewSummary { findings: &many, capped: 0, coverage: &Coverage::default() });
        assert!(body.len() <= MAX_BODY_BYTES - 2_000, "{}", body.len());
    }

    #[test]
    fn counts_are_in_words() {
        assert_eq!(counted(&[]), "no problems");
        assert_eq!(counted(&[placed("A")]), "1 problem (major)");
        let mut nit = placed("B");
        nit.finding.severity = Severity::Nit;
        assert_eq!(counted(&[nit, placed("A")]), "2 problems: 1 major, 1 nit");
    }
}
