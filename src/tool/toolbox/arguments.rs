//! Reads the arguments text of a call. Models write it, so it may be empty, fenced, quoted twice or cut.

use serde_json::{Map, Value};

use crate::chat::ToolCall;

/// See [`super::canonical`].
pub(super) fn canonical(call: &ToolCall) -> String {
    let arguments = match read(&call.arguments) {
        Ok(value) => sorted(value).to_string(),
        Err(_) => call.arguments.split_whitespace().collect::<Vec<_>>().join(" "),
    };
    format!("{} {arguments}", call.name)
}

/// The arguments as an object. Mends what is mended without guessing: nothing at all, `null`, a code fence around,
/// JSON inside a JSON string, a comma too many, brackets missing at the end.
///
/// # Errors
/// What is wrong, for the model.
pub(super) fn read(text: &str) -> Result<Value, String> {
    let text = without_fence(text.trim());
    if text.is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    let value = match serde_json::from_str::<Value>(text) {
        Ok(value) => value,
        Err(error) => serde_json::from_str(&mended(text)).map_err(|_| format!("not JSON: {error}"))?,
    };
    match value {
        Value::Object(_) => Ok(value),
        Value::Null => Ok(Value::Object(Map::new())),
        // One level only: what is quoted three times is no accident.
        Value::String(inner) => match serde_json::from_str(&inner) {
            Ok(value @ Value::Object(_)) => Ok(value),
            _ => Err("not a JSON object but a string".into()),
        },
        other => Err(format!("not a JSON object but {}", kind(&other))),
    }
}

/// Turns `"12"` into 12 and `"true"` into true where the schema wants that, and drops nulls, which mean "not given".
pub(super) fn coerce(value: Value, schema: &Value) -> Value {
    let Value::Object(object) = value else {
        return value;
    };
    let wanted = |name: &str, of: &str| match schema.pointer(&format!("/properties/{name}/type")) {
        Some(Value::String(one)) => one == of,
        Some(Value::Array(some)) => some.iter().any(|one| one == of) && !some.iter().any(|one| one == "string"),
        _ => false,
    };
    let coerced = object.into_iter().filter(|(_, value)| !value.is_null()).map(|(name, value)| {
        let better = match &value {
            Value::String(text) if wanted(&name, "integer") => text.trim().parse::<i64>().ok().map(Value::from),
            Value::String(text) if wanted(&name, "boolean") => text.trim().parse::<bool>().ok().map(Value::from),
            // `12.0` is a whole number for people and for most JSON writers.
            Value::Number(number) if wanted(&name, "integer") => whole(number),
            _ => None,
        };
        (name, better.unwrap_or(value))
    });
    Value::Object(coerced.collect())
}

fn whole(number: &serde_json::Number) -> Option<Value> {
    let float = number.as_f64().filter(|float| number.as_i64().is_none() && float.fract() == 0.0)?;
    format!("{float:.0}").parse::<i64>().ok().map(Value::from)
}

fn without_fence(text: &str) -> &str {
    let Some(inner) = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```")) else {
        return text;
    };
    inner.strip_prefix("json").unwrap_or(inner).trim()
}

/// Leaves out commas before a closing bracket and adds the brackets and the quote that are missing at the end.
fn mended(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    let mut open = Vec::new();
    let (mut in_string, mut escaped) = (false, false);
    for c in text.chars() {
        if in_string {
            out.push(c);
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match c {
            '"' => in_string = true,
            '{' => open.push('}'),
            '[' => open.push(']'),
            '}' | ']' => {
                open.pop();
                drop_comma(&mut out);
            }
            _ => {}
        }
        out.push(c);
    }
    if in_string {
        out.push('"');
    }
    drop_comma(&mut out);
    out.extend(open.iter().rev());
    out
}

fn drop_comma(out: &mut String) {
    let kept = out.trim_end().strip_suffix(',').map(str::len);
    if let Some(kept) = kept {
        out.truncate(kept);
    }
}

fn sorted(value: Value) -> Value {
    match value {
        Value::Object(object) => {
            let mut entries: Vec<_> = object.into_iter().filter(|(_, value)| !value.is_null()).collect();
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(entries.into_iter().map(|(name, value)| (name, sorted(value))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        other => other,
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Array(_) => "a list",
        Value::Number(_) => "a number",
        Value::Bool(_) => "true or false",
        _ => "something else",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn accidents_of_models_are_mended() {
        for (text, expected) in [
            ("", json!({})),
            ("  \n", json!({})),
            ("null", json!({})),
            ("{\"path\":\"a\"}", json!({"path": "a"})),
            ("```json\n{\"path\":\"a\"}\n```", json!({"path": "a"})),
            ("\"{\\\"path\\\":\\\"a\\\"}\"", json!({"path": "a"})),
            ("{\"path\":\"a\",}", json!({"path": "a"})),
            ("{\"path\":\"a,}\"", json!({"path": "a,}"})),
            ("{\"path\":\"a", json!({"path": "a"})),
            ("{\"a\":[1,2,", json!({"a": [1, 2]})),
        ] {
            assert_eq!(read(text), Ok(expected), "{text}");
        }
        for text in ["[]", "3", "\"a\"", "path=a", "{path: a}", "{\"a\":1}}", "}{"] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn values_are_turned_into_what_the_schema_wants() {
        let schema = json!({"properties": {
            "n": {"type": ["integer", "null"]}, "b": {"type": "boolean"}, "s": {"type": "string"},
        }});
        let given = json!({"n": "12", "b": "true", "s": "12", "x": null, "other": "1"});
        assert_eq!(coerce(given, &schema), json!({"n": 12, "b": true, "s": "12", "other": "1"}));
        assert_eq!(coerce(json!({"n": 12.0, "b": "maybe"}), &schema), json!({"n": 12, "b": "maybe"}));
        assert_eq!(coerce(json!({"n": 12.5}), &schema), json!({"n": 12.5}));
    }

    #[test]
    fn equal_calls_have_one_canonical_form() {
        let call =
            |arguments: &str| canonical(&ToolCall { id: "1".into(), name: "f".into(), arguments: arguments.into() });
        assert_eq!(call("{\"b\": 1, \"a\": {\"d\": 1, \"c\": null}}"), "f {\"a\":{\"d\":1},\"b\":1}");
        assert_eq!(call("{\"a\":{\"d\":1},\"b\":1}"), call(" {\"b\":1,\"a\":{\"d\":1}}"));
        assert_eq!(call(""), call("{}"));
        assert_ne!(call("{\"a\":1}"), call("{\"a\":2}"));
        assert_eq!(call("not  json"), "f not json");
    }
}
