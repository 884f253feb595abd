//! From a refusal to a [`ChatError`] whose text says what to do, and holds neither key nor prompt. Pure.

use std::time::Duration;

use jiff::Timestamp;
use reqwest::header::HeaderMap;
use serde_json::Value;
use url::Url;

use crate::chat::{ChatError, ChatRequest};
use crate::redact::redact;

/// Characters of a server's own words that are passed on.
const MAX_SAID: usize = 200;

/// Characters of the prompt that make a server's words a repetition of it.
const REPEATED: usize = 32;

/// The longest wait that is believed.
const MAX_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// What a server said in a refusal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Said {
    text: String,
    code: String,
    field: String,
    json: bool,
}

/// Whose refusal it is.
#[derive(Debug, Clone, Copy)]
pub struct Named<'a> {
    /// The model's name.
    pub model: &'a str,
    /// Where it was asked.
    pub base: &'a Url,
    /// The key, only to be kept out of texts; empty for none.
    pub key: &'a str,
}

impl Said {
    /// Reads the body of a refusal: OpenAI's form, FastAPI's `detail`, Ollama's plain `error`, Gemini's list, or text.
    pub fn of(body: &str) -> Self {
        match serde_json::from_str::<Value>(body) {
            Ok(value) => Self::of_value(&value),
            // A page of a proxy says nothing that helps.
            Err(_) if body.trim_start().starts_with('<') => Self::default(),
            Err(_) => Self { text: body.to_owned(), ..Self::default() },
        }
    }

    /// Reads a refusal that is JSON.
    pub fn of_value(value: &Value) -> Self {
        let value = value.get(0).unwrap_or(value);
        let error = value.get("error").filter(|e| !e.is_null()).unwrap_or(value);
        let first = value.pointer("/detail/0").unwrap_or(&Value::Null);
        let text = error
            .as_str()
            .or_else(|| error.get("message").and_then(Value::as_str))
            .or_else(|| value.get("message").and_then(Value::as_str))
            .or_else(|| value.get("detail").and_then(Value::as_str))
            .or_else(|| first.get("msg").and_then(Value::as_str));
        let place = first.get("loc").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        let word = |name: &str| error.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let mut field = word("param");
        if field.is_empty() {
            field = place.collect::<Vec<_>>().join(".");
        }
        Self {
            text: text.unwrap_or_default().to_owned(),
            code: format!("{} {}", word("code"), word("type")),
            field,
            json: true,
        }
    }

    /// Whether it names a field or says a phrase.
    pub fn names(&self, word: &str) -> bool {
        self.field.contains(word) || contains(&self.text, word)
    }

    /// Whether it says that a field is not known, rather than that its value is wrong.
    pub fn calls_unsupported(&self) -> bool {
        ["unsupported", "not supported", "unrecognized", "unknown", "unexpected", "not permitted", "instead", "extra"]
            .iter()
            .any(|word| contains(&self.text, word))
            || contains(&self.code, "unsupported")
    }

    fn has_code(&self, code: &str) -> bool {
        contains(&self.code, code)
    }

    fn says(&self, phrases: &[&str]) -> bool {
        phrases.iter().any(|phrase| contains(&self.text, phrase))
    }
}

