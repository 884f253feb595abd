//! Where lines of an older version went in a newer one, by content and not by number.

use std::ops::RangeInclusive;

use super::{Hunk, LineKind};

/// The place of quoted lines in a newer text: 1-based line numbers, both ends included.
///
/// White space at the ends of lines is ignored, since reindenting is not a change of the code. A quote that stands
/// once is found wherever it went. One that stands several times is found only near `hint` (the line it is expected
/// to begin on, best from [`shifted`]): when it stands exactly there, or when the nearest place is less than half as
/// far away as the next. Otherwise `None`: never a guess. A blank quote is nowhere.
pub fn follow(quote: &str, new_text: &str, hint: Option<u32>) -> Option<RangeInclusive<u32>> {
    let quoted: Vec<&str> = quote.split('\n').map(str::trim).collect();
    let first = quoted.iter().position(|line| !line.is_empty())?;
    let last = quoted.iter().rposition(|line| !line.is_empty())?;
    let quoted = &quoted[first..=last];
    let lines: Vec<&str> = new_text.split('\n').map(str::trim).collect();
    let places = lines.windows(quoted.len()).enumerate().filter(|(_, window)| *window == quoted);
    let places: Vec<u32> = places.filter_map(|(index, _)| u32::try_from(index + 1).ok()).collect();
    let start = match places.as_slice() {
        [] => return None,
        [only] => *only,
        _ => {
            // Blank lines before the quoted code count for where it was expected.
            let hint = hint?.saturating_add(u32::try_from(first).ok()?);
            let mut by_distance: Vec<(u32, u32)> = places.iter().map(|place| (place.abs_diff(hint), *place)).collect();
            by_distance.sort_unstable();
            let ((nearest, place), (next, _)) = (by_distance[0], by_distance[1]);
            if nearest.checked_mul(2)? < next { place } else { return None }
        }
    };
    Some(start..=start + u32::try_from(quoted.len() - 1).ok()?)
}

/// The number that an old line has in the new version, by the hunks between the two. `None` when the line was removed.
pub fn shifted(hunks: &[Hunk], old_line: u32) -> Option<u32> {
    let mut shift = 0i64;
    for hunk in hunks {
        // An empty old side stands after the line it names.
        let first = if hunk.old_count == 0 { hunk.old_start.saturating_add(1) } else { hunk.old_start };
        if old_line < first {
            break;
        }
        if old_line < first.saturating_add(hunk.old_count) {
            let line = hunk.lines.iter().find(|line| line.old == Some(old_line))?;
            return if line.kind == LineKind::Removed { None } else { line.new };
        }
        shift += i64::from(hunk.new_count) - i64::from(hunk.old_count);
    }
    u32::try_from(i64::from(old_line) + shift).ok()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::diff::make::make_hunks;

    #[rstest]
    #[case::unique("let x = f();", "a\nb\n    let x = f();\nc", Some(1), Some(3..=3))]
    #[case::unique_without_hint("a\nb", "0\n  a\n  b\r\n", None, Some(2..=3))]
    #[case::gone("gone", "a\nb", Some(1), None)]
    #[case::changed_inside("a\nb\nc", "a\nB\nc", Some(1), None)]
    #[case::twice_without_hint("a", "a\nb\na", None, None)]
    #[case::exactly_there("a", "a\nb\na", Some(3), Some(3..=3))]
    #[case::in_the_middle("a", "a\nb\nb\nb\na", Some(3), None)]
    #[case::clearly_nearer("a", "a\nb\nb\nb\nb\na", Some(5), Some(6..=6))]
    #[case::not_clearly_nearer("a", "a\nb\nb\na", Some(3), None)]
    #[case::blank(" \n", "a\n\nb", Some(2), None)]
    #[case::empty("", "a", Some(1), None)]
    #[case::longer_than_text("a\nb", "a", Some(1), None)]
    #[case::blank_ends("\na\n\n", "b\na", None, Some(2..=2))]
    #[case::huge_hint("a", "a\na", Some(u32::MAX), None)]
    fn follows_content(
        #[case] quote: &str,
        #[case] text: &str,
        #[case] hint: Option<u32>,
        #[case] expected: Option<RangeInclusive<u32>>,
    ) {
        assert_eq!(follow(quote, text, hint), expected);
    }

    #[test]
    fn numbers_shift_by_the_hunks_above() {
        let old: String = (1..=30).map(|n| format!("{n}\n")).collect();
        let new = format!("top\n{}", old.replace("\n20\n", "\n"));
        let hunks = make_hunks(&old, &new);
        assert_eq!(hunks.len(), 2);
        let texts: Vec<&str> = new.lines().collect();
        for line in 1..=30u32 {
            let there = shifted(&hunks, line).map(|at| texts[at as usize - 1].to_owned());
            assert_eq!(there, (line != 20).then(|| line.to_string()), "{line}");
        }
        assert_eq!(shifted(&[], 7), Some(7));
        assert_eq!(shifted(&make_hunks("", "a\n"), 1), Some(2));
    }
}
