//! Hunk headers and hunk bodies, over bytes.

use super::{Complaint, MAX_COMPLAINTS};
use crate::diff::{DiffLine, Hunk, LineKind};

/// The lines of a text, one at a time, with their number. Copying it is looking ahead.
#[derive(Clone, Copy)]
pub(super) struct Lines<'a> {
    rest: Option<&'a [u8]>,
    number: usize,
}

impl<'a> Lines<'a> {
    /// The lines of a `patch` field: there is no final newline, so what stands after the last `\n` is a line even when
    /// it is empty.
    pub(super) fn of_patch(text: &'a [u8]) -> Self {
        Self { rest: Some(text), number: 0 }
    }

    /// The lines of a file, each ended by `\n` (the last one perhaps not).
    pub(super) fn of_file(text: &'a [u8]) -> Self {
        let text = text.strip_suffix(b"\n").unwrap_or(text);
        Self { rest: (!text.is_empty()).then_some(text), number: 0 }
    }

    /// The 1-based number of the line last taken.
    pub(super) fn number(&self) -> usize {
        self.number
    }

    /// The next line, not taken.
    pub(super) fn peek(&self) -> Option<&'a [u8]> {
        let mut copy = *self;
        copy.next()
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest?;
        self.number += 1;
        let mut parts = rest.splitn(2, |byte| *byte == b'\n');
        let line = parts.next();
        self.rest = parts.next();
        line
    }
}

/// The numbers of an `@@` line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Header {
    old_start: u32,
    old_count: u32,
    new_start: u32,
    new_count: u32,
}

