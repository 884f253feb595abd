//! Hunks as a model reads them, within a bound: what does not fit into one conversation goes into further ones. Pure.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::ops::Range;

use crate::chat::estimate_tokens;
use crate::diff::{DiffLine, FileDiff, Hunk, LineKind};

/// Estimated tokens of the hunks to review of one conversation.
const REVIEW_TOKENS: u64 = 24_000;

/// Most conversations about one file, some 25,000 lines: what is beyond is named. Nobody reads that many findings.
const MAX_PARTS: usize = 8;

/// Estimated tokens of the hunks that are context only.
const CONTEXT_TOKENS: u64 = 3_000;

/// Estimated tokens of the line above each hunk.
const HEAD_TOKENS: u64 = 16;

/// Characters that are shown of an added line, which is under review: a paragraph, a query, a long literal.
const ADDED_CHARS: usize = 4_000;

/// Characters that are shown of any other line.
const LINE_CHARS: usize = 500;

/// A hunk is only cut where at least so many lines of it fit.
const FEWEST_LINES: usize = 5;

/// Some lines of a hunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    /// The hunk's index.
    pub(super) hunk: usize,
    /// Indices of its lines.
    pub(super) lines: Range<usize>,
}

/// The hunks to review, divided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Divided {
    /// What each conversation is shown; at least one.
    pub(super) parts: Vec<Vec<Piece>>,
    /// Lines that are in no part.
    pub(super) left_out: usize,
    /// Added lines of which only the beginning is shown.
    pub(super) cut_lines: usize,
    /// Lines there are.
    pub(super) lines: usize,
}

/// Divides the hunks to review, in their order. A hunk stays whole where it fits into a part.
pub(super) fn divide(diff: &FileDiff, new_hunks: &[usize]) -> Divided {
    let hunks: Vec<(usize, &Hunk)> =
        new_hunks.iter().filter_map(|index| Some((*index, diff.hunks.get(*index)?))).collect();
    let lines = hunks.iter().map(|(_, hunk)| hunk.lines.len()).sum();
    let cut_lines = hunks.iter().flat_map(|(_, hunk)| &hunk.lines).filter(|line| is_cut(line)).count();
    let mut parts = Parts::default();
    for (index, hunk) in hunks {
        if !parts.take(index, hunk) {
            break;
        }
    }
    let shown: usize = parts.full.iter().flatten().chain(&parts.last).map(|piece| piece.lines.len()).sum();
    parts.full.push(parts.last);
    Divided { parts: parts.full, left_out: lines - shown, cut_lines, lines }
}

/// Parts while they are filled.
struct Parts {
    full: Vec<Vec<Piece>>,
    last: Vec<Piece>,
    room: u64,
}

impl Default for Parts {
    fn default() -> Self {
        Self { full: Vec::new(), last: Vec::new(), room: REVIEW_TOKENS }
    }
}

impl Parts {
    /// Takes a hunk in; `false` when there is no room for all of it.
    fn take(&mut self, index: usize, hunk: &Hunk) -> bool {
        let width = width(hunk);
        let costs: Vec<u64> = hunk.lines.iter().map(|line| estimate_tokens(&render_line(line, width))).collect();
        let whole = HEAD_TOKENS + costs.iter().sum::<u64>();
        if whole > self.room && whole <= REVIEW_TOKENS && !self.begin() {
            return false;
        }
        let mut from = 0;
        while from < costs.len() {
            let mut room = self.room.saturating_sub(HEAD_TOKENS);
            let fitting = costs.iter().skip(from).take_while(|cost| {
                let fits = **cost <= room;
                room = room.saturating_sub(**cost);
                fits
            });
            // No line is larger than an empty part, as lines are cut.
            let count = fitting.count();
            let few = count < FEWEST_LINES && from + count < costs.len();
            if few && !self.last.is_empty() {
                if !self.begin() {
                    return false;
                }
                continue;
            }
            let to = from + count.max(1);
            let cost: u64 = costs.get(from..to).unwrap_or_default().iter().sum();
            self.room = self.room.saturating_sub(HEAD_TOKENS + cost);
            self.last.push(Piece { hunk: index, lines: from..to });
            from = to;
            if from < costs.len() && !self.begin() {
                return false;
            }
        }
        true
    }

