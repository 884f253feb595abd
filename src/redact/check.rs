//! What an expression cannot say of a secret: checksums, entropy, and the neighbours that make it something else.

use super::pattern::Candidate;

/// File name endings that make `name@2x.png` a file and not an address.
const FILE_ENDINGS: [&str; 22] = [
    "png", "jpg", "jpeg", "gif", "svg", "webp", "ico", "bmp", "js", "mjs", "ts", "tsx", "jsx", "css", "scss", "json",
    "html", "map", "rs", "py", "md", "gz",
];

/// Bytes of line numbers and white space before the mark of a diff.
const MAX_MARGIN: usize = 64;

/// Words that make a value a placeholder.
const PLACEHOLDERS: [&str; 14] = [
    "redacted",
    "example",
    "placeholder",
    "changeme",
    "change_me",
    "change-me",
    "your",
    "xxxx",
    "****",
    "....",
    "dummy",
    "process.env",
    "os.environ",
    "secrets.",
];

/// The expression says all.
pub(super) fn always(_: &Candidate<'_>) -> bool {
    true
}

/// Prose has no digits, keys of this length do.
pub(super) fn has_digit(c: &Candidate<'_>) -> bool {
    c.value.bytes().any(|b| b.is_ascii_digit())
}

/// Upper and lower case, as random letters have.
pub(super) fn mixed_case(c: &Candidate<'_>) -> bool {
    c.value.bytes().any(|b| b.is_ascii_uppercase()) && c.value.bytes().filter(u8::is_ascii_lowercase).count() > 8
}

/// A run of 16 letters and digits with a digit in it: a key, not a CSS class such as `sk-folding-cube-large-loader`.
pub(super) fn is_key_body(c: &Candidate<'_>) -> bool {
    c.value.split(['-', '_']).any(|run| run.len() >= 16 && run.bytes().any(|b| b.is_ascii_digit()))
}

/// Base64 of `user:password`.
pub(super) fn is_basic_credentials(c: &Candidate<'_>) -> bool {
    use base64::Engine as _;
    let decoded = base64::engine::general_purpose::STANDARD.decode(c.value).unwrap_or_default();
    String::from_utf8(decoded).is_ok_and(|text| text.contains(':') && !text.contains(char::is_control))
}

/// A value written out, not a variable of a shell, a template or a format.
pub(super) fn is_literal(c: &Candidate<'_>) -> bool {
    !c.value.starts_with(['$', '{', '%', '<', '[', '*']) && !is_placeholder(c.value)
}

/// A quoted value of high entropy.
pub(super) fn is_quoted_secret(c: &Candidate<'_>) -> bool {
    if is_placeholder(c.value) || has_markup(c.value) {
        return false;
    }
    let kinds = kinds(c.value);
    let has_digit = c.value.bytes().any(|b| b.is_ascii_digit());
    (has_digit && kinds >= 3 && entropy(c.value) >= 2.5)
        || (has_digit && kinds >= 2 && c.value.len() >= 16 && entropy(c.value) >= 3.0)
        || (c.value.len() >= 24 && kinds >= 2 && entropy(c.value) >= 4.0 && !c.value.contains(['_', '-', '.', '/']))
}

/// A value without quotes, as in `.env` and YAML files: it must not look like an identifier, a path or an expression.
pub(super) fn is_bare_secret(c: &Candidate<'_>) -> bool {
    if is_placeholder(c.value) || has_markup(c.value) || c.value.starts_with(['=', '/', '.', '*', '@', '!']) {
        return false;
    }
    let digits = c.value.bytes().filter(u8::is_ascii_digit).count();
    let is_call_or_path = c.value.contains("::") || c.value.contains("->") || c.value.contains('.');
    let rest = c.text.get(c.range.end..).unwrap_or_default();
    let is_call_or_type = rest.starts_with(['(', '[', '<']) || rest.trim_start_matches(' ').starts_with('=');
    digits >= 3 && kinds(c.value) >= 2 && entropy(c.value) >= 3.0 && !is_call_or_path && !is_call_or_type
}

/// An address of a person: not a remote of git, not a file.
pub(super) fn is_email(c: &Candidate<'_>) -> bool {
    let Some((local, domain)) = c.value.split_once('@') else { return false };
    let ending = domain.rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
    let is_remote = local == "git" || local.ends_with("/git");
    !is_remote
        && !FILE_ENDINGS.contains(&ending.as_str())
        && !domain.starts_with('-')
        && !local.chars().all(|c| c == '.')
}

/// A Chinese identity number by its check character (GB 11643-1999).
pub(super) fn is_chinese_id(c: &Candidate<'_>) -> bool {
    const WEIGHTS: [u32; 17] = [7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2];
    const CHECK: [char; 11] = ['1', '0', 'X', '9', '8', '7', '6', '5', '4', '3', '2'];
    let sum: u32 = c.value.chars().zip(WEIGHTS).filter_map(|(digit, weight)| Some(digit.to_digit(10)? * weight)).sum();
    let last = c.value.chars().last().map(|c| c.to_ascii_uppercase());
    last == CHECK.get(sum as usize % 11).copied()
}

