//! Whether a replacement can be offered as a committable suggestion, and its Markdown.
//!
//! A suggestion replaces exactly the commented lines, by one click and often without another look. So it is only
//! offered when it is sure to be what was meant; in every doubt the comment stands without it.

use super::anchor::Placed;
use crate::diff::Side;

/// Most lines that a suggestion replaces.
pub const MAX_REPLACED_LINES: usize = 30;
/// Most lines that it puts in their place.
pub const MAX_NEW_LINES: usize = 60;
/// Most lines that it may take away on balance. A model that means to mend two lines of a long quote and gives back
/// only those would delete the others.
pub const MAX_NET_REMOVED: usize = 4;
/// From this many replaced lines on, a shorter replacement has to keep the first and the last of them, which shows that
/// it speaks of all.
pub const ENDS_KEPT_FROM: usize = 4;

/// The suggestion block for a placed finding, or `None` when it would not apply cleanly: it needs the right side, the
/// replaced lines equal to the head file's text, the same indentation style, no diff markers, a real change, LF only,
/// and code that parses at least as well as before. `head` is the whole file at the head commit; `parses_as_well` is
/// asked about the whole file before and after.
///
/// A replacement that lost its indentation is given that of the first replaced line. Files with CRLF get none: the
/// button would mix line ends.
pub fn suggestion(placed: &Placed, head: &str, parses_as_well: impl Fn(&str, &str) -> bool) -> Option<String> {
    let anchor = &placed.anchor;
    if anchor.side != Side::Right {
        return None;
    }
    let (first, last) = (usize::try_from(anchor.start_line).ok()?, usize::try_from(anchor.line).ok()?);
    let lines: Vec<&str> = head.split('\n').collect();
    let replaced = lines.get(first.checked_sub(1)?..last)?;
    // Behind the last line of a file without a final newline stands nothing that `split` could show.
    let ends_bare = last == lines.len();
    if ends_bare
        || replaced.is_empty()
        || replaced.len() > MAX_REPLACED_LINES
        || !quoted(&placed.finding.quote, replaced)
    {
        return None;
    }
    let replacement = placed.finding.replacement.as_deref()?.trim_end_matches('\n');
    if replacement.trim().is_empty() || !plain(replacement) || replaced.iter().any(|line| line.contains('\r')) {
        return None;
    }
    let new: Vec<&str> = replacement.split('\n').collect();
    if new.len() > MAX_NEW_LINES || has_markers(&new, replaced) || elides(&new, replaced) || loses_lines(&new, replaced)
    {
        return None;
    }
    let new = reindented(&new, replaced)?;
    if !same_indentation(&new, replaced, &lines) || unchanged(&new, replaced) {
        return None;
    }
    let text = new.join("\n");
    let (before, after) = (lines[..first - 1].iter(), lines[last..].iter());
    let applied: Vec<&str> = before.copied().chain([text.as_str()]).chain(after.copied()).collect();
    if !parses_as_well(head, &applied.join("\n")) {
        return None;
    }
    // The fence must be longer than any run of backticks inside.
    let fence = "`".repeat(longest_run(&text, '`').max(2) + 1);
    Some(format!("{fence}suggestion\n{text}\n{fence}"))
}

/// Whether the quote is all of the replaced lines, and not a part of one.
fn quoted(quote: &str, replaced: &[&str]) -> bool {
    let trimmed = |lines: &[&str]| -> Vec<String> { lines.iter().map(|line| line.trim().to_owned()).collect() };
    let quote: Vec<&str> = quote.split('\n').collect();
    let filled = |line: &&str| !line.trim().is_empty();
    let (Some(first), Some(last)) = (quote.iter().position(filled), quote.iter().rposition(filled)) else {
        return false;
    };
    trimmed(&quote[first..=last]) == trimmed(replaced)
}

/// Nothing that people do not see, or see as something else: controls, other line separators, bidirectional marks.
fn plain(text: &str) -> bool {
    !text.chars().any(|c| {
        (c.is_control() && c != '\n' && c != '\t')
            || matches!(c, '\u{2028}' | '\u{2029}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}')
            || matches!(c, '\u{2060}'..='\u{2069}' | '\u{feff}' | char::REPLACEMENT_CHARACTER)
    })
}

