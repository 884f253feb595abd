//! Makes Markdown that a model or a stranger wrote harmless, and cuts Markdown without breaking it. Pure.
//!
//! What is written on a pull request reaches people by mail, links issues, closes them, and loads images from anywhere.
//! None of that may be caused by text that came out of a model, which may repeat what a stranger wrote in the change.
//! So outside of code every mention, reference, image, link to an unknown host and HTML tag is kept as visible text and
//! loses its effect; invisible characters go away everywhere.
//!
//! Fenced code is moved to the left margin: there a fence is a fence whatever list or quotation stands around it, so
//! that GitHub and this module always agree on what is code. Fences that GitHub would act on (`suggestion`, `mermaid`)
//! lose that meaning.

mod inline;
mod invisible;

/// Bytes of one text that are looked at; the rest is cut away before.
const MAX_INPUT_BYTES: usize = 64 * 1024;

/// Fence languages that GitHub does more with than colour them.
const ACTIVE_LANGUAGES: [&str; 6] = ["suggestion", "mermaid", "geojson", "topojson", "stl", "math"];

/// `text` without any effect on GitHub beyond being read. Idempotent.
pub fn sanitise(text: &str) -> String {
    let text = invisible::strip(floor(text, MAX_INPUT_BYTES));
    let mut out = String::with_capacity(text.len() + 64);
    let mut prose: Vec<&str> = Vec::new();
    let mut open: Option<Fence> = None;
    for line in text.trim_end().split('\n') {
        match &open {
            Some(fence) => {
                let line = fence.dedent(line);
                if fence.closed_by(line) {
                    push_line(&mut out, &fence.marker);
                    open = None;
                } else {
                    push_line(&mut out, &inline::break_markers(line));
                }
            }
            None => match Fence::opening(line) {
                Some((fence, language)) => {
                    flush(&mut out, &mut prose);
                    push_line(&mut out, &format!("{}{language}", fence.marker));
                    open = Some(fence);
                }
                None => prose.push(line),
            },
        }
    }
    flush(&mut out, &mut prose);
    if let Some(fence) = open {
        push_line(&mut out, &fence.marker);
    }
    out.trim_end().to_owned()
}

/// Like [`sanitise`], for a text that must stay on one line (a title): line breaks become spaces, and it is cut after
/// `most` characters.
pub fn sanitise_line(text: &str, most: usize) -> String {
    let text = invisible::strip(floor(text, MAX_INPUT_BYTES));
    let mut line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((at, _)) = line.char_indices().nth(most) {
        line.truncate(at);
        line = format!("{}…", line.trim_end());
    }
    inline::sanitise(&line)
}

/// At most `most` bytes of Markdown, cut at the end of a line where possible, with an open fence closed and `note`
/// below in place of what is missing. Only fences at the margin count: three backticks within a line are not one.
pub fn clip(text: &str, most: usize, note: &str) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let room = most.saturating_sub(note.len() + 2);
    let mut cut = floor(text, room);
    loop {
        let kept = match cut.rfind('\n') {
            Some(end) if end > 0 => cut.get(..end).unwrap_or_default().to_owned(),
            // Half a line may hold half a code span or half an entity: it is made harmless anew.
            _ => sanitise(cut),
        };
        let closing = open_fence(&kept).map(|marker| format!("\n{marker}")).unwrap_or_default();
        let length = kept.len() + closing.len();
        if length <= room || kept.is_empty() {
            return format!("{kept}{closing}\n\n{note}");
        }
        // The closing fence does not fit: give up one more line, or as many bytes as are too many.
        cut = floor(cut, cut.rfind('\n').unwrap_or(cut.len().saturating_sub(length - room)));
    }
}

/// A fenced block that holds any text: its fence is longer than every run of backticks inside. LF only.
pub fn code_block(text: &str, language: &str) -> String {
    let text = invisible::strip(text);
    let text = inline::break_markers(text.trim_end_matches('\n'));
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let marker = "`".repeat(longest.max(2) + 1);
    format!("{marker}{language}\n{text}\n{marker}")
}

/// A code span that holds any text of one line.
pub fn code_span(text: &str) -> String {
    let text = invisible::strip(text);
    let text = inline::break_markers(&text.split_whitespace().collect::<Vec<_>>().join(" "));
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let marker = "`".repeat(longest + 1);
    let pad = if text.is_empty() || text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{marker}{pad}{text}{pad}{marker}")
}

struct Fence {
    /// The run of backticks or tildes.
    marker: String,
    /// White space before it.
    indent: usize,
}

impl Fence {
    fn opening(line: &str) -> Option<(Self, String)> {
        let rest = line.trim_start();
        let indent = line.chars().count() - rest.chars().count();
        let mark = rest.chars().next().filter(|c| matches!(c, '`' | '~'))?;
        let length = rest.chars().take_while(|c| *c == mark).count();
        let info = rest.trim_start_matches(mark);
        if length < 3 || (mark == '`' && info.contains('`')) {
            return None;
        }
        let word = info.split_whitespace().next().unwrap_or_default();
        let language: String = word
            .chars()
            .filter(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '+' | '-' | '#' | '.'))
            .take(30)
            .collect();
        let lower = language.to_ascii_lowercase();
        let active = ACTIVE_LANGUAGES.iter().any(|active| lower.starts_with(active));
        let language = if active { "text".to_owned() } else { language };
        Some((Self { marker: mark.to_string().repeat(length), indent }, language))
    }

    fn dedent<'l>(&self, line: &'l str) -> &'l str {
        let strip = line.chars().take(self.indent).take_while(|c| c.is_whitespace()).map(char::len_utf8).sum();
        line.get(strip..).unwrap_or(line)
    }

    fn closed_by(&self, line: &str) -> bool {
        let rest = line.trim_start_matches(' ');
        let mark = self.marker.chars().next().unwrap_or('`');
        let length = rest.chars().take_while(|c| *c == mark).count();
        line.len() - rest.len() <= 3
            && length >= self.marker.len()
            && rest.trim_start_matches(mark).chars().all(|c| matches!(c, ' ' | '\t'))
    }
}

fn open_fence(text: &str) -> Option<String> {
    let mut open: Option<Fence> = None;
    for line in text.split('\n') {
        match &open {
            Some(fence) if fence.closed_by(line) => open = None,
            Some(_) => {}
            None => open = Fence::opening(line).map(|(fence, _)| fence).filter(|fence| fence.indent <= 3),
        }
    }
    open.map(|fence| fence.marker)
}

fn flush(out: &mut String, prose: &mut Vec<&str>) {
    if prose.is_empty() {
        return;
    }
    for line in inline::strip_comments(&prose.join("\n")).split('\n') {
        push_line(out, &inline::sanitise(line));
    }
    prose.clear();
}

fn push_line(out: &mut String, line: &str) {
    out.push_str(line);
    out.push('\n');
}

fn floor(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
