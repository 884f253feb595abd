//! The HTTP side: one handler for everything. It reads the request, lets faults strike, asks who is calling, finds the
//! route, checks both sides against GitHub's schema and writes the log.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::connect_info::Connected;
use axum::extract::{ConnectInfo, Request, State as Shared};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use axum::serve::{IncomingStream, Listener};
use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

use super::fault::Kind;
use super::state::{Logged, State};
use super::watch::{Seen, Watch};
use super::{openapi, routes};

/// A request as the routes see it.
pub struct Asked {
    pub method: String,
    /// Decoded segments of the path.
    pub path: Vec<String>,
    pub query: HashMap<String, String>,
    pub body: Value,
    pub accept: String,
    pub caller: Caller,
}

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caller {
    Nobody,
    /// The App, by its signed assertion.
    App,
    /// An installation, for these repositories.
    Installation {
        id: u64,
        repos: std::collections::BTreeSet<u64>,
    },
    /// A person with a token.
    Person(String),
}

/// What is answered.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Content,
}

#[derive(Debug, Clone)]
pub enum Content {
    Json(Value),
    Raw(Vec<u8>),
    Nothing,
}

impl Answer {
    pub fn json(status: u16, body: Value) -> Self {
        Self { status, headers: Vec::new(), body: Content::Json(body) }
    }

    pub fn ok(body: Value) -> Self {
        Self::json(200, body)
    }

    pub fn error(status: u16, message: &str) -> Self {
        let docs = "https://docs.github.com/rest";
        Self::json(status, json!({ "message": message, "documentation_url": docs, "status": status.to_string() }))
    }

    pub fn not_found() -> Self {
        Self::error(404, "Not Found")
    }

    pub fn invalid(errors: &[Value]) -> Self {
        let docs = "https://docs.github.com/rest";
        let message = if errors.iter().all(Value::is_string) { "Unprocessable Entity" } else { "Validation Failed" };
        Self::json(422, json!({ "message": message, "errors": errors, "documentation_url": docs, "status": "422" }))
    }
}

/// A port at which the stand-in is asked, and who looks on there.
#[derive(Clone)]
struct Door {
    state: Arc<Mutex<State>>,
    number: usize,
    watch: Option<Arc<dyn Watch>>,
}

/// Serves a state on a free port of this machine until the handle is used or the test's runtime ends.
pub async fn serve(
    state: Arc<Mutex<State>>,
    number: usize,
    watch: Option<Arc<dyn Watch>>,
) -> (SocketAddr, AbortHandle) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let door = Door { state, number, watch };
    let app = Router::new().fallback(handle).with_state(door).into_make_service_with_connect_info::<Cut>();
    let serving = tokio::spawn(async move { axum::serve(Cuttable(listener), app).await.unwrap() });
    (address, serving.abort_handle())
}

async fn handle(Shared(door): Shared<Door>, connection: ConnectInfo<Cut>, request: Request) -> Response {
    let Some(watch) = &door.watch else { return serve_one(&door, connection, request, None).await };
    let seen = Seen { door: door.number, method: request.method().to_string(), path: request.uri().path().to_owned() };
    let strike = watch.arrives(&seen).await.map(|fault| fault.kind);
    let response = serve_one(&door, connection, request, strike).await;
    watch.done(&seen).await;
    response
}

async fn serve_one(
    door: &Door,
    ConnectInfo(cut): ConnectInfo<Cut>,
    request: Request,
    strike: Option<Kind>,
) -> Response {
    let state = &door.state;
    let (parts, body) = request.into_parts();
    let bytes = to_bytes(body, 64 << 20).await.unwrap_or_default();
    let (method, raw) = (parts.method.to_string(), parts.uri.path().to_owned());
    // Enterprise Server has its API below a path; the stand-in is found there too.
    let path = match raw.as_str() {
        "/api/graphql" => "/graphql".to_owned(),
        path => path.strip_prefix("/api/v3").unwrap_or(path).to_owned(),
    };
    let fault = strike.or_else(|| {
        let mut state = state.lock().unwrap();
        state.faults.iter_mut().find_map(|fault| fault.takes(&method, &path).then(|| fault.kind.clone()))
    });
    let latency = state.lock().unwrap().latency;
    if !latency.is_zero() {
        // As far away as the real one is.
        let _ = tokio::time::timeout(latency, std::future::pending::<()>()).await;
    }
    if let Some(Kind::Hold(gate)) = &fault {
        gate.pass().await;
    }
    let response = respond(state, &cut, fault.as_ref(), &parts, &path, &bytes);
    if let Some(Kind::ApplyThenHold(gate)) = &fault {
        gate.pass().await;
    }
    response
}

