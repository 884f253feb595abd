//! Reading an answer off the wire within its limits of time and size.

use std::error::Error as _;
use std::time::Duration;

use bytes::Bytes;
use eventsource_stream::{EventStreamError, Eventsource};
use futures_util::stream::{self, Stream, StreamExt};
use reqwest::Response;
use reqwest::header::CONTENT_TYPE;
use serde_json::Value;
use url::Url;

use super::failure::{Said, host};
use super::response::{Accumulator, Problem};
use crate::chat::ChatError;
use crate::redact::redact;

/// Bytes on the wire for one byte of text that is kept: an event wraps a token of four bytes in about 250.
const WIRE_FACTOR: usize = 64;

/// Bytes of one line of a stream. A line is searched again with every piece that arrives, so it must have an end.
const MAX_LINE: usize = 4 * 1024 * 1024;

/// Limits of one answer.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// What is left of the wait for the first byte.
    pub first: Duration,
    /// Longest silence after it.
    pub idle: Duration,
    /// Bytes of text that are kept.
    pub max_text: usize,
}

/// Why there is no answer.
#[derive(Debug)]
pub enum Failed {
    /// The connection, the time or the form.
    Error(ChatError),
    /// The server reported an error in an answer that began as a success.
    InBand {
        /// Its status, or 502 when it told none.
        status: u16,
        /// Its words.
        said: Said,
    },
}

/// Reads an answer: a stream of events, or one body from a server that does not stream.
///
/// # Errors
/// See [`Failed`].
pub async fn answer(response: Response, limits: Limits) -> Result<Accumulator, Failed> {
    let content_type =
        response.headers().get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned();
    let pieces = Box::pin(timed(response, limits));
    if content_type.starts_with("text/event-stream") {
        return events(pieces, limits).await;
    }
    // The text may be escaped in the body, six bytes for one at worst, and the rest of an answer is small.
    let body = collect(pieces, limits.max_text.saturating_mul(6).saturating_add(64 * 1024)).await?;
    whole(&body, &content_type, limits.max_text)
}

/// A small body as text.
///
/// # Errors
/// [`ChatError::Unreadable`] when it is longer than `max`, [`ChatError::Unavailable`] when it was cut.
pub async fn text(response: Response, max: usize) -> Result<String, ChatError> {
    let mut body = Vec::new();
    let mut pieces = response.bytes_stream();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|e| ChatError::Unavailable(format!("the connection broke ({})", cause(&e))))?;
        append(&mut body, &piece, max)?;
    }
    Ok(String::from_utf8_lossy(&body).into_owned())
}

/// A request that could not be sent, or whose answer did not begin.
pub fn transport(error: &reqwest::Error, url: &Url) -> ChatError {
    if error.is_connect() {
        if error.is_timeout() {
            return ChatError::TimedOut("connecting");
        }
        return ChatError::Unavailable(format!("cannot connect to {}: {}", host(url), cause(error)));
    }
    ChatError::Unavailable(format!("the connection to {} broke ({})", host(url), cause(error)))
}

/// The innermost cause, which says most; never the address, which may hold a key.
pub fn cause(error: &reqwest::Error) -> String {
    let mut innermost = None;
    let mut next = error.source();
    while let Some(source) = next {
        innermost = Some(source);
        next = source.source();
    }
    let text = innermost.map_or_else(|| "no further cause".to_owned(), ToString::to_string);
    redact(&text).chars().take(200).collect()
}

/// The pieces of a body, each within its time.
fn timed(response: Response, limits: Limits) -> impl Stream<Item = Result<Bytes, ChatError>> {
    let pieces = Box::pin(response.bytes_stream());
    stream::unfold(Some((pieces, true)), move |state| async move {
        let (mut pieces, is_first) = state?;
        let (limit, what) = if is_first { (limits.first, "first token") } else { (limits.idle, "next token") };
        match tokio::time::timeout(limit, pieces.next()).await {
            Err(_) => Some((Err(ChatError::TimedOut(what)), None)),
            Ok(None) => None,
            // A connection cut within the stream is the same to us as a stream that ends early.
            Ok(Some(Err(_))) => Some((Err(ChatError::Unavailable("the stream was cut".to_owned())), None)),
            Ok(Some(Ok(piece))) => Some((Ok(piece), Some((pieces, false)))),
        }
    })
}

