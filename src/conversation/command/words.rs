//! A comment's own words: without quotations, code and hidden text. Pure.

/// Bytes of a comment that are read.
const MAX_BYTES: usize = 128 * 1024;

/// The lines somebody says themselves, each at its place; what is quoted, code or hidden is blank or left out.
pub(super) fn spoken_lines(comment: &str) -> Vec<String> {
    let comment = comment.get(..comment.floor_char_boundary(MAX_BYTES)).unwrap_or_default().replace("\r\n", "\n");
    let mut fence: Option<(char, usize)> = None;
    let mut paragraphs: Vec<String> = vec![String::new()];
    for line in without_html_comments(&comment).split('\n') {
        let trimmed = line.trim_start();
        let run = |mark: char| trimmed.chars().take_while(|c| *c == mark).count();
        if let Some((mark, length)) = fence {
            if run(mark) >= length && trimmed.trim_start_matches(mark).trim().is_empty() {
                fence = None;
            }
            continue;
        }
        let opened = ['`', '~'].into_iter().find(|mark| run(*mark) >= 3);
        if let Some(mark) = opened.filter(|mark| *mark == '~' || !trimmed.trim_start_matches('`').contains('`')) {
            fence = Some((mark, run(mark)));
            paragraphs.push(String::new());
            continue;
        }
        let set_apart = trimmed.starts_with('>') || line.starts_with("    ") || line.starts_with('\t');
        if set_apart || trimmed.is_empty() {
            // Code spans do not reach over the end of a paragraph.
            paragraphs.push(String::new());
        } else if let Some(paragraph) = paragraphs.last_mut() {
            paragraph.push_str(line);
            paragraph.push('\n');
        }
    }
    let spoken = paragraphs.iter().map(|paragraph| without_code_spans(paragraph));
    spoken.flat_map(|p| p.lines().map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// An HTML comment that does not end hides the rest, as it does on the page.
fn without_html_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, comment)) = rest.split_once("<!--") {
        out.push_str(before);
        match comment.split_once("-->") {
            Some((_, after)) => rest = after,
            None => return out,
        }
    }
    out.push_str(rest);
    out
}

/// A path in backticks is an argument people type, so a span that stands behind other words on its line keeps its text;
/// one at the start of a line, or over several lines, is code.
fn without_code_spans(paragraph: &str) -> String {
    let mut out = String::with_capacity(paragraph.len());
    let mut rest = paragraph;
    while let Some(at) = rest.find('`') {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let length = from.bytes().take_while(|b| *b == b'`').count();
        let body = from.get(length..).unwrap_or_default();
        let Some(end) = closing(body, length) else {
            out.push_str(from.get(..length).unwrap_or_default());
            rest = body;
            continue;
        };
        let code = body.get(..end).unwrap_or_default();
        let at_start = out.rsplit('\n').next().is_none_or(|line| line.trim().is_empty());
        if code.contains('\n') {
            out.push_str(&"\n".repeat(code.matches('\n').count()));
        } else if at_start {
            out.push_str("` `");
        } else {
            out.push_str(&format!("`{code}`"));
        }
        rest = body.get(end + length..).unwrap_or_default();
    }
    out.push_str(rest);
    out
}

/// Where a run of exactly `length` backticks begins.
fn closing(text: &str, length: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let run = bytes.iter().skip(at).take_while(|b| **b == b'`').count();
        if run == length {
            return Some(at);
        }
        at += run.max(1);
    }
    None
}
