//! One delivery over HTTP.

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::CONTENT_LENGTH;
use axum::http::{HeaderMap, StatusCode};
use bytes::BytesMut;
use http_body_util::BodyExt;
use tokio::sync::SemaphorePermit;

use super::Intake;
use super::accept::Unaccepted;
use super::signature::Signature;

/// GitHub sends nothing larger (its documentation, "Webhook events and payloads": payloads are capped at 25 MB).
pub const BODY_LIMIT: usize = 25 * 1024 * 1024;

/// Up to here a body is small. GitHub's payloads are seldom over some hundred kilobytes.
pub const SMALL: usize = 1024 * 1024;

/// A body may be this many times too large and is still read to its end, without being kept: a sender that is cut off in
/// the middle does not see our answer.
const DRAINED: usize = 4;

/// Longest id of a delivery that is taken. GitHub's are GUIDs of 36 characters.
const LONGEST_ID: usize = 100;

/// `POST /webhook`. The text of an answer is for GitHub's page of recent deliveries; a refusal has none.
pub async fn receive(State(intake): State<Intake>, headers: HeaderMap, body: Body) -> (StatusCode, String) {
    let started = intake.clock.now();
    let (status, text, outcome) = match take(&intake, &headers, body).await {
        Ok(outcome) => (StatusCode::ACCEPTED, outcome.to_owned(), outcome),
        Err(refusal) => (refusal.status(), refusal.text().to_owned(), refusal.word()),
    };
    // Only names that we know become labels: a series of a metric costs memory for ever.
    let event = text_of(&headers, "x-github-event").filter(|_| status == StatusCode::ACCEPTED && outcome != "ignored");
    let event = event.unwrap_or("other").to_owned();
    metrics::counter!("secondlook_webhooks_total", "event" => event, "outcome" => outcome).increment(1);
    let took = intake.clock.now().duration_since(started);
    metrics::histogram!("secondlook_webhook_seconds").record(took.as_secs_f64());
    (status, text)
}

/// Why a delivery is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusal {
    /// No App is configured, so there is no secret to check with.
    Unconfigured,
    /// Too many bodies are being received already.
    Busy,
    /// The body did not come in time.
    Slow,
    /// The connection broke.
    Cut,
    /// The body is over the limit.
    TooLarge,
    /// The signature is missing, malformed or wrong.
    Unsigned,
    /// It is signed, and is no delivery: a header is missing, or the body is not what it should be.
    Malformed,
    /// The database fails.
    Unavailable,
}

impl Refusal {
    fn status(self) -> StatusCode {
        match self {
            Self::Unconfigured | Self::Busy | Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::Slow => StatusCode::REQUEST_TIMEOUT,
            Self::Cut | Self::Malformed => StatusCode::BAD_REQUEST,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Unsigned => StatusCode::UNAUTHORIZED,
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Unconfigured => {
                "No GitHub App is configured here yet. Open the set-up page, or set GITHUB_APP_ID, its key and GITHUB_WEBHOOK_SECRET and start again.\n"
            }
            Self::Unavailable => "The delivery could not be recorded. Deliver it again later.\n",
            _ => "",
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Unconfigured => "unconfigured",
            Self::Busy => "busy",
            Self::Slow => "slow",
            Self::Cut => "cut",
            Self::TooLarge => "too_large",
            Self::Unsigned => "unsigned",
            Self::Malformed => "malformed",
            Self::Unavailable => "unavailable",
        }
    }
}

