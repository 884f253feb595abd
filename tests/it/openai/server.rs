//! A stand-in for an OpenAI-compatible server on loopback. It answers from a script, one reply a request, and is strict:
//! a request that OpenAI would refuse for its form, or that no reply is left for, is a fault, and faults are reckoned up
//! at the end.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::Response;
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};

/// What a request is answered with.
pub(crate) enum Reply {
    /// A status, headers and a body.
    Plain(u16, Vec<(&'static str, String)>, String),
    /// A stream of events, and how it ends.
    Stream(Vec<String>, End),
    /// Headers and bytes, with status 200.
    Bytes(Vec<(&'static str, &'static str)>, Vec<u8>),
    /// Nothing, ever.
    Never,
}

/// How a stream ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// `[DONE]`.
    Done,
    /// The body ends without a word.
    Silent,
    /// The connection breaks.
    Cut,
    /// Nothing more comes, but the connection stays.
    Hang,
}

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

/// Says what a request is answered with.
type Answerer = Box<dyn Fn(&Asked) -> Reply + Send + Sync>;

#[derive(Default)]
struct Shared {
    replies: Mutex<VecDeque<Reply>>,
    answerer: Option<Answerer>,
    asked: Mutex<Vec<Asked>>,
    faults: Mutex<Vec<String>>,
}

/// The running server.
pub(crate) struct Server {
    shared: Arc<Shared>,
    pub(crate) base: String,
}

impl Server {
    pub(crate) async fn start(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self::serve(Shared { replies: Mutex::new(replies.into_iter().collect()), ..Shared::default() }).await
    }

