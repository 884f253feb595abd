//! What GitHub shows of a change, derived from the files before and after.
//!
//! Deliberately independent of the product's own diff code: the hunks are made here, and lines are found by reading
//! the patch text again, as GitHub's validation does.

use serde_json::{Value, json};
use similar::{Algorithm, DiffOp, capture_diff_slices};

use super::files::{File, Files};
use super::state::{blob_sha, encoded};

/// One file more than this in hunk text, in bytes, and GitHub leaves its patch out (measured: 100,695 kept, 108,914 not).
const FILE_BYTES: usize = 100 << 10;
/// Hunk text of one answer, in bytes (measured).
const ANSWER_BYTES: usize = 1 << 20;
/// Unchanged lines around a change, and between two hunks that are joined (measured: `-U3 --inter-hunk-context=1`).
const CONTEXT: usize = 3;

/// A file of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub filename: String,
    pub previous: Option<String>,
    pub status: &'static str,
    pub sha: String,
    pub additions: usize,
    pub deletions: usize,
    /// The hunks, whatever their size; `None` for a binary file and where no text changed.
    pub hunks: Option<String>,
}

/// A line of a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    pub hunk: usize,
    /// Its place in the hunk.
    pub index: usize,
    /// `+`, `-` or ` `.
    pub mark: char,
    pub old: Option<u64>,
    pub new: Option<u64>,
    pub text: &'a str,
}

impl Entry {
    /// What GitHub sends as `patch`.
    pub fn patch(&self) -> Option<&str> {
        self.hunks.as_deref().filter(|hunks| hunks.len() <= FILE_BYTES)
    }

    /// The line that a comment on this side and number stands on.
    pub fn line(&self, left: bool, number: u64) -> Option<Line<'_>> {
        lines(self.patch()?).into_iter().find(|line| if left { line.old } else { line.new } == Some(number))
    }
}

/// The files of a change in GitHub's order.
pub fn entries(before: &Files, after: &Files) -> Vec<Entry> {
    let gone: Vec<&String> = before.keys().filter(|path| !after.contains_key(*path)).collect();
    let come: Vec<&String> = after.keys().filter(|path| !before.contains_key(*path)).collect();
    let mut moved: Vec<(&String, &String)> = Vec::new();
    for new in &come {
        let free = gone.iter().filter(|old| !moved.iter().any(|(from, _)| from == *old));
        let best = free.map(|old| (similarity(&before[*old], &after[*new]), *old)).max_by(|a, b| a.0.total_cmp(&b.0));
        if let Some((score, old)) = best
            && score >= 0.5
        {
            moved.push((old, new));
        }
    }
    let mut entries = Vec::new();
    for (path, new) in after {
        let from = moved.iter().find(|(_, to)| *to == path).map(|(from, _)| *from);
        match (before.get(path), from) {
            (Some(old), _) if old == new => {}
            (Some(old), _) => {
                let kind = |file: &File| file.mode.get(..2).unwrap_or_default().to_owned();
                let status = if kind(old) == kind(new) { "modified" } else { "changed" };
                entries.push(entry(path, None, status, Some(old), Some(new)));
            }
            (None, Some(from)) => entries.push(entry(path, Some(from), "renamed", before.get(from), Some(new))),
            (None, None) => entries.push(entry(path, None, "added", None, Some(new))),
        }
    }
    for path in gone {
        if !moved.iter().any(|(from, _)| *from == path) {
            entries.push(entry(path, None, "removed", before.get(path), None));
        }
    }
    entries.sort_by(|a, b| a.filename.cmp(&b.filename));
    entries
}

