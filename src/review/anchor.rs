//! Puts findings on lines that GitHub accepts, or says why not. Cannot fail, and never guesses.
//!
//! The quote decides, by these rules:
//!
//! 1. Only commentable lines count: added and context lines on the right, removed lines on the left. The lines of a
//!    match are consecutive on one side and within one hunk, as GitHub wants them.
//! 2. A finding that names a side is looked for on that side alone. Otherwise the left side counts only when the quote
//!    stands nowhere on the right.
//! 3. Lines are compared as they are; if that finds nothing, without white space at both ends (models drop
//!    indentation, files have `\r`); if that finds nothing, without diff markers that the model copied. Blank lines at
//!    the ends of a quote do not count.
//!    Last, a quote with the masks of [`crate::redact`] in it is compared with lines that are masked alike, because that is
//!    how a model saw them.
//! 4. If whole lines are found on no side, a quote of one line may be a fragment: [`MIN_FRAGMENT`] characters or more
//!    that stand within a line and do not begin or end inside a word.
//! 5. One match is the place, whatever `line` says. Of several, the one that begins on `line`, or else the only one
//!    that `line` lies in. `end_line` decides nothing: the quote says where it ends.
//! 6. A quote without a letter or digit (`}`, `);`) says too little to be its own anchor: even a single match must
//!    agree with `line`.

use std::collections::HashMap;
use std::ops::{Range, RangeInclusive};

use serde::{Deserialize, Serialize};

use super::finding::Finding;
use crate::diff::{FileDiff, Side};
use crate::redact::redact;

/// Shortest fragment of a line that can be its own anchor, in characters that are no white space.
pub const MIN_FRAGMENT: usize = 8;

/// The place on the diff of a finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Anchor {
    /// The side both lines count on.
    pub side: Side,
    /// First line; equal to `line` for a single one.
    pub start_line: u32,
    /// Last line.
    pub line: u32,
}

/// A finding with its place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Placed {
    /// The finding.
    pub finding: Finding,
    /// Its place.
    pub anchor: Anchor,
}

/// Why a finding has no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unplaced {
    /// It names another file.
    OtherFile,
    /// It quotes nothing.
    NoQuote,
    /// The quote stands nowhere on the commentable lines.
    QuoteNotFound,
    /// The quote stands several times (or is nothing but punctuation) and the line is none of them.
    Ambiguous,
    /// GitHub shows no diff of this file, so that no line of it can be commented on.
    NoDiff,
}

/// Findings with and without a place.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Anchored {
    /// With one.
    pub comments: Vec<Placed>,
    /// Without, and why.
    pub unanchored: Vec<(Finding, Unplaced)>,
}

/// Places findings of one file. A quote that stands once on the commentable lines is its own anchor, whatever `line`
/// says; one that stands several times is placed only where `line` is one of them; anything else is not placed.
/// A quote that was found without its diff markers, or masked, is given back as it stands in the file.
pub fn anchor(findings: Vec<Finding>, diff: &FileDiff) -> Anchored {
    let lines = Lines::of(diff);
    let mut anchored = Anchored::default();
    for mut finding in findings {
        match place(&finding, diff, &lines) {
            Ok((anchor, quote)) => {
                if let Some(quote) = quote {
                    finding.quote = quote;
                }
                anchored.comments.push(Placed { finding, anchor });
            }
            Err(why) => anchored.unanchored.push((finding, why)),
        }
    }
    anchored
}

