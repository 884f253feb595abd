//! Unified diffs of many files, as git and `diff -u` print them.

use super::hunk::{Hunks, Lines, Read, header};
use super::name::{header_names, name, prefixed};
use super::{Complaint, MAX_LINES, Notice, UnifiedFile};
use crate::diff::{FileDiff, FileStatus};

pub(super) fn parse(diff: &[u8]) -> (Vec<UnifiedFile>, Vec<Complaint>) {
    let mut reader = Reader { files: Vec::new(), hunks: Hunks::new(MAX_LINES), draft: None, state: State::Outside };
    let mut lines = Lines::of_file(diff);
    while let Some(line) = lines.next() {
        reader.line(line, &mut lines);
    }
    reader.flush();
    if reader.files.is_empty() && !diff.iter().all(u8::is_ascii_whitespace) {
        reader.hunks.complain(1, "no file header was found: this is not a unified diff");
    }
    (reader.files, reader.hunks.finish().1)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before, between and after files.
    Outside,
    /// Between a file's first header line and its first hunk.
    Header,
    /// After a hunk.
    Body,
    /// After a hunk that was damaged: its other lines are passed over.
    Damaged,
}

/// A file name as bytes: git takes any.
type Name = Vec<u8>;

/// What the header lines of a file say.
#[derive(Default)]
struct Draft {
    line: usize,
    header: Option<(Name, Name)>,
    minus: Option<Name>,
    plus: Option<Name>,
    from: Option<Name>,
    to: Option<Name>,
    status: Option<FileStatus>,
    notice: Option<Notice>,
}

struct Reader {
    files: Vec<UnifiedFile>,
    hunks: Hunks,
    draft: Option<Draft>,
    state: State,
}

impl Reader {
    fn line(&mut self, line: &[u8], lines: &mut Lines<'_>) {
        let at = lines.number();
        let bare = line.strip_suffix(b"\r").unwrap_or(line);
        if let Some(names) = bare.strip_prefix(b"diff --git ") {
            self.begin(Draft { line: at, header: header_names(names), ..Draft::default() });
        } else if bare.starts_with(b"diff --cc ") || bare.starts_with(b"diff --combined ") {
            self.flush();
            let file = String::from_utf8_lossy(bare).into_owned();
            self.hunks.complain(at, format!("a combined diff (of a merge) is not read: `{file}`"));
        } else if let Some(draft) = submodule_line(bare, at) {
            self.begin(draft);
            self.flush();
        } else if let Some((minus, plus)) = file_header(line, lines) {
            lines.next();
            let fresh = self.state == State::Header && self.draft.as_ref().is_some_and(|draft| draft.minus.is_none());
            if !fresh {
                self.begin(Draft { line: at, ..Draft::default() });
            }
            if let Some(draft) = &mut self.draft {
                (draft.minus, draft.plus) = (Some(minus), Some(plus));
            }
        } else {
            match (header(line), self.state) {
                (Read::Header(head), State::Header | State::Body | State::Damaged) => {
                    let whole = self.hunks.read(head, lines);
                    self.state = if whole { State::Body } else { State::Damaged };
                }
                (Read::Header(_), State::Outside) => {
                    self.hunks.complain(at, "a hunk stands without a file header");
                }
                (Read::Bad(why), State::Header | State::Body) => {
                    self.hunks.complain(at, why);
                    self.state = State::Damaged;
                }
                (_, State::Header) => self.header_line(bare),
                (_, State::Body) => self.after_hunk(line, at),
                (_, State::Outside | State::Damaged) => {}
            }
        }
    }

    fn begin(&mut self, draft: Draft) {
        self.flush();
        self.draft = Some(draft);
        self.state = State::Header;
    }

    fn after_hunk(&mut self, line: &[u8], at: usize) {
        match line {
            [b'\\', ..] => self.hunks.mark_no_newline(at),
            // The signature of `git format-patch`.
            b"-- " | b"-- \r" => self.state = State::Outside,
            [b' ' | b'+' | b'-', ..] => {
                self.hunks.stray(line, at);
                self.state = State::Damaged;
            }
            // A blank line and what follows: the next message of `git log -p`.
            _ => self.state = State::Outside,
        }
    }

