//! A patch, a quote, and two texts of a file.

use std::collections::BTreeSet;

use secondlook::diff::follow::{follow, shifted};
use secondlook::diff::interdiff::{hunk_keys, new_hunks};
use secondlook::diff::make::make_hunks;
use secondlook::diff::parse::{MAX_COMPLAINTS, parse_patch, parse_unified_files};
use secondlook::diff::{FileDiff, FileStatus, Hunk, LineKind, Side};
use secondlook::review::anchor::{Placed, anchor};
use secondlook::review::finding::{Category, Finding, Severity};
use secondlook::review::suggestion::suggestion;

use super::parts::texts;

/// Reads the patch in every way, and places the quote.
pub fn check(data: &[u8]) {
    let Some([patch, quote, old, new]) = texts(data) else { return };
    unified(data);
    let (hunks, complaints) = parse_patch(&patch);
    assert!(complaints.len() <= MAX_COMPLAINTS);
    consistent(&hunks);
    if complaints.is_empty() && !hunks.is_empty() {
        assert_eq!(parse_patch(&shown(&hunks)), (hunks.clone(), vec![]), "what was read can be written and read again");
    }
    let file = FileDiff { path: "a.rs".into(), old_path: None, status: FileStatus::Modified, hunks };
    places(&file, &quote, &new);
    interdiff(&file);
    made(&old, &new);
    followed(&quote, &new, &file.hunks);
}

/// A finding that says nothing but where it is.
pub fn finding(quote: &str, line: Option<u32>, side: Option<Side>) -> Finding {
    Finding {
        path: "a.rs".into(),
        quote: quote.into(),
        line,
        end_line: None,
        side,
        severity: Severity::Major,
        category: Category::Correctness,
        title: "T".into(),
        body: "B".into(),
        replacement: None,
        confidence: 1.0,
        source: String::new(),
        evidence: Vec::new(),
    }
}

/// Whether every line of an anchor takes a comment, within one hunk.
pub fn commentable(file: &FileDiff, placed: &Placed) {
    let place = &placed.anchor;
    assert!((1..=place.line).contains(&place.start_line), "{place:?}");
    let on_side = |line| file.commentable().find(|c| c.side == place.side && c.line == line);
    let first = on_side(place.start_line).unwrap_or_else(|| panic!("no comment may stand at the start of {place:?}"));
    for line in place.start_line..=place.line {
        let at = on_side(line).unwrap_or_else(|| panic!("no comment may stand on line {line} of {place:?}"));
        assert_eq!(at.hunk, first.hunk, "{place:?} reaches over hunks");
    }
}

fn consistent(hunks: &[Hunk]) {
    let (mut last_old, mut last_new) = (0, 0);
    for hunk in hunks {
        let of = |kinds: &[LineKind]| hunk.lines.iter().filter(|l| kinds.contains(&l.kind)).count();
        assert_eq!(of(&[LineKind::Context, LineKind::Removed]), hunk.old_count as usize);
        assert_eq!(of(&[LineKind::Context, LineKind::Added]), hunk.new_count as usize);
        for line in &hunk.lines {
            assert!(!line.text.contains('\n'));
            assert_eq!(line.old.is_some(), line.kind != LineKind::Added);
            assert_eq!(line.new.is_some(), line.kind != LineKind::Removed);
            if let Some(old) = line.old {
                assert!(old > last_old, "old lines go up");
                last_old = old;
            }
            if let Some(new) = line.new {
                assert!(new > last_new, "new lines go up");
                last_new = new;
            }
        }
    }
}

fn shown(hunks: &[Hunk]) -> String {
    let mut out = String::new();
    for hunk in hunks {
        let (a, b, c, d) = (hunk.old_start, hunk.old_count, hunk.new_start, hunk.new_count);
        out.push_str(&format!("@@ -{a},{b} +{c},{d} @@\n"));
        for line in &hunk.lines {
            out.push(match line.kind {
                LineKind::Context => ' ',
                LineKind::Added => '+',
                LineKind::Removed => '-',
            });
            out.push_str(&line.text);
            out.push('\n');
            if line.no_newline {
                out.push_str("\\ No newline at end of file\n");
            }
        }
    }
    out.pop();
    out
}

fn unified(data: &[u8]) {
    let (files, complaints) = parse_unified_files(data);
    assert!(complaints.len() <= MAX_COMPLAINTS);
    for file in files {
        consistent(&file.diff.hunks);
    }
}