/// What a fault leaves of the answer, and the log of it.
fn respond(
    state: &Mutex<State>,
    cut: &Cut,
    fault: Option<&Kind>,
    parts: &Parts,
    path: &str,
    bytes: &Bytes,
) -> Response {
    let (method, raw) = (parts.method.to_string(), parts.uri.path().to_owned());
    let query = parts.uri.query().unwrap_or_default().to_owned();
    let mut guard = state.lock().unwrap();
    let state = &mut *guard;
    let path = path.to_owned();
    let mut logged = Logged { method: method.clone(), path: path.clone(), raw, query: query.clone(), status: None };
    let cut_now = |state: &mut State, logged: Logged| {
        state.log.push(logged);
        cut.0.store(true, Ordering::SeqCst);
        Response::new(Body::empty())
    };
    let answer = match fault {
        Some(Kind::Drop) => return cut_now(state, logged),
        Some(Kind::NotJson) => Answer {
            status: 200,
            headers: Vec::new(),
            body: Content::Raw(b"<html>Sign in to the proxy</html>".to_vec()),
        },
        Some(Kind::Answer { status, headers, body }) => {
            let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
            Answer { status: *status, headers, body: Content::Json(body.clone()) }
        }
        _ => {
            let answer = answer(state, &method, &path, &query, &parts.headers, bytes);
            match fault {
                Some(Kind::ApplyThenDrop) => return cut_now(state, logged),
                Some(Kind::ApplyThenStatus(status)) => Answer::error(*status, "Server Error"),
                _ => answer,
            }
        }
    };
    let response = write(state, answer, &parts.headers, matches!(fault, Some(Kind::Truncated)));
    logged.status = Some(response.status().as_u16());
    state.log.push(logged);
    response
}

fn answer(state: &mut State, method: &str, path: &str, query: &str, headers: &HeaderMap, bytes: &Bytes) -> Answer {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    for (name, wanted) in [("user-agent", ""), ("x-github-api-version", "2022-11-28")] {
        let got = text(name);
        if got.is_empty() || !got.contains(wanted) {
            state.complaints.push(format!("{method} {path} was sent with {name} `{got}`"));
        }
    }
    let body = match bytes.as_ref() {
        b"" => Value::Null,
        bytes => match serde_json::from_slice(bytes) {
            Ok(body) => body,
            Err(_) => return Answer::error(400, "Problems parsing JSON"),
        },
    };
    let caller = match routes::app::caller(state, &text("authorization")) {
        Ok(caller) => caller,
        Err(answer) => return answer,
    };
    let decode = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
    let asked = Asked {
        method: method.to_owned(),
        path: path.split('/').skip(1).map(decode).collect(),
        query: url::form_urlencoded::parse(query.as_bytes()).into_owned().collect(),
        body,
        accept: text("accept"),
        caller,
    };
    let answer = routes::route(state, &asked);
    let Some(answer) = answer else {
        state.complaints.push(format!("GitHub has no {method} {path}, or the stand-in does not know it"));
        return Answer::not_found();
    };
    if method != "GET" && path.starts_with("/repos/") && answer.status < 300 {
        state.unread.push((method.to_owned(), path.to_owned()));
    }
    state.complaints.extend(openapi::check(&asked, path, query, &answer));
    answer
}

fn write(state: &mut State, answer: Answer, asked: &HeaderMap, truncated: bool) -> Response {
    let (bytes, kind) = match answer.body {
        Content::Json(json) => (json.to_string().into_bytes(), "application/json; charset=utf-8"),
        Content::Raw(bytes) => (bytes, "application/vnd.github.raw+json; charset=utf-8"),
        Content::Nothing => (Vec::new(), ""),
    };
    let etag = format!("W/\"{}\"", super::state::blob_sha(&bytes));
    let unchanged = !truncated
        && answer.status == 200
        && asked.get(header::IF_NONE_MATCH).is_some_and(|known| known == etag.as_str());
    // What is answered 304 is not counted.
    let who = asked.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let used = state.used.entry(who).or_default();
    *used += u64::from(!unchanged);
    let remaining = state.budget.saturating_sub(*used);
    let reset = state.now().as_second() + 3_600;
    let status = if unchanged { StatusCode::NOT_MODIFIED } else { StatusCode::from_u16(answer.status).unwrap() };
    let date = jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&state.now()).unwrap();
    let mut response = Response::builder().status(status).header(header::DATE, date);
    let told = |name: &str| answer.headers.iter().any(|(told, _)| told == name);
    for (name, value) in [
        ("x-ratelimit-limit", 5_000.to_string()),
        ("x-ratelimit-remaining", remaining.to_string()),
        ("x-ratelimit-reset", reset.to_string()),
    ] {
        if !told(name) {
            response = response.header(name, value);
        }
    }
    for (name, value) in &answer.headers {
        response = response.header(name, value);
    }
    if !kind.is_empty() {
        response = response.header(header::CONTENT_TYPE, kind).header(header::ETAG, etag);
    }
    if unchanged {
        return response.body(Body::empty()).unwrap();
    }
    if truncated {
        let half = Bytes::copy_from_slice(bytes.get(..bytes.len() / 2).unwrap_or_default());
        // Between the two, what there is must be written: hyper does so while it waits.
        let cut = async {
            tokio::task::yield_now().await;
            Err(io::Error::other("cut"))
        };
        let stream = stream::iter([Ok(half)]).chain(stream::once(cut));
        return response.header(header::CONTENT_LENGTH, bytes.len()).body(Body::from_stream(stream)).unwrap();
    }
    response.body(Body::from(bytes)).unwrap()
}

/// Set for a connection that is to be cut: from then on nothing is written to it.
#[derive(Clone, Default)]
struct Cut(Arc<AtomicBool>);

struct Cuttable(TcpListener);

struct Connection {
    stream: TcpStream,
    cut: Cut,
}

impl Listener for Cuttable {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        let (stream, address) = Listener::accept(&mut self.0).await;
        (Connection { stream, cut: Cut::default() }, address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

impl Connected<IncomingStream<'_, Cuttable>> for Cut {
    fn connect_info(stream: IncomingStream<'_, Cuttable>) -> Self {
        stream.io().cut.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.cut.0.load(Ordering::SeqCst) {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
