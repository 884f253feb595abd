//! Searches the repository for a text or a regular expression.
//!
//! Bounded in files, bytes and hits; files near the one under review come first, so that the bound costs little.

use std::cmp::Reverse;
use std::fmt::Write as _;

use async_trait::async_trait;
use regex::{Regex, RegexBuilder};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::toolbox::MAX_RESULT_BYTES;
use super::{Observation, Tool, ToolContext, ToolError, list_files, parameters};
use crate::chat::ToolSpecification;
use crate::github::FileText;

/// Longest query, in bytes.
const MAX_QUERY: usize = 500;

/// Most memory of a compiled expression, in bytes.
const MAX_REGEX: usize = 1 << 20;

/// Most text one search reads, in bytes.
const MAX_READ: usize = 32 << 20;

/// Most hits that are counted.
const MAX_HITS: usize = 1_000;

/// Hits shown of one file, so that one file does not hide all others.
const SHOWN_OF_A_FILE: usize = 20;

/// Longest line that is shown, in characters.
const MAX_LINE: usize = 200;

/// Room for the sentence that says what is left out, in bytes.
const NOTE_BYTES: usize = 300;

/// Files read between two looks at the limits; one prefetch of a remote tree.
const BATCH: usize = 100;

/// Endings of files that hold nothing to read.
const NOT_CODE: &[&str] = &[
    ".7z", ".a", ".avif", ".bin", ".bmp", ".class", ".dll", ".dylib", ".eot", ".exe", ".gif", ".gz", ".ico", ".jar",
    ".jpeg", ".jpg", ".map", ".min.css", ".min.js", ".mov", ".mp3", ".mp4", ".o", ".otf", ".pdf", ".png", ".pyc",
    ".so", ".svg", ".tar", ".tgz", ".ttf", ".wasm", ".wav", ".webm", ".webp", ".woff", ".woff2", ".xz", ".zip", ".zst",
];

