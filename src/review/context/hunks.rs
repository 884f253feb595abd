//! Hunks as a model reads them, within a bound.

use std::fmt::Write as _;

use crate::chat::estimate_tokens;
use crate::diff::{DiffLine, FileDiff, Hunk, LineKind};

/// Estimated tokens of the hunks to review of one file.
const REVIEW_TOKENS: u64 = 24_000;

/// Estimated tokens of the hunks that are context only.
const CONTEXT_TOKENS: u64 = 3_000;

/// Characters of one line that are shown.
const LINE_CHARS: usize = 500;

/// Part of a hunk is only shown when at least so many lines of it fit.
const FEWEST_LINES: usize = 5;

/// What is shown of the hunks to review.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Shown {
    /// The text.
    pub(super) text: String,
    /// Hunks that are shown in full.
    pub(super) whole: usize,
    /// Hunks there are.
    pub(super) hunks: usize,
    /// Lines that are shown.
    pub(super) lines: usize,
    /// Lines there are.
    pub(super) all_lines: usize,
}

/// The hunks to review; what does not fit is named where it is missing.
pub(super) fn to_review(diff: &FileDiff, new_hunks: &[usize]) -> Shown {
    render(diff, new_hunks, REVIEW_TOKENS)
}

/// The other hunks, if there are any.
pub(super) fn for_context(diff: &FileDiff, new_hunks: &[usize]) -> Option<String> {
    let others: Vec<_> = (0..diff.hunks.len()).filter(|index| !new_hunks.contains(index)).collect();
    (!others.is_empty()).then(|| render(diff, &others, CONTEXT_TOKENS).text)
}

fn render(diff: &FileDiff, indices: &[usize], most: u64) -> Shown {
    let mut shown = Shown::default();
    let mut left = most;
    for index in indices {
        let Some(hunk) = diff.hunks.get(*index) else { continue };
        shown.hunks += 1;
        shown.all_lines += hunk.lines.len();
        let width = width(hunk);
        let mut lines = Vec::new();
        for line in &hunk.lines {
            let text = render_line(line, width);
            let cost = estimate_tokens(&text);
            if cost > left {
                left = 0;
                break;
            }
            left -= cost;
            lines.push(text);
        }
        let of = diff.hunks.len();
        let missing = hunk.lines.len() - lines.len();
        if missing > 0 && lines.len() < FEWEST_LINES {
            let _ = writeln!(shown.text, "[… hunk {} of {of} is left out: {} lines]", index + 1, hunk.lines.len());
            continue;
        }
        let _ = writeln!(shown.text, "@@ hunk {} of {of} @@", index + 1);
        shown.lines += lines.len();
        for line in lines {
            shown.text.push_str(&line);
        }
        if missing == 0 {
            shown.whole += 1;
        } else {
            let _ = writeln!(shown.text, "[… {missing} more lines of this hunk are left out]");
        }
    }
    shown
}

fn render_line(line: &DiffLine, width: usize) -> String {
    let number = |n: Option<u32>| n.map(|n| n.to_string()).unwrap_or_default();
    let marker = match line.kind {
        LineKind::Context => ' ',
        LineKind::Added => '+',
        LineKind::Removed => '-',
    };
    // The `\r` of a Windows line end is content for a diff, but nothing a model should have to copy.
    let text = line.text.strip_suffix('\r').unwrap_or(&line.text);
    let mut out = format!("{:>width$} {:>width$} {marker} ", number(line.old), number(line.new));
    match text.char_indices().nth(LINE_CHARS) {
        None => out.push_str(text),
        Some(_) => {
            out.extend(text.chars().take(LINE_CHARS));
            let _ = write!(out, " [… {} more characters]", text.chars().count() - LINE_CHARS);
        }
    }
    if text.is_empty() {
        out.truncate(out.trim_end_matches(' ').len());
    }
    out.push('\n');
    out
}

fn width(hunk: &Hunk) -> usize {
    let last = hunk.lines.iter().flat_map(|line| [line.old, line.new]).flatten().max().unwrap_or(0);
    last.to_string().len().max(3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diff::FileStatus;
    use crate::diff::parse::parse_patch;

    fn diff(patch: &str) -> FileDiff {
        let hunks = parse_patch(patch).0;
        FileDiff { path: "a".to_owned(), old_path: None, status: FileStatus::Modified, hunks }
    }

    #[test]
    fn lines_carry_both_numbers_and_their_marker() {
        let diff = diff("@@ -9,3 +9,3 @@\n same\r\n-old\n+new\n \n@@ -1200 +1200,2 @@\n x\n+y");
        insta::assert_snapshot!(to_review(&diff, &[0, 1]).text, @r"
        @@ hunk 1 of 2 @@
          9   9   same
         10     - old
             10 + new
         11  11
        @@ hunk 2 of 2 @@
        1200 1200   x
             1201 + y
        ");
        assert_eq!(for_context(&diff, &[0, 1]), None);
        assert!(for_context(&diff, &[0]).unwrap().starts_with("@@ hunk 2 of 2 @@"));
    }

    #[test]
    fn what_does_not_fit_is_named_and_counted() {
        let added = |from: u32, count: u32| -> String {
            let lines: String = (0..count).map(|n| format!("+{n} {}\n", "x".repeat(400))).collect();
            format!("@@ -{from},0 +{from},{count} @@\n{lines}")
        };
        let diff = diff(&format!("{}{}{}", added(1, 10), added(100, 1_000), added(2_000, 10)));
        let shown = to_review(&diff, &[0, 1, 2]);
        assert_eq!((shown.whole, shown.hunks, shown.all_lines), (1, 3, 1_020));
        assert!(shown.text.len() < 90_000 && shown.lines > 150, "{} {}", shown.text.len(), shown.lines);
        assert!(shown.text.contains("more lines of this hunk are left out]"));
        assert!(shown.text.ends_with("[… hunk 3 of 3 is left out: 10 lines]\n"));
    }

    #[test]
    fn a_long_line_is_cut_between_characters() {
        let diff = diff(&format!("@@ -0,0 +1 @@\n+{}", "ü".repeat(2_000)));
        assert!(to_review(&diff, &[0]).text.ends_with("ü [… 1500 more characters]\n"));
    }
}
