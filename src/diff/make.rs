//! Makes hunks from two texts, for files that GitHub sends without a patch.
//!
//! The result is a valid diff of the two texts in the form of `git diff -U3 --inter-hunk-context=1`, which is what
//! GitHub shows (measured on recorded answers). Where several diffs of the same length exist, git may have picked
//! another one; nothing may depend on that.

use std::ops::Range;

use similar::{Algorithm, DiffOp, capture_diff_slices};

use super::{DiffLine, Hunk, LineKind};

/// Context lines around a change, as `git diff -U3`.
pub const CONTEXT_LINES: usize = 3;

/// Hunks are joined when at most this many lines would lie between them, as `git diff --inter-hunk-context=1`.
pub const INTER_HUNK_CONTEXT: usize = 1;

/// Most lines of both changed middles together (what is left without the common beginning and end) that are compared
/// line by line; larger ones are shown as one replacement. The algorithm bounds its own search as git does, so the
/// time stays under about a second, and the result does not depend on the speed of the machine.
pub const MAX_COMPARED_LINES: usize = 200_000;

/// The hunks between two texts, in the form GitHub would show (3 context lines, hunks one line apart are joined).
pub fn make_hunks(old: &str, new: &str) -> Vec<Hunk> {
    let old: Vec<&str> = old.split_inclusive('\n').collect();
    let new: Vec<&str> = new.split_inclusive('\n').collect();
    group(&changes(&old, &new)).into_iter().map(|changes| hunk(changes, &old, &new)).collect()
}

/// Lines that were replaced: either range may be empty, not both.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Replaced {
    old: Range<usize>,
    new: Range<usize>,
}

/// The changed runs, in order. A last line with and one without a final newline differ.
fn changes(old: &[&str], new: &[&str]) -> Vec<Replaced> {
    let before = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let (old_rest, new_rest) = (&old[before..], &new[before..]);
    let after = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(|(old, new)| old == new).count();
    let (old_middle, new_middle) = (&old_rest[..old_rest.len() - after], &new_rest[..new_rest.len() - after]);
    let whole = Replaced { old: before..before + old_middle.len(), new: before..before + new_middle.len() };
    if old_middle.is_empty() && new_middle.is_empty() {
        return Vec::new();
    }
    if old_middle.is_empty() || new_middle.is_empty() || old_middle.len() + new_middle.len() > MAX_COMPARED_LINES {
        return vec![whole];
    }
    let mut changes: Vec<Replaced> = Vec::new();
    for op in capture_diff_slices(Algorithm::Myers, old_middle, new_middle) {
        if matches!(op, DiffOp::Equal { .. }) {
            continue;
        }
        let shifted = |range: Range<usize>| range.start + before..range.end + before;
        let (old, new) = (shifted(op.old_range()), shifted(op.new_range()));
        match changes.last_mut() {
            // A deletion and an insertion at the same place are one run.
            Some(last) if last.old.end == old.start && last.new.end == new.start => {
                (last.old.end, last.new.end) = (old.end, new.end);
            }
            _ => changes.push(Replaced { old, new }),
        }
    }
    changes
}

/// Runs that share a hunk.
fn group(changes: &[Replaced]) -> Vec<&[Replaced]> {
    changes.chunk_by(|one, next| next.old.start - one.old.end <= 2 * CONTEXT_LINES + INTER_HUNK_CONTEXT).collect()
}

fn hunk(changes: &[Replaced], old: &[&str], new: &[&str]) -> Hunk {
    let (first, last) = (changes.first().map_or(0, |c| c.old.start), changes.last().map_or(0, |c| c.old.end));
    let start = first.saturating_sub(CONTEXT_LINES);
    let end = (last + CONTEXT_LINES).min(old.len());
    let mut lines = Vec::new();
    let mut at = start;
    // On the new side, unchanged lines stand as far from the run before them as on the old one.
    let mut new_at = changes.first().map_or(0, |c| c.new.start) - (first - start);
    let new_start = new_at;
    for change in changes {
        push_context(&mut lines, old, at..change.old.start, new_at);
        lines.extend(change.old.clone().map(|i| line(LineKind::Removed, old[i], Some(i), None)));
        lines.extend(change.new.clone().map(|i| line(LineKind::Added, new[i], None, Some(i))));
        (at, new_at) = (change.old.end, change.new.end);
    }
    push_context(&mut lines, old, at..end, new_at);
    let new_end = new_at + (end - at);
    // The start of an empty side is the line before it, which is 0 here: with context lines a side is only empty when
    // the file is.
    let side = |from: usize, to: usize| (number(if to == from { from } else { from + 1 }), number(to - from));
    let ((old_start, old_count), (new_start, new_count)) = (side(start, end), side(new_start, new_end));
    Hunk { old_start, old_count, new_start, new_count, lines }
}