/// The place, and the quote as it stands there when that is not as the model gave it.
fn place(finding: &Finding, diff: &FileDiff, lines: &Lines<'_>) -> Result<(Anchor, Option<String>), Unplaced> {
    if finding.path != diff.path {
        return Err(Unplaced::OtherFile);
    }
    if lines.is_empty() {
        return Err(Unplaced::NoDiff);
    }
    let Some(quote) = within_blank_lines(&finding.quote) else { return Err(Unplaced::NoQuote) };
    let sides: &[Side] = match finding.side {
        Some(Side::Left) => &[Side::Left],
        Some(Side::Right) => &[Side::Right],
        None => &[Side::Right, Side::Left],
    };
    let says_enough = |quote: &[&str]| quote.iter().any(|line| line.chars().any(char::is_alphanumeric));
    for side in sides {
        let runs = lines.on(*side);
        let places = runs.exactly(&quote);
        let places = if places.is_empty() { runs.trimmed(&quote) } else { places };
        if !places.is_empty() {
            return Ok((choose(*side, &places, finding.line, says_enough(&quote))?, None));
        }
    }
    if let Some((side, bare)) = without_markers(&quote)
        && sides.contains(&side)
    {
        let places = lines.on(side).trimmed(&bare);
        if !places.is_empty() {
            let anchor = choose(side, &places, finding.line, says_enough(&bare))?;
            return Ok((anchor, Some(bare.join("\n"))));
        }
    }
    if quote.iter().any(|line| line.contains("[redacted:")) {
        for side in sides {
            let runs = lines.on(*side);
            let places = runs.masked(&quote);
            if !places.is_empty() {
                let anchor = choose(*side, &places, finding.line, says_enough(&quote))?;
                let original = runs.text(anchor.start_line..=anchor.line);
                return Ok((anchor, Some(original)));
            }
        }
    }
    if let [fragment] = quote[..]
        && fragment.chars().filter(|c| !c.is_whitespace()).count() >= MIN_FRAGMENT
    {
        for side in sides {
            let places = lines.on(*side).holding(fragment.trim());
            if !places.is_empty() {
                return Ok((choose(*side, &places, finding.line, says_enough(&quote))?, None));
            }
        }
    }
    Err(Unplaced::QuoteNotFound)
}

/// Rules 5 and 6.
fn choose(side: Side, places: &[Range<u32>], hint: Option<u32>, says_enough: bool) -> Result<Anchor, Unplaced> {
    let begins = || places.iter().find(|place| Some(place.start) == hint);
    let only_one_around = || {
        let mut around = places.iter().filter(|place| hint.is_some_and(|hint| place.contains(&hint)));
        around.next().filter(|_| around.next().is_none())
    };
    let place = match places {
        [only] if says_enough => Some(only),
        _ => begins().or_else(only_one_around),
    };
    let place = place.ok_or(Unplaced::Ambiguous)?;
    Ok(Anchor { side, start_line: place.start, line: place.end - 1 })
}

/// The lines of a quote without blank ones at its ends; `None` when there are no others.
fn within_blank_lines(quote: &str) -> Option<Vec<&str>> {
    let lines: Vec<&str> = quote.split('\n').collect();
    let filled = |line: &&str| !line.trim().is_empty();
    let (first, last) = (lines.iter().position(filled)?, lines.iter().rposition(filled)?);
    Some(lines[first..=last].to_vec())
}

/// The quote without the marker column of a diff, and the side the markers speak of: `+` and space of the right, `-` of
/// the left. `None` when there is no such column, or it speaks of both.
fn without_markers<'a>(quote: &[&'a str]) -> Option<(Side, Vec<&'a str>)> {
    let column = |marker: char| -> Option<Vec<&'a str>> {
        let marked = quote.iter().any(|line| line.starts_with(marker));
        let strip = |line: &&'a str| match line.strip_prefix(marker) {
            Some(bare) => Some(bare),
            None if line.trim().is_empty() => Some(*line),
            None if marker == '+' => line.strip_prefix(' '),
            None => None,
        };
        if marked { quote.iter().map(strip).collect() } else { None }
    };
    match (column('+'), column('-')) {
        (Some(bare), _) => Some((Side::Right, bare)),
        (None, Some(bare)) => Some((Side::Left, bare)),
        (None, None) => None,
    }
}

/// The commentable lines of a file by side.
struct Lines<'a> {
    left: Runs<'a>,
    right: Runs<'a>,
}