/// Refuses a stream that is longer, or has a longer line, than an answer can be.
fn bounded(
    pieces: impl Stream<Item = Result<Bytes, ChatError>>,
    max: usize,
) -> impl Stream<Item = Result<Bytes, ChatError>> {
    pieces.scan((0_usize, 0_usize), move |(all, line), piece| {
        let piece = piece.and_then(|piece| {
            *all += piece.len();
            *line = match piece.iter().rposition(|b| matches!(b, b'\n' | b'\r')) {
                Some(at) => piece.len() - at - 1,
                None => *line + piece.len(),
            };
            if *all > max || *line > MAX_LINE { Err(too_long(*all)) } else { Ok(piece) }
        });
        std::future::ready(Some(piece))
    })
}

async fn events(
    pieces: impl Stream<Item = Result<Bytes, ChatError>> + Unpin,
    limits: Limits,
) -> Result<Accumulator, Failed> {
    let max = limits.max_text.saturating_mul(WIRE_FACTOR).saturating_add(64 * 1024);
    let mut events = Box::pin(bounded(pieces, max).eventsource());
    let mut answer = Accumulator::new(limits.max_text);
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => push(&mut answer, &event.data)?,
            // The reason to stop was there already; only the usage is missing.
            Err(_) if answer.has_finished() => break,
            Err(EventStreamError::Transport(error)) => return Err(Failed::Error(error)),
            Err(EventStreamError::Utf8(_) | EventStreamError::Parser(_)) => {
                return Err(Failed::Error(ChatError::Unreadable("the stream is not UTF-8 events".to_owned())));
            }
        }
        if answer.is_over() {
            break;
        }
    }
    Ok(answer)
}

/// An answer that came in one body. Some servers stream under the wrong content type.
fn whole(body: &[u8], content_type: &str, max_text: usize) -> Result<Accumulator, Failed> {
    let body = String::from_utf8_lossy(body);
    let body = body.trim_start_matches('\u{feff}');
    let mut answer = Accumulator::new(max_text);
    if body.trim_start().starts_with("data:") {
        for data in body.lines().filter_map(|line| line.strip_prefix("data:")) {
            push(&mut answer, data)?;
        }
        return Ok(answer);
    }
    let Ok(value) = serde_json::from_str::<Value>(body) else {
        let kind: String = content_type.chars().take(60).collect();
        let text = if body.trim_start().starts_with('{') {
            "it is not whole JSON".to_owned()
        } else {
            format!("it is not JSON but `{kind}`; check the base URL")
        };
        return Err(Failed::Error(ChatError::Unreadable(text)));
    };
    if value.get("choices").is_none() && value.get("error").is_none() {
        return Err(Failed::Error(ChatError::Unreadable("it holds no choices; check the base URL".to_owned())));
    }
    answer.push_value(&value).map_err(failed)?;
    // A body that was read whole has its end, whether or not the server said why it stopped.
    push(&mut answer, "[DONE]")?;
    Ok(answer)
}

async fn collect(
    mut pieces: impl Stream<Item = Result<Bytes, ChatError>> + Unpin,
    max: usize,
) -> Result<Vec<u8>, Failed> {
    let mut body = Vec::new();
    while let Some(piece) = pieces.next().await {
        append(&mut body, &piece.map_err(Failed::Error)?, max).map_err(Failed::Error)?;
    }
    Ok(body)
}

fn append(body: &mut Vec<u8>, piece: &[u8], max: usize) -> Result<(), ChatError> {
    if body.len() + piece.len() > max {
        return Err(too_long(max));
    }
    body.extend_from_slice(piece);
    Ok(())
}

fn too_long(bytes: usize) -> ChatError {
    ChatError::Unreadable(format!("it is longer than {} KiB", bytes / 1024))
}

fn push(answer: &mut Accumulator, data: &str) -> Result<(), Failed> {
    answer.push(data).map_err(failed)
}

fn failed(problem: Problem) -> Failed {
    match problem {
        Problem::Unreadable(text) => Failed::Error(ChatError::Unreadable(text)),
        Problem::InBand(status, said) => Failed::InBand { status, said },
    }
}
