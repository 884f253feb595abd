//! Prose within one line: what GitHub would act on keeps its looks and loses its effect. Pure.
//!
//! An effect is taken away by an entity for a zero-width space (`&#8203;`), which stands visibly in the source, or by a
//! backslash. A code span counts only when it closes on its own line; every other backtick is escaped, so that GitHub
//! cannot pair it with one further on.

/// Breaks a mention, a reference or a link in two without being seen.
const BREAK: &str = "&#8203;";

/// Hosts a link may lead to: reference documentation that nobody can write private pages to. GitHub itself is not among
/// them, since a link to an issue there notifies and cross-references.
const KNOWN_HOSTS: [&str; 24] = [
    "cheatsheetseries.owasp.org",
    "cwe.mitre.org",
    "datatracker.ietf.org",
    "developer.mozilla.org",
    "doc.rust-lang.org",
    "docs.djangoproject.com",
    "docs.oracle.com",
    "docs.python.org",
    "docs.rs",
    "docs.ruby-lang.org",
    "en.cppreference.com",
    "en.wikipedia.org",
    "go.dev",
    "kubernetes.io",
    "learn.microsoft.com",
    "nodejs.org",
    "nvd.nist.gov",
    "owasp.org",
    "peps.python.org",
    "pkg.go.dev",
    "react.dev",
    "www.postgresql.org",
    "www.rfc-editor.org",
    "www.typescriptlang.org",
];

/// Entities that stay: they stand for what they are written as.
const KEPT_ENTITIES: [&str; 6] = ["&lt;", "&gt;", "&amp;", "&quot;", "&nbsp;", BREAK];

/// One line of prose made harmless. Idempotent.
pub(super) fn sanitise(line: &str) -> String {
    let chars: Vec<char> = line.chars().collect();
    let mut out = String::with_capacity(line.len() + 16);
    prose(&chars, &mut out);
    out
}

/// Removes HTML comments that end; one that does not is later escaped like any tag. Code spans are passed over, so that
/// code about HTML keeps its comments.
pub(super) fn strip_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut in_code = false;
    while let Some((before, comment)) = rest.find("<!--").map(|at| rest.split_at(at)) {
        let (parity, on_line) = before.rsplit_once('\n').map_or((in_code, before), |(_, line)| (false, line));
        in_code = parity ^ (on_line.matches('`').count() % 2 == 1);
        let Some(end) = comment.find("-->") else { break };
        out.push_str(before);
        if in_code {
            out.push_str("<!--");
            rest = comment.get(4..).unwrap_or_default();
        } else {
            // A space keeps apart what the comment kept apart.
            out.push(' ');
            rest = comment.get(end + 3..).unwrap_or_default();
        }
    }
    out.push_str(rest);
    out
}

/// Code with our own hidden markers made unrecognisable: they are ours alone to write, even as a quotation.
pub(super) fn break_markers(code: &str) -> String {
    let mut out = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(at) = rest.find("<!--") {
        let (before, marker) = rest.split_at(at);
        out.push_str(before);
        let after = marker.get(4..).unwrap_or_default();
        let ours = after.trim_start().get(..10).is_some_and(|word| word.eq_ignore_ascii_case("secondlook"));
        out.push_str(if ours { "<! --" } else { "<!--" });
        rest = after;
    }
    out.push_str(rest);
    out
}

fn prose(chars: &[char], out: &mut String) {
    let at = |i: usize| chars.get(i).copied();
    let mut unclosed: Vec<usize> = Vec::new();
    let mut i = 0;
    while let Some(c) = at(i) {
        let next = at(i + 1);
        match c {
            '`' => i = backticks(chars, i, &mut unclosed, out),
            '\\' if matches!(next, Some('@' | '#' | ':')) => {
                // An escaped sign is the sign itself to GitHub, so it is handled as if bare.
                out.push(c);
                i += 1;
            }
            // The backslash would keep an entity from being one, or a tag; both are written out instead.
            '\\' if next == Some('<') => i += 1,
            '\\' if next == Some('&') => {
                out.push_str("&amp;");
                i += 2;
            }
            '\\' if next.is_some_and(|n| n.is_ascii_punctuation()) => {
                out.push(c);
                out.extend(next);
                i += 2;
            }
            '<' => {
                out.push_str("&lt;");
                i += 1;
            }
            '&' => match kept_entity(chars, i) {
                Some(entity) => {
                    out.push_str(entity);
                    i += entity.len();
                }
                None => {
                    out.push_str(ampersand(chars, i));
                    i += 1;
                }
            },
            '@' => {
                out.push('@');
                let part_of_address = i > 0 && at(i - 1).is_some_and(|p| p.is_ascii_alphanumeric());
                if next.is_some_and(|n| n.is_ascii_alphanumeric()) && !part_of_address {
                    out.push_str(BREAK);
                }
                i += 1;
            }
            '#' => {
                out.push('#');
                if next.is_some_and(|n| n.is_ascii_digit()) {
                    out.push_str(BREAK);
                }
                i += 1;
            }
            '-' => {
                out.push('-');
                let gh = i >= 2
                    && at(i - 2).is_some_and(|g| g.eq_ignore_ascii_case(&'g'))
                    && at(i - 1).is_some_and(|h| h.eq_ignore_ascii_case(&'h'));
                if gh && next.is_some_and(|n| n.is_ascii_digit()) {
                    out.push_str(BREAK);
                }
                i += 1;
            }
            '~' if next == Some('~') && at(i + 2) == Some('~') => {
                // In a list or a quotation this would open a fence, with whatever language stands after it.
                out.push_str("\\~");
                i += 1;
            }
            '!' if next == Some('[') => {
                out.push_str("\\!");
                i += 1;
            }
            ']' if next == Some(':') || (next == Some('(') && !known_destination(chars, i + 2)) => {
                out.push_str("\\]");
                i += 1;
            }
            ':' if next == Some('/') && at(i + 2) == Some('/') => i = scheme_end(chars, i, out),
            ':' if escaped_slashes(chars, i + 1) => {
                out.push(':');
                out.push_str(BREAK);
                i += 1;
            }
            'w' | 'W' if starts_www(chars, i) => {
                out.extend([c, at(i + 1).unwrap_or(c), at(i + 2).unwrap_or(c)]);
                out.push_str(BREAK);
                i += 3;
            }
            _ => {
                out.push(c);
                i += 1;
            }
        }
    }
}