fn push_context(lines: &mut Vec<DiffLine>, old: &[&str], range: Range<usize>, new_at: usize) {
    let from = range.start;
    lines.extend(range.map(|i| line(LineKind::Context, old[i], Some(i), Some(new_at + (i - from)))));
}

fn line(kind: LineKind, text: &str, old: Option<usize>, new: Option<usize>) -> DiffLine {
    let content = text.strip_suffix('\n');
    DiffLine {
        kind,
        old: old.map(|index| number(index + 1)),
        new: new.map(|index| number(index + 1)),
        text: content.unwrap_or(text).to_owned(),
        no_newline: content.is_none(),
    }
}

/// A text of four thousand million lines does not fit into memory that we have; the number is then merely wrong.
fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// The hunks as a patch.
    fn patch(old: &str, new: &str) -> String {
        let mut out = String::new();
        for h in make_hunks(old, new) {
            out += &format!("@@ -{},{} +{},{} @@\n", h.old_start, h.old_count, h.new_start, h.new_count);
            for l in h.lines {
                let marker = match l.kind {
                    LineKind::Context => ' ',
                    LineKind::Added => '+',
                    LineKind::Removed => '-',
                };
                out += &format!("{marker}{}{}\n", l.text, if l.no_newline { "$" } else { "" });
            }
        }
        out
    }

    fn numbered(changed: &[u32], count: u32) -> String {
        (1..=count).map(|n| if changed.contains(&n) { format!("x{n}\n") } else { format!("{n}\n") }).collect()
    }

    #[rstest]
    #[case::same("a\nb\n", "a\nb\n", "")]
    #[case::both_empty("", "", "")]
    #[case::created("", "a\nb\n", "@@ -0,0 +1,2 @@\n+a\n+b\n")]
    #[case::emptied("a\n", "", "@@ -1,1 +0,0 @@\n-a\n")]
    #[case::newline_added("a", "a\n", "@@ -1,1 +1,1 @@\n-a$\n+a\n")]
    #[case::no_newline_context("a\nb", "x\nb", "@@ -1,2 +1,2 @@\n-a\n+x\n b$\n")]
    #[case::crlf("a\r\nb\n", "a\nb\n", "@@ -1,2 +1,2 @@\n-a\r\n+a\n b\n")]
    #[case::other_separators("a\u{2028}b\rc\n", "a\u{2028}b\rd\n", "@@ -1,1 +1,1 @@\n-a\u{2028}b\rc\n+a\u{2028}b\rd\n")]
    #[case::inserted("1\n2\n3\n4\n5\n", "1\n2\n3\n4\nn\n5\n", "@@ -2,4 +2,5 @@\n 2\n 3\n 4\n+n\n 5\n")]
    fn makes(#[case] old: &str, #[case] new: &str, #[case] expected: &str) {
        assert_eq!(patch(old, new), expected);
    }

    #[test]
    fn hunks_join_over_seven_unchanged_lines_and_not_over_eight() {
        let old = numbered(&[], 40);
        assert_eq!(make_hunks(&old, &numbered(&[10, 18], 40)).len(), 1);
        let apart = make_hunks(&old, &numbered(&[10, 19], 40));
        assert_eq!(apart.iter().map(|h| (h.old_start, h.old_count)).collect::<Vec<_>>(), [(7, 7), (16, 7)]);
    }

    #[test]
    fn huge_texts_end_in_one_replacement() {
        let old: String = (0..150_000).map(|n| format!("o{n}\n")).collect();
        let new: String = (0..150_000).map(|n| format!("n{}\n", n % 7)).collect();
        let hunks = make_hunks(&format!("same\n{old}end\n"), &format!("same\n{new}end\n"));
        assert_eq!(hunks.len(), 1);
        assert_eq!((hunks[0].old_start, hunks[0].old_count, hunks[0].new_count), (1, 150_002, 150_002));
    }

    #[test]
    fn difficult_texts_take_bounded_time() {
        // Few distinct lines in two unrelated orders: the worst case of the algorithm.
        let text = |seed: u64, count: u64| -> String {
            let mut state = seed;
            let mut next = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                state >> 33
            };
            (0..count).map(|_| format!("{}\n", next() % 50)).collect()
        };
        let (old, new) = (text(1, 10_000), text(2, 10_000));
        let hunks = make_hunks(&old, &new);
        assert!(!hunks.is_empty());
    }
}
