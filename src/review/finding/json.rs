//! Reads JSON out of what a model wrote: in prose or a fence, cut in the middle, with stray quotes, trailing commas,
//! wrong escapes. Valid JSON is read as what it is; everything else is read as far as it can be understood, and what
//! cannot is named. Linear in the length of the text.

use serde_json::{Map, Number, Value};

use super::{Rejected, clip};

/// Nesting that is followed; an answer needs four.
const MAX_DEPTH: usize = 32;
/// Longest field name and longest unquoted word, in bytes. Longer ones are prose that happened to stand in brackets.
const MAX_WORD: usize = 64;
/// How often a byte may be read, on average, while looking for where the JSON begins.
const MAX_READS: usize = 16;
/// How much of an unreadable item is shown, in characters.
pub const MAX_RAW: usize = 300;

/// A JSON value as far as it could be read.
#[derive(Debug, Clone, PartialEq)]
pub struct Loose {
    /// What was read. Objects in lists are whole, or they are in `broken` instead; others may lack what came after the
    /// fault.
    pub value: Value,
    /// Objects in lists that were cut or could not be understood.
    pub broken: Vec<Rejected>,
    /// True when the text was read to the value's own end.
    pub whole: bool,
}

/// Tries every place in `text` where an object or a list could begin, and collects what `accept` takes. What it does
/// not take is searched inside. False beside the result when the search was given up, because the text is built of
/// brackets.
pub fn find_json<T>(text: &str, mut accept: impl FnMut(Loose) -> Option<T>) -> (Vec<T>, bool) {
    let mut found = Vec::new();
    let mut reads = text.len().saturating_mul(MAX_READS).saturating_add(4096);
    let mut at = 0;
    while let Some(start) = text.as_bytes()[at..].iter().position(|byte| matches!(byte, b'{' | b'[')) {
        let start = at + start;
        let mut reader = Reader { text, at: start, broken: Vec::new() };
        let (value, fault) = reader.value(0, Place::Alone);
        let end = reader.at;
        let Some(left) = reads.checked_sub(end - start) else { return (found, false) };
        reads = left;
        at = start + 1;
        if let Some(taken) = accept(Loose { value, broken: reader.broken, whole: fault.is_none() }) {
            found.push(taken);
            at = end.max(at);
        }
    }
    (found, true)
}

/// The JSON string that `text` is as a whole, if it is one: some models answer with JSON inside a string.
pub fn string_content(text: &str) -> Option<String> {
    let text = text.trim();
    let mut reader = Reader { text, at: 0, broken: Vec::new() };
    let content = reader.peek().filter(|byte| *byte == b'"').and_then(|_| reader.string(Place::Alone).ok())?;
    (reader.at == text.len()).then_some(content)
}

/// Why reading stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// The text ended.
    Cut,
    /// It is not JSON from here on.
    Bad(&'static str),
}

impl Fault {
    fn reason(self) -> &'static str {
        match self {
            Self::Cut => "the answer was cut in this item",
            Self::Bad(reason) => reason,
        }
    }
}