    fn header_line(&mut self, line: &[u8]) {
        let Some(draft) = &mut self.draft else { return };
        let mut status = |status| draft.status = Some(status);
        if line.starts_with(b"new file mode") {
            status(FileStatus::Added);
        } else if line.starts_with(b"deleted file mode") {
            status(FileStatus::Removed);
        } else if let Some(from) = line.strip_prefix(b"rename from ") {
            status(FileStatus::Renamed);
            draft.from = Some(name(from));
        } else if let Some(from) = line.strip_prefix(b"copy from ") {
            status(FileStatus::Copied);
            draft.from = Some(name(from));
        } else if let Some(to) = line.strip_prefix(b"rename to ").or_else(|| line.strip_prefix(b"copy to ")) {
            draft.to = Some(name(to));
        } else if line.starts_with(b"Binary files ") || line == b"GIT binary patch" {
            draft.notice = Some(Notice::Binary);
        }
        let mode = line.starts_with(b"index ") || line.starts_with(b"new file") || line.starts_with(b"deleted file");
        if mode && line.ends_with(b" 160000") {
            draft.notice = Some(Notice::Submodule);
        }
    }

    fn flush(&mut self) {
        self.state = State::Outside;
        let (hunks, readable) = self.hunks.take();
        let Some(draft) = self.draft.take() else { return };
        let Some((old, new)) = names(&draft) else {
            self.hunks.complain(draft.line, "a file header does not name its file");
            return;
        };
        let status = draft.status.unwrap_or(match (&old, &new) {
            (None, _) => FileStatus::Added,
            (_, None) => FileStatus::Removed,
            _ => FileStatus::Modified,
        });
        let moved = matches!(status, FileStatus::Renamed | FileStatus::Copied);
        let old_path = old.clone().filter(|_| moved);
        let Some(path) = new.or(old) else { return };
        let names_readable =
            str::from_utf8(&path).is_ok() && old_path.as_deref().is_none_or(|o| str::from_utf8(o).is_ok());
        let path = String::from_utf8_lossy(&path).into_owned();
        let old_path = old_path.map(|old| String::from_utf8_lossy(&old).into_owned());
        let mut file = UnifiedFile { diff: FileDiff { path, old_path, status, hunks }, notice: draft.notice };
        if !readable || !names_readable {
            let what = if readable { "the name" } else { "the text" };
            self.hunks.complain(
                draft.line,
                format!("{what} of `{}` is not UTF-8, so its lines are left out", file.diff.path),
            );
            file.diff.hunks.clear();
            file.notice = Some(Notice::NotUtf8);
        }
        self.push(file);
    }

    /// Git shows a file that became a link (or the other way round) as removed and added; it is one change.
    fn push(&mut self, file: UnifiedFile) {
        if let Some(last) = self.files.last_mut()
            && (last.diff.status, file.diff.status) == (FileStatus::Removed, FileStatus::Added)
            && last.diff.path == file.diff.path
        {
            last.diff.status = FileStatus::Changed;
            last.diff.hunks.extend(file.diff.hunks);
            last.notice = last.notice.or(file.notice);
        } else {
            self.files.push(file);
        }
    }
}

/// `--- x` and `+++ y` with a hunk after them: only then is it a file header, and not a removed line or a message.
fn file_header(line: &[u8], lines: &Lines<'_>) -> Option<(Name, Name)> {
    let bare = |line| -> &[u8] { <[u8]>::strip_suffix(line, b"\r").unwrap_or(line) };
    let minus = bare(line).strip_prefix(b"--- ")?;
    let mut ahead = *lines;
    let plus = bare(ahead.next()?).strip_prefix(b"+++ ")?;
    ahead.next()?.starts_with(b"@@ ").then(|| (name(minus), name(plus)))
}

/// `Submodule path 1234567..89abcde:` of `git diff --submodule`.
fn submodule_line(line: &[u8], at: usize) -> Option<Draft> {
    let rest = str::from_utf8(line.strip_prefix(b"Submodule ")?).ok()?;
    let (path, _) = rest.rsplit_once(' ').filter(|(_, range)| range.contains("..") && range.ends_with(':'))?;
    let path = Some(path.as_bytes().to_vec());
    Some(Draft { line: at, from: path.clone(), to: path, notice: Some(Notice::Submodule), ..Draft::default() })
}