fn places(file: &FileDiff, quote: &str, new: &str) {
    let lines: Vec<_> = file.commentable().collect();
    let numbers: BTreeSet<(Side, u32)> = lines.iter().map(|c| (c.side, c.line)).collect();
    assert_eq!(numbers.len(), lines.len(), "a line is offered once");
    let hints = [None, Some(1), Some(u32::MAX), lines.get(lines.len() / 2).map(|c| c.line)];
    for side in [None, Some(Side::Left), Some(Side::Right)] {
        for hint in hints {
            let anchored = anchor(vec![finding(quote, hint, side)], file);
            assert_eq!(anchored.comments.len() + anchored.unanchored.len(), 1, "no finding is lost");
            for placed in &anchored.comments {
                commentable(file, placed);
                assert!(side.is_none_or(|side| side == placed.anchor.side));
                stands(file, placed);
                applies(placed, new);
            }
        }
    }
    // A line that says something and stands once on its side is found there, whatever number comes with it.
    for probe in lines.iter().filter(|c| c.text.chars().any(char::is_alphanumeric)).take(50) {
        let alike = |c: &&secondlook::diff::Commentable<'_>| c.side == probe.side && c.text.trim() == probe.text.trim();
        if lines.iter().filter(alike).count() == 1 {
            let anchored = anchor(vec![finding(probe.text, Some(u32::MAX), Some(probe.side))], file);
            let place = anchored.comments.first().map(|placed| (placed.anchor.start_line, placed.anchor.line));
            assert_eq!(place, Some((probe.line, probe.line)), "{:?} stands once", probe.text);
        }
    }
}

/// Whether the quote, as it was given back, really stands where it was placed.
fn stands(file: &FileDiff, placed: &Placed) {
    let quote: Vec<&str> = placed.finding.quote.split('\n').map(str::trim).collect();
    let filled = |line: &&str| !line.is_empty();
    let (Some(first), Some(last)) = (quote.iter().position(filled), quote.iter().rposition(filled)) else {
        panic!("an empty quote has no place")
    };
    let place = &placed.anchor;
    let there: Vec<&str> = file
        .commentable()
        .filter(|c| c.side == place.side && (place.start_line..=place.line).contains(&c.line))
        .map(|c| c.text.trim())
        .collect();
    let quote = &quote[first..=last];
    let fragment = quote.len() == 1 && there.len() == 1 && there[0].contains(quote[0]);
    assert!(fragment || there == quote, "{quote:?} does not stand at {place:?}: {there:?}");
}

/// A suggestion replaces exactly the anchored lines, with something that people see as it is.
fn applies(placed: &Placed, head: &str) {
    let mut placed = placed.clone();
    placed.finding.replacement = Some(head.chars().rev().take(200).collect());
    let Some(block) = suggestion(&placed, head, |_, _| true) else { return };
    let fence: String = block.chars().take_while(|c| *c == '`').collect();
    let content =
        block.strip_prefix(&format!("{fence}suggestion\n")).and_then(|b| b.strip_suffix(&format!("\n{fence}")));
    let content = content.expect("a suggestion is one fenced block");
    assert!(!content.contains(&fence), "nothing inside ends the fence");
    assert!(!content.chars().any(|c| c.is_control() && c != '\n' && c != '\t'));
    assert_eq!(placed.anchor.side, Side::Right);
}

fn interdiff(file: &FileDiff) {
    let keys = hunk_keys(file);
    let all: BTreeSet<_> = keys.iter().cloned().collect();
    assert_eq!(all.len(), keys.len(), "hunks are told apart");
    assert!(new_hunks(file, &all).is_empty(), "what was reviewed is not new");
    let every: Vec<usize> = (0..file.hunks.len()).collect();
    assert_eq!(new_hunks(file, &BTreeSet::new()), every, "what nobody saw is new");
}

fn made(old: &str, new: &str) {
    let hunks = make_hunks(old, new);
    consistent(&hunks);
    assert_eq!(hunks.is_empty(), old == new, "a difference is shown, and nothing else is");
    let mut rebuilt: Vec<&str> = Vec::new();
    let lines: Vec<&str> = old.split_inclusive('\n').map(|line| line.trim_end_matches('\n')).collect();
    let mut at = 0;
    for hunk in &hunks {
        for line in &hunk.lines {
            if let Some(number) = line.old {
                let number = number as usize - 1;
                rebuilt.extend(lines.get(at..number).into_iter().flatten());
                assert_eq!(lines.get(number), Some(&line.text.as_str()), "the old side is the old text");
                at = number + 1;
            } else if line.kind == LineKind::Added {
                let before = line.new.map_or(0, |new| new as usize - 1);
                let untouched = before.saturating_sub(rebuilt.len());
                rebuilt.extend(lines.get(at..at + untouched).into_iter().flatten());
                at += untouched;
            }
            if line.kind != LineKind::Removed {
                rebuilt.push(&line.text);
            }
        }
    }
    rebuilt.extend(lines.get(at..).into_iter().flatten());
    let wanted: Vec<&str> = new.split_inclusive('\n').map(|line| line.trim_end_matches('\n')).collect();
    assert_eq!(rebuilt, wanted, "the old text with the hunks applied is the new one");
    if !hunks.is_empty() {
        assert_eq!(parse_patch(&shown(&hunks)), (hunks, vec![]), "what we make can be read");
    }
}

fn followed(quote: &str, new: &str, hunks: &[Hunk]) {
    for hint in [None, Some(0), Some(3), Some(u32::MAX)] {
        if let Some(range) = follow(quote, new, hint) {
            let there: Vec<&str> =
                new.split('\n').skip(*range.start() as usize - 1).take(range.count()).map(str::trim).collect();
            assert_eq!(there.join("\n").trim(), quote.split('\n').map(str::trim).collect::<Vec<_>>().join("\n").trim());
        }
    }
    for line in [0, 1, 2, 7, 1_000, u32::MAX] {
        shifted(hunks, line);
    }
}