    /// Begins another part; `false` when there are as many as there may be.
    fn begin(&mut self) -> bool {
        if self.full.len() + 1 >= MAX_PARTS {
            return false;
        }
        self.full.push(std::mem::take(&mut self.last));
        self.room = REVIEW_TOKENS;
        true
    }
}

/// A part as text.
pub(super) fn show(diff: &FileDiff, part: &[Piece]) -> String {
    let mut text = String::new();
    for Piece { hunk: index, lines } in part {
        let Some(hunk) = diff.hunks.get(*index) else { continue };
        let (of, all) = (diff.hunks.len(), hunk.lines.len());
        let _ = match lines.len() == all {
            true => writeln!(text, "@@ hunk {} of {of} @@", index + 1),
            false => {
                writeln!(text, "@@ hunk {} of {of}, lines {} to {} of {all} @@", index + 1, lines.start + 1, lines.end)
            }
        };
        let width = width(hunk);
        for line in hunk.lines.get(lines.clone()).unwrap_or_default() {
            text.push_str(&render_line(line, width));
        }
    }
    text
}

/// The other hunks, if there are any; what does not fit is named where it is missing.
pub(super) fn for_context(diff: &FileDiff, new_hunks: &[usize]) -> Option<String> {
    let new: HashSet<usize> = new_hunks.iter().copied().collect();
    let others = diff.hunks.iter().enumerate().filter(|(index, _)| !new.contains(index));
    let (mut text, mut left, of) = (String::new(), CONTEXT_TOKENS, diff.hunks.len());
    let mut unseen = 0;
    for (index, hunk) in others {
        let width = width(hunk);
        let mut lines = Vec::new();
        for line in &hunk.lines {
            let line = render_line(line, width);
            let cost = estimate_tokens(&line);
            if cost > left {
                left = 0;
                break;
            }
            left -= cost;
            lines.push(line);
        }
        let missing = hunk.lines.len() - lines.len();
        if missing > 0 && lines.len() < FEWEST_LINES {
            unseen += 1;
            continue;
        }
        let _ = writeln!(text, "@@ hunk {} of {of} @@", index + 1);
        text.extend(lines);
        if missing > 0 {
            let _ = writeln!(text, "[… {missing} more lines of this hunk are left out]");
        }
    }
    if unseen > 0 {
        let _ = writeln!(text, "[… {unseen} more hunks are left out]");
    }
    (!text.is_empty()).then_some(text)
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
    let most = if line.kind == LineKind::Added { ADDED_CHARS } else { LINE_CHARS };
    match text.char_indices().nth(most) {
        None => out.push_str(text),
        Some(_) => {
            out.extend(text.chars().take(most));
            let _ = write!(out, " [… {} more characters]", text.chars().count() - most);
        }
    }
    if text.is_empty() {
        out.truncate(out.trim_end_matches(' ').len());
    }
    out.push('\n');
    out
}

