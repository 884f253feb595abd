//! What is known of every finding of a pull request: it is never said twice, and what still stands still counts. Pure.

use serde::{Deserialize, Serialize};

use super::anchor::{Anchor, Unplaced, anchor};
use super::change::ChangedFile;
use super::finding::Finding;
use super::report::Reported;
use crate::diff::FileDiff;

/// What became of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// Part of a plan that is not known to stand on GitHub yet.
    Planned,
    /// Stands there as a comment on its line.
    Posted,
    /// Stands in the summary of a review, because it has no line or GitHub refused it.
    Summary,
}

/// A finding of an earlier round.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Its identity over pushes.
    pub fingerprint: String,
    /// The finding.
    pub finding: Finding,
    /// Where it was placed then.
    pub place: Result<Anchor, Unplaced>,
    /// What became of it.
    pub fate: Fate,
    /// The head it was found at.
    pub head_sha: String,
}

/// All findings of a pull request's earlier rounds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ledger {
    /// In the order of their fingerprints.
    pub entries: Vec<Entry>,
}

impl Ledger {
    /// What was said of a file, also before it was renamed: a reviewer must not say it again.
    pub fn known_for(&self, file: &FileDiff) -> Vec<Finding> {
        let names = |path: &str| path == file.path || Some(path) == file.old_path.as_deref();
        self.entries
            .iter()
            .filter(|entry| names(&entry.finding.path))
            .map(|entry| Finding { path: file.path.clone(), ..entry.finding.clone() })
            .collect()
    }

    /// The entry of a fingerprint.
    pub fn entry(&self, fingerprint: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.fingerprint == fingerprint)
    }

    /// Findings of earlier rounds whose code still stands in the change: they are not said again, and they count for the
    /// check. One whose code is gone from the diff no longer does; one that never had a line counts while its file is
    /// part of the change.
    pub fn standing(&self, files: &[ChangedFile]) -> Vec<Reported> {
        let file_of = |path: &str| {
            files.iter().map(|f| &f.file).find(|f| f.diff.path == path || f.diff.old_path.as_deref() == Some(path))
        };
        self.entries
            .iter()
            .filter_map(|entry| {
                let file = file_of(&entry.finding.path)?;
                let finding = Finding { path: file.diff.path.clone(), ..entry.finding.clone() };
                let place = match entry.place {
                    // The line it had then says nothing about the present diff, only the code does.
                    Ok(_) => {
                        let found = anchor(vec![finding.clone()], &file.diff);
                        match (found.comments.into_iter().next(), found.unanchored.first()) {
                            (Some(placed), _) => Ok(placed.anchor),
                            (None, Some((_, Unplaced::Ambiguous))) => Err(Unplaced::Ambiguous),
                            (None, _) => return None,
                        }
                    }
                    Err(why) => Err(why),
                };
                Some(Reported { fingerprint: entry.fingerprint.clone(), finding, place, suggestion: None })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::diff::parse::parse_patch;
    use crate::diff::{FileStatus, Side};
    use crate::github::PullFile;
    use crate::review::finding::{Category, Severity};

    fn entry(path: &str, quote: &str, place: Result<Anchor, Unplaced>) -> Entry {
        let finding = Finding {
            path: path.into(),
            quote: quote.into(),
            line: Some(1),
            end_line: None,
            side: None,
            severity: Severity::Major,
            category: Category::Correctness,
            title: "Panics".into(),
            body: "It does.".into(),
            replacement: None,
            confidence: 0.9,
            source: "model".into(),
            evidence: vec![],
        };
        Entry { fingerprint: format!("{path} {quote}"), finding, place, fate: Fate::Posted, head_sha: "h1".into() }
    }

    fn changed(path: &str, old_path: Option<&str>, patch: &str) -> ChangedFile {
        let diff = FileDiff {
            path: path.into(),
            old_path: old_path.map(str::to_owned),
            status: FileStatus::Modified,
            hunks: parse_patch(patch).0,
        };
        let file = PullFile { diff: Arc::new(diff), blob_sha: None, no_patch: None, self_made: false };
        ChangedFile { file, new_hunks: vec![], known: vec![] }
    }

    fn at(line: u32) -> Result<Anchor, Unplaced> {
        Ok(Anchor { side: Side::Right, start_line: line, line })
    }

    #[test]
    fn what_was_said_of_a_file_follows_its_rename() {
        let ledger = Ledger { entries: vec![entry("old.rs", "a()", at(1)), entry("other.rs", "a()", at(1))] };
        let file = changed("new.rs", Some("old.rs"), "");
        let known = ledger.known_for(&file.file.diff);
        assert_eq!(known.len(), 1);
        assert_eq!(known[0].path, "new.rs");
    }

    #[test]
    fn a_finding_stands_as_long_as_its_code_does() {
        let ledger = Ledger {
            entries: vec![
                entry("a.rs", "x.unwrap()", at(1)),
                entry("a.rs", "gone()", at(2)),
                entry("a.rs", "", Err(Unplaced::NoQuote)),
                entry("b.rs", "x.unwrap()", at(1)),
            ],
        };
        let files = [changed("a.rs", None, "@@ -10,1 +10,2 @@\n ctx\n+let y = x.unwrap();")];
        let standing = ledger.standing(&files);
        let quotes: Vec<&str> = standing.iter().map(|r| r.finding.quote.as_str()).collect();
        assert_eq!(quotes, ["x.unwrap()", ""]);
        assert_eq!(standing[0].place, at(11));
    }
}