/// What a line outside of hunks is.
pub(super) enum Read {
    /// A hunk begins.
    Header(Header),
    /// It wants to be a header, and is not one.
    Bad(&'static str),
    /// Anything else.
    Other,
}

/// Reads a hunk header; the text after the second `@@` is whatever function git believes this to be in.
pub(super) fn header(line: &[u8]) -> Read {
    if line.starts_with(b"@@@") {
        return Read::Bad("a hunk of a combined diff (of a merge) has more than two sides");
    }
    let Some(rest) = line.strip_prefix(b"@@") else { return Read::Other };
    const WRONG: Read = Read::Bad("a hunk header is not of the form `@@ -1,2 +1,2 @@`");
    let Some(end) = rest.windows(3).position(|three| three == b" @@") else { return WRONG };
    let Ok(numbers) = str::from_utf8(&rest[..end]) else { return WRONG };
    let mut numbers = numbers.split(' ');
    let (Some(""), Some(old), Some(new), None) = (numbers.next(), numbers.next(), numbers.next(), numbers.next())
    else {
        return WRONG;
    };
    let (Some(old), Some(new)) = (old.strip_prefix('-'), new.strip_prefix('+')) else { return WRONG };
    match (range(old), range(new)) {
        (Some(Ok((old_start, old_count))), Some(Ok((new_start, new_count)))) => {
            if (old_start == 0 && old_count > 0) || (new_start == 0 && new_count > 0) {
                return Read::Bad("a hunk that has lines cannot begin at line 0");
            }
            Read::Header(Header { old_start, old_count, new_start, new_count })
        }
        (Some(Err(TooLarge)), _) | (_, Some(Err(TooLarge))) => Read::Bad("a number in a hunk header is too large"),
        _ => WRONG,
    }
}

struct TooLarge;

/// `12` or `12,3`; the count is 1 when it is left out.
fn range(text: &str) -> Option<Result<(u32, u32), TooLarge>> {
    let (start, count) = text.split_once(',').unwrap_or((text, "1"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(start) || !digits(count) {
        return None;
    }
    let (Ok(start), Ok(count)) = (start.parse::<u32>(), count.parse::<u32>()) else { return Some(Err(TooLarge)) };
    // The line after the last one must be a number too.
    Some(if start.checked_add(count).is_some_and(|end| end < u32::MAX) { Ok((start, count)) } else { Err(TooLarge) })
}

/// Collects hunks and complaints.
pub(super) struct Hunks {
    hunks: Vec<Hunk>,
    complaints: Vec<Complaint>,
    /// Lines that may still be kept.
    budget: usize,
    /// Whether a line of the hunks taken since [`Hunks::take`] was not UTF-8.
    not_utf8: bool,
    /// Whether the line before was the end of the last hunk kept, so that a marker or a stray line belongs to it.
    open: bool,
}

impl Hunks {
    pub(super) fn new(budget: usize) -> Self {
        Self { hunks: Vec::new(), complaints: Vec::new(), budget, not_utf8: false, open: false }
    }

    /// Adds a complaint, as long as there are not too many.
    pub(super) fn complain(&mut self, line: usize, message: impl Into<String>) {
        self.open = false;
        if self.complaints.len() < MAX_COMPLAINTS {
            self.complaints.push(Complaint { line, message: message.into() });
        }
    }

    /// Reads the body of the hunk whose header was just taken. False when it was damaged, and left out.
    pub(super) fn read(&mut self, head: Header, lines: &mut Lines<'_>) -> bool {
        let at = lines.number();
        match self.body(head, lines) {
            Ok(hunk) if self.hunks.last().is_some_and(|last| !follows(last, &hunk)) => {
                self.complain(at, "a hunk overlaps the one before it, or stands before it");
                false
            }
            Ok(hunk) => {
                self.hunks.push(hunk);
                self.open = true;
                true
            }
            Err(why) => {
                self.complain(at, why);
                false
            }
        }
    }

    fn body(&mut self, head: Header, lines: &mut Lines<'_>) -> Result<Hunk, String> {
        let Header { old_start, old_count, new_start, new_count } = head;
        let mut hunk = Hunk { old_start, old_count, new_start, new_count, lines: Vec::new() };
        let (mut old, mut new) = (old_start, new_start);
        let (old_end, new_end) = (old_start + old_count, new_start + new_count);
        while old < old_end || new < new_end {
            let Some(line) = lines.peek().filter(|line| !ends_body(line)) else {
                return Err(format!(
                    "a hunk is shorter than its header says: {} old and {} new lines are missing",
                    old_end - old,
                    new_end - new
                ));
            };
            let kind = match line.first() {
                Some(b' ') | None => LineKind::Context,
                Some(b'+') => LineKind::Added,
                Some(b'-') => LineKind::Removed,
                Some(b'\\') => {
                    lines.next();
                    match hunk.lines.last_mut() {
                        Some(last) => last.no_newline = true,
                        None => self.complain(lines.number(), "a no-newline marker marks no line"),
                    }
                    continue;
                }
                Some(_) => return Err("a line of a hunk does not start with a space, `+` or `-`".into()),
            };
            let (on_old, on_new) = (kind != LineKind::Added, kind != LineKind::Removed);
            if (on_old && old == old_end) || (on_new && new == new_end) {
                return Err("a hunk is longer than its header says on one side".into());
            }
            let Some(budget) = self.budget.checked_sub(1) else {
                return Err("the diff has more lines than are kept".into());
            };
            self.budget = budget;
            lines.next();
            let text = String::from_utf8_lossy(line.get(1..).unwrap_or_default());
            self.not_utf8 |= matches!(text, std::borrow::Cow::Owned(_));
            hunk.lines.push(DiffLine {
                kind,
                old: on_old.then_some(old),
                new: on_new.then_some(new),
                text: text.into_owned(),
                no_newline: false,
            });
            old += u32::from(on_old);
            new += u32::from(on_new);
        }
        Ok(hunk)
    }

    /// A no-newline marker after a hunk: it marks the hunk's last line.
    pub(super) fn mark_no_newline(&mut self, number: usize) {
        match self.hunks.last_mut().filter(|_| self.open).and_then(|hunk| hunk.lines.last_mut()) {
            Some(last) => last.no_newline = true,
            None => self.complain(number, "a no-newline marker marks no line"),
        }
    }

    /// A line that belongs to no hunk. When it looks like one more line of the hunk before, that hunk contradicts its
    /// header and is taken back.
    pub(super) fn stray(&mut self, line: &[u8], number: usize) {
        if self.open && matches!(line.first(), Some(b' ' | b'+' | b'-')) {
            self.hunks.pop();
            self.complain(number, "a hunk is longer than its header says");
        } else {
            self.complain(number, "text stands outside of any hunk");
        }
    }

    /// The hunks read since the last call, and whether all their lines were UTF-8.
    pub(super) fn take(&mut self) -> (Vec<Hunk>, bool) {
        self.open = false;
        (std::mem::take(&mut self.hunks), !std::mem::take(&mut self.not_utf8))
    }

    pub(super) fn finish(self) -> (Vec<Hunk>, Vec<Complaint>) {
        (self.hunks, self.complaints)
    }
}

/// Lines that cannot be content, because content starts with its marker.
fn ends_body(line: &[u8]) -> bool {
    line.starts_with(b"@@") || line.starts_with(b"diff --")
}

/// Whether `next` lies wholly after `last`, on both sides. An empty side stands after the line it names.
fn follows(last: &Hunk, next: &Hunk) -> bool {
    let first = |start: u32, count: u32| if count == 0 { u64::from(start) + 1 } else { u64::from(start) };
    let end = |start, count| first(start, count) + u64::from(count);
    first(next.old_start, next.old_count) >= end(last.old_start, last.old_count)
        && first(next.new_start, next.new_count) >= end(last.new_start, last.new_count)
}
