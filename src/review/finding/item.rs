//! From one item of an answer to a finding: every field as leniently as its meaning allows.

use serde_json::{Map, Value};

use super::{
    Category, DEFAULT_CONFIDENCE, Finding, MAX_BODY, MAX_PATH, MAX_QUOTE, MAX_QUOTE_LINES, MAX_REPLACEMENT, MAX_TITLE,
    Rejected, Severity, clip, json::MAX_RAW,
};
use crate::diff::Side;

/// Characters of the longest id of a rule.
const MAX_SOURCE: usize = 100;

const PATH: &[&str] = &["path", "file", "filename", "filepath"];
const QUOTE: &[&str] =
    &["quote", "quotedcode", "code", "snippet", "codesnippet", "existingcode", "originalcode", "codequote"];
const LINE: &[&str] = &["line", "startline", "linestart", "linenumber", "lineno", "start", "lines", "linerange"];
const END_LINE: &[&str] = &["endline", "lineend", "end"];
const SIDE: &[&str] = &["side"];
const SEVERITY: &[&str] = &["severity", "level", "priority", "importance"];
const CATEGORY: &[&str] = &["category", "type", "kind", "label"];
const TITLE: &[&str] = &["title", "headline", "name", "issue", "problem", "summary", "claim"];
const BODY: &[&str] =
    &["body", "description", "message", "comment", "explanation", "details", "detail", "rationale", "content", "text"];
const ADVICE: &[&str] = &["suggestion", "recommendation", "fix", "remedy"];
const REPLACEMENT: &[&str] =
    &["replacement", "replacementcode", "suggestedcode", "improvedcode", "fixedcode", "newcode"];
const SOURCE: &[&str] = &["source"];
const CONFIDENCE: &[&str] = &["confidence", "certainty", "score"];
/// Objects that hold part of the fields.
const NESTED: &[&str] = &["location", "position", "range"];

/// Severity words beside our own, each with what it comes to.
const SEVERITIES: &[(Severity, &[&str])] = &[
    (Severity::Critical, &["critical", "blocker", "blocking", "severe", "fatal", "urgent", "p0", "s0"]),
    (Severity::Major, &["major", "high", "error", "important", "serious", "p1", "s1"]),
    (Severity::Minor, &["minor", "medium", "moderate", "warning", "warn", "normal", "p2", "s2"]),
    (
        Severity::Nit,
        &[
            "nit",
            "nitpick",
            "low",
            "info",
            "informational",
            "trivial",
            "note",
            "hint",
            "suggestion",
            "style",
            "cosmetic",
            "p3",
            "p4",
            "s3",
        ],
    ),
];

/// Category words beside our own; the first whose word is contained wins.
const CATEGORIES: &[(Category, &[&str])] = &[
    (Category::Security, &["security", "vulnerab", "injection", "auth", "crypto", "secret", "privacy", "xss", "csrf"]),
    (Category::Performance, &["perf", "efficien", "speed", "slow", "memory", "resource", "scalab"]),
    (
        Category::Readability,
        &["readab", "maintainab", "style", "naming", "clarity", "doc", "format", "complex", "comment", "typo"],
    ),
    (
        Category::BestPractice,
        &["practice", "convention", "test", "design", "architecture", "idiom", "deprecat", "lint"],
    ),
];