impl<'a> Lines<'a> {
    fn of(diff: &'a FileDiff) -> Self {
        let mut lines = Self { left: Runs::default(), right: Runs::default() };
        let mut last: Option<usize> = None;
        for line in diff.commentable() {
            if last.replace(line.hunk) != Some(line.hunk) {
                lines.left.at = None;
                lines.right.at = None;
            }
            match line.side {
                Side::Left => lines.left.push(line.line, line.text),
                Side::Right => lines.right.push(line.line, line.text),
            }
        }
        lines
    }

    fn is_empty(&self) -> bool {
        self.left.lines.is_empty() && self.right.lines.is_empty()
    }

    fn on(&self, side: Side) -> &Runs<'a> {
        match side {
            Side::Left => &self.left,
            Side::Right => &self.right,
        }
    }
}

/// Lines of one side. Texts are numbered, so that comparing lines is comparing numbers.
#[derive(Default)]
struct Runs<'a> {
    /// The number of the last line, while its run goes on.
    at: Option<u32>,
    /// Runs of consecutive line numbers within one hunk, as ranges of indices of the lists below.
    runs: Vec<Range<usize>>,
    /// Line number and text.
    lines: Vec<(u32, &'a str)>,
    exact: Vec<usize>,
    loose: Vec<usize>,
    exact_texts: HashMap<&'a str, usize>,
    loose_texts: HashMap<&'a str, usize>,
}

impl<'a> Runs<'a> {
    fn push(&mut self, number: u32, text: &'a str) {
        let index = self.lines.len();
        match self.runs.last_mut() {
            Some(run) if self.at.is_some_and(|at| at.checked_add(1) == Some(number)) => run.end = index + 1,
            _ => self.runs.push(index..index + 1),
        }
        self.at = Some(number);
        self.lines.push((number, text));
        let id = |texts: &mut HashMap<&'a str, usize>, text| {
            let next = texts.len();
            *texts.entry(text).or_insert(next)
        };
        self.exact.push(id(&mut self.exact_texts, text));
        self.loose.push(id(&mut self.loose_texts, text.trim()));
    }

    fn exactly(&self, quote: &[&str]) -> Vec<Range<u32>> {
        let wanted: Option<Vec<usize>> = quote.iter().map(|line| self.exact_texts.get(line).copied()).collect();
        self.search(&self.exact, wanted)
    }

    fn trimmed(&self, quote: &[&str]) -> Vec<Range<u32>> {
        let wanted: Option<Vec<usize>> = quote.iter().map(|line| self.loose_texts.get(line.trim()).copied()).collect();
        self.search(&self.loose, wanted)
    }

    fn search(&self, texts: &[usize], wanted: Option<Vec<usize>>) -> Vec<Range<u32>> {
        let Some(wanted) = wanted else { return Vec::new() };
        let starts = self.runs.iter().flat_map(|run| {
            let windows = texts[run.clone()].windows(wanted.len()).enumerate();
            windows.filter(|(_, window)| *window == wanted).map(|(offset, _)| run.start + offset)
        });
        starts.map(|start| self.lines[start].0..self.lines[start + wanted.len() - 1].0.saturating_add(1)).collect()
    }

    /// Where a masked quote stands among lines that are masked as it was.
    fn masked(&self, quote: &[&str]) -> Vec<Range<u32>> {
        let mut places = Vec::new();
        for run in &self.runs {
            let lines = &self.lines[run.clone()];
            let text: Vec<&str> = lines.iter().map(|(_, text)| *text).collect();
            let masked = redact(&text.join("\n")).into_owned();
            // Masking keeps the number of lines.
            let masked: Vec<&str> = masked.split('\n').map(str::trim).collect();
            let windows = masked.windows(quote.len()).zip(lines.windows(quote.len()));
            let same = |window: &[&str]| window.iter().zip(quote).all(|(line, quoted)| *line == quoted.trim());
            for (_, place) in windows.filter(|(window, _)| same(window)) {
                if let ([first, ..], [.., last]) = (place, place) {
                    places.push(first.0..last.0.saturating_add(1));
                }
            }
        }
        places
    }

    /// The lines of a place as they are.
    fn text(&self, place: RangeInclusive<u32>) -> String {
        let lines = self.lines.iter().filter(|(number, _)| place.contains(number)).map(|(_, text)| *text);
        lines.collect::<Vec<_>>().join("\n")
    }

    /// The lines in which a fragment stands as words of its own.
    fn holding(&self, fragment: &str) -> Vec<Range<u32>> {
        let holds =
            |(_, text): &&(u32, &str)| text.match_indices(fragment).any(|(at, _)| stands_alone(text, fragment, at));
        self.lines.iter().filter(holds).map(|(number, _)| *number..number.saturating_add(1)).collect()
    }
}