    /// One that looks at each request to answer it.
    pub(crate) async fn answering(answerer: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Self {
        Self::serve(Shared { answerer: Some(Box::new(answerer)), ..Shared::default() }).await
    }

    async fn serve(shared: Shared) -> Self {
        let shared = Arc::new(shared);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let app = Router::new().fallback(answer).with_state(shared.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { shared, base }
    }

    /// What was asked so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.shared.asked.lock().unwrap().clone()
    }

    /// The bodies of what was asked.
    pub(crate) fn bodies(&self) -> Vec<Value> {
        self.asked().into_iter().map(|asked| asked.body).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let faults = self.shared.faults.lock().unwrap();
        assert!(faults.is_empty(), "faults: {faults:#?}");
        let left = self.shared.replies.lock().unwrap().len();
        assert_eq!(left, 0, "replies that nobody asked for");
    }
}

/// One event that carries a delta.
pub(crate) fn delta(delta: &Value) -> String {
    json!({"id": "c", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
        .to_string()
}

/// The event that says why the model stopped.
pub(crate) fn finish(reason: &str) -> String {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}).to_string()
}

/// The event with the usage.
pub(crate) fn usage(input: u64, cached: u64, output: u64) -> String {
    let details = json!({"cached_tokens": cached});
    json!({"choices": [], "usage": {"prompt_tokens": input, "completion_tokens": output, "prompt_tokens_details": details}})
        .to_string()
}

/// A whole streamed answer.
pub(crate) fn says(text: &str) -> Reply {
    let half = text.floor_char_boundary(text.len() / 2);
    let events = vec![
        delta(&json!({"role": "assistant", "content": ""})),
        delta(&json!({"content": &text[..half]})),
        delta(&json!({"content": &text[half..]})),
        finish("stop"),
        usage(100, 60, 7),
    ];
    Reply::Stream(events, End::Done)
}

/// A refusal in OpenAI's form.
pub(crate) fn refuses(status: u16, message: &str, code: &str) -> Reply {
    let body = json!({"error": {"message": message, "type": "invalid_request_error", "param": null, "code": code}});
    Reply::Plain(status, vec![("content-type", "application/json".to_owned())], body.to_string())
}

/// A body of JSON with status 200.
pub(crate) fn json_body(body: &str) -> Reply {
    Reply::Plain(200, vec![("content-type", "application/json; charset=utf-8".to_owned())], body.to_owned())
}

async fn answer(
    State(shared): State<Arc<Shared>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let path = uri.path().to_owned();
    let faults = match (method, path.as_str()) {
        (Method::POST, "/v1/chat/completions") => faults(&body),
        (Method::GET, "/v1/models") => Vec::new(),
        (method, path) => vec![format!("no route for {method} {path}")],
    };
    let asked = Asked { path, headers, body };
    let reply = match &shared.answerer {
        Some(answerer) => Some(answerer(&asked)),
        None => shared.replies.lock().unwrap().pop_front(),
    };
    shared.asked.lock().unwrap().push(asked);
    {
        let mut all = shared.faults.lock().unwrap();
        all.extend(faults);
        if reply.is_none() {
            all.push("a request without a reply in the script".to_owned());
        }
    }
    match reply {
        None => response(500, &[], Body::empty()),
        Some(Reply::Plain(status, headers, body)) => response(status, &headers, Body::from(body)),
        Some(Reply::Bytes(headers, body)) => {
            let headers: Vec<_> = headers.into_iter().map(|(name, value)| (name, value.to_owned())).collect();
            response(200, &headers, Body::from(body))
        }
        Some(Reply::Never) => std::future::pending().await,
        Some(Reply::Stream(events, end)) => {
            let headers = [("content-type", "text/event-stream; charset=utf-8".to_owned())];
            response(200, &headers, Body::from_stream(pieces(events, end)))
        }
    }
}

fn pieces(events: Vec<String>, end: End) -> impl futures_util::Stream<Item = Result<String, std::io::Error>> {
    let mut pieces: Vec<Result<String, std::io::Error>> = events
        .into_iter()
        .map(|event| Ok(if event.starts_with(':') { format!("{event}\n\n") } else { format!("data: {event}\n\n") }))
        .collect();
    match end {
        End::Done => pieces.push(Ok("data: [DONE]\n\n".to_owned())),
        End::Cut => pieces.push(Err(std::io::Error::other("cut"))),
        End::Silent | End::Hang => {}
    }
    let pieces = stream::iter(pieces).then(|piece| async {
        // Each piece leaves before the next is made, as over a network.
        tokio::task::yield_now().await;
        piece
    });
    let tail = stream::once(async move {
        if end == End::Hang {
            std::future::pending::<Infallible>().await;
        }
        Ok(String::new())
    });
    pieces.chain(tail)
}

fn response(status: u16, headers: &[(&'static str, String)], body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    for (name, value) in headers {
        response.headers_mut().insert(*name, value.parse().unwrap());
    }
    response
}

/// What OpenAI would refuse in the form of a request.
fn faults(body: &Value) -> Vec<String> {
    const FIELDS: [&str; 9] = [
        "model",
        "messages",
        "tools",
        "parallel_tool_calls",
        "response_format",
        "max_tokens",
        "max_completion_tokens",
        "stream",
        "stream_options",
    ];
    let mut faults = Vec::new();
    let unknown = body.as_object().into_iter().flatten().filter(|(name, _)| !FIELDS.contains(&name.as_str()));
    faults.extend(unknown.map(|(name, _)| format!("unknown field {name}")));
    if body["stream"] != json!(true) && body.get("stream_options").is_some() {
        faults.push("stream_options without stream".to_owned());
    }
    if body.get("parallel_tool_calls").is_some() && body.get("tools").is_none() {
        faults.push("parallel_tool_calls without tools".to_owned());
    }
    let messages = body["messages"].as_array().cloned().unwrap_or_default();
    if messages.is_empty() {
        faults.push("no messages".to_owned());
    }
    let mut open: Vec<Value> = Vec::new();
    for message in &messages {
        if message["role"] == "tool" {
            match open.iter().position(|id| *id == message["tool_call_id"]) {
                Some(place) => drop(open.remove(place)),
                None => faults.push(format!("a result of no call: {message}")),
            }
            continue;
        }
        if !open.is_empty() {
            faults.push(format!("calls without a result: {open:?}"));
            open.clear();
        }
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
            if !serde_json::from_str::<Value>(arguments).is_ok_and(|a| a.is_object()) {
                faults.push(format!("arguments that are no object: {arguments}"));
            }
            if open.contains(&call["id"]) {
                faults.push(format!("two calls with the id {}", call["id"]));
            }
            open.push(call["id"].clone());
        }
        if message["content"].is_null() && message.get("tool_calls").is_none() {
            faults.push(format!("a message without content: {message}"));
        }
    }
    faults
}
