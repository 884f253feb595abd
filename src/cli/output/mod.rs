//! The forms a result is printed in. Each is a pure function from a finished review to text.

pub mod github;
pub mod json;
pub mod markdown;
pub mod pretty;
pub mod sarif;

use std::borrow::Cow;
use std::sync::Arc;

use crate::diff::FileDiff;
use crate::review::coverage::{Coverage, FileCoverage};
use crate::review::finding::{Category, Severity};
use crate::review::report::{Report, Reported};

/// A finished review and what it was made of.
#[derive(Debug, Clone, Copy)]
pub struct Reviewed<'a> {
    /// `owner/repo#7`, when it is a pull request.
    pub pull: Option<&'a str>,
    /// Base commit, or what stands for it.
    pub base: &'a str,
    /// Head commit, or what stands for it.
    pub head: &'a str,
    /// The name of the model.
    pub model: &'a str,
    /// The change, for the code that is shown with a finding.
    pub files: &'a [Arc<FileDiff>],
    /// The result.
    pub report: &'a Report,
}

/// The forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people at a terminal: the code with the finding under it.
    Pretty,
    /// For scripts; `secondlook schema output` prints its schema.
    Json,
    /// SARIF 2.1.0, for code scanning and editors.
    Sarif,
    /// Workflow commands, which GitHub Actions turns into annotations.
    Github,
    /// For a job summary or a chat.
    Markdown,
}

/// A finished review in the given form, with its final newline.
pub fn render(format: Format, reviewed: &Reviewed<'_>) -> String {
    match format {
        Format::Pretty => pretty::render(reviewed),
        Format::Json => json::render(reviewed),
        Format::Sarif => sarif::render(reviewed),
        Format::Github => github::render(reviewed),
        Format::Markdown => markdown::render(reviewed),
    }
}

/// The word for a severity, as configuration and JSON spell it.
pub fn severity_word(severity: Severity) -> &'static str {
    match severity {
        Severity::Critical => "critical",
        Severity::Major => "major",
        Severity::Minor => "minor",
        Severity::Nit => "nit",
    }
}

/// The words for a category.
pub fn category_words(category: Category) -> &'static str {
    match category {
        Category::Correctness => "correctness",
        Category::Security => "security",
        Category::Performance => "performance",
        Category::Readability => "readability",
        Category::BestPractice => "best practice",
    }
}

/// `text` without what could steer a terminal or hide something from its reader: control characters but newline and
/// tab, and the marks that change the direction of writing, become `�`.
pub fn printable(text: &str) -> Cow<'_, str> {
    let steers = |c: char| {
        (c.is_control() && c != '\n' && c != '\t')
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    // A carriage return before a newline is only another way to end a line.
    let text = if text.contains('\r') { Cow::Owned(text.replace("\r\n", "\n")) } else { Cow::Borrowed(text) };
    if text.contains(steers) { Cow::Owned(text.replace(steers, "\u{fffd}")) } else { text }
}

/// `text` on one line, printable.
pub fn one_line(text: &str) -> String {
    printable(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// How many findings of each severity, worst first: `1 critical, 2 minor`; `no findings` when there are none.
pub fn counts(findings: &[Reported]) -> String {
    let mut parts = Vec::new();
    for severity in [Severity::Critical, Severity::Major, Severity::Minor, Severity::Nit] {
        let count = findings.iter().filter(|reported| reported.finding.severity == severity).count();
        if count > 0 {
            parts.push(format!("{count} {}", severity_word(severity)));
        }
    }
    if parts.is_empty() { "no findings".into() } else { parts.join(", ") }
}

/// One line on what was reviewed: `3 files reviewed, 1 excluded, 1 not reviewed`.
pub fn coverage_line(coverage: &Coverage) -> String {
    let count = |wanted: fn(&FileCoverage) -> bool| coverage.files.iter().filter(|file| wanted(&file.coverage)).count();
    let reviewed = count(|file| matches!(file, FileCoverage::Reviewed));
    let mut line = format!("{reviewed} {} reviewed", if reviewed == 1 { "file" } else { "files" });
    let others = [
        (count(|file| matches!(file, FileCoverage::Unchanged)), "unchanged since the last review"),
        (count(|file| matches!(file, FileCoverage::Excluded { .. })), "excluded"),
        (count(|file| matches!(file, FileCoverage::NothingToReview { .. })), "with nothing to review"),
        (count(|file| matches!(file, FileCoverage::NotReviewed { .. })), "not reviewed"),
        (usize::try_from(coverage.unlisted).unwrap_or(usize::MAX), "not even listed"),
    ];
    for (number, words) in others {
        if number > 0 {
            line.push_str(&format!(", {number} {words}"));
        }
    }
    line
}

/// Files that should have been reviewed and were not, each with the reason.
pub fn gaps(coverage: &Coverage) -> impl Iterator<Item = (&str, &str)> {
    coverage.files.iter().filter_map(|file| match &file.coverage {
        FileCoverage::NotReviewed { reason } => Some((file.path.as_str(), reason.as_str())),
        _ => None,
    })
}

/// One line on the price: model, calls, tokens, and money where the price is known.
pub fn usage_line(reviewed: &Reviewed<'_>) -> String {
    let usage = &reviewed.report.usage;
    let mut line = format!("{}: {} calls, {} tokens in", reviewed.model, usage.calls, usage.input);
    if usage.cached_input > 0 {
        line.push_str(&format!(" ({} cached)", usage.cached_input));
    }
    line.push_str(&format!(", {} out", usage.output));
    if usage.cost_micro_usd > 0 {
        let cents = usage.cost_micro_usd.div_ceil(100);
        line.push_str(&format!(", ${}.{:04}", cents / 10_000, cents % 10_000));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::json::tests::sample;
    use super::*;

    #[test]
    fn text_cannot_steer_a_terminal() {
        assert_eq!(printable("a\u{1b}[2Jb\tc\r\nd\u{202e}e\u{85}"), "a\u{fffd}[2Jb\tc\nd\u{fffd}e\u{fffd}");
        assert!(matches!(printable("plain"), Cow::Borrowed(_)));
        assert_eq!(one_line("a\n  b\u{7}"), "a b\u{fffd}");
    }

    #[test]
    fn no_form_lets_an_escape_through() {
        sample(|reviewed| {
            let mut report = reviewed.report.clone();
            report.findings[0].finding.title = "t\u{1b}]0;owned\u{7}".into();
            report.findings[0].finding.body = "b\u{1b}[2J".into();
            report.findings[0].finding.source = "s\u{1b}[2J".into();
            report.summary = "s\u{1b}[31m".into();
            let hostile = Reviewed { report: &report, ..*reviewed };
            for format in [Format::Json, Format::Sarif, Format::Github, Format::Markdown] {
                assert!(!render(format, &hostile).contains('\u{1b}'), "{format:?}");
            }
            let pretty = render(Format::Pretty, &hostile);
            assert!(!pretty.contains("\u{1b}]0") && !pretty.contains("\u{1b}[2J"), "{pretty:?}");
        });
    }

    #[test]
    fn the_lines_count() {
        sample(|reviewed| {
            assert_eq!(counts(&reviewed.report.findings), "1 critical, 1 minor, 1 nit");
            assert_eq!(counts(&[]), "no findings");
            assert_eq!(coverage_line(&reviewed.report.coverage), "1 file reviewed, 1 excluded, 1 not reviewed");
            assert_eq!(usage_line(reviewed), "openai::m: 4 calls, 1000 tokens in (100 cached), 50 out, $0.0124");
        });
    }
}
