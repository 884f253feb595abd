//! Masks secrets and personal data in text that leaves the process: logs, and prompts for a model.
//!
//! Only the value is masked, never its surroundings or a line break, so that code keeps its shape and its line numbers.
//! Masking is idempotent: a masked text comes back as it is. It errs towards leaving code alone: hashes, UUIDs and
//! numbers survive, so a secret without a known form, a telling name or a checksum is not found.

mod check;
mod pattern;
mod pem;

use std::borrow::Cow;
use std::ops::Range;

/// Rounds after which masking stops, should it ever feed itself. Two are needed: one that masks and one that finds
/// nothing more.
const MAX_ROUNDS: usize = 8;

/// A stretch of text to be masked.
struct Span {
    range: Range<usize>,
    kind: &'static str,
}

/// `text` with keys, tokens, e-mail addresses, telephone and identity numbers replaced by `[redacted:kind]`.
pub fn redact(text: &str) -> Cow<'_, str> {
    let mut masked: Cow<'_, str> = Cow::Borrowed(text);
    for _ in 0..MAX_ROUNDS {
        let spans = find(&masked);
        if spans.is_empty() {
            break;
        }
        masked = Cow::Owned(mask(&masked, &spans));
    }
    masked
}

/// Everything to mask, in the order of the text and without overlaps. Where two patterns claim the same text, the one
/// that stands first in the table has it.
fn find(text: &str) -> Vec<Span> {
    let mut spans = pem::find(text);
    for pattern in pattern::all() {
        for found in pattern.find(text) {
            spans.push(Span { range: found, kind: pattern.kind });
        }
    }
    let mut ranked: Vec<(usize, Span)> = spans.into_iter().enumerate().collect();
    ranked.sort_by_key(|(rank, span)| (span.range.start, *rank));
    let mut taken: Vec<Span> = Vec::with_capacity(ranked.len());
    for (_, span) in ranked {
        match taken.last() {
            Some(last) if span.range.start < last.range.end => {}
            _ => taken.push(span),
        }
    }
    taken
}

fn mask(text: &str, spans: &[Span]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for Span { range, kind } in spans {
        out.push_str(text.get(at..range.start).unwrap_or_default());
        out.push_str("[redacted:");
        out.push_str(kind);
        out.push(']');
        at = range.end;
    }
    out.push_str(text.get(at..).unwrap_or_default());
    out
}

#[cfg(test)]
mod tests;
