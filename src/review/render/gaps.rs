//! What is said of files that should have been reviewed and were not: every one is named, by itself or, where they are
//! many, by a directory it stands in. Pure.

use std::collections::BTreeMap;

use crate::review::coverage::Coverage;
use crate::review::markdown::{code_span, sanitise_line};

/// Files up to which each has a line of its own.
const MAX_LINES: usize = 25;

/// Directories named for one reason; where there are more, those above them are.
const MAX_DIRECTORIES: usize = 40;

/// Characters of a reason.
const REASON_CHARS: usize = 300;

/// The files that should have been reviewed and were not, if there are any.
pub fn gaps(coverage: &Coverage) -> Option<String> {
    let files: Vec<(&str, &str)> = coverage.gaps().collect();
    let line =
        |(path, reason): &(&str, &str)| format!("- {}: {}", code_span(path), sanitise_line(reason, REASON_CHARS));
    let mut lines: Vec<String> =
        if files.len() <= MAX_LINES { files.iter().map(line).collect() } else { by_reason(&files) };
    if coverage.unlisted > 0 {
        lines.push(format!("- {} files that GitHub does not list (it stops at 3,000)", coverage.unlisted));
    }
    (!lines.is_empty()).then(|| format!("Not reviewed:\n\n{}", lines.join("\n")))
}

/// A line for each reason, the most frequent first. Reasons that are told of one file only are told together.
fn by_reason(files: &[(&str, &str)]) -> Vec<String> {
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (path, reason) in files {
        reasons.entry(reason).or_default().push(path);
    }
    let mut reasons: Vec<(&str, Vec<&str>)> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, paths)| std::cmp::Reverse(paths.len()));
    let rare = reasons.split_off(reasons.len().min(MAX_LINES));
    let mut lines: Vec<String> = reasons
        .iter()
        .map(|(reason, paths)| format!("- {}: {}", sanitise_line(reason, REASON_CHARS), places(paths)))
        .collect();
    let rest: Vec<&str> = rare.into_iter().flat_map(|(_, paths)| paths).collect();
    if !rest.is_empty() {
        lines.push(format!("- for other reasons: {}", places(&rest)));
    }
    lines
}

/// `3 files: ‹a/b/› (2), ‹c.rs›`, with directories as deep as there is room for.
fn places(paths: &[&str]) -> String {
    let deepest = paths.iter().map(|path| path.matches('/').count()).max().unwrap_or(0);
    let mut depth = deepest + 1;
    let places = loop {
        let mut places: BTreeMap<String, usize> = BTreeMap::new();
        for path in paths {
            *places.entry(above(path, depth)).or_default() += 1;
        }
        if places.len() <= MAX_DIRECTORIES || depth == 0 {
            break places;
        }
        depth -= 1;
    };
    let named: Vec<String> = places
        .into_iter()
        .map(|(place, count)| match place.as_str() {
            "" => "in the root and below".to_owned(),
            place if count == 1 && !place.ends_with('/') => code_span(place),
            place => format!("{} ({count})", code_span(place)),
        })
        .collect();
    let files = if paths.len() == 1 { "1 file".to_owned() } else { format!("{} files", paths.len()) };
    format!("{files}: {}", named.join(", "))
}

/// The first `depth` parts of a path; a directory ends with `/`.
fn above(path: &str, depth: usize) -> String {
    let mut end = 0;
    for part in path.split_inclusive('/').take(depth) {
        end += part.len();
    }
    path.get(..end).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::review::coverage::{CoveredFile, FileCoverage};

    fn coverage(files: impl IntoIterator<Item = (String, &'static str)>) -> Coverage {
        let file = |(path, reason): (String, &str)| CoveredFile {
            path,
            coverage: FileCoverage::NotReviewed { reason: reason.into() },
        };
        Coverage { files: files.into_iter().map(file).collect(), unlisted: 0 }
    }

    #[test]
    fn few_have_a_line_each() {
        assert_eq!(gaps(&Coverage::default()), None);
        let text = gaps(&coverage([("a.rs".into(), "too large"), ("b.rs".into(), "the model failed")])).unwrap();
        assert_eq!(text, "Not reviewed:\n\n- `a.rs`: too large\n- `b.rs`: the model failed");
        let unlisted = Coverage { unlisted: 9, ..Coverage::default() };
        assert!(gaps(&unlisted).unwrap().contains("9 files that GitHub does not list"));
    }

    #[test]
    fn many_are_named_by_reason_and_directory() {
        let mut files: Vec<(String, &str)> = (0..60).map(|n| (format!("src/a/f{n}.rs"), "out of time")).collect();
        files.push(("src/b.rs".into(), "out of time"));
        files.push(("c/d.rs".into(), "too large"));
        insta::assert_snapshot!(gaps(&coverage(files)).unwrap(), @r"
        Not reviewed:

        - out of time: 61 files: `src/a/` (60), `src/b.rs`
        - too large: 1 file: `c/d.rs`
        ");
    }

    #[test]
    fn thousands_fit_and_each_stands_in_a_directory_that_is_named() {
        let files = (0..3_000).map(|n| (format!("part{}/module{}/f{n}.rs", n % 30, n % 700), "out of time"));
        let text = gaps(&coverage(files)).unwrap();
        assert!(text.len() < 2_000, "{}", text.len());
        assert!((0..30).all(|n| text.contains(&format!("`part{n}/` (100)"))), "{text}");
        let flat = gaps(&coverage((0..3_000).map(|n| (format!("f{n}.rs"), "out of time")))).unwrap();
        assert_eq!(flat, "Not reviewed:\n\n- out of time: 3000 files: in the root and below");
        let reasons: Vec<String> = (0..100).map(|n| format!("reason {n}")).collect();
        let each = reasons.iter().enumerate().map(|(n, reason)| CoveredFile {
            path: format!("d/f{n}"),
            coverage: FileCoverage::NotReviewed { reason: reason.clone() },
        });
        let text = gaps(&Coverage { files: each.collect(), unlisted: 0 }).unwrap();
        assert!(
            text.lines().count() == MAX_LINES + 3 && text.contains("for other reasons: 75 files: `d/` (75)"),
            "{text}"
        );
    }
}
