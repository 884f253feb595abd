//! For people at a terminal: the code with the finding under it, as a compiler shows it.
//!
//! The text holds styles always; whoever prints it strips them where they are not wanted.

use std::ops::Range;
use std::sync::Arc;

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};
use anstyle::{AnsiColor, Style};

use super::{Reviewed, category_words, counts, coverage_line, gaps, one_line, printable, severity_word, usage_line};
use crate::diff::{DiffLine, FileDiff, Side};
use crate::review::anchor::Anchor;
use crate::review::finding::Severity;
use crate::review::report::Reported;

/// Lines of code shown before and after those a finding stands on.
const AROUND: u32 = 2;
/// Most lines of code shown of one finding; a longer range is shown by its beginning.
const MOST_LINES: usize = 24;
/// Characters of a line of code that are shown; a longer line is cut.
const MOST_CHARACTERS: usize = 200;

const STRONG: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const WARN: Style = AnsiColor::Yellow.on_default().bold();

/// The findings with their code, then what was not reviewed, the scores and the cost.
pub fn render(reviewed: &Reviewed<'_>) -> String {
    let report = reviewed.report;
    let mut text = String::new();
    for reported in &report.findings {
        text.push_str(&finding(reported, reviewed.files));
        text.push_str("\n\n");
    }
    if !report.capped.is_empty() {
        text.push_str(&format!("not shown: {}\n", counts(&report.capped)));
    }
    for (path, reason) in gaps(&report.coverage) {
        text.push_str(&format!("{WARN}not reviewed{WARN:#}: {}: {}\n", one_line(path), one_line(reason)));
    }
    if !report.summary.trim().is_empty() {
        text.push_str(&format!("{}\n\n", printable(report.summary.trim())));
    }
    let score = &report.score;
    text.push_str(&format!(
        "{STRONG}{}{STRONG:#}; score {:.0} of 100 (security {:.0}, performance {:.0}, readability {:.0}, best practice {:.0})\n",
        counts(&report.findings),
        score.total,
        score.security,
        score.performance,
        score.readability,
        score.best_practice
    ));
    text.push_str(&format!("{}\n", coverage_line(&report.coverage)));
    text.push_str(&format!("{DIM}{}{DIM:#}\n", one_line(&usage_line(reviewed))));
    text
}