/// A run of backticks: the code span it opens, or its backticks escaped. Lengths known to have no partner further on
/// are remembered, so that a line full of runs is read once per length.
fn backticks(chars: &[char], start: usize, unclosed: &mut Vec<usize>, out: &mut String) -> usize {
    let run = |from: usize| chars.iter().skip(from).take_while(|c| **c == '`').count();
    let length = run(start);
    let body = start + length;
    let mut end = None;
    if !unclosed.contains(&length) {
        let mut i = body;
        while i < chars.len() {
            let here = run(i);
            if here == length {
                end = Some(i);
                break;
            }
            i += here.max(1);
        }
    }
    let escaped = "\\`".repeat(length);
    let Some(end) = end else {
        unclosed.push(length);
        out.push_str(&escaped);
        return body;
    };
    let code = chars.get(body..end).unwrap_or_default();
    let text: String = code.iter().collect();
    if code.contains(&'|') {
        // In a table the bar ends the cell, and with it the code: then what stands in it must be harmless by itself.
        let mut harmless = String::new();
        prose(code, &mut harmless);
        if harmless != text {
            out.push_str(&escaped);
            out.push_str(&harmless);
            out.push_str(&escaped);
            return end + length;
        }
    }
    let marker = "`".repeat(length);
    out.push_str(&marker);
    out.push_str(&break_markers(&text));
    out.push_str(&marker);
    end + length
}

fn kept_entity(chars: &[char], start: usize) -> Option<&'static str> {
    let stands = |entity: &&str| entity.chars().enumerate().all(|(n, c)| chars.get(start + n) == Some(&c));
    KEPT_ENTITIES.into_iter().find(stands)
}

/// An ampersand that begins an entity is written out: an entity may stand for `@` or `#`.
fn ampersand(chars: &[char], start: usize) -> &'static str {
    let name = chars.iter().skip(start + 1).take(40).take_while(|c| c.is_ascii_alphanumeric() || **c == '#').count();
    let begins_entity = name > 0 && chars.get(start + 1 + name) == Some(&';');
    if begins_entity { "&amp;" } else { "&" }
}

/// Where the scan goes on after `://`: past the host when it is known and safe to link, else after a broken colon.
fn scheme_end(chars: &[char], colon: usize, out: &mut String) -> usize {
    let scheme_start = colon.checked_sub(5);
    let https = scheme_start.is_some_and(|start| {
        let scheme: String = chars.get(start..colon).unwrap_or_default().iter().collect();
        let apart = start == 0 || chars.get(start - 1).is_some_and(|c| !c.is_ascii_alphanumeric());
        scheme == "https" && apart
    });
    match known_host(chars, colon + 3) {
        Some(end) if https => {
            out.extend(chars.get(colon..end).unwrap_or_default());
            end
        }
        _ => {
            out.push(':');
            out.push_str(BREAK);
            colon + 1
        }
    }
}

/// `:\//` and `:/\/` read `://` once the backslash has done its work.
fn escaped_slashes(chars: &[char], start: usize) -> bool {
    let slash = |i: usize| match chars.get(i) {
        Some('/') => Some(i + 1),
        Some('\\') if chars.get(i + 1) == Some(&'/') => Some(i + 2),
        _ => None,
    };
    slash(start).and_then(slash).is_some()
}

fn known_destination(chars: &[char], start: usize) -> bool {
    let scheme: String = chars.iter().skip(start).take(8).collect();
    scheme == "https://" && known_host(chars, start + 8).is_some()
}

/// The end of a known host that begins at `start`.
fn known_host(chars: &[char], start: usize) -> Option<usize> {
    let host: String =
        chars.iter().skip(start).take(64).take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-')).collect();
    let end = start + host.chars().count();
    let ended = chars.get(end).is_none_or(|c| matches!(c, '/' | '#' | '?' | ')' | ']' | ' ' | ',' | ';' | '*' | '"'));
    (ended && KNOWN_HOSTS.contains(&host.trim_end_matches('.'))).then_some(end)
}

fn starts_www(chars: &[char], start: usize) -> bool {
    let word = |n: usize, c: char| chars.get(start + n).is_some_and(|x| x.eq_ignore_ascii_case(&c));
    let apart = start == 0 || chars.get(start - 1).is_none_or(|c| !c.is_ascii_alphanumeric());
    apart && word(1, 'w') && word(2, 'w') && word(3, '.')
}
