//! Characters that people cannot see. Pure.

/// `text` with LF line ends and without control, bidirectional and other invisible characters. Joiners and variation
/// selectors stay between characters beyond ASCII, where scripts and emoji need them. Idempotent.
pub(super) fn strip(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\r' => {
                if chars.peek() != Some(&'\n') {
                    out.push('\n');
                }
            }
            '\u{2028}' | '\u{2029}' | '\u{85}' => out.push('\n'),
            '\u{200c}' | '\u{200d}' => {
                let before = out.chars().next_back().is_some_and(visible_beyond_ascii);
                let after = chars.peek().copied().is_some_and(visible_beyond_ascii);
                if before && after {
                    out.push(c);
                }
            }
            '\u{fe00}'..='\u{fe0f}' => {
                // The keycap emoji are the only ASCII with a selector; they read the same without.
                if out.chars().next_back().is_some_and(visible_beyond_ascii) {
                    out.push(c);
                }
            }
            _ if is_invisible(c) => {}
            _ => out.push(c),
        }
    }
    out
}

fn visible_beyond_ascii(c: char) -> bool {
    !c.is_ascii()
        && !c.is_whitespace()
        && !is_invisible(c)
        && !matches!(c, '\u{200c}' | '\u{200d}' | '\u{2028}' | '\u{2029}' | '\u{85}')
}

fn is_invisible(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        '\u{ad}'
        | '\u{34f}'
        | '\u{61c}'
        | '\u{115f}'
        | '\u{1160}'
        | '\u{180b}'..='\u{180f}'
        | '\u{200b}'
        | '\u{200e}'
        | '\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{3164}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}'
        | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}' => true,
        _ => c.is_control(),
    }
}