const DESCRIPTION: &str = "\
Searches the repository after the change, line by line, for a text or a regular expression (Rust's syntax, without \
look-around). Narrow it with a glob.
Example: {\"query\": \"fn get(\", \"glob\": \"src/**/*.rs\"}
Result:
2 hits in 2 files (of 14 searched)
src/cache.rs:10:     fn get(&self, key: &str) -> &str {
src/store/mod.rs:31:     fn get(&self) -> u32 {";

/// `search_code`.
pub struct SearchCode {
    specification: ToolSpecification,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Parameters {
    /// What to look for.
    query: String,
    /// True when the query is a regular expression.
    regex: Option<bool>,
    /// Only in files that match: `*.rs` by name, `src/**/*.ts` by path.
    glob: Option<String>,
}

impl SearchCode {
    /// The tool.
    pub fn new() -> Self {
        Self { specification: parameters::specification::<Parameters>("search_code", DESCRIPTION) }
    }
}

impl Default for SearchCode {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Tool for SearchCode {
    fn specification(&self) -> &ToolSpecification {
        &self.specification
    }

    async fn call(&self, arguments: &Value, cx: &ToolContext) -> Result<Observation, ToolError> {
        let wanted: Parameters = parameters::read(arguments)?;
        let pattern = pattern(&wanted.query, wanted.regex.unwrap_or(false))?;
        let glob = wanted.glob.as_deref().map(list_files::glob).transpose()?;
        let (paths, complete) = cx.source.list().await?;
        let mut candidates: Vec<String> = paths
            .into_iter()
            .filter(|path| glob.as_ref().is_none_or(|glob| glob.is_match(path)))
            .filter(|path| !NOT_CODE.iter().any(|ending| path.ends_with(ending)))
            .collect();
        candidates.sort_by_cached_key(|path| (Reverse(nearness(path, &cx.path)), path.clone()));
        let total = candidates.len();
        candidates.truncate(cx.source.search_width());

        let mut found = Found::default();
        let mut read = 0;
        'search: for batch in candidates.chunks(BATCH) {
            // A tree that cannot fetch ahead still reads one by one.
            let _ = cx.source.prefetch(batch).await;
            for path in batch {
                let text = match cx.source.read(path).await? {
                    FileText::Text(text) => text,
                    FileText::Missing | FileText::NotText | FileText::TooLarge => {
                        found.unread += 1;
                        continue;
                    }
                };
                read += text.len();
                found.searched += 1;
                found.search(path, &text, &pattern);
                if read > MAX_READ || found.hits >= MAX_HITS {
                    break 'search;
                }
            }
            // Lets the time-out of the call be noticed between two batches.
            tokio::task::yield_now().await;
        }
        Ok(Observation { text: found.text(total, complete) })
    }
}

fn pattern(query: &str, regex: bool) -> Result<Regex, ToolError> {
    if query.trim().is_empty() || query.len() > MAX_QUERY {
        return Err(ToolError::BadArguments(format!("the query must have 1 to {MAX_QUERY} bytes")));
    }
    if !regex && query.contains('\n') {
        return Err(ToolError::BadArguments("the query must be one line: the search goes line by line".into()));
    }
    let expression = if regex { query.to_owned() } else { regex::escape(query) };
    let built = RegexBuilder::new(&expression).size_limit(MAX_REGEX).dfa_size_limit(MAX_REGEX).build();
    built.map_err(|error| ToolError::BadArguments(format!("not a regular expression: {error}")))
}

/// How many leading folders two paths share, then whether they have the same extension.
fn nearness(path: &str, of: &str) -> (usize, bool) {
    let shared = path.split('/').zip(of.split('/')).take_while(|(a, b)| a == b).count();
    let extension = |path: &str| path.rsplit_once('.').map(|(_, extension)| extension.to_owned());
    (shared, extension(path) == extension(of))
}

#[derive(Default)]
struct Found {
    hits: usize,
    files: usize,
    searched: usize,
    unread: usize,
    lines: String,
    full: bool,
}

impl Found {
    fn search(&mut self, path: &str, text: &str, pattern: &Regex) {
        let mut here = 0;
        for (row, line) in text.split('\n').enumerate() {
            if !pattern.is_match(line) {
                continue;
            }
            here += 1;
            self.hits += 1;
            if self.hits >= MAX_HITS {
                break;
            }
            if here > SHOWN_OF_A_FILE || self.full {
                continue;
            }
            let shown = format!("{path}:{}: {}\n", row + 1, parameters::shown(line, MAX_LINE));
            if self.lines.len() + shown.len() + NOTE_BYTES > MAX_RESULT_BYTES {
                self.full = true;
            } else {
                self.lines.push_str(&shown);
            }
        }
        if here > SHOWN_OF_A_FILE && !self.full {
            let _ = writeln!(self.lines, "{path}: {} more", here - SHOWN_OF_A_FILE);
        }
        self.files += usize::from(here > 0);
    }

    fn text(&self, total: usize, complete: bool) -> String {
        let more = if self.hits >= MAX_HITS { "or more " } else { "" };
        let mut out = format!("{} {more}hits in {} files (of {} searched)\n", self.hits, self.files, self.searched);
        if self.searched + self.unread < total {
            let left = total - self.searched - self.unread;
            let _ = writeln!(out, "(not searched: {left} files; narrow it with a glob)");
        }
        if !complete {
            out.push_str("(the repository is too large to be listed whole; there may be more files)\n");
        }
        out.push_str(&self.lines);
        if self.full {
            out.push_str("(more hits did not fit)\n");
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_texts_unless_they_say_otherwise() {
        assert!(pattern("a.b(", false).unwrap().is_match("x a.b( y"));
        assert!(!pattern("a.b", false).unwrap().is_match("axb"));
        assert!(pattern("a.b", true).unwrap().is_match("axb"));
        for (query, regex) in [("", false), (" ", true), ("(", true), ("a\nb", false), ("(a{1000}){1000}", true)] {
            assert!(matches!(pattern(query, regex), Err(ToolError::BadArguments(_))), "{query:?}");
        }
        assert!(pattern(&"a".repeat(MAX_QUERY + 1), false).is_err());
    }

    #[test]
    fn near_files_come_first() {
        let mut paths = ["z.md", "src/b.rs", "lib/a.rs", "src/x/c.rs", "src/x/d.md"].map(str::to_owned).to_vec();
        paths.sort_by_cached_key(|path| (Reverse(nearness(path, "src/x/here.rs")), path.clone()));
        assert_eq!(paths, ["src/x/c.rs", "src/x/d.md", "src/b.rs", "lib/a.rs", "z.md"]);
    }

    #[test]
    fn results_are_bounded_whatever_is_found() {
        let mut found = Found::default();
        let pattern = pattern("a", false).unwrap();
        for n in 0..10 {
            found.search(&format!("f{n}"), &"aé\u{2028} and some more text on it\r\n".repeat(100), &pattern);
        }
        let text = found.text(500, false);
        assert!(text.len() <= MAX_RESULT_BYTES, "{}", text.len());
        assert!(text.contains("f0: 80 more") && text.contains("more hits did not fit"), "{text}");
        assert!(text.starts_with("1000 or more hits"), "{text}");
    }
}