/// Whether part of an added line is not shown.
fn is_cut(line: &DiffLine) -> bool {
    line.kind == LineKind::Added && line.text.trim_end_matches('\r').chars().nth(ADDED_CHARS).is_some()
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

    /// Hunks of so many lines of some 100 tokens each.
    fn hunks(counts: &[u32]) -> FileDiff {
        let mut from = 1;
        let patch = counts.iter().map(|count| {
            let lines: String = (0..*count).map(|n| format!("+{n} {}\n", "x".repeat(390))).collect();
            let hunk = format!("@@ -{from},0 +{from},{count} @@\n{lines}");
            from += count + 10;
            hunk
        });
        diff(&patch.collect::<String>())
    }

    /// `hunk:from-to` of every part.
    fn parts(counts: &[u32]) -> (Vec<String>, usize) {
        let diff = hunks(counts);
        let all: Vec<usize> = (0..counts.len()).collect();
        let divided = divide(&diff, &all);
        let piece = |piece: &Piece| format!("{}:{}-{}", piece.hunk, piece.lines.start, piece.lines.end);
        for part in &divided.parts {
            let tokens = estimate_tokens(&show(&diff, part));
            assert!(tokens <= REVIEW_TOKENS, "{tokens}");
        }
        let parts = divided.parts.iter().map(|part| part.iter().map(piece).collect::<Vec<_>>().join(" "));
        (parts.collect(), divided.left_out)
    }

    #[test]
    fn lines_carry_both_numbers_and_their_marker() {
        let diff = diff("@@ -9,3 +9,3 @@\n same\r\n-old\n+new\n \n@@ -1200 +1200,2 @@\n x\n+y");
        let divided = divide(&diff, &[0, 1]);
        assert_eq!((divided.parts.len(), divided.left_out, divided.lines), (1, 0, 6));
        insta::assert_snapshot!(show(&diff, &divided.parts[0]), @r"
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
    fn hunks_stay_whole_where_they_can_and_nothing_is_lost_between_parts() {
        assert_eq!(parts(&[]), (vec![String::new()], 0));
        assert_eq!(parts(&[50, 50]), (vec!["0:0-50 1:0-50".into()], 0));
        let (whole, left_out) = parts(&[150, 150, 50]);
        assert_eq!((whole, left_out), (vec!["0:0-150".to_owned(), "1:0-150 2:0-50".to_owned()], 0));
        let (cut, left_out) = parts(&[100, 700]);
        assert_eq!(left_out, 0);
        let starts: Vec<&str> = cut.iter().map(|part| part.split(' ').next_back().unwrap()).collect();
        let mut end = "0".to_owned();
        for piece in starts {
            let (from, to) = piece.strip_prefix("1:").unwrap().split_once('-').unwrap();
            assert_eq!(from, end);
            end = to.to_owned();
        }
        assert_eq!(end, "700");
    }

    #[test]
    fn what_is_beyond_the_last_part_is_counted() {
        let (parts, left_out) = parts(&[100, 10_000, 10]);
        assert_eq!(parts.len(), MAX_PARTS);
        let shown = 10_110 - left_out;
        assert!((1_500..2_000).contains(&shown), "{shown}");
    }

    #[test]
    fn ten_thousand_hunks_are_divided_in_one_go() {
        let (parts, left_out) = parts(&[1; 10_000]);
        assert_eq!(parts.len(), MAX_PARTS);
        assert!(left_out > 8_000, "{left_out}");
        let diff = hunks(&[1; 10_000]);
        let new: Vec<usize> = (0..5_000).collect();
        let context = for_context(&diff, &new).unwrap();
        assert!(context.len() < 20_000 && context.ends_with(" more hunks are left out]\n"), "{}", context.len());
    }

    #[test]
    fn a_long_line_is_cut_between_characters() {
        let line = |patch: &str, count: usize| {
            let diff = diff(&format!("{patch}{}", "ü".repeat(count)));
            let divided = divide(&diff, &[0]);
            (show(&diff, &divided.parts[0]), divided.cut_lines)
        };
        let (text, cut) = line("@@ -0,0 +1 @@\n+", 5_000);
        assert!(text.ends_with("ü [… 1000 more characters]\n") && cut == 1, "{cut}");
        assert_eq!(line("@@ -0,0 +1 @@\n+", 4_000).1, 0);
        // What is gone need not be seen whole.
        let (text, cut) = line("@@ -1 +0,0 @@\n-", 2_000);
        assert!(text.ends_with("ü [… 1500 more characters]\n") && cut == 0, "{cut}");
    }
}
