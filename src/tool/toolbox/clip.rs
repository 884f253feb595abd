//! Shortens results.

/// The text, or its first and last half with a marker between when it is longer than `max` bytes. Never cuts a
/// character; the marker comes on top of `max`.
pub(super) fn halves(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let head = text.floor_char_boundary(max / 2);
    let tail = text.ceil_char_boundary(text.len() - max / 2);
    let (first, last) = (text.get(..head).unwrap_or_default(), text.get(tail..).unwrap_or_default());
    format!("{first}\n[… {} bytes left out; ask for a smaller part …]\n{last}", tail - head)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn short_texts_stay_and_long_ones_keep_both_ends() {
        assert_eq!(halves("abc", 3), "abc");
        let clipped = halves(&"é".repeat(100), 11);
        assert_eq!(clipped, "éé\n[… 192 bytes left out; ask for a smaller part …]\néé");
    }

    proptest! {
        #[test]
        fn clipped_texts_are_bounded_and_keep_their_ends(text in "\\PC{0,400}", max in 8_usize..200) {
            let clipped = halves(&text, max);
            prop_assert!(clipped.len() <= max + 80);
            if text.len() > max {
                let (first, rest) = clipped.split_once("\n[… ").unwrap();
                let (_, last) = rest.rsplit_once("…]\n").unwrap();
                prop_assert!(text.starts_with(first) && text.ends_with(last));
            } else {
                prop_assert_eq!(clipped, text);
            }
        }
    }
}
