//! Rules that need no model: what is dangerous, wrong or slow wherever it stands.
//!
//! The rules are data (`rules/<language>/<category>.yml`, see [`definition`]), and each carries code it must find and code
//! it must be silent on; a test runs them all. Precision goes before breadth: a rule that careful maintainers would call
//! noise is left out or lowered.

pub mod catalog;
pub mod definition;
pub mod place;

use ast_grep_core::matcher::MatcherExt;
use ast_grep_core::replacer::Replacer;
use ast_grep_core::tree_sitter::StrDoc;
use ast_grep_core::{Node, NodeMatch};
use ast_grep_language::SupportLang;
use serde::{Deserialize, Serialize};

use super::language::Language;
use super::syntax::{self, Unparsed};
use definition::{Finder, Rule};

/// Most lines of code a hit quotes.
pub const MAX_QUOTE_LINES: usize = 10;

/// Most hits of one scan; more than that is a file of another kind than the rules were written for.
pub const MAX_HITS: usize = 200;

/// Longest line that is quoted, in bytes: longer ones are minified code or data.
const MAX_QUOTED_LINE: usize = 1_000;

/// Most bytes of a quote, so that a hit fits into what a tool may answer.
const MAX_QUOTE_BYTES: usize = 2_000;

/// How bad a hit is, in rising order; the words of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// A matter of taste.
    Nit,
    /// Worth mending.
    Minor,
    /// Will hurt somebody.
    Major,
    /// Must not be merged.
    Critical,
}

/// What a hit is about; the words of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    /// It does the wrong thing.
    Correctness,
    /// It can be abused.
    Security,
    /// It is slower or larger than it needs to be.
    Performance,
    /// It is hard to understand.
    Readability,
    /// It goes against what is known to work.
    BestPractice,
}

/// A place where a rule speaks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hit {
    /// The rule's id.
    pub rule: String,
    /// How bad.
    pub severity: Severity,
    /// What about.
    pub category: Category,
    /// What is wrong, in one line.
    pub title: String,
    /// Why it matters.
    pub why: String,
    /// What to do.
    pub fix: String,
    /// First line (1-based).
    pub line: u32,
    /// Last line of the quote.
    pub end_line: u32,
    /// The whole lines `line..=end_line`, verbatim; at most [`MAX_QUOTE_LINES`].
    pub quote: String,
    /// What to put in place of the quoted lines, where that is exact.
    pub replacement: Option<String>,
    /// 0 to 1.
    pub confidence: f64,
    /// Number in the Common Weakness Enumeration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwe: Option<u32>,
}

/// What a scan found, and what it could not look at.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Scan {
    /// By line.
    pub hits: Vec<Hit>,
    /// Set when the syntax could not be looked at; line rules have run all the same, unless the file is too large.
    pub unparsed: Option<Unparsed>,
    /// True for generated and vendored files, which are not looked at.
    pub generated: bool,
}

/// Runs the rules of the given categories over a text. `language` is `None` for files of no known language: then only
/// rules over lines run. Bounded in time by the limits of [`syntax`]; pure.
pub fn scan(language: Option<Language>, path: &str, text: &str, categories: &[Category]) -> Scan {
    if place::is_generated(path, text) {
        return Scan { generated: true, ..Scan::default() };
    }
    if text.len() > syntax::MAX_BYTES {
        return Scan { unparsed: Some(Unparsed::TooLarge), ..Scan::default() };
    }
    let quiet = place::is_test(path);
    let wanted = |rule: &Rule| {
        categories.contains(&rule.category)
            && (rule.definition.in_tests || !quiet)
            && !rule.unless_path.as_ref().is_some_and(|unless| unless.is_match(path))
    };
    let lines = Lines::new(text);
    let mut scan = Scan::default();
    for rule in catalog::anywhere().all().iter().filter(|rule| wanted(rule)) {
        scan_lines(rule, &lines, &mut scan.hits);
    }
    if let Some(language) = language {
        match syntax::parse(language, text) {
            Ok(syntax) => scan_tree(language, &syntax.root(), &lines, &wanted, &mut scan.hits),
            Err(reason) => scan.unparsed = Some(reason),
        }
    }
    scan.hits.sort_by(|a, b| (a.line, &a.rule).cmp(&(b.line, &b.rule)));
    // One rule speaks once on a line: nested matches say the same.
    scan.hits.dedup_by(|a, b| a.line == b.line && a.rule == b.rule);
    scan
}

fn scan_lines(rule: &Rule, lines: &Lines<'_>, hits: &mut Vec<Hit>) {
    let Finder::Lines { pattern, unless } = &rule.finder else {
        return;
    };
    for (row, line) in lines.lines.iter().enumerate() {
        if line.len() > MAX_QUOTED_LINE || hits.len() >= MAX_HITS {
            continue;
        }
        if pattern.is_match(line) && !unless.as_ref().is_some_and(|unless| unless.is_match(line)) {
            hits.extend(lines.hit(rule, row, row, None));
        }
    }
}