pub(super) fn parse(item: &Value, path: &str) -> Result<Finding, Rejected> {
    let reject = |reason: &str| Err(Rejected { reason: reason.into(), raw: clip(&item.to_string(), MAX_RAW) });
    let Some(members) = item.as_object() else { return reject("an item of `findings` is not an object") };
    let fields = Fields::of(members);

    let body = fields.text(BODY).unwrap_or_default();
    let body = match fields.text(ADVICE).filter(|advice| !advice.trim().is_empty() && !body.contains(advice.trim())) {
        Some(advice) if body.trim().is_empty() => advice,
        Some(advice) => format!("{}\n\n{}", body.trim_end(), advice.trim()),
        None => body,
    };
    let body = body.replace('\0', "").trim().to_owned();
    let title = fields.text(TITLE).map(|title| one_line(&title)).filter(|title| !title.is_empty());
    let title = title.unwrap_or_else(|| one_line(first_sentence(&body)));
    if title.is_empty() {
        return reject("an item says nothing: `title` and `body` are missing or empty");
    }
    let named = fields.text(PATH).unwrap_or_default();
    if named.chars().nth(MAX_PATH).is_some() {
        return reject("an item's `path` is too long to be one");
    }
    let (line, end_line) = fields.lines();
    Ok(Finding {
        path: file(&named, path),
        quote: quote(&fields.text(QUOTE).unwrap_or_default()),
        line,
        end_line,
        side: fields.text(SIDE).and_then(|side| self::side(&side)),
        severity: fields.text(SEVERITY).map_or(Severity::Minor, |text| severity(&text)),
        category: fields.text(CATEGORY).map_or(Category::Correctness, |text| category(&text)),
        title: clip(&title, MAX_TITLE),
        body: clip(&body, MAX_BODY),
        replacement: fields
            .text(REPLACEMENT)
            .map(|text| unfenced(&text).to_owned())
            .filter(|text| text.chars().nth(MAX_REPLACEMENT).is_none()),
        confidence: fields.get(CONFIDENCE).map_or(DEFAULT_CONFIDENCE, confidence),
        source: fields.text(SOURCE).filter(|text| is_id(text)).unwrap_or_default(),
        evidence: Vec::new(),
    })
}

/// Whether a text can be the id of a rule or the name of a model.
fn is_id(text: &str) -> bool {
    text.len() <= MAX_SOURCE && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.:/".contains(c))
}

/// Whether an object claims something about some place: then it is a finding even without a list around it.
pub(super) fn looks_like_one(members: &Map<String, Value>) -> bool {
    let fields = Fields::of(members);
    let claims = [TITLE, BODY].into_iter().any(|names| fields.text(names).is_some());
    claims && [PATH, QUOTE, LINE, SEVERITY].into_iter().any(|names| fields.get(names).is_some())
}

/// A field name in lower case, without what people put between words: `endLine`, `end_line` and `End Line` are one.
pub(super) fn plain(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

struct Fields<'a>(Vec<(String, &'a Value)>);

impl<'a> Fields<'a> {
    fn of(members: &'a Map<String, Value>) -> Self {
        let mut fields: Vec<_> = members.iter().map(|(name, value)| (plain(name), value)).collect();
        for index in 0..fields.len() {
            if let (name, Value::Object(inner)) = &fields[index]
                && NESTED.contains(&name.as_str())
            {
                fields.extend(inner.iter().map(|(name, value)| (plain(name), value)));
            }
        }
        Self(fields)
    }

    /// The first field that has one of the names, in the order of the names, and is not null.
    fn get(&self, names: &[&str]) -> Option<&'a Value> {
        names
            .iter()
            .find_map(|name| self.0.iter().find(|(field, value)| field == name && !value.is_null()))
            .map(|f| f.1)
    }

    /// As text; a list of texts is lines.
    fn text(&self, names: &[&str]) -> Option<String> {
        match self.get(names)? {
            Value::String(text) => Some(text.clone()),
            Value::Array(lines) => {
                let lines: Option<Vec<&str>> = lines.iter().map(Value::as_str).collect();
                Some(lines?.join("\n"))
            }
            Value::Number(number) => Some(number.to_string()),
            Value::Null | Value::Bool(_) | Value::Object(_) => None,
        }
    }

    /// First and last line: numbers, texts such as `12`, `L12` or `12-15`, or a pair.
    fn lines(&self) -> (Option<u32>, Option<u32>) {
        let (first, last) = match self.get(LINE) {
            Some(Value::Array(pair)) => (pair.first().and_then(line), pair.get(1).and_then(line)),
            Some(Value::String(text)) => {
                let mut numbers = text.split(|c: char| !c.is_ascii_digit()).filter(|part| !part.is_empty());
                let mut next = || numbers.next().and_then(|part| part.parse().ok()).filter(|line| *line > 0);
                if text.trim_start().starts_with('-') { (None, None) } else { (next(), next()) }
            }
            Some(value) => (line(value), None),
            None => (None, None),
        };
        let end = match self.get(END_LINE) {
            Some(Value::String(text)) => {
                text.trim().trim_start_matches(['L', 'R']).parse().ok().filter(|line| *line > 0)
            }
            Some(value) => line(value),
            None => None,
        };
        (first, end.or(last))
    }
}

