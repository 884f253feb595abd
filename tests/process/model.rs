//! A model behind OpenAI's protocol. What it answers follows from what it is asked and from nothing else, so that a run
//! that was killed ends where a calm one does.
//!
//! It reports every line of a file that says `defect("…")`, and reads a file first when its path says so (`_t2.py`: twice);
//! its critic keeps everything; in threads it repeats the question. Each request has a label; in a calm run no label is
//! asked twice.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::seed::{Seed, pass};
use crate::wire::{Step, Wire};

/// Milliseconds an answer takes at most.
const SLOWEST: usize = 60;

/// A request and what became of it.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    /// Which conversation: role, file and hunks, or the question.
    pub(crate) subject: String,
    /// How far the conversation is.
    pub(crate) turn: usize,
    /// Which process asked.
    pub(crate) door: usize,
    pub(crate) asked: Instant,
    /// When the last piece of the answer was handed to the connection.
    pub(crate) said: Option<Instant>,
}

/// A model's fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Status 500.
    Broken,
    /// Status 429, come back in a second.
    Busy,
    /// The stream is cut in the middle.
    Cut,
}

type Troubles = Box<dyn FnMut() -> Option<Trouble> + Send>;

/// What is done when the model is asked about something of this name.
type WhenAsked = (String, Box<dyn FnOnce() + Send>);

struct Shared {
    wire: Arc<Wire>,
    calls: Mutex<Vec<Call>>,
    when_asked: Mutex<Option<WhenAsked>>,
    troubles: Mutex<Option<Troubles>>,
    quick: AtomicBool,
}

/// The running model, until its last clone is dropped.
#[derive(Clone)]
pub(crate) struct Model {
    shared: Arc<Shared>,
    base: String,
    _serving: Arc<Serving>,
}

