//! Private keys in PEM form, whole or cut off, as files, in diffs and in string literals.
//!
//! The key is masked line by line, so that a text keeps its number of lines. Only what looks like key material goes:
//! code that merely mentions the marker stays readable.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use super::Span;
use super::pattern::compile;

const KIND: &str = "private-key";

/// Lines of key material that are followed; a 16,384-bit RSA key has 200.
const MAX_LINES: usize = 400;

/// Base64 in one piece from which on it is key material on the marker's own line.
const LONG: usize = 40;

struct Forms {
    marker: Regex,
    /// A line number, the mark of a diff, quotes, then key material alone.
    line: Regex,
    header: Regex,
    run: Regex,
}

static FORMS: LazyLock<Forms> = LazyLock::new(|| Forms {
    marker: compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"),
    line: compile(r#"^[ \t]*(?:\d+[ \t|:]+)*[+-]?[ \t]*["'`]?([A-Za-z0-9+/=]{4,})(?:\\[nr]|["'`,;+\\]|[ \t\r])*$"#),
    header: compile(r"^[ \t]*(?:\d+[ \t|:]+)*[+-]?[ \t]*(?:[A-Za-z][A-Za-z-]*: .*)?\r?$"),
    run: compile(r"(?:\\[nrt])?([A-Za-z0-9+/=]{16,})"),
});

/// The key material of every private key in a text.
pub(super) fn find(text: &str) -> Vec<Span> {
    let forms = &*FORMS;
    let markers: Vec<Range<usize>> = forms.marker.find_iter(text).map(|m| m.range()).collect();
    let mut spans = Vec::new();
    for (position, marker) in markers.iter().enumerate() {
        let end = markers.get(position + 1).map_or(text.len(), |next| next.start);
        let body = text.get(marker.end..end).unwrap_or_default();
        let mut at = marker.end;
        for (number, line) in body.split_inclusive('\n').take(MAX_LINES).enumerate() {
            let content = line.trim_end_matches('\n');
            if number == 0 {
                let key = content.split("-----END").next().unwrap_or_default();
                let runs = forms.run.captures_iter(key).filter_map(|found| found.get(1));
                let long = runs.filter(|run| run.len() >= LONG);
                spans.extend(long.map(|run| span(at, run.range())));
            } else if let Some(material) = forms.line.captures(content).and_then(|c| c.get(1)) {
                spans.push(span(at, material.range()));
            } else if !forms.header.is_match(content) {
                break;
            }
            at += line.len();
        }
    }
    spans
}

fn span(at: usize, range: Range<usize>) -> Span {
    Span { range: at + range.start..at + range.end, kind: KIND }
}
