//! Findings as a careless or hostile model would make them, and what must become of them: a second reading of patches
//! and of GitHub's rules, written apart from the product.

use secondlook::diff::Side;
use secondlook::review::anchor::{Anchored, Placed};
use secondlook::review::finding::{Category, Finding, Severity};
use serde_json::{Value, json};

/// A line of a patch that a comment may stand on.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    /// Which hunk, counted from 0.
    pub(crate) hunk: usize,
    /// Its place in the patch.
    pub(crate) order: usize,
    /// Right for added and unchanged lines, left for removed ones.
    pub(crate) side: Side,
    /// Its number on that side.
    pub(crate) number: u32,
    /// Its content.
    pub(crate) text: String,
}

/// Reads a patch that is known to be sound.
pub(crate) fn lines_of(patch: &str) -> Vec<Line> {
    let mut lines = Vec::new();
    let (mut old, mut new, mut old_left, mut new_left, mut hunk) = (0u32, 0u32, 0u32, 0u32, 0usize);
    for (order, line) in patch.split('\n').enumerate() {
        if old_left == 0 && new_left == 0 {
            if let Some(rest) = line.strip_prefix("@@ -") {
                let mut parts = rest.split(' ');
                let mut range = |prefix: &str| {
                    let part = parts.next().unwrap().strip_prefix(prefix).unwrap();
                    let (start, count) = part.split_once(',').unwrap_or((part, "1"));
                    (start.parse::<u32>().unwrap(), count.parse::<u32>().unwrap())
                };
                ((old, old_left), (new, new_left)) = (range(""), range("+"));
                hunk += 1;
            }
            continue;
        }
        let mut push = |side, number| {
            lines.push(Line {
                hunk: hunk - 1,
                order,
                side,
                number,
                text: line.get(1..).unwrap_or_default().to_owned(),
            });
        };
        match line.as_bytes().first() {
            Some(b'+') => {
                push(Side::Right, new);
                (new, new_left) = (new + 1, new_left - 1);
            }
            Some(b'-') => {
                push(Side::Left, old);
                (old, old_left) = (old + 1, old_left - 1);
            }
            Some(b'\\') => {}
            _ => {
                push(Side::Right, new);
                (old, new, old_left, new_left) = (old + 1, new + 1, old_left - 1, new_left - 1);
            }
        }
    }
    lines
}

/// Findings about (at most) `sample` lines of a file and about places that do not exist.
pub(crate) fn findings(path: &str, other_path: &str, lines: &[Line], sample: usize) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut add = |quote: &str, line: Option<u32>, end_line: Option<u32>, side: Option<Side>| {
        findings.push(Finding {
            path: path.to_owned(),
            quote: quote.to_owned(),
            line,
            end_line,
            side,
            severity: Severity::Minor,
            category: Category::Correctness,
            title: "It is wrong".to_owned(),
            body: String::new(),
            replacement: None,
            confidence: 0.5,
            source: String::new(),
            evidence: Vec::new(),
        });
    };
    let beyond = lines.iter().map(|line| line.number).max().unwrap_or(0).saturating_add(1_000);
    let step = lines.len().div_ceil(sample.max(1)).max(1);
    for (index, line) in lines.iter().enumerate().step_by(step) {
        let at = Some(line.number);
        let other_side = if line.side == Side::Left { Side::Right } else { Side::Left };
        let text = line.text.as_str();
        // The quote is right, the line may be anything.
        for wrong in [
            at,
            None,
            Some(line.number + 2),
            Some(line.number.saturating_sub(1)),
            Some(0),
            Some(u32::MAX),
            Some(beyond),
        ] {
            add(text, wrong, None, None);
        }
        add(text, at, Some(beyond), Some(line.side));
        add(text, at, Some(1), Some(other_side));
        add(text.trim(), at, at, None);
        add(text.trim(), None, None, Some(line.side));
        // The line is right, the quote is not.
        add("no such line stands anywhere in here", at, at, None);
        add(&format!("{text} but not quite"), at, at, None);
        add("", at, at, None);
        // Part of a line, and a line with the marker of the diff.
        let chars: Vec<char> = text.chars().collect();
        add(&chars[chars.len() / 4..chars.len() - chars.len() / 4].iter().collect::<String>(), at, None, None);
        add(&format!("{}{text}", if line.side == Side::Left { '-' } else { '+' }), Some(beyond), None, None);
        // Ranges: of neighbours on either side, of one side, over the end of a hunk, and much too long.
        for length in [2, 3, 7] {
            let window: Vec<&str> = lines[index..].iter().take(length).map(|line| line.text.as_str()).collect();
            add(&window.join("\n"), at, Some(line.number + 1), None);
            let same = lines[index..].iter().filter(|next| next.side == line.side);
            let same: Vec<&str> = same.take(length).map(|line| line.text.as_str()).collect();
            add(&same.join("\n"), at, None, None);
            add(&same.join("\n"), Some(beyond), Some(0), Some(line.side));
            add(&same.iter().map(|text| text.trim_start()).collect::<Vec<_>>().join("\r\n"), at, None, None);
        }
        if let Some(next) = lines[index..].iter().find(|next| next.hunk > line.hunk) {
            let last = lines.iter().rfind(|last| last.hunk == line.hunk && last.side == Side::Right).unwrap_or(line);
            add(&format!("{}\n{}", last.text, next.text), Some(last.number), Some(next.number), None);
        }
    }
    add(&lines.iter().map(|line| line.text.as_str()).collect::<Vec<_>>().join("\n"), Some(1), None, None);
    let mut elsewhere: Vec<Finding> = findings.iter().step_by(17).cloned().collect();
    for finding in &mut elsewhere {
        finding.path = other_path.to_owned();
    }
    findings.extend(elsewhere);
    findings
}

