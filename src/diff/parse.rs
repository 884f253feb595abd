//! Reads patches. Total: what cannot be read becomes a complaint, never an error and never a guess.
//!
//! Lines are counted by the `@@` header, so `--- x` inside a hunk is a removed line `-- x`. Only `\n` separates lines:
//! `\r`, form feed, U+2028 and U+0085 are content. `\ No newline at end of file` marks the line before it and moves no
//! counter. A hunk whose lines contradict its header is left out whole, because nobody can tell which of its numbers
//! are right; the hunks around it are kept.

mod hunk;
mod name;
mod unified;

use super::{FileDiff, Hunk};
use hunk::{Hunks, Lines, Read, header};

/// Most lines that one call keeps (60 bytes and its text each), so that hostile input cannot take all memory. A
/// hundred times the 20,000 lines that GitHub shows of a whole diff.
pub const MAX_LINES: usize = 2_000_000;

/// Most complaints that one call makes; a text that is no patch at all needs no more.
pub const MAX_COMPLAINTS: usize = 100;

/// Something in a patch that could not be read, and was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint {
    /// 1-based line of the patch text.
    pub line: usize,
    /// What is wrong, in a sentence.
    pub message: String,
}

/// Why a file of a unified diff has no lines that are worth reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Notice {
    /// Git calls it binary.
    Binary,
    /// A submodule: its "lines" are commit ids.
    Submodule,
    /// Its lines or its name are not UTF-8; its hunks are left out, since mangled text must not be quoted.
    NotUtf8,
}

/// A file of a unified diff.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnifiedFile {
    /// What changed.
    pub diff: FileDiff,
    /// What is special about it.
    pub notice: Option<Notice>,
}

/// The hunks of a GitHub `patch` field: no file header, no final newline.
pub fn parse_patch(patch: &str) -> (Vec<Hunk>, Vec<Complaint>) {
    let mut lines = Lines::of_patch(patch.as_bytes());
    let mut hunks = Hunks::new(MAX_LINES);
    // One complaint is enough for a run of lines that belong to nothing.
    let mut skipping = false;
    while let Some(line) = lines.next() {
        match header(line) {
            Read::Header(head) => skipping = !hunks.read(head, &mut lines),
            Read::Bad(why) => {
                hunks.complain(lines.number(), why);
                skipping = true;
            }
            Read::Other if skipping || line.is_empty() => {}
            Read::Other if line.starts_with(b"\\") => hunks.mark_no_newline(lines.number()),
            Read::Other => {
                hunks.stray(line, lines.number());
                skipping = true;
            }
        }
    }
    hunks.finish()
}

/// The files of a unified diff as `git diff` prints it (file headers, renames, quoted names, binary notices).
pub fn parse_unified(diff: &[u8]) -> (Vec<FileDiff>, Vec<Complaint>) {
    let (files, complaints) = parse_unified_files(diff);
    (files.into_iter().map(|file| file.diff).collect(), complaints)
}