/// A line number: whole, at least 1, and not larger than any file.
fn line(value: &Value) -> Option<u32> {
    let number = value.as_f64().filter(|number| number.fract() == 0.0 && *number >= 1.0)?;
    // `as` is exact here: the number is whole and within the range.
    (number <= f64::from(u32::MAX)).then_some(number as u32)
}

/// The file under review when the model spelt its path another way (`./x`, `a/x`, absolute, `\`); otherwise what the
/// model wrote, which is then another file's.
pub(super) fn file(named: &str, path: &str) -> String {
    fn bare(path: &str) -> &str {
        path.trim().trim_matches(['`', '"', '\''])
    }
    let named = &named.replace('\0', "");
    // A name may hold blanks and quotes at its ends itself.
    if named == path || bare(named).is_empty() || bare(named) == bare(path) {
        return path.to_owned();
    }
    let named = bare(named);
    let slashed = named.replace('\\', "/");
    let mut rest = slashed.as_str();
    while let Some(shorter) = rest.strip_prefix("./") {
        rest = shorter;
    }
    let prefixed = ["", "a/", "b/", "/"].iter().any(|prefix| rest.strip_prefix(prefix) == Some(path));
    let absolute = || rest.starts_with('/') || rest.as_bytes().get(1) == Some(&b':');
    let below = || rest.strip_suffix(path).is_some_and(|root| root.ends_with('/'));
    if prefixed || (absolute() && below()) { path.to_owned() } else { named.to_owned() }
}

fn side(text: &str) -> Option<Side> {
    match plain(text).as_str() {
        "left" | "old" | "removed" | "deleted" | "base" | "before" => Some(Side::Left),
        "right" | "new" | "added" | "head" | "after" => Some(Side::Right),
        _ => None,
    }
}

fn severity(text: &str) -> Severity {
    let text = text.to_lowercase();
    let words: Vec<&str> = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let named = SEVERITIES.iter().find(|(_, names)| names.iter().any(|name| words.contains(name)));
    named.map_or(Severity::Minor, |(severity, _)| *severity)
}

fn category(text: &str) -> Category {
    let text = plain(text);
    let named = CATEGORIES.iter().find(|(_, names)| names.iter().any(|name| text.contains(name)));
    named.map_or(Category::Correctness, |(category, _)| *category)
}

/// A share of 1, a percentage, or a word.
fn confidence(value: &Value) -> f64 {
    let number = match value {
        Value::String(text) => {
            let text = text.trim().to_lowercase();
            match text.as_str() {
                "very high" | "certain" => return 0.95,
                "high" => return 0.9,
                "medium" | "moderate" => return 0.6,
                "low" => return 0.3,
                _ => {}
            }
            match text.strip_suffix('%') {
                Some(percent) => percent.trim().parse().map(|percent: f64| percent / 100.0).ok(),
                None => text.parse().ok(),
            }
        }
        other => other.as_f64(),
    };
    match number {
        Some(share) if (0.0..=1.0).contains(&share) => share,
        Some(percent) if percent > 1.0 && percent <= 100.0 => percent / 100.0,
        _ => DEFAULT_CONFIDENCE,
    }
}

/// The quoted code: without a fence around it, and cut between lines where it is too long.
fn quote(text: &str) -> String {
    let text = unfenced(text).trim_matches('\n');
    let mut kept = 0;
    let mut chars = 0;
    for line in text.split_inclusive('\n').take(MAX_QUOTE_LINES) {
        chars += line.chars().count();
        if chars > MAX_QUOTE {
            break;
        }
        kept += line.len();
    }
    text[..kept].trim_end_matches('\n').to_owned()
}

/// The content of a fence that is all there is.
fn unfenced(text: &str) -> &str {
    let inside = || {
        let body = text.trim().strip_prefix("```")?.strip_suffix("```")?;
        let (info, code) = body.split_once('\n')?;
        (!info.contains('`') && !code.contains("```")).then(|| code.strip_suffix('\n').unwrap_or(code))
    };
    inside().unwrap_or(text)
}

