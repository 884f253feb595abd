//! What can go wrong with GitHub, and whether to try again.

use std::time::Duration;

use http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use serde_json::Value;

use crate::retry::Retry;

/// The wait after a secondary limit that names none (GitHub's documentation: at least one minute).
pub const SECONDARY_WAIT: Duration = Duration::from_secs(60);

/// No wait is longer: the primary window is one hour, and a clock that is off must not put work off for days.
pub const LONGEST_WAIT: Duration = Duration::from_secs(65 * 60);

/// Longest text taken over from an answer, in characters.
const MESSAGE_CHARS: usize = 500;

/// A failed request. Texts are for people and never hold a token or a body.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GitHubError {
    /// What we were given to reach GitHub with cannot be used; GitHub has not been asked.
    #[error("{0}")]
    Configuration(String),
    /// The App's key or id is wrong, or the installation is gone or suspended (401, or 404 on a token).
    #[error("GitHub refused the credentials: {0}")]
    Unauthorized(String),
    /// The App lacks a permission (403 that is no rate limit).
    #[error("GitHub forbids {0}; the App may lack a permission")]
    Forbidden(String),
    /// Gone, or hidden from us.
    #[error("GitHub knows no {0}")]
    NotFound(String),
    /// Understood and refused (422): all of a review is lost with one bad comment.
    #[error("GitHub refused the request: {0}")]
    Unprocessable(String),
    /// A primary or secondary limit.
    #[error("GitHub is limiting requests; it takes them again in {} s", .wait.as_secs())]
    RateLimited {
        /// How long to wait.
        wait: Duration,
    },
    /// GitHub has failed so often in a row that it is left alone; nothing was sent.
    #[error("GitHub keeps failing, so it is left alone for {} s; www.githubstatus.com may say more", .wait.as_secs())]
    Resting {
        /// How long to wait.
        wait: Duration,
    },
    /// Little is left of the hour's requests, and that is kept for answers to people and reviews under way; nothing was
    /// sent.
    #[error("the rest of this hour's requests to GitHub is kept for answers to people; new reviews begin in {} s", .wait.as_secs())]
    Reserved {
        /// How long until the budget is filled again.
        wait: Duration,
    },
    /// A 5xx, a time-out or a cut connection. A write may have happened all the same.
    #[error("GitHub failed: {0}")]
    Unavailable(String),
    /// An answer that is not what the documentation promises.
    #[error("GitHub's answer cannot be read: {0}")]
    Unreadable(String),
    /// A write was held back, because it is not certain that it is still ours to make, or whose turn it is; GitHub has not
    /// been asked.
    #[error("nothing was sent to GitHub: {0}")]
    NotSent(String),
    /// An unexpected status.
    #[error("GitHub answered {status}: {message}")]
    Unexpected {
        /// HTTP status.
        status: u16,
        /// GitHub's message.
        message: String,
    },
}

impl GitHubError {
    /// Whether trying again can help.
    pub fn retry(&self) -> Retry {
        match self {
            Self::RateLimited { wait } | Self::Resting { wait } | Self::Reserved { wait } => Retry::After(*wait),
            Self::Unavailable(_) | Self::Unreadable(_) | Self::NotSent(_) => Retry::Backoff,
            Self::Unprocessable(message) if message.contains("No commit found for SHA") => Retry::Backoff,
            _ => Retry::Never,
        }
    }

    /// Whether a write may have been applied although it failed: read back before writing again.
    pub fn doubtful(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::Unreadable(_) | Self::Unprocessable(_))
    }

    /// The meaning of an answer that is not a success. `what` names the thing asked for ("pull request 7 of acme/app").
    pub fn from_answer(status: StatusCode, headers: &HeaderMap, body: &[u8], what: &str, now: Timestamp) -> Self {
        let message = message_of(status, body);
        if let Some(wait) = rate_limit(status, headers, &message, now) {
            return Self::RateLimited { wait };
        }
        match status.as_u16() {
            401 => Self::Unauthorized(message),
            403 if message.contains("suspended") => Self::Unauthorized(message),
            403 => Self::Forbidden(match header(headers, "x-accepted-github-permissions") {
                Some(needed) => format!("{what} ({message}; needed: {})", clip(needed)),
                None => format!("{what} ({message})"),
            }),
            404 => Self::NotFound(what.to_owned()),
            422 => Self::Unprocessable(message),
            408 | 500..=599 => Self::Unavailable(format!("{} for {what}: {message}", status.as_u16())),
            status => Self::Unexpected { status, message },
        }
    }

    /// The meaning of a GraphQL answer's `errors`, the first of them deciding.
    pub fn from_graphql(errors: &[Value], headers: &HeaderMap, what: &str, now: Timestamp) -> Self {
        let text = |error: &Value| clip(error.get("message").and_then(Value::as_str).unwrap_or("no message"));
        let message = errors.iter().map(text).collect::<Vec<_>>().join("; ");
        match errors.first().and_then(|error| error.get("type")).and_then(Value::as_str) {
            Some("RATE_LIMITED" | "RATE_LIMIT") => {
                let wait = retry_after(headers, now).or_else(|| until_reset(headers, now)).unwrap_or(SECONDARY_WAIT);
                Self::RateLimited { wait: wait.min(LONGEST_WAIT) }
            }
            Some("NOT_FOUND") => Self::NotFound(what.to_owned()),
            Some("FORBIDDEN" | "INSUFFICIENT_SCOPES") => Self::Forbidden(format!("{what} ({message})")),
            Some("UNPROCESSABLE") => Self::Unprocessable(message),
            _ if message.contains("rate limit") => Self::RateLimited { wait: SECONDARY_WAIT },
            // GitHub answers 200 with an untyped error when a query took too long or something broke.
            None if message.contains("Something went wrong") || message.contains("timeout") => {
                Self::Unavailable(format!("GraphQL for {what}: {message}"))
            }
            _ => Self::Unprocessable(message),
        }
    }
}

