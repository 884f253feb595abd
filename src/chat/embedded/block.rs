//! JSON in fenced blocks of a prompt. Pure.

use serde_json::Value;

/// The values of all fenced `json` blocks of a text, in order. A fence of any length is closed by one at least as long.
pub(super) fn json_blocks(text: &str) -> Vec<Value> {
    let mut values = Vec::new();
    let mut open: Option<(usize, bool, String)> = None;
    for line in text.lines() {
        let trimmed = line.trim();
        let ticks = trimmed.chars().take_while(|c| *c == '`').count();
        match &mut open {
            Some((fence, is_json, body)) => {
                if ticks >= *fence && ticks == trimmed.chars().count() {
                    if *is_json && let Ok(value) = serde_json::from_str(body) {
                        values.push(value);
                    }
                    open = None;
                } else {
                    body.push_str(line);
                    body.push('\n');
                }
            }
            None if ticks >= 3 => {
                let language = trimmed.trim_start_matches('`').trim().to_ascii_lowercase();
                open = Some((ticks, language == "json", String::new()));
            }
            None => {}
        }
    }
    values
}

/// A text without its fenced blocks and quoted lines: what a person wrote themselves.
pub(super) fn prose(text: &str) -> String {
    let mut fence = 0;
    let mut prose = String::new();
    for line in text.lines() {
        let trimmed = line.trim();
        let ticks = trimmed.chars().take_while(|c| *c == '`').count();
        if fence > 0 {
            if ticks >= fence && ticks == trimmed.chars().count() {
                fence = 0;
            }
        } else if ticks >= 3 {
            fence = ticks;
        } else if !trimmed.starts_with('>') {
            prose.push_str(line);
            prose.push('\n');
        }
    }
    prose
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn blocks_are_read_whatever_stands_around_them() {
        let text = "a\n```json\n{\"a\":1}\n```\n```rust\n{\"b\":1}\n```\n````json\n{\"c\":\n\"```\"}\n````\n```json\nnot\n```\n```json\n{}";
        assert_eq!(json_blocks(text), [json!({"a": 1}), json!({"c": "```"})]);
    }

    #[test]
    fn prose_is_what_is_left() {
        assert_eq!(prose("> quoted\nwhy?\n```\ncode?\n```\nthanks"), "why?\nthanks\n");
    }
}