/// Whether the fragment that stands at byte `at` of `text` neither begins nor ends inside a word.
fn stands_alone(text: &str, fragment: &str, at: usize) -> bool {
    let in_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let (before, rest) = text.split_at(at);
    let after = rest.strip_prefix(fragment).unwrap_or_default();
    let begins_inside = in_word(before.chars().next_back()) && in_word(fragment.chars().next());
    let ends_inside = in_word(fragment.chars().next_back()) && in_word(after.chars().next());
    !begins_inside && !ends_inside
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::diff::FileStatus;
    use crate::diff::parse::parse_patch;
    use crate::review::finding::parse_findings;

    const PATCH: &str = "@@ -1,9 +1,10 @@\n fn a() {\n-    old();\n-    twice();\n+    new();\n+    twice();\n     between();\n-    removed();\n+    added(\"x\", MAP.get(key).unwrap());\n     twice();\n }\n \n fn b() {\n+    extra();\n@@ -30,4 +31,3 @@\n last(1);\n-gone();\n-gone();\n+- item\n end();\n\\ No newline at end of file";

    fn diff(patch: &str) -> FileDiff {
        let (hunks, complaints) = parse_patch(patch);
        assert_eq!(complaints, []);
        FileDiff { path: "x.rs".into(), old_path: None, status: FileStatus::Modified, hunks }
    }

    fn finding(quote: &str, line: Option<u32>, side: Option<Side>) -> Finding {
        let answer = serde_json::json!({"findings": [{"title": "T", "line": line}]});
        let finding = parse_findings(&answer.to_string(), "x.rs").findings.remove(0);
        Finding { quote: quote.into(), side, ..finding }
    }

    /// `R3`, `L2-3`, or why not.
    fn at(quote: &str, line: Option<u32>, side: Option<Side>, diff: &FileDiff) -> String {
        let anchored = anchor(vec![finding(quote, line, side)], diff);
        assert_eq!(anchored.comments.len() + anchored.unanchored.len(), 1);
        match (anchored.comments.first(), anchored.unanchored.first()) {
            (Some(placed), _) => {
                let Anchor { side, start_line, line } = placed.anchor;
                let side = if side == Side::Left { 'L' } else { 'R' };
                if start_line == line { format!("{side}{line}") } else { format!("{side}{start_line}-{line}") }
            }
            (None, Some((_, why))) => format!("{why:?}"),
            (None, None) => String::new(),
        }
    }

    #[test]
    fn a_masked_quote_is_found_where_the_secret_stands() {
        let file = diff("@@ -1,1 +1,4 @@\n a\n+password = \"S3cr3t!pw\"\n+b\n+password = \"0th3r!S3cret\"");
        let masked = |line: u32, quote: &str| {
            let answer = serde_json::json!({"findings": [{"title": "Secret", "quote": quote, "line": line}]});
            let mut anchored = anchor(parse_findings(&answer.to_string(), &file.path).findings, &file);
            anchored.comments.pop().map(|placed| (placed.anchor.line, placed.finding.quote))
        };
        let quote = "password = \"[redacted:secret]\"";
        assert_eq!(masked(2, quote), Some((2, "password = \"S3cr3t!pw\"".to_owned())));
        assert_eq!(masked(4, quote), Some((4, "password = \"0th3r!S3cret\"".to_owned())));
        assert_eq!(masked(3, quote), None, "two places, and the line is neither");
        assert_eq!(masked(9, &format!("a\n{quote}\nb")), Some((3, "a\npassword = \"S3cr3t!pw\"\nb".to_owned())));
        assert_eq!(masked(2, "pass = \"[redacted:secret]\""), None);
    }

    #[rstest]
    // A quote that stands once is its own anchor, whatever the line says.
    #[case::right_line("    new();", Some(2), None, "R2")]
    #[case::wrong_line("    new();", Some(77), None, "R2")]
    #[case::zero("    new();", Some(0), None, "R2")]
    #[case::huge("    new();", Some(u32::MAX), None, "R2")]
    #[case::no_line("    between();", None, None, "R4")]
    #[case::context("fn b() {", Some(3), None, "R9")]
    #[case::second_hunk("last(1);", Some(1), None, "R31")]
    // White space at the ends does not count, words do.
    #[case::no_indentation("new();", None, None, "R2")]
    #[case::carriage_return("    new();\r", None, None, "R2")]
    #[case::other_word("new2();", Some(2), None, "QuoteNotFound")]
    #[case::other_case("New();", Some(2), None, "QuoteNotFound")]
    // Several times: the line must be one of them.
    #[case::twice_with_line("    twice();", Some(3), None, "R3")]
    #[case::twice_with_other_line("    twice();", Some(6), None, "R6")]
    #[case::twice_wrong_line("    twice();", Some(4), None, "Ambiguous")]
    #[case::twice_no_line("    twice();", None, None, "Ambiguous")]
    #[case::twice_but_once_on_the_left("    twice();", None, Some(Side::Left), "L3")]
    // Sides.
    #[case::removed("    old();", Some(40), None, "L2")]
    #[case::removed_named("old();", None, Some(Side::Left), "L2")]
    #[case::removed_asked_on_the_right("    old();", Some(2), Some(Side::Right), "QuoteNotFound")]
    #[case::context_on_the_left("    between();", Some(4), Some(Side::Left), "QuoteNotFound")]
    #[case::removed_twice("gone();", Some(32), None, "L32")]
    #[case::removed_twice_wrong("gone();", Some(33), None, "Ambiguous")]
    // Several lines.
    #[case::range("    new();\n    twice();\n    between();", Some(1), None, "R2-4")]
    #[case::range_over_removed("between();\nadded(\"x\", MAP.get(key).unwrap());\ntwice();", None, None, "R4-6")]
    #[case::removed_range("    old();\n    twice();", None, None, "L2-3")]
    #[case::removed_not_consecutive("    twice();\n    removed();", None, None, "QuoteNotFound")]
    #[case::across_hunks("    extra();\nlast(1);", Some(10), None, "QuoteNotFound")]
    #[case::both_sides("    old();\n    new();", Some(2), None, "QuoteNotFound")]
    #[case::blank_ends("\n\n    new();\n  \n", None, None, "R2")]
    #[case::blank_inside("}\n\nfn b() {", None, None, "R7-9")]
    #[case::line_skipped("    new();\n    between();", Some(2), None, "QuoteNotFound")]
    #[case::within_the_range("gone();\ngone();", Some(33), None, "L31-32")]
    // Too little to be its own anchor.
    #[case::brace("}", None, None, "Ambiguous")]
    #[case::brace_wrong("}", Some(6), None, "Ambiguous")]
    #[case::brace_right("}", Some(7), None, "R7")]
    #[case::empty("", Some(2), None, "NoQuote")]
    #[case::blank(" \n\t\r\n", Some(8), None, "NoQuote")]
    // Fragments of one line.
    #[case::fragment("MAP.get(key).unwrap()", Some(1), None, "R5")]
    #[case::fragment_in_a_word("AP.get(key).unwrap()", Some(5), None, "QuoteNotFound")]
    #[case::short_fragment("key", Some(5), None, "QuoteNotFound")]
    #[case::fragment_of_two_lines("MAP.get(key).unwrap());\n    twice();", Some(5), None, "QuoteNotFound")]
    // Diff markers that were copied.
    #[case::markers("+    new();\n+    twice();\n     between();", None, None, "R2-4")]
    #[case::removed_marker("-    old();", None, None, "L2")]
    #[case::markers_of_both("-    old();\n+    new();", None, None, "QuoteNotFound")]
    #[case::a_list_is_no_marker("- item", None, None, "R32")]
    #[case::last_line_without_newline("end();", None, None, "R33")]
    fn places(#[case] quote: &str, #[case] line: Option<u32>, #[case] side: Option<Side>, #[case] expected: &str) {
        assert_eq!(at(quote, line, side, &diff(PATCH)), expected);
    }

    #[test]
    fn a_pair_with_one_number_is_told_apart_by_side() {
        let diff = diff("@@ -3 +3 @@\n-a1\n+b1");
        assert_eq!(at("b1", Some(3), Some(Side::Right), &diff), "R3");
        assert_eq!(at("a1", Some(3), Some(Side::Left), &diff), "L3");
        assert_eq!(at("a1", Some(3), Some(Side::Right), &diff), "QuoteNotFound");
    }

    #[test]
    fn hunks_that_touch_are_two() {
        let diff = diff("@@ -1 +1 @@\n-a1\n+b1\n@@ -2 +2 @@\n-a2\n+b2");
        assert_eq!(at("b1\nb2", Some(1), None, &diff), "QuoteNotFound");
        assert_eq!(at("a1\na2", Some(1), None, &diff), "QuoteNotFound");
    }

    #[test]
    fn overlapping_matches_are_told_apart_by_where_they_begin() {
        let diff = diff("@@ -0,0 +1,4 @@\n+a\n+a\n+a\n+b");
        assert_eq!(at("a\na", Some(2), None, &diff), "R2-3");
        assert_eq!(at("a\na", Some(3), None, &diff), "R2-3");
        assert_eq!(at("a\na", Some(4), None, &diff), "Ambiguous");
        assert_eq!(at("a\nb", None, None, &diff), "R3-4");
    }

    #[test]
    fn a_line_as_it_is_comes_before_one_with_other_white_space() {
        let diff = diff("@@ -0,0 +1,2 @@\n+  deep();\n+deep();");
        assert_eq!(at("  deep();", None, None, &diff), "R1");
        assert_eq!(at("deep();", None, None, &diff), "R2");
        assert_eq!(at("\tdeep();", None, None, &diff), "Ambiguous");
    }

    #[test]
    fn odd_separators_are_content() {
        let diff = diff("@@ -0,0 +1,2 @@\n+let s = \"a\u{2028}b\rc\u{85}d\";\r\n+x");
        assert_eq!(at("let s = \"a\u{2028}b\rc\u{85}d\";", None, None, &diff), "R1");
    }

    #[test]
    fn findings_of_other_files_and_files_without_diff_are_not_placed() {
        let with = diff(PATCH);
        let without = FileDiff { hunks: Vec::new(), ..with.clone() };
        assert_eq!(at("    new();", Some(2), None, &without), "NoDiff");
        let other = Finding { path: "y.rs".into(), ..finding("    new();", Some(2), None) };
        for diff in [&with, &without] {
            let anchored = anchor(vec![other.clone()], diff);
            assert_eq!(anchored.unanchored, [(other.clone(), Unplaced::OtherFile)]);
        }
    }

    #[test]
    fn a_quote_is_given_back_as_it_stands_on_the_diff() {
        let anchored = anchor(vec![finding("+    new();", None, None)], &diff(PATCH));
        assert_eq!(anchored.comments[0].finding.quote, "    new();");
    }
}
