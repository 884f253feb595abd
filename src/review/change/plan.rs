//! Which files of a change are reviewed, in which order, and what is said of the others. Pure.

use crate::diff::FileStatus;
use crate::github::NoPatch;
use crate::review::coverage::FileCoverage;
use crate::review::policy::Policy;
use crate::review::policy::exclude::Exclusions;

use super::ChangedFile;
use super::risk::risk;

/// Files whose summaries are kept, and characters of each.
const SUMMARY_FILES: usize = 20;
const SUMMARY_CHARS: usize = 200;

/// What is to be done with the files of a change.
pub(super) struct Plan {
    /// Indices of the files to review, the riskiest first.
    pub to_review: Vec<usize>,
    /// What is already known of each file's coverage; `None` for those to review.
    pub coverage: Vec<Option<FileCoverage>>,
}

pub(super) fn plan(files: &[ChangedFile], policy: &Policy) -> Plan {
    let exclusions = Exclusions::new(policy);
    let coverage: Vec<Option<FileCoverage>> = files.iter().map(|file| decided(file, &exclusions)).collect();
    let mut to_review: Vec<usize> =
        coverage.iter().enumerate().filter(|(_, c)| c.is_none()).map(|(at, _)| at).collect();
    to_review.sort_by_cached_key(|at| files.get(*at).map_or(0, |file| -risk(&file.file.diff)));
    Plan { to_review, coverage }
}

/// One line of the summary of a change.
pub(super) fn summary_line(path: &str, summary: &str) -> String {
    let words = summary.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut line: String = words.chars().take(SUMMARY_CHARS).collect();
    if line.len() < words.len() {
        line.push('…');
    }
    format!("{path}: {line}")
}

/// The summary of a change.
pub(super) fn join_summaries(lines: &[String]) -> String {
    let mut text = lines.iter().take(SUMMARY_FILES).map(String::as_str).collect::<Vec<_>>().join("\n");
    if lines.len() > SUMMARY_FILES {
        text.push_str(&format!("\nand {} more files", lines.len() - SUMMARY_FILES));
    }
    text
}

fn decided(file: &ChangedFile, exclusions: &Exclusions) -> Option<FileCoverage> {
    let nothing = |reason: &str| Some(FileCoverage::NothingToReview { reason: reason.into() });
    let diff = &file.file.diff;
    if let Some(reason) = exclusions.reason(&diff.path) {
        return Some(FileCoverage::Excluded { reason: reason.to_owned() });
    }
    match file.file.no_patch {
        Some(NoPatch::Binary) => return nothing("binary"),
        Some(NoPatch::NoTextChange) => {
            return nothing(match diff.status {
                FileStatus::Added => "empty",
                FileStatus::Removed => "deleted",
                FileStatus::Renamed | FileStatus::Copied => "moved or copied without edits",
                FileStatus::Modified | FileStatus::Changed | FileStatus::Unchanged => "no change in its text",
            });
        }
        Some(NoPatch::Submodule) => return nothing("submodule"),
        Some(NoPatch::TooLarge) => {
            return Some(FileCoverage::NotReviewed { reason: "the file is too large to be compared".into() });
        }
        Some(NoPatch::NotUtf8) => {
            let reason = "its text is not UTF-8: convert it, or leave it out by `paths.ignore`";
            return Some(FileCoverage::NotReviewed { reason: reason.into() });
        }
        None => {}
    }
    if diff.status == FileStatus::Removed {
        return nothing("deleted");
    }
    if diff.hunks.is_empty() {
        return nothing("no change in its text");
    }
    file.new_hunks.is_empty().then_some(FileCoverage::Unchanged)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::diff::{FileDiff, Hunk};
    use crate::github::PullFile;

    fn file(path: &str, no_patch: Option<NoPatch>, hunks: usize) -> ChangedFile {
        let hunk = Hunk { old_start: 1, old_count: 0, new_start: 1, new_count: 0, lines: vec![] };
        let diff =
            FileDiff { path: path.into(), old_path: None, status: FileStatus::Modified, hunks: vec![hunk; hunks] };
        ChangedFile {
            file: PullFile { diff: Arc::new(diff), blob_sha: None, no_patch, self_made: false },
            new_hunks: (0..hunks).collect(),
            known: vec![],
        }
    }

    #[test]
    fn every_file_is_either_reviewed_or_accounted_for() {
        let mut old = file("src/old.rs", None, 1);
        old.new_hunks.clear();
        let mut deleted = file("src/gone.rs", None, 1);
        Arc::make_mut(&mut deleted.file.diff).status = FileStatus::Removed;
        let files = [
            file("src/a.rs", None, 1),
            file("Cargo.lock", None, 1),
            file("logo.png", Some(NoPatch::Binary), 0),
            file("moved.rs", Some(NoPatch::NoTextChange), 0),
            file("lib", Some(NoPatch::Submodule), 0),
            file("huge.rs", Some(NoPatch::TooLarge), 0),
            file("latin.rs", Some(NoPatch::NotUtf8), 0),
            file("empty.rs", None, 0),
            old,
            deleted,
        ];
        let plan = plan(&files, &Policy::default());
        assert_eq!(plan.to_review, [0]);
        let words: Vec<&str> = plan
            .coverage
            .iter()
            .map(|c| match c {
                None => "review",
                Some(FileCoverage::Unchanged) => "unchanged",
                Some(FileCoverage::Excluded { .. }) => "excluded",
                Some(FileCoverage::NothingToReview { .. }) => "nothing",
                Some(FileCoverage::NotReviewed { .. }) => "gap",
                Some(FileCoverage::Reviewed) => "reviewed",
            })
            .collect();
        assert_eq!(
            words,
            ["review", "excluded", "nothing", "nothing", "nothing", "gap", "gap", "nothing", "unchanged", "nothing"]
        );
    }

    #[test]
    fn the_riskiest_file_comes_first() {
        let files = [
            file("docs/auth.md", None, 1),
            file("src/a.rs", None, 1),
            file("tests/a.rs", None, 1),
            file("src/login.rs", None, 1),
        ];
        let order = plan(&files, &Policy::default()).to_review;
        assert_eq!(order.first(), Some(&3));
        assert_eq!(order.get(1), Some(&1));
    }

    #[test]
    fn summaries_are_bounded() {
        let line = summary_line("a.rs", &"word ".repeat(100));
        assert!(line.chars().count() < 220 && line.ends_with('…'));
        let text = join_summaries(&vec![line; 30]);
        assert!(text.ends_with("and 10 more files"));
        assert_eq!(join_summaries(&[]), "");
    }
}