/// As [`parse_unified`], with what git says of each file besides its lines. Takes `git diff`, `git show`, `git log -p`,
/// `git format-patch` and `diff -u`; text around the diffs (messages, signatures) is passed over.
pub fn parse_unified_files(diff: &[u8]) -> (Vec<UnifiedFile>, Vec<Complaint>) {
    unified::parse(diff)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::diff::{DiffLine, FileStatus, LineKind, Side};

    fn hunks(patch: &str) -> Vec<Hunk> {
        let (hunks, complaints) = parse_patch(patch);
        assert_eq!(complaints, [], "{patch}");
        hunks
    }

    /// `kind old new text` per line, for short expectations.
    fn shown(hunks: &[Hunk]) -> Vec<String> {
        let number = |n: Option<u32>| n.map_or("-".into(), |n| n.to_string());
        hunks
            .iter()
            .flat_map(|h| &h.lines)
            .map(|l: &DiffLine| {
                let kind = match l.kind {
                    LineKind::Context => ' ',
                    LineKind::Added => '+',
                    LineKind::Removed => '-',
                };
                let end = if l.no_newline { " $" } else { "" };
                format!("{kind}{} {} {:?}{end}", number(l.old), number(l.new), l.text)
            })
            .collect()
    }

    #[test]
    fn counts_both_sides() {
        let got = hunks("@@ -1,4 +1,5 @@ fn x\n a\n-b\n+B\n+B2\n c\n d\n@@ -20 +21,2 @@\n t\n+u");
        assert_eq!(
            shown(&got),
            [
                " 1 1 \"a\"",
                "-2 - \"b\"",
                "+- 2 \"B\"",
                "+- 3 \"B2\"",
                " 3 4 \"c\"",
                " 4 5 \"d\"",
                " 20 21 \"t\"",
                "+- 22 \"u\"",
            ]
        );
        assert_eq!((got[1].old_start, got[1].old_count, got[1].new_start, got[1].new_count), (20, 1, 21, 2));
    }

    #[test]
    fn a_no_newline_marker_moves_no_counter() {
        let got = hunks("@@ -1,2 +1,3 @@\n t\n-u\n\\ No newline at end of file\n+v\n+w\n\\ No newline at end of file");
        assert_eq!(shown(&got), [" 1 1 \"t\"", "-2 - \"u\" $", "+- 2 \"v\"", "+- 3 \"w\" $"]);
    }

    #[test]
    fn lines_that_look_like_headers_are_counted_content() {
        let got = hunks("@@ -1,4 +1,3 @@\n--- drop old\n-++ y\n+++ x\n+@@ -1 +1 @@\n-diff --git a/x b/x\n keep");
        assert_eq!(
            shown(&got),
            [
                "-1 - \"-- drop old\"",
                "-2 - \"++ y\"",
                "+- 1 \"++ x\"",
                "+- 2 \"@@ -1 +1 @@\"",
                "-3 - \"diff --git a/x b/x\"",
                " 4 3 \"keep\"",
            ]
        );
    }

    #[test]
    fn only_line_feed_separates() {
        let got = hunks("@@ -1,2 +1,2 @@\n-a\u{2028}b\u{c}c\u{85}d\re\n+z\r\n end\r");
        assert_eq!(shown(&got), ["-1 - \"a\\u{2028}b\\u{c}c\\u{85}d\\re\"", "+- 1 \"z\\r\"", " 2 2 \"end\\r\""]);
    }

    #[test]
    fn a_stripped_empty_context_line_counts_also_as_the_last_one() {
        assert_eq!(
            shown(&hunks("@@ -1,3 +1,3 @@\n-a\n+b\n\n")),
            ["-1 - \"a\"", "+- 1 \"b\"", " 2 2 \"\"", " 3 3 \"\""]
        );
    }

    #[test]
    fn a_pair_with_one_number_is_two_lines() {
        let file = FileDiff {
            path: "x".into(),
            old_path: None,
            status: FileStatus::Modified,
            hunks: hunks("@@ -3 +3 @@\n-a\n+b"),
        };
        let got: Vec<_> = file.commentable().map(|c| (c.side, c.line, c.text)).collect();
        assert_eq!(got, [(Side::Left, 3, "a"), (Side::Right, 3, "b")]);
    }

    #[rstest]
    #[case::empty("", 0, &[])]
    #[case::prose("I am sorry, there is no patch.\nReally.", 0, &["outside"])]
    #[case::short("@@ -1,3 +1,3 @@\n a\n-b\n@@ -9 +9 @@\n-x\n+y", 1, &["shorter"])]
    #[case::cut("@@ -1 +1 @@\n-a\n+b\n@@ -9,3 +9,3 @@\n x", 1, &["shorter"])]
    #[case::long("@@ -1 +1 @@\n-a\n+b\n+c\n c\n@@ -9 +9 @@\n-x\n+y", 1, &["longer"])]
    #[case::one_side_long("@@ -1,1 +1,2 @@\n-a\n-b\n+c\n+d", 0, &["longer"])]
    #[case::bad_marker("@@ -1,2 +1,2 @@\n a\nb\n@@ -9 +9 @@\n-x\n+y", 1, &["start with"])]
    #[case::not_ascii("@@ -1,2 +1,2 @@\n a\n\u{e9}\n b", 0, &["start with"])]
    #[case::overflow("@@ -99999999999 +1 @@\n-a\n+b", 0, &["too large"])]
    #[case::sum_overflow("@@ -4294967295,2 +1 @@\n-a\n-a\n+b", 0, &["too large"])]
    #[case::zero_start("@@ -0,1 +1 @@\n-a\n+b", 0, &["line 0"])]
    #[case::no_numbers("@@ wrong @@\n-a\n+b", 0, &["header"])]
    #[case::combined("@@@ -1,2 -1,2 +1,2 @@@\n--a\n++b", 0, &["combined"])]
    #[case::overlap("@@ -1,3 +1,3 @@\n a\n b\n c\n@@ -3 +3 @@\n-c\n+d", 1, &["overlaps"])]
    #[case::backwards("@@ -9 +9 @@\n-x\n+y\n@@ -1 +1 @@\n-a\n+b", 1, &["overlaps"])]
    #[case::lone_marker("\\ No newline at end of file", 0, &["marks no line"])]
    #[case::marker_first("@@ -1 +1 @@\n\\ No newline at end of file\n-a\n+b", 1, &["marks no line"])]
    #[case::huge_count("@@ -1,4000000000 +1,4000000000 @@\n a", 0, &["shorter"])]
    fn what_is_whole_is_kept(#[case] patch: &str, #[case] kept: usize, #[case] complaints: &[&str]) {
        let (hunks, got) = parse_patch(patch);
        assert_eq!(hunks.len(), kept, "{got:?}");
        assert_eq!(got.len(), complaints.len(), "{got:?}");
        for (complaint, word) in got.iter().zip(complaints) {
            assert!(complaint.message.contains(word), "{complaint:?} lacks {word}");
        }
    }

    #[test]
    fn hunks_without_context_may_touch() {
        let got = hunks("@@ -0,0 +1 @@\n+a\n@@ -5,0 +7,2 @@\n+b\n+c\n@@ -6 +9 @@\n-x\n+y\n@@ -8 +10,0 @@\n-z");
        assert_eq!(got.len(), 4);
    }

    #[test]
    fn complaints_are_bounded() {
        let (_, complaints) = parse_patch(&"@@ x\n@@ -1 +1 @@\n".repeat(1000));
        assert_eq!(complaints.len(), MAX_COMPLAINTS);
    }
}