/// Whether the marker column of a diff was copied: lines that begin with `+` or `-` where none did.
fn has_markers(new: &[&str], replaced: &[&str]) -> bool {
    let begins = |lines: &[&str], marker| lines.iter().any(|line| line.starts_with(marker));
    ["+", "-", "@@ ", "diff --git "].iter().any(|marker| begins(new, *marker) && !begins(replaced, *marker))
}

/// Whether the replacement leaves lines out and says so, with three dots or words.
fn elides(new: &[&str], replaced: &[&str]) -> bool {
    let says = |line: &&str| {
        let words = line.trim_matches(|c: char| !c.is_alphanumeric() && c != '.' && c != '…').to_lowercase();
        let dots = words == "..." || words == "…";
        dots || ((line.contains("...") || line.contains('…'))
            && ["existing", "unchanged", "rest of", "same as", "remain", "omitted"]
                .iter()
                .any(|word| words.contains(word)))
    };
    new.iter().any(says) && !replaced.iter().any(says)
}

/// Whether lines would go that nobody said should go.
fn loses_lines(new: &[&str], replaced: &[&str]) -> bool {
    if new.len() >= replaced.len() {
        return false;
    }
    let kept = |line: Option<&&str>| line.is_some_and(|line| new.iter().any(|new| new.trim() == line.trim()));
    let ends_kept = kept(replaced.first()) && kept(replaced.last());
    replaced.len() - new.len() > MAX_NET_REMOVED || (replaced.len() >= ENDS_KEPT_FROM && !ends_kept)
}

/// The replacement with the indentation of the replaced lines, if it lost it; `None` when the first lines still begin
/// at different columns, which is a mistake more often than a wish.
fn reindented(new: &[&str], replaced: &[&str]) -> Option<Vec<String>> {
    let wanted = replaced.iter().find(|line| !line.trim().is_empty()).map_or("", |line| indentation(line));
    let first = new.iter().position(|line| !line.trim().is_empty())?;
    let had = indentation(new[first]);
    if had == wanted {
        return Some(new.iter().map(|line| (*line).to_owned()).collect());
    }
    if !had.is_empty() {
        return None;
    }
    // Only the first line lost it (the text was trimmed as a whole) when another one stands as deep as wanted.
    let deep = |line: &&&str| !line.trim().is_empty() && indentation(line).starts_with(wanted);
    let rest = new[first + 1..].iter().filter(|line| !line.trim().is_empty());
    let only_first = new[first + 1..].iter().any(|line| deep(&line)) && rest.clone().all(|line| deep(&line));
    Some(
        new.iter()
            .enumerate()
            .map(|(index, line)| match line.trim().is_empty() {
                true => String::new(),
                false if only_first && index != first => (*line).to_owned(),
                false => format!("{wanted}{line}"),
            })
            .collect(),
    )
}

fn indentation(line: &str) -> &str {
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}

/// Whether the new lines are indented with what the replaced ones are, or with what the file is.
fn same_indentation(new: &[String], replaced: &[&str], file: &[&str]) -> bool {
    let uses =
        |lines: &[&str], c: char| lines.iter().any(|line| !line.trim().is_empty() && indentation(line).contains(c));
    let new: Vec<&str> = new.iter().map(String::as_str).collect();
    let (tabs, spaces) = match (uses(replaced, '\t'), uses(replaced, ' ')) {
        (false, false) => (uses(file, '\t'), uses(file, ' ')),
        used => used,
    };
    // A file that is not indented anywhere takes either, not both.
    match (tabs, spaces) {
        (false, false) => !(uses(&new, '\t') && uses(&new, ' ')),
        (true, true) => true,
        (true, false) => !uses(&new, ' '),
        (false, true) => !uses(&new, '\t'),
    }
}

/// Whether nothing changes but white space at the ends of lines.
fn unchanged(new: &[String], replaced: &[&str]) -> bool {
    new.len() == replaced.len() && new.iter().zip(replaced).all(|(new, old)| new.trim_end() == old.trim_end())
}