/// The comment that GitHub would be sent: no start for a single line, since it wants the start before the end.
pub(crate) fn comment(placed: &Placed) -> Value {
    let side = |side| if side == Side::Left { "LEFT" } else { "RIGHT" };
    let anchor = &placed.anchor;
    let mut comment = json!({"path": placed.finding.path, "line": anchor.line, "side": side(anchor.side), "body": placed.finding.title});
    if anchor.start_line != anchor.line {
        comment["start_line"] = json!(anchor.start_line);
        comment["start_side"] = json!(side(anchor.side));
    }
    comment
}

/// GitHub's rules: added and unchanged lines on the right, removed ones on the left, a start strictly before the end
/// in the same hunk.
pub(crate) fn accepted(path: &str, lines: &[Line], comment: &Value) -> Result<(), String> {
    let find = |line: &Value, side: &Value| {
        let (side, number) = (if side == "LEFT" { Side::Left } else { Side::Right }, line.as_u64());
        lines.iter().find(|known| known.side == side && Some(u64::from(known.number)) == number)
    };
    if comment["path"] != path {
        return Err("the path is not in the diff".into());
    }
    let end = find(&comment["line"], &comment["side"]).ok_or("the line is not part of the diff")?;
    if comment.get("start_line").is_none() {
        return Ok(());
    }
    let start = find(&comment["start_line"], &comment["start_side"]).ok_or("the start is not part of the diff")?;
    if start.hunk != end.hunk || start.order >= end.order || start.number >= end.number {
        return Err("the start is not before the end in the same hunk".into());
    }
    Ok(())
}

/// Whether a placed finding stands on what it quotes, line by line; a quote of one line may be a part of it.
pub(crate) fn stands_on_its_quote(lines: &[Line], placed: &Placed) -> Result<(), String> {
    let anchor = &placed.anchor;
    let covered = lines
        .iter()
        .filter(|line| line.side == anchor.side && (anchor.start_line..=anchor.line).contains(&line.number));
    let covered: Vec<&str> = covered.map(|line| line.text.trim()).collect();
    let quote = placed.finding.quote.trim_matches(|c: char| c.is_whitespace());
    let quoted: Vec<&str> = quote.split('\n').map(str::trim).collect();
    let part = matches!((quoted.as_slice(), covered.as_slice()), ([part], [whole]) if whole.contains(part));
    if covered == quoted || part { Ok(()) } else { Err(format!("{anchor:?} covers {covered:?} and not {quoted:?}")) }
}

/// Checks what the rules say of whole lines: a quote that stands once is placed there whatever the line says, one that
/// stands several times only where the line is one of them, one of another file or without a trace nowhere.
pub(crate) fn check(path: &str, lines: &[Line], given: &[Finding], anchored: &Anchored) -> Result<(), String> {
    if anchored.comments.len() + anchored.unanchored.len() != given.len() {
        return Err("findings were lost".into());
    }
    for placed in &anchored.comments {
        stands_on_its_quote(lines, placed)?;
        accepted(path, lines, &comment(placed))?;
        let (finding, anchor) = (&placed.finding, &placed.anchor);
        let places = places(lines, anchor.side, &finding.quote);
        if places.len() > 1
            && !places.iter().any(|(start, end)| finding.line.is_some_and(|line| (*start..=*end).contains(&line)))
        {
            return Err(format!("a guess among {places:?}: {placed:?}"));
        }
    }
    for (finding, why) in &anchored.unanchored {
        let side = finding.side.unwrap_or(Side::Right);
        let places = places(lines, side, &finding.quote);
        let says_enough = finding.quote.chars().any(char::is_alphanumeric);
        if finding.path != path || !says_enough {
            continue;
        }
        let meant = places.iter().any(|(start, _)| finding.line == Some(*start));
        if places.len() == 1 || (places.len() > 1 && meant) {
            return Err(format!("not placed ({why:?}), though it stands at {places:?}: {finding:?}"));
        }
    }
    Ok(())
}

/// Where whole lines of one side and one hunk are the quote, character by character: first and last line.
fn places(lines: &[Line], side: Side, quote: &str) -> Vec<(u32, u32)> {
    let quoted: Vec<&str> = quote.split('\n').collect();
    let mut places = Vec::new();
    for (index, first) in lines.iter().enumerate().filter(|(_, line)| line.side == side && line.text == quoted[0]) {
        let mut run =
            lines[index..].iter().filter(|line| line.side == side && line.hunk == first.hunk).zip(first.number..);
        let stands =
            quoted.iter().all(|quoted| run.next().is_some_and(|(line, n)| line.text == *quoted && line.number == n));
        let filled = |line: &str| !line.trim().is_empty();
        if stands && filled(quoted[0]) && quoted.last().is_some_and(|last| filled(last)) {
            places.push((first.number, first.number + quoted.len() as u32 - 1));
        }
    }
    places
}