fn one_line(text: &str) -> String {
    text.split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Up to the first full stop, question or exclamation mark before white space, or the end of the line.
fn first_sentence(text: &str) -> &str {
    let text = text.trim_start();
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let next = chars.peek().map(|(_, next)| *next);
        match c {
            '\n' | '\u{2028}' | '\u{2029}' => return &text[..at],
            '.' if next.is_none_or(char::is_whitespace) => return &text[..at],
            '!' | '?' if next.is_none_or(char::is_whitespace) => return &text[..at + c.len_utf8()],
            '。' => return &text[..at],
            _ => {}
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn with(name: &str, value: Value) -> Finding {
        parse(&json!({"title": "T", name: value}), "src/a.rs").unwrap()
    }

    #[rstest]
    #[case(json!(12), Some(12))]
    #[case(json!("12"), Some(12))]
    #[case(json!("L12"), Some(12))]
    #[case(json!(12.0), Some(12))]
    #[case(json!(12.5), None)]
    #[case(json!(0), None)]
    #[case(json!("0"), None)]
    #[case(json!(-3), None)]
    #[case(json!("-3"), None)]
    #[case(json!(4_294_967_295u64), Some(u32::MAX))]
    #[case(json!(4_294_967_296u64), None)]
    #[case(json!(1e300), None)]
    #[case(json!("99999999999999999999"), None)]
    #[case(json!("here"), None)]
    #[case(json!(true), None)]
    #[case(json!(null), None)]
    fn reads_lines(#[case] value: Value, #[case] expected: Option<u32>) {
        assert_eq!(with("line", value.clone()).line, expected);
        assert_eq!(with("endLine", value).end_line, expected);
    }

    #[rstest]
    #[case("lines", json!("12-15"))]
    #[case("lines", json!([12, 15]))]
    #[case("location", json!({"start_line": 12, "end_line": 15}))]
    fn reads_ranges(#[case] name: &str, #[case] value: Value) {
        let finding = with(name, value);
        assert_eq!((finding.line, finding.end_line), (Some(12), Some(15)));
    }

    #[rstest]
    #[case("Critical", Severity::Critical)]
    #[case("🔴 BLOCKER", Severity::Critical)]
    #[case("high", Severity::Major)]
    #[case("error", Severity::Major)]
    #[case("warning", Severity::Minor)]
    #[case("P2 (medium)", Severity::Minor)]
    #[case("info", Severity::Nit)]
    #[case("low", Severity::Nit)]
    #[case("strange", Severity::Minor)]
    fn reads_severities(#[case] text: &str, #[case] expected: Severity) {
        assert_eq!(with("severity", json!(text)).severity, expected);
    }

    #[rstest]
    #[case("security", Category::Security)]
    #[case("SQL Injection", Category::Security)]
    #[case("perf", Category::Performance)]
    #[case("Code style", Category::Readability)]
    #[case("best_practice", Category::BestPractice)]
    #[case("Best Practices", Category::BestPractice)]
    #[case("testing", Category::BestPractice)]
    #[case("bug", Category::Correctness)]
    #[case("correctness", Category::Correctness)]
    fn reads_categories(#[case] text: &str, #[case] expected: Category) {
        assert_eq!(with("category", json!(text)).category, expected);
    }

    #[rstest]
    #[case(json!(0.7), 0.7)]
    #[case(json!(1), 1.0)]
    #[case(json!(85), 0.85)]
    #[case(json!("85%"), 0.85)]
    #[case(json!(" 0.4 "), 0.4)]
    #[case(json!("high"), 0.9)]
    #[case(json!("NaN"), DEFAULT_CONFIDENCE)]
    #[case(json!("inf"), DEFAULT_CONFIDENCE)]
    #[case(json!("-inf%"), DEFAULT_CONFIDENCE)]
    #[case(json!(-1), DEFAULT_CONFIDENCE)]
    #[case(json!(1e9), DEFAULT_CONFIDENCE)]
    #[case(json!(null), DEFAULT_CONFIDENCE)]
    fn reads_confidence(#[case] value: Value, #[case] expected: f64) {
        assert_eq!(with("confidence", value).confidence, expected);
    }

    #[rstest]
    #[case("", "src/a.rs")]
    #[case("src/a.rs", "src/a.rs")]
    #[case("./src/a.rs", "src/a.rs")]
    #[case("/src/a.rs", "src/a.rs")]
    #[case("a/src/a.rs", "src/a.rs")]
    #[case("b/src/a.rs", "src/a.rs")]
    #[case("/home/me/repo/src/a.rs", "src/a.rs")]
    #[case("C:\\repo\\src\\a.rs", "src/a.rs")]
    #[case("`src/a.rs`", "src/a.rs")]
    #[case("src/b.rs", "src/b.rs")]
    #[case("a.rs", "a.rs")]
    #[case("other/src/a.rs", "other/src/a.rs")]
    #[case("/repo/xsrc/a.rs", "/repo/xsrc/a.rs")]
    fn knows_the_file_under_review(#[case] named: &str, #[case] expected: &str) {
        assert_eq!(with("path", json!(named)).path, expected);
    }

    #[test]
    fn a_directory_named_like_a_prefix_is_no_prefix() {
        assert_eq!(file("a/x.rs", "a/x.rs"), "a/x.rs");
        assert_eq!(file("x.rs", "a/x.rs"), "x.rs");
    }

    #[rstest]
    #[case(json!("LEFT"), Some(Side::Left))]
    #[case(json!("right"), Some(Side::Right))]
    #[case(json!("old"), Some(Side::Left))]
    #[case(json!("BOTH"), None)]
    #[case(json!(null), None)]
    fn reads_sides(#[case] value: Value, #[case] expected: Option<Side>) {
        assert_eq!(with("side", value).side, expected);
    }

    #[rstest]
    #[case(json!("a\u{2028}b\u{85}c\rd"), "a\u{2028}b\u{85}c\rd")]
    #[case(json!("\n    x\n    y\r\n\n"), "    x\n    y\r")]
    #[case(json!(["x", "y"]), "x\ny")]
    #[case(json!("```rust\nlet x;\n```"), "let x;")]
    #[case(json!(null), "")]
    fn reads_quotes(#[case] value: Value, #[case] expected: &str) {
        assert_eq!(with("quote", value).quote, expected);
    }

    #[test]
    fn a_long_quote_is_cut_between_lines_and_a_long_replacement_dropped() {
        let line = "é".repeat(99);
        let long = vec![line.as_str(); 1_000].join("\n");
        let kept = with("quote", json!(long)).quote;
        assert_eq!(kept.lines().count(), MAX_QUOTE / 100);
        assert!(kept.lines().all(|kept| kept == line));
        assert_eq!(with("quote", json!("x\n".repeat(1_000))).quote.lines().count(), MAX_QUOTE_LINES);
        assert_eq!(with("replacement", json!(long)).replacement, None);
        assert_eq!(with("replacement", json!("")).replacement.as_deref(), Some(""));
    }

    #[rstest]
    #[case(json!({"body": "It panics. Badly.\nMore"}), "It panics", "It panics. Badly.\nMore")]
    #[case(json!({"message": "Uses v1.2 here"}), "Uses v1.2 here", "Uses v1.2 here")]
    #[case(json!({"title": " Two\nlines\u{0} "}), "Two lines", "")]
    #[case(json!({"title": "T", "body": "B", "suggestion": "Use x."}), "T", "B\n\nUse x.")]
    #[case(json!({"title": "T", "fix": "Use x."}), "T", "Use x.")]
    fn a_claim_is_found_where_it_stands(#[case] item: Value, #[case] title: &str, #[case] body: &str) {
        let finding = parse(&item, "x").unwrap();
        assert_eq!((finding.title.as_str(), finding.body.as_str()), (title, body));
    }

    #[rstest]
    #[case(json!("python-eval"), "python-eval")]
    #[case(json!("openai::gpt-5-mini"), "openai::gpt-5-mini")]
    #[case(json!("fn main() {}"), "")]
    #[case(json!("r".repeat(101)), "")]
    #[case(json!(null), "")]
    fn a_source_is_an_id_or_nothing(#[case] value: Value, #[case] expected: &str) {
        assert_eq!(with("source", value).source, expected);
    }

    #[rstest]
    #[case(json!({"line": 3, "quote": "x"}), "says nothing")]
    #[case(json!({"title": " ", "body": "\n"}), "says nothing")]
    #[case(json!("text"), "not an object")]
    #[case(json!({"title": "T", "path": "x/".repeat(3_000)}), "too long")]
    fn an_item_that_claims_nothing_is_rejected(#[case] item: Value, #[case] reason: &str) {
        let rejected = parse(&item, "x").unwrap_err();
        assert!(rejected.reason.contains(reason), "{rejected:?}");
        assert!(rejected.raw.chars().count() <= MAX_RAW + 1);
    }
}
