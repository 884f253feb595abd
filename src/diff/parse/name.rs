//! File names in diff headers: quoted as C strings, with prefixes, with trailing tabs.

/// Reads a name quoted by git as a C string at the start of `text`: its bytes, and what follows the closing quote.
/// `None` when it is not one.
pub(super) fn unquote(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut rest = text.strip_prefix(b"\"")?;
    let mut name = Vec::new();
    loop {
        let (&byte, after) = rest.split_first()?;
        rest = after;
        match byte {
            b'"' => return Some((name, rest)),
            b'\\' => {
                let (&escape, after) = rest.split_first()?;
                rest = after;
                name.push(match escape {
                    b'a' => 7,
                    b'b' => 8,
                    b't' => b'\t',
                    b'n' => b'\n',
                    b'v' => 11,
                    b'f' => 12,
                    b'r' => b'\r',
                    b'"' | b'\\' => escape,
                    b'0'..=b'3' => {
                        let (digits, after) = rest.split_at_checked(2)?;
                        rest = after;
                        let octal = |digit: u8| matches!(digit, b'0'..=b'7').then(|| digit - b'0');
                        (escape - b'0') * 64 + octal(digits[0])? * 8 + octal(digits[1])?
                    }
                    _ => return None,
                });
            }
            _ => name.push(byte),
        }
    }
}

/// The name in `text`, quoted or plain. Git ends a plain name with a tab when it holds spaces, `diff -u` puts a tab
/// and the time behind it; a tab in a name is always quoted.
pub(super) fn name(text: &[u8]) -> Vec<u8> {
    if let Some((name, _)) = unquote(text) {
        return name;
    }
    text.split(|byte| *byte == b'\t').next().unwrap_or_default().to_vec()
}

/// The two names of a `diff --git` line, prefixes and all. `None` when the line does not say where the first one ends:
/// git itself relies on the lines after it then.
pub(super) fn header_names(text: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    if let Some((old, rest)) = unquote(text) {
        let rest = rest.strip_prefix(b" ")?;
        let new = if rest.starts_with(b"\"") { whole(rest)? } else { rest.to_vec() };
        return Some((old, new));
    }
    if text.ends_with(b"\"") {
        let split = (0..text.len()).filter(|at| text[*at..].starts_with(b" \"")).find_map(|at| {
            let new = whole(&text[at + 1..])?;
            Some((text[..at].to_vec(), new))
        });
        return split;
    }
    // Two plain names are only told apart when they are the same, so that the space between is in the middle.
    let middle = text.len().checked_sub(1)? / 2;
    let (old, new) = (text.get(..middle)?, text.get(middle + 1..)?);
    let same = text.get(middle) == Some(&b' ') && (old == new || prefixed(old, new) && old.get(2..) == new.get(2..));
    same.then(|| (old.to_vec(), new.to_vec()))
}

/// Whether two names carry the prefixes of a pair that git writes: `a/` and `b/`, or those of `diff.mnemonicPrefix`
/// (commit, index, work tree, object), in either order. `/dev/null` has none.
pub(super) fn prefixed(old: &[u8], new: &[u8]) -> bool {
    let letter = |name: &[u8]| match name {
        b"/dev/null" => Some(None),
        [letter, b'/', ..] => Some(Some(*letter)),
        _ => None,
    };
    const PAIRS: [(u8, u8); 6] = [(b'a', b'b'), (b'i', b'w'), (b'c', b'i'), (b'c', b'w'), (b'o', b'w'), (b'1', b'2')];
    match (letter(old), letter(new)) {
        (Some(Some(old)), Some(Some(new))) => PAIRS.contains(&(old, new)) || PAIRS.contains(&(new, old)),
        (Some(Some(one)), Some(None)) | (Some(None), Some(Some(one))) => {
            PAIRS.iter().any(|pair| pair.0 == one || pair.1 == one)
        }
        _ => false,
    }
}

/// A quoted name that fills the whole of `text`.
fn whole(text: &[u8]) -> Option<Vec<u8>> {
    unquote(text).filter(|(_, rest)| rest.is_empty()).map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(r#""a\"b""#, Some("a\"b"))]
    #[case(r#""\303\274 \t\\.txt""#, Some("ü \t\\.txt"))]
    #[case(r#""open"#, None)]
    #[case(r#""bad \q""#, None)]
    #[case(r#""bad \39""#, None)]
    #[case(r#""cut \3"#, None)]
    #[case("plain", None)]
    fn unquotes(#[case] text: &str, #[case] expected: Option<&str>) {
        assert_eq!(unquote(text.as_bytes()).map(|(name, _)| name).as_deref(), expected.map(str::as_bytes));
    }

    #[rstest]
    #[case("a/x b/x", Some(("a/x", "b/x")))]
    #[case("a/s p b/y b/s p b/y", Some(("a/s p b/y", "b/s p b/y")))]
    #[case("x y x y", Some(("x y", "x y")))]
    #[case("c/x.rs w/x.rs", Some(("c/x.rs", "w/x.rs")))]
    #[case(r#""a/\303\274" "b/\303\274""#, Some(("a/ü", "b/ü")))]
    #[case(r#""a/\303\274" b/u"#, Some(("a/ü", "b/u")))]
    #[case(r#"a/u "b/\303\274""#, Some(("a/u", "b/ü")))]
    #[case("a/old b/new", None)]
    #[case("", None)]
    fn splits_header_names(#[case] text: &str, #[case] expected: Option<(&str, &str)>) {
        let expected = expected.map(|(old, new)| (old.as_bytes().to_vec(), new.as_bytes().to_vec()));
        assert_eq!(header_names(text.as_bytes()), expected);
    }
}
