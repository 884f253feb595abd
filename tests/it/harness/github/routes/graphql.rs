//! GraphQL, as far as the client asks: `repository { alias: object(expression: $x) { … } }`, and who is asking.

use serde_json::{Map, Value, json};

use super::super::server::{Answer, Asked};
use super::super::state::{State, blob_sha};
use super::{actor, reachable};

/// Texts longer than this are cut, in bytes.
const TEXT_BYTES: usize = 512_000;

pub fn query(state: &mut State, asked: &Asked) -> Answer {
    let Some(query) = asked.body.get("query").and_then(Value::as_str) else {
        return Answer::error(400, "A query attribute must be specified and must be a string.");
    };
    if query == "query{viewer{databaseId}}" {
        let id = state.users.get(&actor(state, asked)).map(|user| user.id);
        return Answer::ok(json!({ "data": { "viewer": { "databaseId": id } } }));
    }
    let variable = |name: &str| asked.body.get("variables").and_then(|all| all.get(name)).and_then(Value::as_str);
    let (Some(owner), Some(name)) = (variable("owner"), variable("name")) else {
        return failed("Variable $owner of type String! was provided invalid value", None);
    };
    // Old names are followed.
    let current = state.repos.iter().find(|repo| repo.former.iter().any(|(o, n)| o == owner && n == name));
    let (owner, name) = current.map_or((owner, name), |repo| (repo.owner.as_str(), repo.name.as_str()));
    if reachable(state, asked, owner, name).is_none() {
        return failed(
            &format!("Could not resolve to a Repository with the name '{owner}/{name}'."),
            Some("NOT_FOUND"),
        );
    }
    let Some((_, selection)) = query.split_once("repository(owner:$owner,name:$name){") else {
        state.complaints.push(format!("the stand-in does not understand the query {query}"));
        return failed("Parse error", None);
    };
    let mut repository = Map::new();
    let mut aliases = 0;
    for part in selection.split(":object(expression:$").skip(1) {
        let variable_name = part.split(')').next().unwrap_or_default();
        let alias = alias_before(selection, variable_name);
        let Some(expression) = variable(variable_name) else {
            return failed(&format!("Variable ${variable_name} was not provided"), None);
        };
        let fields = part.split_once('{').map_or("", |(_, rest)| rest);
        let fields = fields.split(":object(").next().unwrap_or_default();
        repository.insert(alias, object(state, expression, fields));
        aliases += 1;
    }
    if aliases > 102 {
        state.complaints.push(format!("{aliases} objects were asked for with one query"));
    }
    Answer::ok(json!({ "data": { "repository": repository } }))
}

fn alias_before(selection: &str, variable: &str) -> String {
    let marker = format!(":object(expression:${variable})");
    let before = selection.split(&marker).next().unwrap_or_default();
    before.rsplit([' ', '{', '}']).next().unwrap_or_default().to_owned()
}

fn object(state: &State, expression: &str, fields: &str) -> Value {
    let blob = |bytes: &[u8]| {
        let binary = bytes.iter().take(8_000).any(|byte| *byte == 0);
        let text = std::str::from_utf8(bytes).ok().filter(|_| !binary);
        let mut end = TEXT_BYTES;
        while text.is_some_and(|text| end < text.len() && !text.is_char_boundary(end)) {
            end -= 1;
        }
        let mut json = json!({ "__typename": "Blob", "oid": blob_sha(bytes), "byteSize": bytes.len(), "isBinary": binary, "isTruncated": bytes.len() > TEXT_BYTES });
        if fields.contains("text") {
            json["text"] = json!(text.map(|text| text.get(..end).unwrap_or(text)));
        }
        json
    };
    match expression.split_once(':') {
        None if state.commits.contains_key(expression) => json!({ "__typename": "Commit", "oid": expression }),
        None => state.blobs.get(expression).map_or(Value::Null, |bytes| blob(bytes)),
        Some((commit, path)) => {
            let Some(commit) = state.commits.get(commit) else { return Value::Null };
            match commit.files.get(path) {
                // A submodule's commit is in another repository.
                Some(file) if file.mode == "160000" => Value::Null,
                Some(file) => blob(&file.bytes),
                None if commit.files.keys().any(|file| file.starts_with(&format!("{path}/"))) || path.is_empty() => {
                    json!({ "__typename": "Tree", "oid": blob_sha(path.as_bytes()) })
                }
                None => Value::Null,
            }
        }
    }
}

fn failed(message: &str, kind: Option<&str>) -> Answer {
    let mut error = json!({ "message": message, "locations": [] });
    if let Some(kind) = kind {
        error["type"] = json!(kind);
        error["path"] = json!(["repository"]);
        return Answer::ok(json!({ "data": { "repository": null }, "errors": [error] }));
    }
    Answer::ok(json!({ "errors": [error] }))
}