/// The error for a status and what was said with it. `request` is only read to keep it out of the text.
pub fn classify(
    status: u16,
    wait: Option<Duration>,
    said: &Said,
    named: &Named<'_>,
    request: Option<&ChatRequest>,
) -> ChatError {
    let model = named.model;
    let words = quoted(said, named, request);
    let too_long = said.has_code("context_length")
        || said.says(&["context length", "context window", "context size", "prompt is too long", "maximum context"]);
    let unknown_model = said.has_code("model_not_found")
        || (said.names("model")
            && said.says(&[
                "not found",
                "not exist",
                "unknown model",
                "invalid model",
                "no such model",
                "not a valid",
            ]));
    let no_quota =
        said.has_code("insufficient_quota") || said.says(&["insufficient balance", "exceeded your current quota"]);
    match status {
        401 | 403 => ChatError::Unauthorized(format!("check the API key for {}{words}", host(named.base))),
        402 => ChatError::Rejected(format!("the account has no credit left; top it up or choose another model{words}")),
        429 if no_quota => {
            ChatError::Rejected(format!("the account's quota is used up; raise it or choose another model{words}"))
        }
        429 => ChatError::RateLimited { retry_after: wait },
        413 => ChatError::Rejected(format!("the prompt is too long for `{model}`{words}")),
        400..=499 if too_long => ChatError::Rejected(format!("the prompt is too long for `{model}`{words}")),
        400..=499 if unknown_model => ChatError::Rejected(format!(
            "{} has no model `{model}`; set SECONDLOOK_MODEL to one it offers, or pull it there first{words}",
            host(named.base)
        )),
        404 if !said.json => ChatError::Rejected(format!(
            "there is no chat API at {}{}; check the base URL{words}",
            host(named.base),
            named.base.path()
        )),
        408 | 409 | 425 => ChatError::Unavailable(format!("status {status}{words}")),
        300..=399 => ChatError::Rejected(format!(
            "{} redirects elsewhere; set the base URL to the final address",
            host(named.base)
        )),
        500..=599 => match wait {
            Some(wait) if status == 503 => ChatError::RateLimited { retry_after: Some(wait) },
            _ => ChatError::Unavailable(format!("status {status}{words}")),
        },
        _ => ChatError::Rejected(format!("status {status} for `{model}`{words}")),
    }
}

/// The wait that the headers ask for: `retry-after-ms`, or `Retry-After` in seconds or as a date. At most a day.
pub fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|v| v.to_str().ok()).map(str::trim);
    let seconds = |text: &str| text.parse::<f64>().ok().filter(|s| s.is_finite() && *s >= 0.0);
    let wait = if let Some(ms) = text("retry-after-ms").and_then(seconds) {
        Duration::try_from_secs_f64(ms / 1000.0).ok()?
    } else {
        let text = text("retry-after")?;
        match seconds(text) {
            Some(seconds) => Duration::try_from_secs_f64(seconds).unwrap_or(MAX_WAIT),
            None => {
                let at = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
                Duration::try_from(at.duration_since(now)).unwrap_or_default()
            }
        }
    };
    Some(wait.min(MAX_WAIT))
}

