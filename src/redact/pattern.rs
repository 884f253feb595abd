//! The forms of secrets and personal data, as a table.
//!
//! The expressions are linear in the length of the text (the `regex` crate knows no backtracking). What an expression
//! cannot say, such as a checksum, a function in [`super::check`] says.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use super::check;

/// What a function that accepts a match may look at.
pub(super) struct Candidate<'t> {
    /// The whole text.
    pub(super) text: &'t str,
    /// Where the value stands.
    pub(super) range: Range<usize>,
    /// The value.
    pub(super) value: &'t str,
}

/// One form.
pub(super) struct Pattern {
    /// What it is called in the mask.
    pub(super) kind: &'static str,
    regex: Regex,
    accept: fn(&Candidate<'_>) -> bool,
}

impl Pattern {
    /// The places of the values: the first group that took part, or else the whole match.
    pub(super) fn find(&self, text: &str) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        let mut at = 0;
        while let Some(captures) = self.regex.captures_at(text, at) {
            let Some(whole) = captures.get(0) else { break };
            let value = captures.iter().skip(1).flatten().next().unwrap_or(whole);
            let candidate = Candidate { text, range: value.range(), value: value.as_str() };
            if (self.accept)(&candidate) {
                found.push(value.range());
            }
            // Values stand at the end of a match but for a mark after them, so the search goes on behind the value.
            at = value.end().max(whole.start() + 1);
            while !text.is_char_boundary(at) {
                at += 1;
            }
        }
        found
    }
}

/// All forms; where two match the same text, the one that begins first or else stands first here has it.
pub(super) fn all() -> &'static [Pattern] {
    static ALL: LazyLock<Vec<Pattern>> = LazyLock::new(|| {
        TABLE.iter().map(|&(kind, regex, accept)| Pattern { kind, regex: compile(&anywhere(regex)), accept }).collect()
    });
    &ALL
}

/// An expression that begins at a word boundary also begins behind a line break that JSON has escaped, where `\n` and the
/// word stand together. The break itself is no part of the value, or the JSON would not parse any more.
fn anywhere(expression: &str) -> String {
    const BEGINNING: &str = r"(?:\b|\\[nrt])";
    match expression.strip_prefix(r"\b") {
        Some(rest) if rest.replace("(?", "").contains('(') => format!("{BEGINNING}{rest}"),
        Some(rest) => format!("{BEGINNING}({rest})"),
        None => expression.to_owned(),
    }
}

/// An expression of this module.
#[expect(clippy::expect_used, reason = "the expressions are constants, and masking any text compiles them all")]
pub(super) fn compile(expression: &str) -> Regex {
    Regex::new(expression).expect("a valid expression")
}

type Row = (&'static str, &'static str, fn(&Candidate<'_>) -> bool);

const TABLE: &[Row] = &[
    // GitHub's documentation of token formats; `ghs_` tokens of 2026 hold a JWT and so dots and dashes.
    ("github-token", r"gh[pour]_[A-Za-z0-9]{30,}", check::always),
    ("github-token", r"ghs_[A-Za-z0-9][A-Za-z0-9._-]{28,}[A-Za-z0-9_-]", check::always),
    ("github-token", r"github_pat_[A-Za-z0-9_]{30,}", check::always),
    ("gitlab-token", r"\bgl(?:pat|rt|dt|ft|soat)-[A-Za-z0-9_-]{20,}", check::always),
    ("aws-key", r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b", check::always),
    ("google-key", r"\bAIza[0-9A-Za-z_-]{35}", check::always),
    ("google-key", r"\bya29\.[0-9A-Za-z_-]{20,}", check::always),
    ("google-key", r"\bGOCSPX-[0-9A-Za-z_-]{20,}", check::always),
    ("slack-token", r"\bxox[abeoprs]-[0-9A-Za-z-]{10,}", check::has_digit),
    ("slack-token", r"\bxapp-[0-9A-Za-z-]{20,}", check::has_digit),
    ("slack-token", r"hooks\.slack\.com/services/([A-Za-z0-9/]{20,})", check::always),
    // OpenAI, Anthropic, DeepSeek, OpenRouter and others that follow them.
    ("api-key", r"\bsk-[A-Za-z0-9_-]{20,}", check::is_key_body),
    ("api-key", r"\b[rsp]k_(?:live|test)_[A-Za-z0-9]{16,}", check::always),
    ("api-key", r"\bwhsec_[A-Za-z0-9+/=]{20,}", check::always),
    ("api-key", r"\bnpm_[A-Za-z0-9]{36}\b", check::always),
    ("api-key", r"\bhf_[A-Za-z]{30,}\b", check::mixed_case),
    ("api-key", r"\bpypi-AgE[A-Za-z0-9_-]{50,}", check::always),
    ("api-key", r"\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{30,}", check::always),
    // A cut signature is still the token's header and claims.
    ("jwt", r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?", check::always),
    ("authorization", r"\b(?i:bearer)[ \t]+([A-Za-z0-9._~+/=-]{16,})", check::has_digit),
    ("authorization", r"\b(?i:basic)[ \t]+([A-Za-z0-9+/]{8,}={0,2})", check::is_basic_credentials),
    (
        "authorization",
        r#"\b(?i:authorization)["']?[ \t]*[:=,][ \t]*["']?(?i:token|digest|apikey|negotiate)[ \t]+([A-Za-z0-9._~+/=-]{16,})"#,
        check::has_digit,
    ),
    ("password", r#"\b[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s/@:"'`<>]{0,64}:([^\s/"'`<>\\]{1,256})@"#, check::is_literal),
    ("password", r#"\b[A-Za-z][A-Za-z0-9+.-]{1,20}://([A-Za-z0-9_-]{20,})@"#, check::has_digit),
    (
        "secret",
        r#"(?i)(?:passw(?:or)?d|passphrase|pwd|secret|token|credentials?|(?:api|access|secret|private|auth|account|encryption|signing)[_-]?key(?:[_-]?base)?)\\?["'`]?[ \t]*(?::=|=>|={1,3}|:)[ \t]*(?:\\?"([^\s"\\]{8,300})\\?"|'([^\s'\\]{8,300})'|`([^\s`\\]{8,300})`)"#,
        check::is_quoted_secret,
    ),
    (
        "secret",
        r#"(?i)(?:passw(?:or)?d|passphrase|pwd|secret|token|credentials?|(?:api|access|secret|private|auth|account|encryption|signing)[_-]?key(?:[_-]?base)?)[ \t]*[:=][ \t]*([^\s"'`,;()<>{}\[\]$&|\\]{16,300})"#,
        check::is_bare_secret,
    ),
    ("email", r"(?:\\[nrt])?([A-Za-z0-9._%+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}\b)", check::is_email),
    (
        "id-number",
        r"\b[1-9]\d{5}(?:19|20)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])\d{3}[\dXx]\b",
        check::is_chinese_id,
    ),
    ("id-number", r"\b\d{3}-\d{2}-\d{4}\b", check::is_ssn),
    ("card", r"\b\d{4}[ -]?\d{4}[ -]?\d{4}[ -]?\d{1,7}\b", check::is_card),
    ("card", r"\b3\d{3}[ -]?\d{6}[ -]?\d{4,5}\b", check::is_card),
    ("phone", r"\+[1-9]\d{0,2}[ .-]?(?:\(\d{1,4}\)[ .-]?)?\d{1,14}(?:[ .-]\d{2,8}){0,5}\b", check::is_phone),
    ("phone", r"\b1[3-9]\d{9}\b", check::is_chinese_mobile),
];
