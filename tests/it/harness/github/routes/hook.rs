//! The App's webhook: what was sent, and sending it again.

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::super::server::{Answer, Asked, Caller};
use super::super::state::{Sent, State};

/// GitHub keeps deliveries for three days.
const KEPT: SignedDuration = SignedDuration::from_hours(72);

/// `GET /app/hook/deliveries`: the newest first, page by page from a cursor.
pub fn list(state: &State, asked: &Asked) -> Answer {
    if asked.caller != Caller::App {
        return Answer::error(401, "A JSON web token could not be decoded");
    }
    let per_page = asked.query.get("per_page").and_then(|text| text.parse().ok()).unwrap_or(30_usize).clamp(1, 100);
    let from = match asked.query.get("cursor") {
        None => u64::MAX,
        Some(cursor) => match cursor.strip_prefix("v1_").and_then(|id| id.parse().ok()) {
            Some(id) => id,
            None => return Answer::error(422, "Invalid cursor"),
        },
    };
    // A delivery that got no answer is in neither half.
    let range = match asked.query.get("status").map(String::as_str) {
        Some("success") => 200..400,
        Some("failure") => 400..600,
        _ => 0..600,
    };
    let kept = |sent: &&Sent| sent.id <= from && range.contains(&sent.status) && sent.at + KEPT > state.now();
    let mut found: Vec<&Sent> = state.sent.iter().rev().filter(kept).take(per_page + 1).collect();
    let next = if found.len() > per_page { found.pop() } else { None };
    let mut answer = Answer::ok(found.iter().map(|sent| item(sent)).collect());
    if let Some(next) = next {
        let link =
            format!("<{}/app/hook/deliveries?per_page={per_page}&cursor=v1_{}>; rel=\"next\"", state.url, next.id);
        answer.headers.push(("link".into(), link));
    }
    answer
}

/// `GET /app/hook/deliveries/{id}`.
pub fn one(state: &State, asked: &Asked, id: u64) -> Answer {
    if asked.caller != Caller::App {
        return Answer::error(401, "A JSON web token could not be decoded");
    }
    let Some(sent) = state.sent.iter().find(|sent| sent.id == id) else { return Answer::not_found() };
    let mut json = item(sent);
    let headers = json!({ "X-GitHub-Event": sent.delivery.event, "X-GitHub-Delivery": sent.delivery.id });
    let payload = if sent.payload_gone { Value::Null } else { sent.delivery.payload.clone() };
    json["request"] = json!({ "headers": headers, "payload": payload });
    json["response"] = json!({ "headers": null, "payload": null });
    Answer::ok(json)
}

/// `POST /app/hook/deliveries/{id}/attempts`: the same event, by the same name, once more.
pub fn again(state: &mut State, asked: &Asked, id: u64) -> Answer {
    if asked.caller != Caller::App {
        return Answer::error(401, "A JSON web token could not be decoded");
    }
    let Some(sent) = state.sent.iter().find(|sent| sent.id == id) else { return Answer::not_found() };
    let delivery = sent.delivery.clone();
    super::super::webhook::attempt(state, delivery, true);
    Answer::json(202, json!({}))
}

fn item(sent: &Sent) -> Value {
    let payload = &sent.delivery.payload;
    let status = match sent.status {
        0 => "failed to connect to host",
        200..400 => "OK",
        _ => "Invalid HTTP Response",
    };
    json!({
        "id": sent.id, "guid": sent.delivery.id, "delivered_at": sent.at.to_string(), "redelivery": sent.redelivery,
        "duration": 0.25, "status": status, "status_code": sent.status, "event": sent.delivery.event,
        "action": payload.get("action"), "installation_id": payload.pointer("/installation/id"),
        "repository_id": payload.pointer("/repository/id"), "throttled_at": null,
    })
}
