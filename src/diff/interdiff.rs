//! Compares two diffs of the same pull request with each other, so that a push, a rebase or a force-push is reviewed
//! only where it brought something new.
//!
//! A hunk is known by its path and its changed lines. Line numbers and the unchanged lines around are left out: a
//! rebase moves the former and may change the latter, and neither is what the author did.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest, Sha256};

use super::{FileDiff, Hunk, LineKind};

/// The identity of a hunk: its path and changed lines, wherever it stands. Survives rebases. Identical hunks of one
/// file are numbered in order, `…#2` and so on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct HunkKey(pub String);

/// The keys of a file's hunks, in order.
pub fn hunk_keys(file: &FileDiff) -> Vec<HunkKey> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    file.hunks
        .iter()
        .map(|hunk| {
            let digest = digest(&file.path, hunk);
            let count = seen.entry(digest.clone()).or_default();
            *count += 1;
            HunkKey(if *count == 1 { digest } else { format!("{digest}#{count}") })
        })
        .collect()
}

/// Indices of the hunks of `file` that are not among those already reviewed.
///
/// Where a file has the same hunk several times and more often than before, nobody can tell which one is new, so all
/// of them are: reading one twice costs a little, never reading one costs the review.
pub fn new_hunks(file: &FileDiff, reviewed: &BTreeSet<HunkKey>) -> Vec<usize> {
    let keys = hunk_keys(file);
    let plain = |key: &HunkKey| key.0.split('#').next().unwrap_or_default().to_owned();
    let new: BTreeSet<String> = keys.iter().filter(|key| !reviewed.contains(key)).map(plain).collect();
    keys.iter().enumerate().filter(|(_, key)| new.contains(&plain(key))).map(|(index, _)| index).collect()
}

/// 32 hexadecimal characters over the path and the changed lines. Runs of changed lines are kept apart by a mark, as
/// the same lines in one run are another change.
fn digest(path: &str, hunk: &Hunk) -> String {
    let mut hash = Sha256::new();
    hash.update(path);
    hash.update([0]);
    let mut in_run = false;
    for line in &hunk.lines {
        match line.kind {
            LineKind::Context => {
                if std::mem::take(&mut in_run) {
                    hash.update("~\n");
                }
                continue;
            }
            LineKind::Added => hash.update("+"),
            LineKind::Removed => hash.update("-"),
        }
        in_run = true;
        hash.update(&line.text);
        hash.update(if line.no_newline { "\0\n" } else { "\n" });
    }
    hex::encode(&hash.finalize()[..16])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diff::{FileStatus, make::make_hunks, parse::parse_patch};

    fn file(path: &str, hunks: Vec<Hunk>) -> FileDiff {
        FileDiff { path: path.into(), old_path: None, status: FileStatus::Modified, hunks }
    }

    fn patch(text: &str) -> FileDiff {
        file("x.rs", parse_patch(text).0)
    }

    #[test]
    fn a_rebase_changes_no_key() {
        let old: String = (0..30).map(|n| format!("line {n}\n")).collect();
        let new = old.replace("line 20\n", "changed\n");
        let before = file("x.rs", make_hunks(&old, &new));
        // The base moved: lines were put above, and a context line is another.
        let (old, new) = (format!("top\n{old}"), format!("top\n{new}"));
        let after = file("x.rs", make_hunks(&old.replace("line 21", "other"), &new.replace("line 21", "other")));
        assert_ne!(before.hunks, after.hunks);
        assert_eq!(hunk_keys(&before), hunk_keys(&after));
        assert!(new_hunks(&after, &hunk_keys(&before).into_iter().collect()).is_empty());
    }

    #[test]
    fn what_changed_has_another_key() {
        let one = patch("@@ -1,2 +1,2 @@\n-a\n+b\n c");
        let keys = |file: &FileDiff| hunk_keys(file).remove(0);
        let base = keys(&one);
        for other in [
            "@@ -1,2 +1,2 @@\n-a\n+B\n c",
            "@@ -1,2 +1 @@\n-a\n c",
            "@@ -1,2 +1,2 @@\n-a\n+b\n\\ No newline at end of file\n c",
        ] {
            assert_ne!(keys(&patch(other)), base, "{other}");
        }
        assert_ne!(keys(&FileDiff { path: "y.rs".into(), ..one }), base);
        let together = patch("@@ -1,2 +1,4 @@\n c\n+a\n+b\n d");
        assert_ne!(keys(&together), keys(&patch("@@ -1,3 +1,5 @@\n c\n+a\n d\n+b\n e")));
    }

    #[test]
    fn only_new_hunks_are_new() {
        let before = patch("@@ -1 +1 @@\n-a\n+b\n@@ -20 +20 @@\n-c\n+d");
        let after = patch("@@ -1 +1 @@\n-a\n+b\n@@ -10 +10 @@\n-n\n+m\n@@ -21 +21 @@\n-c\n+d");
        assert_eq!(new_hunks(&after, &hunk_keys(&before).into_iter().collect()), [1]);
        assert_eq!(new_hunks(&after, &BTreeSet::new()), [0, 1, 2]);
    }

    #[test]
    fn identical_hunks_are_told_apart_by_their_number() {
        let one = patch("@@ -1 +1 @@\n-a\n+b");
        let two = patch("@@ -1 +1 @@\n-a\n+b\n@@ -20 +20 @@\n-a\n+b");
        let keys = hunk_keys(&two);
        assert_ne!(keys[0], keys[1]);
        // One more of the kind: either may be the new one.
        assert_eq!(new_hunks(&two, &hunk_keys(&one).into_iter().collect()), [0, 1]);
        assert!(new_hunks(&one, &keys.into_iter().collect()).is_empty());
    }
}