fn longest_run(text: &str, of: char) -> usize {
    let mut longest = 0;
    let mut run = 0;
    for c in text.chars() {
        run = if c == of { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::review::anchor::Anchor;
    use crate::review::finding::{Finding, parse_findings};

    const HEAD: &str = "fn a() {\n    let x = f();\n    let y = g(x);\n\n    h(y);\n}\n```\n- item\nend\n";

    fn placed(quote: &str, lines: (u32, u32), replacement: &str) -> Placed {
        let answer = serde_json::json!({"findings": [{"title": "T"}]});
        let finding = parse_findings(&answer.to_string(), "x").findings.remove(0);
        let finding = Finding { quote: quote.into(), replacement: Some(replacement.into()), ..finding };
        Placed { finding, anchor: Anchor { side: Side::Right, start_line: lines.0, line: lines.1 } }
    }

    /// The replacement of whole lines of `head`, as the block's content.
    fn offered(head: &str, lines: (u32, u32), replacement: &str) -> Option<String> {
        let quote: Vec<&str> = head.split('\n').collect();
        let quote = quote[lines.0 as usize - 1..lines.1 as usize].join("\n");
        let block = suggestion(&placed(&quote, lines, replacement), head, |_, _| true)?;
        let content = block.strip_prefix("```suggestion\n").and_then(|rest| rest.strip_suffix("\n```"));
        Some(content.unwrap_or(&block).to_owned())
    }

    #[rstest]
    #[case::one_line((2, 2), "    let x = f()?;", "    let x = f()?;")]
    #[case::final_newlines((2, 2), "    let x = f()?;\n\n", "    let x = f()?;")]
    #[case::lost_indentation((2, 2), "let x = f()?;", "    let x = f()?;")]
    #[case::lost_by_all((2, 3), "let x = f()?;\nif x {\n    g(x);\n}", "    let x = f()?;\n    if x {\n        g(x);\n    }")]
    #[case::lost_by_the_first((2, 3), "let x = f()?;\n    let y = x;", "    let x = f()?;\n    let y = x;")]
    #[case::blank_lines_stay_blank((2, 3), "let x = f()?;\n\nlet y = x;", "    let x = f()?;\n\n    let y = x;")]
    #[case::a_line_less((2, 3), "    let y = g(f());", "    let y = g(f());")]
    #[case::ends_kept((2, 5), "    let x = f();\n    h(y);", "    let x = f();\n    h(y);")]
    #[case::markers_that_were_there((8, 8), "- other item", "- other item")]
    fn offers(#[case] lines: (u32, u32), #[case] replacement: &str, #[case] expected: &str) {
        assert_eq!(offered(HEAD, lines, replacement).as_deref(), Some(expected));
    }

    #[rstest]
    #[case::no_change((2, 2), "    let x = f();")]
    #[case::only_end_space((2, 2), "    let x = f();  ")]
    #[case::only_lost_indentation((2, 2), "let x = f();")]
    #[case::empty((2, 2), "")]
    #[case::blank((2, 2), " \n ")]
    #[case::plus((2, 2), "+    let x = f()?;")]
    #[case::minus((2, 2), "-    let x = f();\n+    let x = f()?;")]
    #[case::carriage_return((2, 2), "    let x = f()?;\r\n    g();")]
    #[case::bidi((2, 2), "    let x = f(\u{202e});")]
    #[case::other_separator((2, 2), "    let x = f();\u{2028}    g();")]
    #[case::tabs((2, 2), "\tlet x = f()?;")]
    #[case::tabs_inside((2, 2), "    if x {\n\t\tg();\n    }")]
    #[case::other_column((2, 2), "  let x = f()?;")]
    #[case::dots((2, 5), "    let x = f()?;\n    ...\n    // more\n    h(y);")]
    #[case::says_unchanged((2, 5), "    let x = f()?;\n    // ... existing code ...\n    g();\n    h(y);")]
    #[case::ends_lost((2, 5), "    let x = f()?;")]
    fn refuses(#[case] lines: (u32, u32), #[case] replacement: &str) {
        assert_eq!(offered(HEAD, lines, replacement), None);
    }

    #[test]
    fn a_range_wider_than_its_replacement_is_refused() {
        let head: String = (0..60).map(|n| format!("line {n}\n")).collect();
        assert_eq!(offered(&head, (11, 45), "line 10\nline 44 changed"), None);
        assert_eq!(offered(&head, (11, 20), "line 10\nmended\nline 19"), None);
        assert!(offered(&head, (11, 16), "line 10\nmended\nline 15").is_some());
        // More lines than are replaced at once, even one for one.
        let many: Vec<String> = (10..45).map(|n| format!("other {n}")).collect();
        assert_eq!(offered(&head, (11, 45), &many.join("\n")), None);
        assert_eq!(offered(&head, (1, 1), &"x\n".repeat(MAX_NEW_LINES + 1)), None);
    }

    #[test]
    fn the_fence_is_longer_than_any_inside() {
        let block = suggestion(&placed("```", (7, 7), "````rust `x`"), HEAD, |_, _| true);
        assert_eq!(block.as_deref(), Some("`````suggestion\n````rust `x`\n`````"));
        let block = suggestion(&placed("end", (9, 9), "an ```inline``` fence"), HEAD, |_, _| true);
        assert_eq!(block.as_deref(), Some("````suggestion\nan ```inline``` fence\n````"));
    }

    #[test]
    fn the_quote_is_all_of_the_replaced_lines() {
        let with = |quote: &str, lines| suggestion(&placed(quote, lines, "    let x = f()?;"), HEAD, |_, _| true);
        assert!(with("let x = f();", (2, 2)).is_some());
        assert!(with("\n    let x = f();\r\n", (2, 2)).is_some());
        assert_eq!(with("x = f()", (2, 2)), None);
        assert_eq!(with("let x = f();", (3, 3)), None);
        assert_eq!(with("let x = f();", (2, 3)), None);
        assert_eq!(with("", (4, 4)), None);
    }

    #[test]
    fn only_on_lines_of_the_head_file() {
        let mut left = placed("let x = f();", (2, 2), "let x = f()?;");
        left.anchor.side = Side::Left;
        assert_eq!(suggestion(&left, HEAD, |_, _| true), None);
        for lines in [(0, 0), (0, 2), (3, 2), (99, 99), (2, u32::MAX)] {
            assert_eq!(suggestion(&placed("let x = f();", lines, "let x = 1;"), HEAD, |_, _| true), None);
        }
        let none = Placed { finding: Finding { replacement: None, ..left.finding.clone() }, ..left };
        assert_eq!(suggestion(&none, HEAD, |_, _| true), None);
    }

    #[test]
    fn line_ends_are_left_alone() {
        assert_eq!(offered("a\r\nb\r\n", (1, 1), "c"), None);
        assert_eq!(offered("a\nb", (2, 2), "c"), None, "the last line has no newline");
        assert_eq!(offered("a\nb", (1, 1), "c").as_deref(), Some("c"));
    }

    #[test]
    fn indentation_follows_the_file() {
        assert_eq!(offered("if x:\n\tf()\n", (1, 1), "if y:\n    g()"), None);
        assert!(offered("if x:\n\tf()\n", (1, 1), "if y:\n\tg()").is_some());
        assert_eq!(offered("if x:\n\tf()\n", (2, 2), "g()").as_deref(), Some("\tg()"));
        assert_eq!(offered("x\n", (1, 1), "if y:\n\tg()\n    h()"), None);
    }

    #[test]
    fn code_that_parses_worse_is_refused() {
        let placed = placed("let x = f();", (2, 2), "let x = f(;");
        let seen = std::cell::RefCell::new(Vec::new());
        let asked = |before: &str, after: &str| {
            seen.borrow_mut().push((before.to_owned(), after.to_owned()));
            false
        };
        assert_eq!(suggestion(&placed, HEAD, asked), None);
        let after = HEAD.replace("f();", "f(;");
        assert_eq!(seen.into_inner(), [(HEAD.to_owned(), after)]);
    }
}
