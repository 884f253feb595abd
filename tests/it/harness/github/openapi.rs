//! Both sides against GitHub's own description: every request the client sends, every answer the stand-in gives.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use jsonschema::{ValidationError, Validator};
use serde_json::{Map, Value, json};

use super::server::{Answer, Asked, Content};

const SPECIFICATION: &str = include_str!("../../../../fixtures/openapi/github.json");

/// What GitHub does and its description denies: the users of deleted accounts and the repositories of deleted forks
/// are `null` (desktop#3022, rest-api-description#161), and so are the line and position of an outdated comment.
const NULL_IN_TRUTH: &[&str] = &["/user", "/head/user", "/head/repo", "/line", "/position"];

/// A description, and the validators compiled from it so far: compiling is slow, so each is made once and when needed.
struct Specification {
    document: Value,
    validators: Mutex<HashMap<String, Option<Arc<Validator>>>>,
}

/// What is wrong with a request or its answer; empty when both are as described.
pub fn check(asked: &Asked, path: &str, query: &str, answer: &Answer) -> Vec<String> {
    if path == "/graphql" {
        return Vec::new();
    }
    let specification = specification();
    // Where a renamed repository is redirected to; not described, but documented.
    let by_id = path.strip_prefix("/repositories/").and_then(|rest| rest.split_once('/'));
    let described = by_id.map_or_else(|| path.to_owned(), |(_, rest)| format!("/repos/owner/name/{rest}"));
    let Some(name) = specification.operation(&asked.method, &described) else {
        return vec![format!("GitHub describes no {} {path}", asked.method)];
    };
    let operation = &specification.document["operations"][&name];
    let mut wrong = Vec::new();
    let known = |key: &str| operation["query"].as_array().unwrap().iter().any(|known| known == key);
    wrong.extend(asked.query.keys().filter(|key| !known(key)).map(|key| format!("{name}: no query parameter `{key}`")));
    if let Some(page) =
        asked.query.get("per_page").filter(|page| page.parse::<u32>().map_or(true, |n| n == 0 || n > 100))
    {
        wrong.push(format!("{name}: per_page={page} in `{query}`"));
    }
    if !asked.body.is_null() {
        match specification.validator(&name, "/request") {
            None => wrong.push(format!("{name} takes no body")),
            Some(validator) => {
                wrong.extend(errors(&validator, &asked.body).map(|error| format!("{name}, request: {error}")))
            }
        }
    }
    if let Content::Json(json) = &answer.body {
        match specification.validator(&name, &format!("/responses/{}", answer.status)) {
            Some(validator) => {
                wrong.extend(errors(&validator, json).map(|error| format!("{name}, answer {}: {error}", answer.status)))
            }
            // Redirects and refusals are described for some operations and happen for all.
            None if answer.status >= 300 && json.get("message").is_some_and(Value::is_string) => {}
            None => wrong.push(format!("{name} never answers {}", answer.status)),
        }
    }
    wrong
}

/// The keys that GitHub promises in a successful answer of an operation (of an entry, where it is a list).
pub fn promised(operation: &str, status: u16) -> Vec<String> {
    let document = &specification().document;
    let mut schema = &document["operations"][operation]["responses"][status.to_string()];
    loop {
        if let Some(name) = schema.get("$ref").and_then(Value::as_str).and_then(|name| name.rsplit('/').next()) {
            schema = &document["schemas"][name];
        } else if let Some(items) = schema.get("items") {
            schema = items;
        } else {
            break;
        }
    }
    let keys = schema["required"].as_array().map(Vec::as_slice).unwrap_or_default();
    keys.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn specification() -> &'static Specification {
    static SPEC: OnceLock<Specification> = OnceLock::new();
    SPEC.get_or_init(|| Specification {
        document: serde_json::from_str(SPECIFICATION).unwrap(),
        validators: Mutex::default(),
    })
}

impl Specification {
    /// The name of the operation that a path is of.
    fn operation(&self, method: &str, path: &str) -> Option<String> {
        let names = self.document["operations"].as_object().unwrap().keys();
        let fits = |name: &&String| {
            let Some((described, template)) = name.split_once(' ') else { return false };
            if described != method {
                return false;
            }
            let mut path = path.split('/');
            for part in template.split('/') {
                match (part, path.next()) {
                    // A file's path has slashes of its own.
                    ("{path}", Some(_)) => return true,
                    (part, Some(segment)) if part.starts_with('{') && !segment.is_empty() => {}
                    (part, Some(segment)) if part == segment => {}
                    _ => return false,
                }
            }
            path.next().is_none()
        };
        // `/pulls/comments/{id}` before `/pulls/{number}/…`: the fewest variables win.
        names.filter(fits).min_by_key(|name| name.matches('{').count()).cloned()
    }

    fn validator(&self, operation: &str, part: &str) -> Option<Arc<Validator>> {
        let mut validators = self.validators.lock().unwrap();
        let made = validators.entry(format!("{operation}{part}")).or_insert_with(|| {
            let schema = self.document["operations"][operation].pointer(part).filter(|schema| !schema.is_null())?;
            let mut needed = Map::new();
            self.gather(schema, &mut needed);
            let whole = json!({ "allOf": [schema], "schemas": needed });
            Some(Arc::new(jsonschema::validator_for(&whole).unwrap()))
        });
        made.clone()
    }

    /// The schemas that a schema refers to, and those that they refer to: compiling takes time for each.
    fn gather(&self, schema: &Value, needed: &mut Map<String, Value>) {
        match schema {
            Value::Array(all) => all.iter().for_each(|one| self.gather(one, needed)),
            Value::Object(members) => {
                let name = members.get("$ref").and_then(Value::as_str).and_then(|name| name.rsplit('/').next());
                if let Some(name) = name.filter(|name| !needed.contains_key(*name)) {
                    let named = &self.document["schemas"][name];
                    needed.insert(name.to_owned(), named.clone());
                    self.gather(named, needed);
                }
                members.values().for_each(|one| self.gather(one, needed));
            }
            _ => {}
        }
    }
}

fn errors(validator: &Validator, json: &Value) -> impl Iterator<Item = String> {
    let all = validator.iter_errors(json).filter(|error| {
        let at = error.instance_path().to_string();
        let is_null = json.pointer(&at).is_some_and(Value::is_null);
        !(is_null && NULL_IN_TRUTH.iter().any(|known| at.ends_with(known)))
    });
    let text = |error: ValidationError<'_>| {
        let what: String = error.to_string().chars().take(300).collect();
        format!("{what} at `{}`", error.instance_path())
    };
    all.map(text).collect::<Vec<_>>().into_iter()
}
