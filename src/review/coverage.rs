//! Which files were reviewed, which were not, and why. Silence about a file is a fault.

use serde::{Deserialize, Serialize};

/// What became of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum FileCoverage {
    /// Reviewed in this round.
    Reviewed,
    /// Reviewed before, and unchanged since.
    Unchanged,
    /// Left out by configuration (ignored path, generated, vendored, a draft rule).
    Excluded {
        /// Which rule.
        reason: String,
    },
    /// Nothing in it to review (binary, pure rename, mode change, submodule, deleted).
    NothingToReview {
        /// What it is.
        reason: String,
    },
    /// Should have been reviewed and was not: the check is then never green.
    NotReviewed {
        /// Why.
        reason: String,
    },
}

/// What became of every file of a change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Coverage {
    /// By path, in the order of the change.
    pub files: Vec<CoveredFile>,
    /// Files GitHub did not even list (beyond its 3,000).
    pub unlisted: u64,
}

/// One file's line in the coverage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CoveredFile {
    /// The file.
    pub path: String,
    /// What became of it.
    #[serde(flatten)]
    pub coverage: FileCoverage,
}

impl Coverage {
    /// Whether everything that should have been reviewed was.
    pub fn complete(&self) -> bool {
        self.unlisted == 0 && !self.files.iter().any(|f| matches!(f.coverage, FileCoverage::NotReviewed { .. }))
    }

    /// Files of the change that were reviewed in this round.
    pub fn reviewed(&self) -> usize {
        self.files.iter().filter(|f| f.coverage == FileCoverage::Reviewed).count()
    }

    /// Files that should have been reviewed and were not, each with its reason.
    pub fn gaps(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().filter_map(|f| match &f.coverage {
            FileCoverage::NotReviewed { reason } => Some((f.path.as_str(), reason.as_str())),
            _ => None,
        })
    }

    /// How many files there are of each sort, in words, such as `3 files reviewed, 1 unchanged, 2 left out`.
    pub fn in_words(&self) -> String {
        let count = |is: fn(&FileCoverage) -> bool| self.files.iter().filter(|f| is(&f.coverage)).count();
        let reviewed = self.reviewed();
        let parts = [
            (reviewed, "reviewed"),
            (count(|c| *c == FileCoverage::Unchanged), "unchanged since the last review"),
            (count(|c| matches!(c, FileCoverage::Excluded { .. })), "left out by configuration"),
            (count(|c| matches!(c, FileCoverage::NothingToReview { .. })), "with nothing to review"),
            (count(|c| matches!(c, FileCoverage::NotReviewed { .. })), "not reviewed"),
        ];
        let mut words: Vec<String> = parts
            .iter()
            .filter(|(count, what)| *count > 0 || *what == "reviewed")
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        if let Some(first) = words.first_mut() {
            *first = format!("{reviewed} {} reviewed", if reviewed == 1 { "file" } else { "files" });
        }
        if self.unlisted > 0 {
            words.push(format!("{} not listed by GitHub", self.unlisted));
        }
        words.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sort_of_file_is_counted_in_words() {
        let file = |coverage| CoveredFile { path: "a".into(), coverage };
        let reason = || "x".to_owned();
        let mut coverage = Coverage { files: vec![file(FileCoverage::Reviewed)], unlisted: 0 };
        assert_eq!(coverage.in_words(), "1 file reviewed");
        assert!(coverage.complete());
        coverage.files.extend([
            file(FileCoverage::Unchanged),
            file(FileCoverage::Excluded { reason: reason() }),
            file(FileCoverage::NothingToReview { reason: reason() }),
            file(FileCoverage::NotReviewed { reason: reason() }),
        ]);
        coverage.unlisted = 7;
        assert_eq!(
            coverage.in_words(),
            "1 file reviewed, 1 unchanged since the last review, 1 left out by configuration, 1 with nothing to \
             review, 1 not reviewed, 7 not listed by GitHub"
        );
        assert_eq!(coverage.gaps().collect::<Vec<_>>(), [("a", "x")]);
        assert!(!coverage.complete());
        assert_eq!(Coverage::default().in_words(), "0 files reviewed");
    }
}
