//! When two findings are the same, and how alike two claims are.

use std::collections::BTreeSet;

use sha2::{Digest, Sha256};

use super::{Category, Finding};

/// Words that say nothing about a problem.
const EMPTY_WORDS: &[&str] = &[
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "can", "for", "from", "has", "have", "here", "if", "in",
    "is", "it", "its", "of", "on", "or", "so", "that", "the", "then", "there", "this", "to", "was", "when", "which",
    "will", "with",
];

pub(super) fn fingerprint(finding: &Finding) -> String {
    let mut hash = Sha256::new();
    hash.update(&finding.path);
    hash.update([0]);
    let code: String = finding.quote.chars().filter(|c| !c.is_whitespace()).collect();
    if code.is_empty() {
        hash.update([1]);
        hash.update(words(&finding.title).join(" "));
    } else {
        hash.update(code);
    }
    hash.update([0]);
    hash.update(match finding.category {
        Category::Correctness => "correctness",
        Category::Security => "security",
        Category::Performance => "performance",
        Category::Readability => "readability",
        Category::BestPractice => "best_practice",
    });
    hex::encode(&hash.finalize()[..8])
}

pub(super) fn similarity(a: &Finding, b: &Finding) -> f64 {
    let tokens = |finding: &Finding| -> BTreeSet<String> {
        let words = words(&finding.title).into_iter().chain(words(&finding.body));
        words.filter(|word| !EMPTY_WORDS.contains(&word.as_str())).collect()
    };
    let (a_tokens, b_tokens) = (tokens(a), tokens(b));
    let common = a_tokens.intersection(&b_tokens).count();
    let all = a_tokens.len() + b_tokens.len() - common;
    if all == 0 {
        // Nothing to compare by words: only the same text is alike.
        return if a.title == b.title && a.body == b.body { 1.0 } else { 0.0 };
    }
    // Both counts are bounded by the length of the texts, far below where `f64` loses whole numbers.
    common as f64 / all as f64
}

/// Lower-case words; identifiers are split where people see words: `userName`, `user_name` and `HTTPServer2` are
/// `user name`, `user name` and `http server2`.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut before: Option<char> = None;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let hump = before.is_some_and(|before| {
            let next_is_lower = chars.peek().is_some_and(|next| next.is_lowercase());
            c.is_uppercase()
                && (before.is_lowercase() || before.is_numeric() || (before.is_uppercase() && next_is_lower))
        });
        if (hump || !c.is_alphanumeric()) && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if c.is_alphanumeric() {
            word.extend(c.to_lowercase());
        }
        before = Some(c);
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::review::finding::parse_findings;

    fn finding(quote: &str, title: &str, body: &str) -> Finding {
        let answer = serde_json::json!({"findings": [{"quote": quote, "title": title, "body": body}]});
        parse_findings(&answer.to_string(), "src/a.rs").findings.remove(0)
    }

    #[test]
    fn a_fingerprint_is_of_path_code_and_category() {
        let one = finding("let x = f();", "It panics", "because");
        let print = fingerprint(&one);
        assert_eq!(print.len(), 16);
        assert!(print.bytes().all(|byte| byte.is_ascii_hexdigit()));
        // Indentation, place and wording are not the finding.
        let same = Finding { line: Some(9), title: "Other".into(), quote: "\t let x=f( );\r\n".into(), ..one.clone() };
        assert_eq!(fingerprint(&same), print);
        for other in [
            Finding { path: "src/b.rs".into(), ..one.clone() },
            Finding { quote: "let y = f();".into(), ..one.clone() },
            Finding { category: Category::Security, ..one.clone() },
        ] {
            assert_ne!(fingerprint(&other), print, "{other:?}");
        }
    }

    #[test]
    fn without_a_quote_the_title_tells_findings_apart() {
        let (one, two) = (finding("", "No tests.", ""), finding("", "No docs", ""));
        assert_ne!(fingerprint(&one), fingerprint(&two));
        assert_eq!(fingerprint(&one), fingerprint(&finding(" \n", "no tests", "anything")));
    }

    #[rstest]
    #[case("getUserName", "get user name")]
    #[case("get_user_name", "get user name")]
    #[case("HTTPServer parses XML2Json", "http server parses xml2 json")]
    #[case("don't  U+2028\u{2028}x", "don t u 2028 x")]
    #[case("Größe ПРИВЕТ", "größe привет")]
    fn splits_words(#[case] text: &str, #[case] expected: &str) {
        assert_eq!(words(text).join(" "), expected);
    }

    #[test]
    fn alike_claims_are_alike() {
        let one = finding("q", "Panics when the key is missing", "`MAP.get(key)` is unwrapped.");
        let two = finding("q", "It panics when a key is missing", "MAP.get(key) unwrapped");
        let other = finding("q", "SQL is built from user input", "Use placeholders.");
        assert!((similarity(&one, &one) - 1.0).abs() < f64::EPSILON);
        assert!(similarity(&one, &two) > 0.85, "{}", similarity(&one, &two));
        assert!(similarity(&one, &other) < 0.2, "{}", similarity(&one, &other));
        assert!((similarity(&one, &two) - similarity(&two, &one)).abs() < f64::EPSILON);
        assert_eq!(similarity(&finding("", "…", ""), &finding("", "!", "")), 0.0);
    }
}