/// Where a string stands: that says what must follow its closing quote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Key,
    Member,
    Element,
    Alone,
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    broken: Vec<Rejected>,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// The place of the first byte from `at` on that is not white space.
    fn after_space(&self, at: usize) -> usize {
        let rest = self.text.as_bytes().get(at..).unwrap_or_default();
        at + rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count()
    }

    fn byte_after_space(&self, at: usize) -> Option<u8> {
        self.text.as_bytes().get(self.after_space(at)).copied()
    }

    fn skip_space_and_commas(&mut self) {
        self.at = self.after_space(self.at);
        while self.peek() == Some(b',') {
            self.at = self.after_space(self.at + 1);
        }
    }

    fn value(&mut self, depth: usize, place: Place) -> (Value, Option<Fault>) {
        self.at = self.after_space(self.at);
        match self.peek() {
            None => (Value::Null, Some(Fault::Cut)),
            Some(b'{' | b'[') if depth >= MAX_DEPTH => (Value::Null, Some(Fault::Bad("it is nested too deeply"))),
            Some(b'{') => self.object(depth),
            Some(b'[') => self.list(depth),
            Some(b'"') => match self.string(place) {
                Ok(text) => (Value::String(text), None),
                Err(fault) => (Value::Null, Some(fault)),
            },
            Some(_) => match self.word() {
                Ok(value) => (value, None),
                Err(fault) => (Value::Null, Some(fault)),
            },
        }
    }

    fn object(&mut self, depth: usize) -> (Value, Option<Fault>) {
        self.at += 1;
        let mut members = Map::new();
        let fault = loop {
            self.skip_space_and_commas();
            match self.peek() {
                None => break Some(Fault::Cut),
                Some(b'}') => {
                    self.at += 1;
                    break None;
                }
                // The closing brace was forgotten.
                Some(b']') => break None,
                Some(b'"') => {
                    let key = match self.string(Place::Key) {
                        Ok(key) => key,
                        Err(fault) => break Some(fault),
                    };
                    self.at = self.after_space(self.at);
                    match self.peek() {
                        None => break Some(Fault::Cut),
                        Some(b':') => self.at += 1,
                        Some(_) => break Some(Fault::Bad("a field name is not followed by a colon")),
                    }
                    let (value, fault) = self.value(depth + 1, Place::Member);
                    if fault.is_none() || value.is_array() || value.is_object() {
                        members.insert(key, value);
                    }
                    if fault.is_some() {
                        break fault;
                    }
                }
                Some(_) => break Some(Fault::Bad("a field name is not in double quotes")),
            }
        };
        (Value::Object(members), fault)
    }

    fn list(&mut self, depth: usize) -> (Value, Option<Fault>) {
        self.at += 1;
        let mut elements = Vec::new();
        let fault = loop {
            self.skip_space_and_commas();
            match self.peek() {
                None => break Some(Fault::Cut),
                Some(b']') => {
                    self.at += 1;
                    break None;
                }
                // The closing bracket was forgotten; of a list without any element it is not known what else was.
                Some(b'}') if elements.is_empty() => break Some(Fault::Bad("a list has no end")),
                Some(b'}') => break None,
                Some(first) => {
                    let start = self.at;
                    let (value, fault) = self.value(depth + 1, Place::Element);
                    let Some(fault) = fault else {
                        elements.push(value);
                        continue;
                    };
                    if first != b'{' {
                        break Some(fault);
                    }
                    let found = matches!(fault, Fault::Bad(_)) && self.resume();
                    let raw = clip(&self.text[start..if found { self.at } else { self.text.len() }], MAX_RAW);
                    self.broken.push(Rejected { reason: fault.reason().into(), raw });
                    if !found {
                        break Some(fault);
                    }
                }
            }
        };
        (Value::Array(elements), fault)
    }

    /// After a fault inside an object of a list: goes on behind the brace that most likely ends it, one that is
    /// followed by another object or by the end of the list.
    fn resume(&mut self) -> bool {
        let bytes = self.text.as_bytes();
        let mut at = self.at;
        while let Some(brace) = bytes.get(at..).and_then(|rest| rest.iter().position(|byte| *byte == b'}')) {
            at += brace + 1;
            let next = self.after_space(at);
            let ends = match bytes.get(next) {
                Some(b']' | b'{') => true,
                Some(b',') => matches!(self.byte_after_space(next + 1), Some(b'{' | b']')),
                _ => false,
            };
            if ends {
                self.at = at;
                return true;
            }
        }
        self.at = bytes.len();
        false
    }

    /// A number, a constant, or an unquoted word, which is taken as text.
    fn word(&mut self) -> Result<Value, Fault> {
        let rest = &self.text[self.at..];
        let end = rest.find([',', '}', ']', '\n', '{', '[', '"', ':']);
        let word = rest[..end.unwrap_or(rest.len())].trim_end();
        if word.is_empty() || word.len() > MAX_WORD {
            return Err(Fault::Bad("a value is neither text nor a number"));
        }
        if end.is_none() {
            // A number that the text ends in may lack digits.
            self.at = self.text.len();
            return Err(Fault::Cut);
        }
        self.at += word.len();
        Ok(match word {
            "null" | "None" | "undefined" | "nil" => Value::Null,
            "true" | "True" => Value::Bool(true),
            "false" | "False" => Value::Bool(false),
            _ => match word.parse::<f64>() {
                // `parse` takes `nan` and `inf` too, which are no numbers in JSON.
                Ok(number) => Number::from_f64(number).map_or(Value::Null, Value::Number),
                Err(_) => {
                    let inside = word.strip_prefix('\'').and_then(|word| word.strip_suffix('\''));
                    Value::String(inside.unwrap_or(word).to_owned())
                }
            },
        })
    }

    fn string(&mut self, place: Place) -> Result<String, Fault> {
        let bytes = self.text.as_bytes();
        let mut content = String::new();
        let start = self.at;
        self.at += 1;
        // What stands between `copied` and `at` is plain content that was not copied yet.
        let mut copied = self.at;
        loop {
            let Some(step) = bytes[self.at..].iter().position(|byte| matches!(byte, b'"' | b'\\')) else {
                self.at = bytes.len();
                return Err(Fault::Cut);
            };
            self.at += step;
            if place == Place::Key && self.at - start > MAX_WORD {
                return Err(Fault::Bad("a field name is too long"));
            }
            if bytes[self.at] == b'"' {
                let quote = self.at;
                self.at += 1;
                if self.closes(place) {
                    content.push_str(&self.text[copied..quote]);
                    return Ok(content);
                }
            } else {
                content.push_str(&self.text[copied..self.at]);
                self.escape(&mut content)?;
                copied = self.at;
            }
        }
    }

    /// Whether the quote just read ends its string: only when what must follow one does. Otherwise it is a quote that
    /// the model forgot to escape. In valid JSON the first unescaped quote always passes.
    fn closes(&self, place: Place) -> bool {
        let next = self.after_space(self.at);
        match (place, self.text.as_bytes().get(next)) {
            (_, None) | (Place::Alone, _) | (Place::Key, Some(b':')) | (Place::Member, Some(b'}')) => true,
            (Place::Member, Some(b',')) => match self.byte_after_space(next + 1) {
                // What follows is no member, so this is the end of a string in an object that is broken here.
                None | Some(b'}' | b',' | b'{' | b'[') => true,
                Some(b'"') => self.begins_member(self.after_space(next + 1)),
                Some(_) => false,
            },
            (Place::Element, Some(b',' | b']')) => true,
            _ => false,
        }
    }

    /// Whether a field name and a colon stand at `at`.
    fn begins_member(&self, at: usize) -> bool {
        let rest = self.text.as_bytes().get(at + 1..).unwrap_or_default();
        let mut escaped = false;
        for (index, byte) in rest.iter().take(MAX_WORD + 1).enumerate() {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => return matches!(self.byte_after_space(at + 1 + index + 1), Some(b':') | None),
                _ => {}
            }
        }
        // The text may end within the name.
        rest.len() <= MAX_WORD
    }

    /// An escape. One that JSON does not know is content: models copy regular expressions and paths as they are.
    fn escape(&mut self, content: &mut String) -> Result<(), Fault> {
        let rest = &self.text[self.at + 1..];
        let Some(letter) = rest.chars().next() else {
            self.at = self.text.len();
            return Err(Fault::Cut);
        };
        self.at += 1 + letter.len_utf8();
        match letter {
            'n' => content.push('\n'),
            't' => content.push('\t'),
            'r' => content.push('\r'),
            'b' => content.push('\u{8}'),
            'f' => content.push('\u{c}'),
            '"' | '\\' | '/' | '\'' => content.push(letter),
            'u' => {
                let Some(unit) = self.hex() else {
                    content.push_str("\\u");
                    return Ok(());
                };
                let mut units = vec![unit];
                if (0xd800..0xdc00).contains(&unit) && self.text[self.at..].starts_with("\\u") {
                    let before = self.at;
                    self.at += 2;
                    match self.hex().filter(|low| (0xdc00..0xe000).contains(low)) {
                        Some(low) => units.push(low),
                        None => self.at = before,
                    }
                }
                content.extend(char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)));
            }
            other => {
                content.push('\\');
                content.push(other);
            }
        }
        Ok(())
    }

    /// Four hexadecimal digits.
    fn hex(&mut self) -> Option<u16> {
        let digits = self.text.get(self.at..self.at + 4)?;
        let unit =
            digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| u16::from_str_radix(digits, 16).ok())??;
        self.at += 4;
        Some(unit)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn first(text: &str) -> Loose {
        find_json(text, Some).0.remove(0)
    }

    #[rstest]
    #[case::valid(r#"{"a":[1,-2.5,true,null,"x\n\u00e9\ud83d\ude00"]}"#, json!({"a":[1.0,-2.5,true,null,"x\né😀"]}))]
    #[case::trailing_commas(r#"{"a":[1,2,],}"#, json!({"a":[1.0,2.0]}))]
    #[case::python("{\"a\": None, \"b\": True, \"c\": NaN, \"d\": -Infinity}", json!({"a":null,"b":true,"c":null,"d":null}))]
    #[case::unquoted_value(r#"{"severity": high, "n": 1}"#, json!({"severity":"high","n":1.0}))]
    #[case::unescaped_quotes(r#"{"body": "say "hi" to f("a", "b"), please", "line": 3}"#, json!({"body":r#"say "hi" to f("a", "b"), please"#,"line":3.0}))]
    #[case::single_quotes(r#"{"a": 'x y'}"#, json!({"a":"x y"}))]
    #[case::raw_newline("{\"a\":\"x\ny\tz\"}", json!({"a":"x\ny\tz"}))]
    #[case::odd_separators("{\"a\":\"x\u{2028}y\u{85}z\\rw\"}", json!({"a":"x\u{2028}y\u{85}z\rw"}))]
    #[case::unknown_escapes(r#"{"re":"^\d+\w\.$ \x41 \u{41} \'"}"#, json!({"re":r"^\d+\w\.$ \x41 \u{41} '"}))]
    #[case::lone_surrogate(r#"{"a":"\ud83d x \ude00"}"#, json!({"a":"\u{fffd} x \u{fffd}"}))]
    #[case::surrogate_before_other(r#"{"a":"\ud83d\u0041"}"#, json!({"a":"\u{fffd}A"}))]
    #[case::forgotten_bracket(r#"{"findings":[{"a":1}}"#, json!({"findings":[{"a":1.0}]}))]
    #[case::forgotten_comma(r#"[{"a":1} {"b":2}]"#, json!([{"a":1.0},{"b":2.0}]))]
    #[case::prose("Here it is:\n```json\n{\"a\":1}\n```\nBye.", json!({"a":1.0}))]
    fn reads(#[case] text: &str, #[case] expected: Value) {
        let loose = first(text);
        assert_eq!(loose.value, expected);
        assert!(loose.whole && loose.broken.is_empty(), "{loose:?}");
    }

    #[rstest]
    #[case::in_string(r#"{"findings":[{"a":"1"},{"a":"2","b":"xx"#, json!({"findings":[{"a":"1"}]}), 1)]
    #[case::between(r#"{"findings":[{"a":"1"},"#, json!({"findings":[{"a":"1"}]}), 0)]
    #[case::in_number(r#"[{"a":1},{"a":1"#, json!([{"a":1.0}]), 1)]
    #[case::after_name(r#"[{"a":1},{"a""#, json!([{"a":1.0}]), 1)]
    #[case::after_backslash("[{\"a\":\"x\\", json!([]), 1)]
    fn keeps_what_is_whole_of_a_cut_text(#[case] text: &str, #[case] expected: Value, #[case] broken: usize) {
        let loose = first(text);
        assert_eq!((loose.value, loose.broken.len(), loose.whole), (expected, broken, false));
    }

    #[test]
    fn goes_on_after_an_item_that_is_not_json() {
        let loose = first(r#"{"findings":[{"a":1},{"a": "x", {y}, b},{"a":3}],"summary":"s"}"#);
        assert_eq!(loose.value, json!({"findings":[{"a":1.0},{"a":3.0}],"summary":"s"}));
        assert_eq!((loose.broken.len(), loose.whole), (1, true));
        assert!(loose.broken[0].raw.contains("{y}, b}"), "{loose:?}");
    }

    #[test]
    fn an_empty_list_without_its_end_is_no_empty_list() {
        assert!(!first("{\"findings\": [}").whole);
        assert!(!first("{\"findings\": [}{, it is fine").whole);
    }

    #[test]
    fn a_string_may_hold_the_json() {
        assert_eq!(string_content(" \"{\\\"a\\\": 1}\" ").as_deref(), Some("{\"a\": 1}"));
        assert_eq!(string_content("\"a\" b"), None);
        assert_eq!(string_content("{}"), None);
    }

    #[test]
    fn hostile_texts_take_linear_time() {
        for text in ["[", "{\"a\":", "{\"", "[\"x\",", "\"", "\\", "{\"a\":\" ", "[[{\"a\":[", "}{", "{\"a\":\"\", \"b"]
        {
            let text = text.repeat(100_000 / text.len());
            let _ = find_json(&text, |_| None::<()>);
            let _ = find_json(&text, Some);
        }
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let text = proptest::string::string_regex("(?s).{0,12}").unwrap();
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            any::<i32>().prop_map(|n| json!(f64::from(n))),
            text.prop_map(Value::String)
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
                prop::collection::vec(("(?s).{0,6}", inner), 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect()))
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn valid_json_is_read_as_what_it_is(value in any_json(), pretty: bool) {
            let value = json!([value]);
            let text = if pretty { serde_json::to_string_pretty(&value).unwrap() } else { value.to_string() };
            let loose = first(&text);
            prop_assert_eq!(loose, Loose { value, broken: Vec::new(), whole: true });
        }

        #[test]
        fn any_text_is_read_without_panic(text in "(?s)[\\[\\]{}\",:\\\\ua0n\u{e9}\n .]{0,60}") {
            let _ = find_json(&text, |_| None::<()>);
            let _ = string_content(&text);
        }
    }
}