fn finding(reported: &Reported, files: &[Arc<FileDiff>]) -> String {
    let finding = &reported.finding;
    let level = match finding.severity {
        Severity::Critical | Severity::Major => Level::ERROR,
        Severity::Minor => Level::WARNING,
        Severity::Nit => Level::INFO,
    };
    let title = level
        .with_name(severity_word(finding.severity))
        .primary_title(one_line(&finding.title))
        .id(category_words(finding.category));
    let path = one_line(&finding.path);
    let shown = reported.place.as_ref().ok().and_then(|anchor| Some((anchor, code(anchor, &finding.path, files)?)));
    let mut group = match shown {
        Some((anchor, code)) => {
            let label = if anchor.side == Side::Left { "removed here" } else { "" };
            let mark = AnnotationKind::Primary.span(code.marked);
            let mark = if label.is_empty() { mark } else { mark.label(label) };
            let snippet = Snippet::source(code.text).line_start(code.first as usize).path(path).fold(false);
            title.element(snippet.annotation(mark))
        }
        None => title.element(Origin::path(path)),
    };
    group = notes(group, reported);
    // ASCII: a terminal that shows no box drawing characters is still a terminal.
    let text = Renderer::styled().decor_style(DecorStyle::Ascii).render(&[group]);
    // An empty line within a note would be nothing but its indent.
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

fn notes<'a>(mut group: Group<'a>, reported: &'a Reported) -> Group<'a> {
    let finding = &reported.finding;
    if !finding.body.trim().is_empty() {
        group = group.element(Level::NOTE.message(printable(finding.body.trim()).into_owned()));
    }
    if reported.place.is_err() {
        group = group.element(Level::NOTE.message("it stands on no certain line of the change"));
    }
    if let (Some(replacement), Some(_)) = (&finding.replacement, &reported.suggestion) {
        group = group.element(Level::HELP.message(format!("write\n{}", printable(replacement.trim_end()))));
    }
    group
}

/// Code around an anchor.
struct Code {
    text: String,
    first: u32,
    marked: Range<usize>,
}

/// The lines of the hunk around an anchor, on the anchor's side. `None` when the change does not hold them.
fn code(anchor: &Anchor, path: &str, files: &[Arc<FileDiff>]) -> Option<Code> {
    let number = |line: &DiffLine| match anchor.side {
        Side::Left => line.old,
        Side::Right => line.new,
    };
    let from = anchor.start_line.saturating_sub(AROUND);
    let to = anchor.line.saturating_add(AROUND);
    let hunks = files.iter().filter(|file| file.path == path).flat_map(|file| &file.hunks);
    let mut lines = hunks.flat_map(|hunk| &hunk.lines).filter_map(|line| Some((number(line)?, line.text.as_str())));
    let lines: Vec<(u32, &str)> = lines.by_ref().filter(|(n, _)| (from..=to).contains(n)).take(MOST_LINES).collect();
    // Two hunks may lie close together; what is shown has to be one run of lines, the one with the anchor.
    let begin = lines.iter().position(|(n, _)| *n == anchor.start_line)?;
    let back = (0..begin).rev().take_while(|at| lines[*at].0 + 1 == lines[at + 1].0).count();
    let (first, _) = lines[begin - back];
    let mut text = String::new();
    let mut marked: Option<Range<usize>> = None;
    for (expected, (n, line)) in (first..).zip(&lines[begin - back..]) {
        if expected != *n {
            break;
        }
        if !text.is_empty() || expected != first {
            text.push('\n');
        }
        let line: String = printable(line.trim_end_matches('\r')).chars().take(MOST_CHARACTERS).collect();
        if (anchor.start_line..=anchor.line).contains(n) {
            let indent = line.len() - line.trim_start().len();
            let start = marked.as_ref().map_or(text.len() + indent, |marked| marked.start);
            marked = Some(start..text.len() + line.len());
        }
        text.push_str(&line);
    }
    Some(Code { text, first, marked: marked? })
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use proptest::prelude::*;

    use super::super::json::tests::sample;
    use super::*;
    use crate::diff::{FileStatus, Hunk, LineKind};

    #[test]
    fn code_stands_above_its_finding() {
        sample(|reviewed| {
            assert_snapshot!(anstream::adapter::strip_str(&render(reviewed)), @r##"
        critical[security]: Panics when the key, or 100% of keys, are missing
          --> src/a b.rs:11:5
           |
        10 | fn get() {
        11 |     map.get(key).unwrap();
           |     ^^^^^^^^^^^^^^^^^^^^^^
        12 | }
           |
           = note: `get` returns `None`.
                   Use `if let`.

        minor[security]: Panics when the key, or 100% of keys, are missing
          --> src/a b.rs:11:5
           |
        10 | fn get() {
        11 |     old();
           |     ^^^^^^ removed here
        12 | }
           |
           = note: `get` returns `None`.
                   Use `if let`.

        nit[security]: Panics when the key, or 100% of keys, are missing
        --> src/a b.rs
         = note: `get` returns `None`.
                 Use `if let`.
         = note: it stands on no certain line of the change

        not shown: 1 nit
        not reviewed: b.rs: the model failed
        Reads a map.

        1 critical, 1 minor, 1 nit; score 70 of 100 (security 40, performance 100, readability 90, best practice 60)
        1 file reviewed, 1 excluded, 1 not reviewed
        openai::m: 4 calls, 1000 tokens in (100 cached), 50 out, $0.0124
        "##)
        });
    }

    proptest! {
        #[test]
        fn any_code_can_be_shown(
            lines in proptest::collection::vec("[ \\t\\r\\PC]{0,12}", 1..40),
            start in 1_u32..45,
            length in 0_u32..40,
        ) {
            let file = FileDiff {
                path: "p".into(),
                old_path: None,
                status: FileStatus::Added,
                hunks: vec![Hunk {
                    old_start: 0,
                    old_count: 0,
                    new_start: 1,
                    new_count: u32::try_from(lines.len()).unwrap(),
                    lines: (1..).zip(&lines).map(|(number, text)| DiffLine {
                        kind: LineKind::Added, old: None, new: Some(number), text: text.clone(), no_newline: false,
                    }).collect(),
                }],
            };
            let anchor = Anchor { side: Side::Right, start_line: start, line: start + length };
            sample(|reviewed| {
                let mut reported = reviewed.report.findings[0].clone();
                reported.finding.path = "p".into();
                reported.place = Ok(anchor.clone());
                let text = finding(&reported, &[Arc::new(file)]);
                assert!(text.contains("Panics when"));
            });
        }
    }
}