/// The wait that an answer asks for, if it is a limit at all: `Retry-After` (seconds or a date), else the reset of an
/// exhausted primary limit, else a minute for a secondary limit that only its message tells.
fn rate_limit(status: StatusCode, headers: &HeaderMap, message: &str, now: Timestamp) -> Option<Duration> {
    if !matches!(status.as_u16(), 403 | 429) {
        return None;
    }
    let lower = message.to_lowercase();
    let exhausted = header(headers, "x-ratelimit-remaining") == Some("0");
    let told = lower.contains("rate limit") || lower.contains("abuse detection");
    let wait = if let Some(wait) = retry_after(headers, now) {
        wait
    } else if exhausted {
        until_reset(headers, now).unwrap_or(SECONDARY_WAIT)
    } else if told || status.as_u16() == 429 {
        SECONDARY_WAIT
    } else {
        return None;
    };
    Some(wait.min(LONGEST_WAIT))
}

fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = header(headers, "retry-after")?.trim();
    if let Ok(seconds) = text.parse::<u64>() {
        return Some(Duration::from_secs(seconds));
    }
    let date = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
    Some(from_now(date, now))
}

fn until_reset(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let reset = Timestamp::from_second(header(headers, "x-ratelimit-reset")?.trim().parse().ok()?).ok()?;
    Some(from_now(reset, now))
}

