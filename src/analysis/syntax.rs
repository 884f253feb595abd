//! Parsing with bounds, so that no file, however hostile, costs much time, memory or stack.
//!
//! Everything here is iterative: trees are walked with a cursor, and a tree that is nested too deeply is refused before
//! any matcher sees it (those are quadratic in the depth).

use std::ops::ControlFlow;
use std::time::Duration;

use ast_grep_core::AstGrep;
use ast_grep_core::tree_sitter::{LanguageExt, StrDoc};
use ast_grep_language::SupportLang;
use tree_sitter::{Node, ParseOptions, Parser};

use super::language::Language;
use crate::clock::Stopwatch;

/// Largest text that is parsed, in bytes. GitHub's own content API stops giving text as JSON there too.
pub const MAX_BYTES: usize = 1 << 20;

/// Longest line that is parsed, in bytes: beyond it a file is data or minified.
pub const MAX_LINE_BYTES: usize = 100_000;

/// Deepest nesting that is worked on. The deepest hand-written files seen stay below 200; long chains of `+` or `.then`
/// reach some hundreds.
pub const MAX_DEPTH: usize = 600;

/// Longest time of one parse. A megabyte of ordinary code takes a tenth of a second; recovering from an error on every
/// line costs hundreds of times as much, and counting the parser's steps does not show that.
const MAX_TIME: Duration = Duration::from_secs(4);

/// A parsed file.
pub type Syntax = AstGrep<StrDoc<SupportLang>>;

/// Why a file is not parsed. Never an error of ours: the rest of a review goes on without syntax.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unparsed {
    /// Over [`MAX_BYTES`].
    #[error("the file is larger than 1 MiB")]
    TooLarge,
    /// Over [`MAX_LINE_BYTES`].
    #[error("a line is longer than 100,000 bytes")]
    LongLine,
    /// It holds NUL bytes.
    #[error("the file is binary")]
    Binary,
    /// Over [`MAX_DEPTH`].
    #[error("the code is nested more than 600 levels deep")]
    TooDeep,
    /// Over [`MAX_TIME`].
    #[error("the parser gave up after 4 seconds")]
    TooHard,
}

/// Parses a text.
///
/// # Errors
/// See [`Unparsed`].
pub fn parse(language: Language, text: &str) -> Result<Syntax, Unparsed> {
    if text.len() > MAX_BYTES {
        return Err(Unparsed::TooLarge);
    }
    if text.bytes().any(|byte| byte == 0) {
        return Err(Unparsed::Binary);
    }
    if text.split('\n').any(|line| line.len() > MAX_LINE_BYTES) {
        return Err(Unparsed::LongLine);
    }
    let lang = language.grammar();
    let mut parser = Parser::new();
    parser.set_language(&lang.get_ts_language()).map_err(|_| Unparsed::TooHard)?;
    let started = Stopwatch::start();
    let mut within_limit = |_: &tree_sitter::ParseState| {
        if started.elapsed() > MAX_TIME { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let bytes = text.as_bytes();
    let tree = parser
        .parse_with_options(
            &mut |offset, _| bytes.get(offset..).unwrap_or_default(),
            None,
            Some(ParseOptions::new().progress_callback(&mut within_limit)),
        )
        .ok_or(Unparsed::TooHard)?;
    if walk(tree.root_node(), |_, _| {}) > MAX_DEPTH {
        return Err(Unparsed::TooDeep);
    }
    Ok(AstGrep::doc(StrDoc { src: text.to_owned(), lang, tree }))
}

/// How many places of a text the grammar could not make sense of (ERROR and MISSING nodes). `usize::MAX` when the text
/// is not parsed at all: then nothing is known of it.
pub fn error_count(language: Language, text: &str) -> usize {
    let Ok(syntax) = parse(language, text) else {
        return usize::MAX;
    };
    let root = syntax.root();
    let mut errors = 0;
    walk(root.get_inner_node(), |node, _| errors += usize::from(node.is_error() || node.is_missing()));
    errors
}

/// Visits every node before its children, with its depth (the root has 0), and returns the greatest depth.
pub fn walk<'tree>(root: Node<'tree>, mut visit: impl FnMut(Node<'tree>, usize)) -> usize {
    let mut cursor = root.walk();
    let (mut depth, mut deepest) = (0_usize, 0_usize);
    loop {
        visit(cursor.node(), depth);
        if cursor.goto_first_child() {
            depth += 1;
            deepest = deepest.max(depth);
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return deepest;
            }
            depth -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_counted() {
        assert_eq!(error_count(Language::Rust, "fn main() { let x = 1; }"), 0);
        assert!(error_count(Language::Rust, "fn main() { let x = ; }") > 0);
        assert!(error_count(Language::Python, "def f(:\n  pass") > 0);
        assert_eq!(error_count(Language::Python, ""), 0);
        assert_eq!(error_count(Language::Python, "a = '\0'"), usize::MAX);
    }

    #[test]
    fn the_walk_sees_every_node_once_and_knows_the_depth() {
        let syntax = parse(Language::JavaScript, "f(a, g(b))").unwrap();
        let root = syntax.root();
        let mut kinds = Vec::new();
        let deepest = walk(root.get_inner_node(), |node, depth| kinds.push((depth, node.kind())));
        assert_eq!(kinds.first(), Some(&(0, "program")));
        assert_eq!(kinds.iter().filter(|(_, kind)| *kind == "call_expression").count(), 2);
        assert_eq!(kinds.iter().map(|(depth, _)| *depth).max(), Some(deepest));
    }

    #[test]
    fn hostile_texts_are_refused_or_parsed_within_bounds() {
        let nested = "(".repeat(5_000) + "1" + &")".repeat(5_000);
        let cases = [
            ("a".repeat(MAX_BYTES + 1), Some(Unparsed::TooLarge)),
            ("a".repeat(MAX_LINE_BYTES + 1), Some(Unparsed::LongLine)),
            ("a\0b".to_owned(), Some(Unparsed::Binary)),
            (format!("x = {nested}"), Some(Unparsed::TooDeep)),
            ("}}}{{{ ]] )( '\u{2028} \u{feff}é\r\r\n".repeat(1_000), None),
        ];
        for (text, expected) in cases {
            for language in Language::ALL {
                let outcome = parse(language, &text).err();
                if matches!(language, Language::Python | Language::JavaScript) {
                    assert_eq!(outcome, expected, "{language}");
                }
            }
        }
    }
}