/// The old and the new name, `None` for the side that does not exist; outer `None` when the header names nothing.
fn names(draft: &Draft) -> Option<(Option<Name>, Option<Name>)> {
    // Names of renames and copies carry no prefix.
    if let (Some(from), Some(to)) = (&draft.from, &draft.to) {
        return Some((Some(from.clone()), Some(to.clone())));
    }
    let (old, new) = match (&draft.minus, &draft.plus, &draft.header) {
        (Some(minus), Some(plus), _) => (minus, plus),
        (_, _, Some((old, new))) => (old, new),
        _ => return None,
    };
    // `diff --git x x` says that there are no prefixes; only that line can tell `--no-prefix` from a directory `a`.
    let bare = draft.header.as_ref().is_some_and(|(old, new)| old == new);
    let strip = !bare && prefixed(old, new);
    let side = |name: &Name| {
        (name != b"/dev/null").then(|| if strip { name.get(2..).unwrap_or_default().to_vec() } else { name.clone() })
    };
    match (side(old), side(new)) {
        (None, None) => None,
        // Without `---` and `+++` (empty or binary file) the header names both sides of a file that has only one.
        names => Some(names),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::diff::parse::{parse_unified, parse_unified_files};

    #[rstest]
    #[case::plain(
        "diff --git a/x.rs b/x.rs\nindex 1..2 100644\n--- a/x.rs\n+++ b/x.rs\n@@ -1 +1 @@\n-a\n+b\n",
        "Modified x.rs 1"
    )]
    #[case::no_final_newline("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b", "Modified x 1")]
    #[case::crlf_headers("diff --git a/x b/x\r\n--- a/x\r\n+++ b/x\r\n@@ -1 +1 @@\r\n-a\r\n+b\r\n", "Modified x 1")]
    #[case::added("diff --git a/x b/x\nnew file mode 100644\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+b\n", "Added x 1")]
    #[case::removed(
        "diff --git a/x b/x\ndeleted file mode 100644\n--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-b\n",
        "Removed x 1"
    )]
    #[case::empty("diff --git a/e b/e\nnew file mode 100644\nindex 0000000..e69de29\n", "Added e 0")]
    #[case::mode("diff --git a/s p b/s p\nold mode 100644\nnew mode 100755\n", "Modified s p 0")]
    #[case::rename("diff --git a/o b/n\nsimilarity index 100%\nrename from o\nrename to n\n", "Renamed n<o 0")]
    #[case::copy(
        "diff --git a/o b/n\nsimilarity index 90%\ncopy from o\ncopy to n\n--- a/o\n+++ b/n\n@@ -1 +1 @@\n-a\n+b\n",
        "Copied n<o 1"
    )]
    #[case::rename_quoted(
        "diff --git \"a/\\303\\274\" b/n\nrename from \"\\303\\274\"\nrename to n\n",
        "Renamed n<ü 0"
    )]
    #[case::quoted(
        "diff --git \"a/\\303\\274\\\".txt\" \"b/\\303\\274\\\".txt\"\n--- \"a/\\303\\274\\\".txt\"\n+++ \"b/\\303\\274\\\".txt\"\n@@ -1 +1 @@\n-a\n+b\n",
        "Modified ü\".txt 1"
    )]
    #[case::spaces("diff --git a/s p b/s p\n--- a/s p\t\n+++ b/s p\t\n@@ -1 +1 @@\n-a\n+b\n", "Modified s p 1")]
    #[case::binary(
        "diff --git a/i.png b/i.png\nindex 1..2 100644\nBinary files a/i.png and b/i.png differ\n",
        "Modified i.png 0 Binary"
    )]
    #[case::binary_patch(
        "diff --git a/i b/i\nindex 1..2 100644\nGIT binary patch\nliteral 3\nKc$@(k0\n\nliteral 0\nHc$@<O00001\n\n",
        "Modified i 0 Binary"
    )]
    #[case::submodule(
        "diff --git a/m b/m\nindex 1..2 160000\n--- a/m\n+++ b/m\n@@ -1 +1 @@\n-Subproject commit 1\n+Subproject commit 2\n",
        "Modified m 1 Submodule"
    )]
    #[case::submodule_log("Submodule lib/m 1234567..89abcde:\n  > Mend it\n", "Modified lib/m 0 Submodule")]
    #[case::no_prefix("diff --git a/x a/x\n--- a/x\n+++ a/x\n@@ -1 +1 @@\n-a\n+b\n", "Modified a/x 1")]
    #[case::mnemonic("diff --git c/x w/x\n--- c/x\n+++ w/x\n@@ -1 +1 @@\n-a\n+b\n", "Modified x 1")]
    #[case::diff_u(
        "--- x.c\t2026-01-01 10:00:00\n+++ x.c\t2026-01-01 10:00:01\n@@ -1 +1 @@\n-a\n+b\n",
        "Modified x.c 1"
    )]
    #[case::format_patch(
        "From 1\nSubject: x\n\n---\n x | 2 +-\n\ndiff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n-- \n2.39.5\n",
        "Modified x 1"
    )]
    #[case::log(
        "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n\ncommit 2\n\n    - say more\n\ndiff --git a/y b/y\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n",
        "Modified x 1, Modified y 1"
    )]
    #[case::became_link(
        "diff --git a/l b/l\ndeleted file mode 100644\n--- a/l\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\ndiff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+t\n\\ No newline at end of file\n",
        "Changed l 2"
    )]
    #[case::two_plain(
        "--- a/x\n+++ b/x\n@@ -1,2 +1 @@\n--- gone\n k\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n",
        "Modified x 1, Modified y 1"
    )]
    fn reads(#[case] diff: &str, #[case] expected: &str) {
        let (files, complaints) = parse_unified_files(diff.as_bytes());
        assert_eq!(complaints, []);
        assert_eq!(shown(&files), expected);
    }

    #[rstest]
    #[case::prose("hello\n", "", "not a unified diff")]
    #[case::merge(
        "diff --cc x\nindex 1,2..3\n--- a/x\n+++ b/x\n@@@ -1,1 -1,1 +1,1 @@@\n- a\n -b\n++c\ndiff --git a/y b/y\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n",
        "Modified y 1",
        "combined"
    )]
    #[case::no_file("@@ -1 +1 @@\n-a\n+b\n", "", "without a file header")]
    #[case::damaged(
        "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n a\n@@ -9 +9 @@\n-a\n+b\n",
        "Modified x 1",
        "shorter"
    )]
    #[case::cut("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-a\n+b\n", "Modified x 0", "shorter")]
    #[case::nameless("diff --git a/o b/n\n", "", "name")]
    fn complains(#[case] diff: &str, #[case] expected: &str, #[case] word: &str) {
        let (files, complaints) = parse_unified_files(diff.as_bytes());
        assert_eq!(shown(&files), expected);
        assert!(complaints.iter().any(|complaint| complaint.message.contains(word)), "{complaints:?}");
    }

    #[test]
    fn text_that_is_not_utf8_is_left_out_and_said() {
        let diff = b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+\xe9\ndiff --git a/y b/y\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n";
        let (files, complaints) = parse_unified_files(diff);
        assert_eq!(shown(&files), "Modified x 0 NotUtf8, Modified y 1");
        assert!(complaints[0].message.contains("`x` is not UTF-8"), "{complaints:?}");
        let (files, complaints) = parse_unified(b"--- a/\xff\n+++ b/\xff\n@@ -1 +1 @@\n-a\n+b\n");
        assert!(files[0].hunks.is_empty() && complaints[0].message.contains("name"), "{complaints:?}");
    }

    fn shown(files: &[UnifiedFile]) -> String {
        let one = |file: &UnifiedFile| {
            let FileDiff { path, old_path, status, hunks } = &file.diff;
            let old = old_path.as_ref().map(|old| format!("<{old}")).unwrap_or_default();
            let notice = file.notice.map(|notice| format!(" {notice:?}")).unwrap_or_default();
            format!("{status:?} {path}{old} {}{notice}", hunks.len())
        };
        files.iter().map(one).collect::<Vec<_>>().join(", ")
    }
}
