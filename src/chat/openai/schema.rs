//! JSON Schemas in the form that strict servers take. Pure.
//!
//! Strict mode (OpenAI's guide to structured outputs) wants every object closed and every property required; what was
//! optional becomes nullable instead. Keywords that it refuses are left out; they only describe.

use serde_json::{Map, Value, json};

/// Formats that strict mode knows; others make it refuse the schema.
const FORMATS: [&str; 9] = ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];

/// The strict form of a schema.
pub fn strict(schema: &Value) -> Value {
    let Value::Object(fields) = schema else { return schema.clone() };
    if let Some(reference) = fields.get("$ref") {
        return json!({ "$ref": reference });
    }
    let mut out = Map::new();
    for (key, value) in fields {
        match key.as_str() {
            "$schema" | "default" | "examples" | "required" | "additionalProperties" => {}
            "format" if value.as_str().is_none_or(|f| !FORMATS.contains(&f)) => {}
            "oneOf" | "anyOf" => {
                out.insert("anyOf".to_owned(), each(value));
            }
            "items" => {
                out.insert(key.clone(), strict(value));
            }
            "$defs" | "definitions" => {
                out.insert(key.clone(), map(value, |_, schema| strict(schema)));
            }
            "properties" => {
                let required = fields.get("required").and_then(Value::as_array);
                let optional = |name: &str| !required.is_some_and(|r| r.iter().any(|v| v == name));
                let nullable_or_not = |name: &str, schema: &Value| {
                    if optional(name) { nullable(strict(schema)) } else { strict(schema) }
                };
                out.insert(key.clone(), map(value, nullable_or_not));
            }
            _ => {
                out.insert(key.clone(), value.clone());
            }
        }
    }
    if let Some(Value::Object(properties)) = out.get("properties") {
        let names: Vec<Value> = properties.keys().cloned().map(Value::String).collect();
        out.insert("required".to_owned(), Value::Array(names));
        out.insert("additionalProperties".to_owned(), Value::Bool(false));
    }
    Value::Object(out)
}

/// A name that servers take: letters, digits, `_` and `-`, at most 64.
pub fn name(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let name: String = name.chars().take(64).map(plain).collect();
    if name.is_empty() { "answer".to_owned() } else { name }
}

fn nullable(mut schema: Value) -> Value {
    let accepts_null = |s: &Value| s.get("type").is_some_and(|t| t == "null");
    if let Some(Value::Array(options)) = schema.get_mut("anyOf") {
        if !options.iter().any(accepts_null) {
            options.push(json!({"type": "null"}));
        }
        return schema;
    }
    let has_values = schema.get("enum").is_some() || schema.get("const").is_some();
    match schema.get_mut("type") {
        Some(Value::Array(types)) => {
            if !types.iter().any(|t| t == "null") {
                types.push(json!("null"));
            }
            schema
        }
        Some(Value::String(kind)) if !has_values => {
            let both = json!([kind, "null"]);
            schema["type"] = both;
            schema
        }
        _ => json!({"anyOf": [schema, {"type": "null"}]}),
    }
}

fn each(value: &Value) -> Value {
    match value {
        Value::Array(schemas) => schemas.iter().map(strict).collect(),
        other => other.clone(),
    }
}

fn map(value: &Value, f: impl Fn(&str, &Value) -> Value) -> Value {
    match value {
        Value::Object(schemas) => schemas.iter().map(|(name, schema)| (name.clone(), f(name, schema))).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(schemars::JsonSchema)]
    #[expect(dead_code, reason = "only its schema is used")]
    struct Answer {
        /// What there is.
        items: Vec<Item>,
        summary: Option<String>,
    }

    #[derive(schemars::JsonSchema)]
    #[expect(dead_code, reason = "only its schema is used")]
    struct Item {
        line: Option<u32>,
        kind: Option<Kind>,
        format: String,
    }

    #[derive(schemars::JsonSchema)]
    #[serde(rename_all = "lowercase")]
    #[expect(dead_code, reason = "only its schema is used")]
    enum Kind {
        Good,
        Bad,
    }

    #[test]
    fn a_derived_schema_becomes_strict() {
        let schema = serde_json::to_value(schemars::schema_for!(Answer)).unwrap();
        insta::assert_snapshot!(serde_json::to_string_pretty(&strict(&schema)).unwrap(), @r##"
        {
          "title": "Answer",
          "type": "object",
          "properties": {
            "items": {
              "description": "What there is.",
              "type": "array",
              "items": {
                "$ref": "#/$defs/Item"
              }
            },
            "summary": {
              "type": [
                "string",
                "null"
              ]
            }
          },
          "$defs": {
            "Item": {
              "type": "object",
              "properties": {
                "line": {
                  "type": [
                    "integer",
                    "null"
                  ],
                  "minimum": 0
                },
                "kind": {
                  "anyOf": [
                    {
                      "$ref": "#/$defs/Kind"
                    },
                    {
                      "type": "null"
                    }
                  ]
                },
                "format": {
                  "type": "string"
                }
              },
              "required": [
                "line",
                "kind",
                "format"
              ],
              "additionalProperties": false
            },
            "Kind": {
              "type": "string",
              "enum": [
                "good",
                "bad"
              ]
            }
          },
          "required": [
            "items",
            "summary"
          ],
          "additionalProperties": false
        }
        "##);
    }

    #[test]
    fn making_a_schema_strict_twice_changes_nothing() {
        let schema = serde_json::to_value(schemars::schema_for!(Answer)).unwrap();
        let once = strict(&schema);
        assert_eq!(strict(&once), once);
    }

    #[test]
    fn optional_properties_without_a_type_get_null_as_an_alternative() {
        let schema = json!({"type": "object", "properties": {"a": {"enum": ["x"]}, "b": {"$ref": "#/$defs/B"}}});
        assert_eq!(
            strict(&schema)["properties"],
            json!({
                "a": {"anyOf": [{"enum": ["x"]}, {"type": "null"}]},
                "b": {"anyOf": [{"$ref": "#/$defs/B"}, {"type": "null"}]},
            })
        );
    }

    #[test]
    fn names_are_made_acceptable() {
        assert_eq!(name("review findings/1"), "review_findings_1");
        assert_eq!(name(""), "answer");
        assert_eq!(name(&"ä".repeat(100)).len(), 64);
    }
}