/// One page of `GET /repos/{owner}/{repo}/pulls/{number}/files`, with the patches left out that GitHub leaves out.
pub fn page_json(entries: &[Entry], repo_url: &str, html: &str, head: &str) -> Value {
    let (mut used, mut over) = (0, false);
    entries
        .iter()
        .map(|entry| {
            let name = encoded(&entry.filename);
            let mut json = json!({
                "sha": entry.sha,
                "filename": entry.filename,
                "status": entry.status,
                "additions": entry.additions,
                "deletions": entry.deletions,
                "changes": entry.additions + entry.deletions,
                "blob_url": format!("{html}/blob/{head}/{name}"),
                "raw_url": format!("{html}/raw/{head}/{name}"),
                "contents_url": format!("{repo_url}/contents/{name}?ref={head}"),
            });
            if let Some(previous) = &entry.previous {
                json["previous_filename"] = json!(previous);
            }
            if let Some(patch) = entry.patch() {
                if over {
                    return json;
                }
                used += patch.len();
                if used > ANSWER_BYTES {
                    over = true;
                    for count in ["additions", "deletions", "changes"] {
                        json[count] = json!(0);
                    }
                } else {
                    json["patch"] = json!(patch);
                }
            }
            json
        })
        .collect()
}

/// The lines of a patch. Counted by the headers, so that `--- x` within a hunk is a removed line; only `\n` separates.
pub fn lines(patch: &str) -> Vec<Line<'_>> {
    let mut lines = Vec::new();
    let (mut hunk, mut index) = (0, 0);
    let (mut old, mut new, mut old_left, mut new_left) = (0, 0, 0, 0);
    for text in patch.split('\n') {
        if old_left == 0 && new_left == 0 {
            if let Some((o, oc, n, nc)) = header(text) {
                (old, old_left, new, new_left, index) = (o, oc, n, nc, 0);
                hunk += 1;
            }
            continue;
        }
        let mark = text.chars().next().unwrap_or(' ');
        if mark == '\\' {
            continue;
        }
        let (has_old, has_new) = (mark != '+', mark != '-');
        lines.push(Line {
            hunk,
            index,
            mark,
            old: has_old.then_some(old),
            new: has_new.then_some(new),
            text: text.get(1..).unwrap_or_default(),
        });
        index += 1;
        old += u64::from(has_old);
        new += u64::from(has_new);
        old_left -= u64::from(has_old).min(old_left);
        new_left -= u64::from(has_new).min(new_left);
    }
    lines
}

/// Where a line of an old text went in a new one, when it stands there unchanged.
pub fn follow(old: &[u8], new: &[u8], line: u64) -> Option<u64> {
    let (old, new) = (split(old), split(new));
    let index = usize::try_from(line).ok()?.checked_sub(1)?;
    capture_diff_slices(Algorithm::Myers, &old, &new).iter().find_map(|op| match *op {
        DiffOp::Equal { old_index, new_index, len } if (old_index..old_index + len).contains(&index) => {
            u64::try_from(index - old_index + new_index + 1).ok()
        }
        _ => None,
    })
}

/// Lines with their line breaks.
pub fn split(text: &[u8]) -> Vec<&[u8]> {
    text.split_inclusive(|byte| *byte == b'\n').collect()
}

fn header(text: &str) -> Option<(u64, u64, u64, u64)> {
    let (old, new) = text.strip_prefix("@@ -")?.split_once(" @@")?.0.split_once(" +")?;
    let range = |range: &str| match range.split_once(',') {
        Some((start, count)) => Some((start.parse().ok()?, count.parse().ok()?)),
        None => Some((range.parse().ok()?, 1)),
    };
    let ((o, oc), (n, nc)) = (range(old)?, range(new)?);
    Some((o, oc, n, nc))
}