/// At least a second, so that a reset in the past is no busy loop.
fn from_now(then: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(then.duration_since(now)).unwrap_or_default().max(Duration::from_secs(1))
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// GitHub's message with its `errors` (a list of strings for reviews, of objects elsewhere) joined to it. A body that
/// is not GitHub's JSON (a proxy's HTML page) is not quoted.
fn message_of(status: StatusCode, body: &[u8]) -> String {
    let reason = || status.canonical_reason().unwrap_or("no reason given").to_owned();
    let Ok(json) = serde_json::from_slice::<Value>(body) else { return reason() };
    let mut parts: Vec<String> = json.get("message").and_then(Value::as_str).map(clip).into_iter().collect();
    match json.get("errors") {
        Some(Value::Array(errors)) => parts.extend(errors.iter().take(20).map(one_error)),
        Some(Value::String(error)) => parts.push(clip(error)),
        _ => {}
    }
    parts.retain(|part| !part.is_empty());
    if parts.is_empty() { reason() } else { clip(&parts.join(": ")) }
}

fn one_error(error: &Value) -> String {
    if let Some(text) = error.as_str().or_else(|| error.get("message").and_then(Value::as_str)) {
        return clip(text);
    }
    let part = |key| error.get(key).and_then(Value::as_str);
    clip(&[part("resource"), part("field"), part("code")].into_iter().flatten().collect::<Vec<_>>().join(" "))
}

/// One line, at most [`MESSAGE_CHARS`] characters.
fn clip(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MESSAGE_CHARS) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, headers: &[(&str, &str)], body: &str) -> GitHubError {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(http::HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
        }
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        GitHubError::from_answer(StatusCode::from_u16(status).unwrap(), &map, body.as_bytes(), "pull request 7", now)
    }

    fn wait(status: u16, headers: &[(&str, &str)], body: &str) -> u64 {
        match answer(status, headers, body) {
            GitHubError::RateLimited { wait } => wait.as_secs(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn limits_say_how_long_to_wait() {
        let primary = [("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1800000100")];
        assert_eq!(wait(403, &primary, r#"{"message":"API rate limit exceeded for installation ID 1."}"#), 100);
        assert_eq!(wait(429, &primary, ""), 100);
        let past = [("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1700000000")];
        assert_eq!(wait(403, &past, ""), 1);
        let absurd = [("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1900000000")];
        assert_eq!(wait(403, &absurd, ""), LONGEST_WAIT.as_secs());
        let secondary = r#"{"message":"You have exceeded a secondary rate limit. Please wait a few minutes."}"#;
        assert_eq!(wait(403, &[("retry-after", "30"), ("x-ratelimit-remaining", "4771")], secondary), 30);
        assert_eq!(wait(403, &[("x-ratelimit-remaining", "4771")], secondary), 60);
        assert_eq!(wait(429, &[], "<html>"), 60);
        assert_eq!(wait(403, &[], r#"{"message":"You have triggered an abuse detection mechanism."}"#), 60);
        assert_eq!(wait(429, &[("retry-after", "Fri, 15 Jan 2027 08:02:00 GMT")], ""), 120);
        assert_eq!(wait(403, &[("retry-after", "soon"), ("x-ratelimit-remaining", "0")], ""), 60);
    }

    #[test]
    fn statuses_have_a_meaning() {
        use GitHubError as E;
        let cases: [(E, E, Retry, bool); 10] = [
            (
                answer(401, &[], r#"{"message":"Bad credentials"}"#),
                E::Unauthorized("Bad credentials".into()),
                Retry::Never,
                false,
            ),
            (
                answer(
                    403,
                    &[("x-accepted-github-permissions", "checks=write")],
                    r#"{"message":"Resource not accessible by integration"}"#,
                ),
                E::Forbidden("pull request 7 (Resource not accessible by integration; needed: checks=write)".into()),
                Retry::Never,
                false,
            ),
            (
                answer(403, &[], r#"{"message":"This installation has been suspended"}"#),
                E::Unauthorized("This installation has been suspended".into()),
                Retry::Never,
                false,
            ),
            (answer(404, &[], "{}"), E::NotFound("pull request 7".into()), Retry::Never, false),
            (
                answer(406, &[], r#"{"message":"Sorry, the diff exceeded the maximum number of files (300)."}"#),
                E::Unexpected {
                    status: 406,
                    message: "Sorry, the diff exceeded the maximum number of files (300).".into(),
                },
                Retry::Never,
                false,
            ),
            (
                answer(
                    422,
                    &[],
                    r#"{"message":"Unprocessable Entity","errors":["Line could not be resolved","Path could not be resolved"]}"#,
                ),
                E::Unprocessable("Unprocessable Entity: Line could not be resolved: Path could not be resolved".into()),
                Retry::Never,
                true,
            ),
            (
                answer(
                    422,
                    &[],
                    r#"{"message":"Validation Failed","errors":[{"resource":"PullRequestReviewComment","field":"pull_request_review_thread.line","code":"custom","message":"pull_request_review_thread.line must be part of the diff"},{"resource":"A","code":"missing"}]}"#,
                ),
                E::Unprocessable(
                    "Validation Failed: pull_request_review_thread.line must be part of the diff: A missing".into(),
                ),
                Retry::Never,
                true,
            ),
            (
                answer(422, &[], r#"{"message":"No commit found for SHA: beef"}"#),
                E::Unprocessable("No commit found for SHA: beef".into()),
                Retry::Backoff,
                true,
            ),
            (
                answer(502, &[], "<html>Unicorn with a secret</html>"),
                E::Unavailable("502 for pull request 7: Bad Gateway".into()),
                Retry::Backoff,
                true,
            ),
            (
                answer(410, &[], r#"{"message":"Issues are disabled for this repo"}"#),
                E::Unexpected { status: 410, message: "Issues are disabled for this repo".into() },
                Retry::Never,
                false,
            ),
        ];
        for (got, want, retry, doubtful) in cases {
            assert_eq!(got, want);
            assert_eq!(got.retry(), retry, "{got}");
            assert_eq!(got.doubtful(), doubtful, "{got}");
        }
    }

    #[test]
    fn graphql_errors_have_a_meaning() {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let of = |json: Value| GitHubError::from_graphql(&[json], &HeaderMap::new(), "files", now);
        assert_eq!(
            of(serde_json::json!({"type": "RATE_LIMITED", "message": "API rate limit exceeded"})),
            GitHubError::RateLimited { wait: SECONDARY_WAIT }
        );
        assert_eq!(
            of(serde_json::json!({"type": "NOT_FOUND", "message": "Could not resolve to a Repository"})),
            GitHubError::NotFound("files".into())
        );
        assert!(matches!(
            of(serde_json::json!({"message": "Something went wrong while executing your query."})),
            GitHubError::Unavailable(_)
        ));
        assert!(matches!(of(serde_json::json!({"message": "Field 'x' doesn't exist"})), GitHubError::Unprocessable(_)));
        assert!(matches!(of(serde_json::json!(3)), GitHubError::Unprocessable(_)));
    }

    #[test]
    fn texts_are_one_short_line() {
        let long = format!(r#"{{"message":"{}\n{}"}}"#, "ä".repeat(600), "b");
        let GitHubError::Unauthorized(text) = answer(401, &[], &long) else { panic!() };
        assert_eq!(text.chars().count(), MESSAGE_CHARS + 1);
        assert!(!text.contains('\n'));
    }
}