struct Serving(AbortHandle);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Model {
    pub(crate) async fn start(wire: Arc<Wire>) -> Self {
        let shared = Arc::new(Shared {
            wire,
            calls: Mutex::default(),
            when_asked: Mutex::default(),
            troubles: Mutex::default(),
            quick: AtomicBool::new(false),
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let app = Router::new().fallback(answer).with_state(shared.clone());
        let serving = tokio::spawn(async move { axum::serve(listener, app).await });
        Self { shared, base, _serving: Arc::new(Serving(serving.abort_handle())) }
    }

    /// The base URL for one process.
    pub(crate) fn door(&self, number: usize) -> String {
        format!("{}/{number}/v1", self.base)
    }

    /// Done when the model is asked next about something whose name holds `subject`, before it answers.
    pub(crate) fn when_asked(&self, subject: &str, act: impl FnOnce() + Send + 'static) {
        *self.shared.when_asked.lock().unwrap() = Some((subject.to_owned(), Box::new(act)));
    }

    /// What decides which requests go wrong.
    pub(crate) fn set_troubles(&self, troubles: impl FnMut() -> Option<Trouble> + Send + 'static) {
        *self.shared.troubles.lock().unwrap() = Some(Box::new(troubles));
    }

    /// Nothing goes wrong any more.
    pub(crate) fn end_troubles(&self) {
        *self.shared.troubles.lock().unwrap() = None;
    }

    /// All requests so far.
    pub(crate) fn calls(&self) -> Vec<Call> {
        self.shared.calls.lock().unwrap().clone()
    }

    /// Forgets them, which a long run need not keep.
    pub(crate) fn forget(&self) {
        self.shared.calls.lock().unwrap().clear();
        self.shared.quick.store(true, Ordering::Relaxed);
    }
}

async fn answer(State(shared): State<Arc<Shared>>, uri: Uri, body: Bytes) -> Response {
    let door = uri.path().split('/').nth(1).and_then(|part| part.parse().ok()).unwrap_or(0);
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let Some(reply) = reply(&body) else {
        let error = json!({"error": {"message": "nobody thought of this request", "type": "invalid_request_error"}});
        return response(400, "application/json", Body::from(error.to_string()));
    };
    let meant = |(subject, _): &mut (String, _)| reply.subject.contains(subject.as_str());
    if let Some((_, act)) = shared.when_asked.lock().unwrap().take_if(meant) {
        act();
    }
    let call = Call { subject: reply.subject.clone(), turn: reply.turn, door, asked: Instant::now(), said: None };
    let what = format!("{} turn {}", reply.role, reply.turn);
    let number = {
        let mut calls = shared.calls.lock().unwrap();
        if shared.quick.load(Ordering::Relaxed) {
            calls.clear();
        }
        calls.push(call);
        calls.len() - 1
    };
    shared.wire.pass(door, Step::Thinking, &what).await;
    let trouble = shared.troubles.lock().unwrap().as_mut().and_then(|troubles| troubles());
    match trouble {
        Some(Trouble::Broken) => return response(500, "application/json", Body::from("{\"error\":\"broken\"}")),
        Some(Trouble::Busy) => {
            let mut busy = response(429, "application/json", Body::from("{\"error\":\"busy\"}"));
            busy.headers_mut().insert("retry-after", "1".parse().unwrap());
            return busy;
        }
        Some(Trouble::Cut) | None => {}
    }
    // As long as its words are, so to say.
    pass(Seed::new(u64::try_from(reply.subject.len() * 31 + reply.turn).unwrap()).time(SLOWEST)).await;
    let cut = trouble == Some(Trouble::Cut);
    response(200, "text/event-stream; charset=utf-8", Body::from_stream(pieces(shared, door, number, what, reply, cut)))
}

fn pieces(
    shared: Arc<Shared>,
    door: usize,
    number: usize,
    what: String,
    reply: Reply,
    cut: bool,
) -> impl futures_util::Stream<Item = Result<String, std::io::Error>> {
    let (first, second) = reply.events();
    let half = shared.clone();
    let (at_half, at_end) = (what.clone(), what);
    let begin = stream::iter(first.into_iter().map(|event| Ok(format!("data: {event}\n\n"))));
    let middle = stream::once(async move {
        half.wire.pass(door, Step::HalfSaid, &at_half).await;
        if cut { Err(std::io::Error::other("cut")) } else { Ok(String::new()) }
    });
    let rest = stream::iter(second.into_iter().map(|event| Ok(format!("data: {event}\n\n"))));
    let end = stream::once(async move {
        if let Some(call) = shared.calls.lock().unwrap().get_mut(number) {
            call.said = Some(Instant::now());
        }
        shared.wire.pass(door, Step::Said, &at_end).await;
        Ok::<_, Infallible>(String::new())
    })
    .map(|piece| Ok(piece.unwrap_or_default()));
    // Each piece leaves before the next is made, as over a network.
    begin.chain(middle).chain(rest).chain(end).then(|piece| async {
        tokio::task::yield_now().await;
        piece
    })
}

fn response(status: u16, kind: &str, body: Body) -> Response {
    Response::builder().status(status).header("content-type", kind).body(body).unwrap()
}

/// What is answered.
#[derive(Debug, Clone, PartialEq)]
struct Reply {
    role: &'static str,
    subject: String,
    turn: usize,
    said: Result<String, Value>,
}

impl Reply {
    fn events(&self) -> (Vec<String>, Vec<String>) {
        let delta = |delta: Value| {
            json!({"id": "c", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
                .to_string()
        };
        let finish =
            |reason: &str| json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}).to_string();
        let usage =
            json!({"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107}})
                .to_string();
        let begin = delta(json!({"role": "assistant", "content": ""}));
        match &self.said {
            Ok(text) => {
                let half = text.floor_char_boundary(text.len() / 2);
                let first = vec![begin, delta(json!({"content": &text[..half]}))];
                let second = vec![delta(json!({"content": &text[half..]})), finish("stop"), usage, "[DONE]".to_owned()];
                (first, second)
            }
            Err(arguments) => {
                let call = json!({"index": 0, "id": format!("call-{}", self.turn), "type": "function",
                    "function": {"name": "read_file", "arguments": arguments.to_string()}});
                let second =
                    vec![delta(json!({"tool_calls": [call]})), finish("tool_calls"), usage, "[DONE]".to_owned()];
                (vec![begin], second)
            }
        }
    }
}

/// The answer to a request; `None` for one that does not come up here.
fn reply(body: &Value) -> Option<Reply> {
    let messages = body["messages"].as_array()?;
    let text = |at: usize| messages.get(at).and_then(|message| message["content"].as_str()).unwrap_or_default();
    let turn = messages.iter().filter(|message| message["role"] == "assistant").count();
    let (system, page) = (text(0), text(1));
    if system.starts_with("You are secondlook") {
        let (last, question) =
            messages.iter().enumerate().rev().find_map(|(at, message)| {
                Some((at, message["content"].as_str().filter(|_| message["role"] == "user")?))
            })?;
        let said = question.lines().rfind(|line| !line.trim().is_empty())?;
        let turn = messages[last..].iter().filter(|message| message["role"] == "assistant").count();
        let subject = format!("answer:{said}");
        return Some(Reply { role: "answer", subject, turn, said: Ok(format!("You asked: {said}")) });
    }
    let path = page.split("# The file\n\n").nth(1)?.split(", ").next()?.trim().to_owned();
    let hunks = page.split("# Hunks to review").nth(1)?.split("\n# ").next()?;
    let key = hex::encode(Sha256::digest(hunks));
    if system.starts_with("You are given findings") {
        let open = page.split("# Findings to refute").nth(1)?.matches("\"index\":").count();
        let verdicts: Vec<Value> = (0..open)
            .map(|index| json!({"index": index, "verdict": "keep", "reason": "The code does this.", "confidence": 0.9}))
            .collect();
        let said = Ok(json!({"verdicts": verdicts, "missed": []}).to_string());
        return Some(Reply { role: "critic", subject: format!("critic:{path}:{}", &key[..12]), turn, said });
    }
    let reads = path.split("_t").nth(1).and_then(|rest| rest.chars().next()?.to_digit(10)).unwrap_or(0);
    let said = if turn < usize::try_from(reads).unwrap() && body.get("tools").is_some() {
        Err(json!({"path": path, "start_line": turn + 1}))
    } else {
        let found: Vec<Value> = hunks.lines().filter_map(|line| defect(&path, line)).collect();
        Ok(json!({"findings": found, "summary": ""}).to_string())
    };
    Some(Reply { role: "reviewer", subject: format!("reviewer:{path}:{}", &key[..12]), turn, said })
}

/// The finding on a line as prompts show it, when the line is added and says that it is defective.
fn defect(path: &str, line: &str) -> Option<Value> {
    let (_, code) = line.split_once(" + ")?;
    let name = code.split_once("defect(\"")?.1.split('"').next()?;
    let title = format!("The value of {name} is lost");
    Some(json!({
        "path": path, "quote": code, "line": null, "end_line": null, "side": "RIGHT", "severity": "major",
        "category": "correctness", "title": title,
        "body": format!("{title} when the caller passes nothing. Return it, or say why nobody needs it."),
        "replacement": null, "confidence": 0.9,
    }))
}

#[test]
fn answers_follow_from_the_request_alone() {
    let page = "# The file\n\nsrc/a_t1.py, changed\n\n# Hunks to review\n\n```\n1   -   old\n  1 +     defect(\"a1\")\n```\n# Other\n  2 + defect(\"b\")";
    let ask = |system: &str, more: &[Value]| {
        let mut messages = vec![json!({"role": "system", "content": system}), json!({"role": "user", "content": page})];
        messages.extend_from_slice(more);
        reply(&json!({"messages": messages, "tools": []})).unwrap()
    };
    let first = ask("You review one file", &[]);
    assert_eq!(first.said, Err(json!({"path": "src/a_t1.py", "start_line": 1})));
    let call = json!({"role": "assistant", "content": null});
    let second = ask("You review one file", &[call, json!({"role": "tool", "content": "1: x"})]);
    assert_eq!((first.subject.clone(), first.turn + 1), (second.subject.clone(), second.turn));
    let found: Value = serde_json::from_str(&second.said.unwrap()).unwrap();
    assert_eq!(found["findings"][0]["quote"], "    defect(\"a1\")");
    assert_eq!(found["findings"].as_array().unwrap().len(), 1);
    assert_eq!(reply(&json!({"messages": []})), None);
}