async fn take(intake: &Intake, headers: &HeaderMap, body: Body) -> Result<&'static str, Refusal> {
    let secrets = intake.secrets.get();
    if secrets.is_empty() {
        return Err(Refusal::Unconfigured);
    }
    let length = text_of(headers, CONTENT_LENGTH.as_str()).and_then(|length| length.parse::<usize>().ok());
    let signature = Signature::parse(text_of(headers, "x-hub-signature-256"));
    // A body that will not be believed anyway is read, but not kept.
    let keep = if signature.is_ok() && length.is_none_or(|length| length <= BODY_LIMIT) { BODY_LIMIT } else { 0 };
    let mut room = Room { intake, memory: None, large: None };
    let reading = read(body, keep, &mut room);
    let read = tokio::time::timeout(intake.body_time, reading).await.map_err(|_| Refusal::Slow)??;
    let body = match (signature, read) {
        (_, Read::Whole(body)) if signature.is_ok() => body,
        (_, Read::Over { bytes }) if bytes > BODY_LIMIT => return Err(Refusal::TooLarge),
        _ => return Err(Refusal::Unsigned),
    };
    let verified = signature.and_then(|signature| signature.verify(&secrets, &body));
    verified.map_err(|_| Refusal::Unsigned)?;

    let event_name = text_of(headers, "x-github-event").filter(|name| is_event_name(name));
    let id = text_of(headers, "x-github-delivery").filter(|id| is_delivery_id(id));
    let (Some(event_name), Some(id)) = (event_name, id) else {
        tracing::warn!("A signed delivery has no usable X-GitHub-Event or X-GitHub-Delivery header; it is refused");
        return Err(Refusal::Malformed);
    };
    intake.accept(id, event_name, &body).await.map_err(|error| match error {
        Unaccepted::Malformed(error) => {
            tracing::warn!(delivery.id = id, error = %error, "A signed delivery cannot be read; it is refused");
            Refusal::Malformed
        }
        Unaccepted::Store(error) => {
            tracing::error!(delivery.id = id, error = %error, "A delivery could not be recorded");
            Refusal::Unavailable
        }
    })
}

/// What came of reading a body.
enum Read {
    /// All of it.
    Whole(Bytes),
    /// It was larger than what was to be kept; so many bytes came.
    Over { bytes: usize },
}

/// The memory that a body takes, given back when this is dropped.
///
/// It is taken for what has come, not for what is announced: the signature is known to be right only at the end, and a
/// few strangers who announce large bodies and send nothing would otherwise keep every delivery of GitHub's out.
struct Room<'i> {
    intake: &'i Intake,
    memory: Option<SemaphorePermit<'i>>,
    large: Option<SemaphorePermit<'i>>,
}

impl Room<'_> {
    /// Room for so many bytes in all.
    fn grow(&mut self, bytes: usize) -> Result<(), Refusal> {
        if bytes > SMALL && self.large.is_none() {
            self.large = Some(self.intake.large.try_acquire().map_err(|_| Refusal::Busy)?);
        }
        let held = self.memory.as_ref().map_or(0, SemaphorePermit::num_permits);
        let more = u32::try_from((bytes / 1024 + 1).saturating_sub(held)).unwrap_or(u32::MAX);
        let more = self.intake.memory.try_acquire_many(more).map_err(|_| Refusal::Busy)?;
        match &mut self.memory {
            Some(memory) => memory.merge(more),
            None => self.memory = Some(more),
        }
        Ok(())
    }
}

/// Reads a body to its end and keeps it, if it is at most `keep` bytes; never reads far beyond the limit.
async fn read(mut body: Body, keep: usize, room: &mut Room<'_>) -> Result<Read, Refusal> {
    let mut kept = BytesMut::new();
    let mut bytes = 0_usize;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| Refusal::Cut)?.into_data() else { continue };
        bytes += data.len();
        if bytes <= keep {
            room.grow(bytes)?;
            kept.extend_from_slice(&data);
        } else {
            kept = BytesMut::new();
            (room.memory, room.large) = (None, None);
            if bytes > BODY_LIMIT * DRAINED {
                break;
            }
        }
    }
    Ok(if bytes <= keep { Read::Whole(kept.freeze()) } else { Read::Over { bytes } })
}

fn text_of<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn is_event_name(name: &str) -> bool {
    (1..=64).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

fn is_delivery_id(id: &str) -> bool {
    (1..=LONGEST_ID).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic())
}