fn entry(path: &str, from: Option<&String>, status: &'static str, old: Option<&File>, new: Option<&File>) -> Entry {
    let sha = match new.or(old) {
        Some(file) if file.mode == "160000" => String::from_utf8_lossy(&file.bytes).into_owned(),
        Some(file) => blob_sha(&file.bytes),
        None => String::new(),
    };
    let text = |file: Option<&File>| match file {
        Some(file) if file.mode == "160000" => {
            Some(format!("Subproject commit {}\n", String::from_utf8_lossy(&file.bytes)).into_bytes())
        }
        // Git takes a file for binary when there is a NUL among its first 8,000 bytes.
        Some(file) if file.bytes.iter().take(8_000).any(|byte| *byte == 0) => None,
        Some(file) => Some(file.bytes.clone()),
        None => Some(Vec::new()),
    };
    let (additions, deletions, hunks) = match (text(old), text(new)) {
        (Some(old), Some(new)) => hunks(&old, &new),
        _ => (0, 0, None),
    };
    Entry { filename: path.to_owned(), previous: from.cloned(), status, sha, additions, deletions, hunks }
}

fn similarity(old: &File, new: &File) -> f64 {
    if old.mode == "160000" || new.mode == "160000" || old.bytes.is_empty() || new.bytes.is_empty() {
        return 0.0;
    }
    if old.bytes == new.bytes {
        return 1.0;
    }
    let (a, b) = (split(&old.bytes), split(&new.bytes));
    let same: usize = capture_diff_slices(Algorithm::Myers, &a, &b)
        .iter()
        .map(|op| {
            if let DiffOp::Equal { old_index, len, .. } = *op {
                a[old_index..old_index + len].iter().map(|l| l.len()).sum()
            } else {
                0
            }
        })
        .sum();
    same as f64 / old.bytes.len().max(new.bytes.len()) as f64
}

/// Added and removed lines, and the hunks between two texts.
fn hunks(old: &[u8], new: &[u8]) -> (usize, usize, Option<String>) {
    let (old, new) = (split(old), split(new));
    let mut edits: Vec<(char, usize, usize)> = Vec::new();
    for op in capture_diff_slices(Algorithm::Myers, &old, &new) {
        let (tag, olds, news) = op.as_tag_tuple();
        if tag == similar::DiffTag::Equal {
            edits.extend(olds.zip(news).map(|(o, n)| (' ', o, n)));
        } else {
            edits.extend(olds.clone().map(|o| ('-', o, news.start)));
            edits.extend(news.map(|n| ('+', olds.end, n)));
        }
    }
    let count = |mark| edits.iter().filter(|(m, ..)| *m == mark).count();
    let (additions, deletions) = (count('+'), count('-'));
    let changed: Vec<usize> = edits.iter().enumerate().filter(|(_, e)| e.0 != ' ').map(|(at, _)| at).collect();
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for at in changed {
        let (from, to) = (at.saturating_sub(CONTEXT), (at + CONTEXT + 1).min(edits.len()));
        match ranges.last_mut() {
            // One line between two hunks joins them.
            Some(last) if from <= last.1 + 1 => last.1 = to,
            _ => ranges.push((from, to)),
        }
    }
    let mut text = Vec::new();
    for (from, to) in ranges {
        let part = &edits[from..to];
        let numbers = |skip: char, index: fn(&(char, usize, usize)) -> usize| {
            let count = part.iter().filter(|edit| edit.0 != skip).count();
            let first = part.first().map_or(0, index);
            let start = if count == 0 { first } else { first + 1 };
            if count == 1 { start.to_string() } else { format!("{start},{count}") }
        };
        let header = format!("@@ -{} +{} @@\n", numbers('+', |e| e.1), numbers('-', |e| e.2));
        text.extend_from_slice(header.as_bytes());
        for (mark, o, n) in part {
            let line = if *mark == '+' { new[*n] } else { old[*o] };
            text.push(u8::try_from(*mark).unwrap());
            text.extend_from_slice(line);
            if !line.ends_with(b"\n") {
                text.extend_from_slice(b"\n\\ No newline at end of file\n");
            }
        }
    }
    text.pop();
    let text = (!text.is_empty()).then(|| String::from_utf8_lossy(&text).into_owned());
    (additions, deletions, text)
}