/// An address without anything that could be secret.
pub fn host(url: &Url) -> String {
    let host = url.host_str().unwrap_or("the server");
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// The server's words, as the end of a sentence; empty when there are none that may be shown.
fn quoted(said: &Said, named: &Named<'_>, request: Option<&ChatRequest>) -> String {
    let mut text = said.text.clone();
    if !named.key.is_empty() {
        text = text.replace(named.key, "[redacted:key]");
    }
    if repeats_prompt(&text, request) {
        return " (it repeats the prompt in its reasons, which are left out here)".to_owned();
    }
    let text = redact(&text);
    let mut clipped: String = text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(MAX_SAID).collect();
    clipped.retain(|c| !c.is_control());
    if clipped.is_empty() { String::new() } else { format!(" (it says: {clipped})") }
}

/// Whether a text holds a stretch of what was asked. Only its beginning is shown, so only that is looked at.
fn repeats_prompt(text: &str, request: Option<&ChatRequest>) -> bool {
    let Some(request) = request else { return false };
    let chars: Vec<char> = text.chars().take(4 * MAX_SAID).collect();
    let stretches: Vec<String> = chars.windows(REPEATED).step_by(REPEATED / 4).map(|w| w.iter().collect()).collect();
    request.messages.iter().any(|m| stretches.iter().any(|s| m.text().contains(s.as_str())))
}

fn contains(text: &str, word: &str) -> bool {
    text.to_ascii_lowercase().contains(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::{ChatMessage, Conversation, ModelRole};
    use rstest::rstest;

    fn error(status: u16, body: &str) -> ChatError {
        let base = Url::parse("https://api.example.com/v1").unwrap();
        let named = Named { model: "gpt-9", base: &base, key: "very-secret-key" };
        classify(status, Some(Duration::from_secs(7)), &Said::of(body), &named, None)
    }

    #[rstest]
    #[case(401, r#"{"error":{"message":"Incorrect API key provided: very-secret-key"}}"#)]
    #[case(404, r#"{"error":{"message":"The model `gpt-9` does not exist","code":"model_not_found"}}"#)]
    #[case(404, r#"{"error":"model 'gpt-9' not found, try pulling it first"}"#)]
    #[case(404, "404 page not found")]
    #[case(400, r#"{"error":{"message":"maximum context length is 8192 tokens","code":"context_length_exceeded"}}"#)]
    #[case(429, r#"{"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}}"#)]
    #[case(429, r#"{"error":{"message":"slow down"}}"#)]
    #[case(402, r#"{"error":{"message":"Insufficient Balance"}}"#)]
    #[case(503, "<html>busy</html>")]
    #[case(500, r#"{"error":{"message":"boom"}}"#)]
    #[case(302, "")]
    #[case(418, r#"[{"error":{"message":"a list"}}]"#)]
    fn every_refusal_has_a_text_that_helps(#[case] status: u16, #[case] body: &str) {
        let text = error(status, body).to_string();
        assert!(!text.contains("very-secret-key"), "{text}");
        let known: Vec<&str> = EXPECTED.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
        assert!(known.contains(&text.as_str()), "not among the expected texts: {text}");
    }

    const EXPECTED: &str = "
        the model provider refused the credentials: check the API key for api.example.com (it says: Incorrect API key provided: [redacted:key])
        the model provider refused the request: api.example.com has no model `gpt-9`; set SECONDLOOK_MODEL to one it offers, or pull it there first (it says: The model `gpt-9` does not exist)
        the model provider refused the request: api.example.com has no model `gpt-9`; set SECONDLOOK_MODEL to one it offers, or pull it there first (it says: model 'gpt-9' not found, try pulling it first)
        the model provider refused the request: there is no chat API at api.example.com/v1; check the base URL (it says: 404 page not found)
        the model provider refused the request: the prompt is too long for `gpt-9` (it says: maximum context length is 8192 tokens)
        the model provider refused the request: the account's quota is used up; raise it or choose another model (it says: You exceeded your current quota)
        the model provider is limiting requests; it asks to wait 7 s
        the model provider refused the request: the account has no credit left; top it up or choose another model (it says: Insufficient Balance)
        the model provider failed: status 500 (it says: boom)
        the model provider refused the request: api.example.com redirects elsewhere; set the base URL to the final address
        the model provider refused the request: status 418 for `gpt-9` (it says: a list)
    ";

    #[test]
    fn what_repeats_the_prompt_is_left_out() {
        let prompt = "fn secret_algorithm() { return 42 * some_private_constant; }";
        let request = ChatRequest {
            conversation: Conversation { role: ModelRole::Reviewer, subject: String::new() },
            messages: vec![ChatMessage::user(prompt)],
            tools: Vec::new(),
            response_schema: None,
            max_output_tokens: None,
        };
        let base = Url::parse("https://api.example.com").unwrap();
        let named = Named { model: "m", base: &base, key: "" };
        let said = Said::of(&serde_json::json!({"error": {"message": format!("cannot read: {prompt}")}}).to_string());
        let text = classify(400, None, &said, &named, Some(&request)).to_string();
        assert!(!text.contains("secret_algorithm") && text.contains("left out"), "{text}");
    }

    #[test]
    fn long_words_are_clipped() {
        let text = error(500, &"long ".repeat(10_000)).to_string();
        assert!(text.chars().count() < 280, "{}", text.len());
    }

    #[rstest]
    #[case("retry-after", "12", Some(12_000))]
    #[case("retry-after", "0.5", Some(500))]
    #[case("retry-after-ms", "1500", Some(1_500))]
    #[case("retry-after", "Wed, 21 Oct 2015 07:28:30 GMT", Some(30_000))]
    #[case("retry-after", "Wed, 21 Oct 2015 07:00:00 GMT", Some(0))]
    #[case("retry-after", "999999999999", Some(86_400_000))]
    #[case("retry-after", "-5", None)]
    #[case("retry-after", "soon", None)]
    fn waits_are_read_in_every_form(#[case] name: &'static str, #[case] value: &str, #[case] expected: Option<u64>) {
        let now: Timestamp = "2015-10-21T07:28:00Z".parse().unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(name, value.parse().unwrap());
        let wait = retry_after(&headers, now);
        assert_eq!(wait, expected.map(Duration::from_millis));
    }
}