fn scan_tree(
    language: Language,
    root: &Node<'_, StrDoc<SupportLang>>,
    lines: &Lines<'_>,
    wanted: &impl Fn(&Rule) -> bool,
    hits: &mut Vec<Hit>,
) {
    let rules = catalog::of(language);
    let tests = place::test_regions(language, root);
    for node in root.dfs() {
        for rule in rules.at(node.kind_id()) {
            if hits.len() >= MAX_HITS {
                return;
            }
            let range = node.range();
            let in_tests = tests.iter().any(|region| region.start <= range.start && range.end <= region.end);
            if !wanted(rule) || (in_tests && !rule.definition.in_tests) {
                continue;
            }
            let Finder::Tree { matcher, fixer, focus, .. } = &rule.finder else {
                continue;
            };
            // In code the parser could not make sense of, a match means nothing.
            let Some(found) = matcher.match_node(node.clone()).filter(|found| !found.ancestors().any(|n| n.is_error()))
            else {
                continue;
            };
            let (start, end) = (found.start_pos(), found.end_pos());
            let (mut first, mut last) = (start.line(), end.line());
            // A block of Python ends at the beginning of the line after.
            if last > first && lines.offset(last) == Some(found.range().end) {
                last -= 1;
            }
            if let Some(focus) = focus {
                let Some(row) =
                    (first..=last).find(|row| lines.lines.get(*row).is_some_and(|line| focus.is_match(line)))
                else {
                    continue;
                };
                (first, last) = (row, row);
            }
            // A replacement stands for the whole match, so there is none where the quote is cut.
            let replacement = fixer.as_ref().and_then(|fixer| lines.replaced(first, last, &found, matcher, fixer));
            hits.extend(lines.hit(rule, first, last, replacement));
        }
    }
}

/// The lines of a text with their byte offsets. Only `\n` separates; `\r` stays in the line.
struct Lines<'t> {
    text: &'t str,
    lines: Vec<&'t str>,
    offsets: Vec<usize>,
}

impl<'t> Lines<'t> {
    fn new(text: &'t str) -> Self {
        let lines: Vec<&str> = text.split('\n').collect();
        let offsets = lines
            .iter()
            .scan(0, |offset, line| {
                let here = *offset;
                *offset += line.len() + 1;
                Some(here)
            })
            .collect();
        Self { text, lines, offsets }
    }

    fn offset(&self, row: usize) -> Option<usize> {
        self.offsets.get(row).copied()
    }

    /// A hit on the rows `first..=last`; `None` when they are not fit to be shown.
    fn hit(&self, rule: &Rule, first: usize, last: usize, replacement: Option<String>) -> Option<Hit> {
        let mut bytes = 0;
        let fits = |row: &usize| {
            bytes += self.lines.get(*row).map_or(0, |line| line.len() + 1);
            *row == first || bytes <= MAX_QUOTE_BYTES
        };
        let last = (first..=last.min(first + MAX_QUOTE_LINES - 1)).take_while(fits).last()?;
        let quoted = self.lines.get(first..=last)?;
        if quoted.iter().any(|line| line.len() > MAX_QUOTED_LINE) {
            return None;
        }
        let Rule { definition, category, .. } = rule;
        Some(Hit {
            rule: definition.id.clone(),
            severity: definition.severity,
            category: *category,
            title: definition.title.clone(),
            why: definition.why.clone(),
            fix: definition.fix.clone(),
            line: u32::try_from(first + 1).ok()?,
            end_line: u32::try_from(last + 1).ok()?,
            quote: quoted.join("\n"),
            replacement,
            confidence: definition.confidence,
            cwe: definition.cwe,
        })
    }

    /// The rows `first..=last` with the match replaced; `None` where that changes nothing or is too long to quote.
    fn replaced(
        &self,
        first: usize,
        last: usize,
        found: &NodeMatch<'_, StrDoc<SupportLang>>,
        matcher: &ast_grep_config::RuleCore,
        fixer: &ast_grep_config::Fixer,
    ) -> Option<String> {
        if last - first >= MAX_QUOTE_LINES {
            return None;
        }
        let range = fixer.get_replaced_range(found, matcher);
        let start = self.offset(first)?;
        let end = self.offset(last)? + self.lines.get(last)?.len();
        let new = String::from_utf8(fixer.generate_replacement(found)).ok()?;
        let before = self.text.get(start..range.start)?;
        let after = self.text.get(range.end..end)?;
        let replaced = format!("{before}{new}{after}");
        let old = self.text.get(start..end)?;
        (old != replaced && old.len() < MAX_QUOTE_BYTES && replaced.len() < MAX_QUOTE_BYTES).then_some(replaced)
    }
}