/// A US social security number: areas 000, 666 and 900 to 999, group 00 and serial 0000 are never given out.
pub(super) fn is_ssn(c: &Candidate<'_>) -> bool {
    let mut parts = c.value.split('-');
    let (area, group, serial) = (parts.next(), parts.next(), parts.next());
    let never = area.is_none_or(|a| a == "000" || a == "666" || a.starts_with('9'));
    !never && group != Some("00") && serial != Some("0000") && !is_part_of_longer_number(c)
}

/// A card by its issuer's prefix and length, and its Luhn digit.
pub(super) fn is_card(c: &Candidate<'_>) -> bool {
    let digits: Vec<u32> = c.value.chars().filter_map(|c| c.to_digit(10)).collect();
    let prefix = |n: usize| digits.iter().take(n).fold(0, |sum, d| sum * 10 + d);
    let length = digits.len();
    let issued = match prefix(1) {
        4 => matches!(length, 13 | 16 | 19),
        5 => matches!(prefix(2), 51..=55) && length == 16,
        2 => matches!(prefix(4), 2221..=2720) && length == 16,
        3 if matches!(prefix(2), 34 | 37) => length == 15,
        3 if matches!(prefix(3), 300..=305) || matches!(prefix(2), 36 | 38) => length == 14,
        3 => matches!(prefix(4), 3528..=3589) && length == 16,
        6 => matches!(prefix(2), 62 | 65 | 64) && (16..=19).contains(&length) || prefix(4) == 6011 && length == 16,
        _ => false,
    };
    issued && luhn(&digits) && !is_part_of_longer_number(c)
}

/// An international number of 8 to 15 digits (E.164). A `+` that begins a line may be the mark of a diff, so there it
/// must be written with dashes or brackets.
pub(super) fn is_phone(c: &Candidate<'_>) -> bool {
    let digits = c.value.bytes().filter(u8::is_ascii_digit).count();
    let before = c.text.get(..c.range.start).unwrap_or_default();
    // The beginning of a line that is longer than this says nothing about diffs; a look at all of it would make the whole
    // quadratic.
    let near = before.get(before.floor_char_boundary(before.len().saturating_sub(MAX_MARGIN))..).unwrap_or_default();
    // A line may also end with an escaped break, in code that came as JSON.
    let line = near.rsplit(['\n', '\r']).next().unwrap_or_default().rsplit("\\n").next().unwrap_or_default();
    let may_be_diff = line.chars().all(|c| c.is_whitespace() || c.is_ascii_digit() || c == '|');
    let glued = line.chars().next_back().is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | ')' | ']' | '+'));
    let shaped = c.value.contains(['-', '(']) && digits >= 10;
    let is_time = c.text.as_bytes().get(c.range.end) == Some(&b':');
    (8..=15).contains(&digits) && !glued && !is_time && (!may_be_diff || shaped) && !is_part_of_longer_number(c)
}

/// A Chinese mobile number; numbers that are round, decimally or binary, are amounts, and signed ones are arithmetic.
pub(super) fn is_chinese_mobile(c: &Candidate<'_>) -> bool {
    let signed = c.text.get(..c.range.start).is_some_and(|before| before.ends_with(['-', '+']));
    let is_round = c.value.parse::<u64>().is_ok_and(|n| n.is_multiple_of(100_000) || n.is_multiple_of(65_536));
    !is_round && !signed && !is_part_of_longer_number(c)
}

/// Whether digits go on behind a dot or a dash on either side: a float, a UUID, a date, a version.
fn is_part_of_longer_number(c: &Candidate<'_>) -> bool {
    let is_joint = |b: Option<&u8>| b.is_some_and(|b| matches!(b, b'.' | b'-'));
    let is_word = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = c.text.as_bytes();
    let (start, end) = (c.range.start, c.range.end);
    let before = start.checked_sub(1).and_then(|i| bytes.get(i));
    let before_that = start.checked_sub(2).and_then(|i| bytes.get(i));
    is_joint(before) && is_word(before_that) || is_joint(bytes.get(end)) && is_word(bytes.get(end + 1))
}

fn luhn(digits: &[u32]) -> bool {
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(i, d)| match (i % 2, d * 2) {
            (0, _) => *d,
            (_, doubled) if doubled > 9 => doubled - 9,
            (_, doubled) => doubled,
        })
        .sum();
    sum.is_multiple_of(10)
}

fn is_placeholder(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    PLACEHOLDERS.iter().any(|word| lower.contains(word))
}

/// Templates, addresses and expressions.
fn has_markup(value: &str) -> bool {
    ["${", "{{", "#{", "%s", "%(", "://", "<", ">", "(", ")"].iter().any(|mark| value.contains(mark))
}

/// How many of lower case, upper case, digits and others a value has.
fn kinds(value: &str) -> usize {
    let has = |f: fn(&char) -> bool| usize::from(value.chars().any(|c| f(&c)));
    has(char::is_ascii_lowercase)
        + has(char::is_ascii_uppercase)
        + has(char::is_ascii_digit)
        + has(|c| !c.is_ascii_alphanumeric())
}

/// Shannon's entropy in bits per byte: `aaaa` has 0, random hexadecimal about 3.6, random base64 over 4.5.
fn entropy(value: &str) -> f64 {
    let mut counts = [0_u32; 256];
    for byte in value.bytes() {
        counts[usize::from(byte)] += 1;
    }
    let all = value.len() as f64;
    counts.iter().filter(|n| **n > 0).map(|n| f64::from(*n) / all).map(|p| -p * p.log2()).sum()
}
