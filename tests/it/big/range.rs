//! A range of commits reviewed by the real binary, and what is held against it: every finding stands on the line that git
//! has at the head, and nothing is left without a word.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use serde_json::Value;

use crate::repository::GitRepository;

/// A line of Python that the rules find a fault in.
pub(super) const FAULT: &str = "os.system(\"cat \" + path)";

/// A commit before and one after, which is what the branch `feature` is.
pub(super) struct Range {
    pub(super) repository: GitRepository,
}

/// What a review came to.
#[derive(Debug)]
pub(super) struct Reviewed {
    pub(super) code: i32,
    /// Path and line of every finding on the new side; the line is 0 where it has no place.
    pub(super) findings: Vec<(String, u64)>,
    /// What became of each file: its status, and the reason where there is one.
    pub(super) coverage: BTreeMap<String, String>,
}

impl Range {
    /// A repository with these files on `main`, and `feature` checked out.
    pub(super) fn from(files: &[(&str, &[u8])]) -> Self {
        let range = Self { repository: GitRepository::new() };
        range.commit(files);
        range.repository.git(&["switch", "--quiet", "--create", "feature"]);
        range
    }

    /// Writes a file whose name and text may be any bytes.
    pub(super) fn write(&self, path: &str, bytes: &[u8]) {
        let path = self.repository.path().join(OsStr::from_bytes(path.as_bytes()));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    /// Writes files and commits everything there is.
    pub(super) fn commit(&self, files: &[(&str, &[u8])]) {
        for (path, bytes) in files {
            self.write(path, bytes);
        }
        // What the files hold must reach the commit as it is.
        self.repository.git(&["-c", "core.autocrlf=false", "-c", "core.safecrlf=false", "add", "--all"]);
        self.repository.git(&["commit", "--quiet", "--allow-empty", "--message", "Change"]);
    }

    /// Reviews the branch, and holds every finding against the head.
    pub(super) fn review(&self) -> Reviewed {
        let ran = self.repository.secondlook(&["review", "--format", "json"]);
        assert!(!ran.err.contains("panicked"), "{}", ran.err);
        let report: Value = serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{}{}", ran.out, ran.err));
        let files = report["coverage"]["files"].as_array().unwrap();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let coverage: BTreeMap<String, String> = files
            .iter()
            .map(|file| {
                (text(&file["path"]), format!("{} {}", text(&file["status"]), text(&file["reason"])).trim().into())
            })
            .collect();
        assert_eq!(coverage.len(), files.len(), "a file is named twice");
        let complete = coverage.values().all(|became| !became.starts_with("not_reviewed"));
        assert_eq!(ran.code, if complete { 0 } else { 2 }, "{}", ran.err);
        let mut findings = Vec::new();
        for finding in report["findings"].as_array().unwrap() {
            let (path, line) = (text(&finding["path"]), finding["line"].as_u64().unwrap_or_default());
            assert!(coverage.contains_key(&path), "{path:?} is no file of the change");
            if line > 0 {
                let head = self.repository.git(&["show", &format!("HEAD:{path}"), "--"]);
                let at = head.split('\n').nth(usize::try_from(line).unwrap() - 1).unwrap_or_default();
                assert!(at.contains("os.system(") || at.contains("AKIA"), "{path:?}:{line} is {at:?}");
            }
            findings.push((path, line));
        }
        findings.sort();
        Reviewed { code: ran.code, findings, coverage }
    }
}
