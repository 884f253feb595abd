//! Any server that speaks OpenAI's `chat/completions`: OpenAI, Azure, DeepSeek, Qwen, Moonshot, OpenRouter, Ollama,
//! vLLM, llama.cpp.
//!
//! The wire is a pair of pure functions ([`request::encode`] and [`response::Accumulator`]); this file and [`read`] are
//! the thin edge that sends and waits. Answers are always asked for as a stream, not to show them early but because
//! only a stream tells a slow model from a dead one. What a server cannot do is learned from its refusals and kept for
//! the life of the process ([`capability`]). Nothing here retries; that is the router's.

pub mod capability;
pub mod endpoint;
pub mod failure;
pub mod read;
pub mod request;
pub mod response;
pub mod schema;

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use url::Url;

use super::{ChatError, ChatModel, ChatRequest, ChatResponse};
use crate::clock::{SharedClock, Stopwatch};
use capability::Capabilities;
use endpoint::KeyHeader;

/// Bytes of a refusal that are read at most.
const MAX_REFUSAL: usize = 64 * 1024;

/// Bytes of a list of models that are read at most; the longest public list (OpenRouter's) is under 1 MB.
const MAX_LIST: usize = 8 * 1024 * 1024;

/// How to reach one model.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The provider's name as configured: the part of `provider::name` before the colons.
    pub provider: String,
    /// The model's name, sent exactly as it is.
    pub model: String,
    /// Where the API is, with or without `/v1`.
    pub base_url: Url,
    /// The key; local servers need none.
    pub api_key: Option<SecretString>,
    /// The header that carries the key.
    pub key_header: KeyHeader,
    /// Further headers, for gateways. Values may be secret.
    pub headers: Vec<(String, SecretString)>,
    /// Longest wait for a connection.
    pub connect_timeout: Duration,
    /// Longest wait from sending the request to the first byte of the answer.
    pub first_token_timeout: Duration,
    /// Longest silence within an answer. Keep-alive comments count as a sign of life.
    pub idle_timeout: Duration,
    /// Longest time for the whole answer.
    pub whole_timeout: Duration,
    /// Bytes of text and tool arguments that are kept of one answer; what is longer is cut there.
    pub max_response_bytes: usize,
}

impl Settings {
    /// A model at a base URL, with the default time-outs: 10 s to connect, 60 s to the first token, 30 s of silence,
    /// 300 s in all. 512 KiB of text are more than any model of today may generate in one answer.
    pub fn new(provider: &str, model: &str, base_url: Url, api_key: Option<SecretString>) -> Self {
        Self {
            provider: provider.to_owned(),
            model: model.to_owned(),
            key_header: endpoint::key_header(provider, &base_url),
            base_url,
            api_key,
            headers: Vec::new(),
            connect_timeout: Duration::from_secs(10),
            first_token_timeout: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(30),
            whole_timeout: Duration::from_secs(300),
            max_response_bytes: 512 * 1024,
        }
    }
}

/// One model behind an OpenAI-compatible API.
pub struct OpenAiModel {
    name: String,
    settings: Settings,
    chat_url: Url,
    models_url: Url,
    headers: HeaderMap,
    client: reqwest::Client,
    clock: SharedClock,
    can: Mutex<Capabilities>,
}

impl fmt::Debug for OpenAiModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAiModel").field("name", &self.name).finish_non_exhaustive()
    }
}

impl OpenAiModel {
    /// The model of these settings; nothing is sent yet. `clock` is only asked to read dates in `Retry-After`.
    ///
    /// # Errors
    /// [`ChatError::Rejected`] when the base URL or a header cannot be used, with what to do.
    pub fn new(settings: Settings, clock: SharedClock) -> Result<Self, ChatError> {
        let chat_url = endpoint::endpoint(&settings.base_url, "chat/completions").map_err(ChatError::Rejected)?;
        let models_url = endpoint::endpoint(&settings.base_url, "models").map_err(ChatError::Rejected)?;
        let headers = headers(&settings)?;
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("secondlook/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(settings.connect_timeout)
            // A redirect would turn the POST into a GET, and carry the key to wherever it points.
            .redirect(reqwest::redirect::Policy::none());
        if endpoint::is_loopback(&chat_url) {
            // A company's proxy cannot reach a server on this machine.
            builder = builder.no_proxy();
        }
        let client = builder
            .build()
            .map_err(|e| ChatError::Rejected(format!("the HTTP client cannot be set up: {}", read::cause(&e))))?;
        let can = Capabilities::expected_of(&settings.base_url);
        let name = format!("{}::{}", settings.provider, settings.model);
        Ok(Self { name, settings, chat_url, models_url, headers, client, clock, can: Mutex::new(can) })
    }

    /// The names of the models the server offers; empty when it does not tell.
    ///
    /// # Errors
    /// See [`ChatError`].
    pub async fn list_models(&self) -> Result<Vec<String>, ChatError> {
        let asked = self.client.get(self.models_url.clone()).headers(self.headers.clone()).send();
        let listed = async {
            let response = asked.await.map_err(|e| read::transport(&e, &self.models_url))?;
            let status = response.status().as_u16();
            if matches!(status, 404 | 405 | 501) {
                // Not every compatible server has this list; that it answered is all that can be known.
                return Ok(Vec::new());
            }
            let wait = failure::retry_after(response.headers(), self.clock.now());
            if !(200..300).contains(&status) {
                let body = read::text(response, MAX_REFUSAL).await.unwrap_or_default();
                return Err(failure::classify(status, wait, &failure::Said::of(&body), &self.named(), None));
            }
            let body = read::text(response, MAX_LIST).await?;
            Ok(response::model_names(&body))
        };
        tokio::time::timeout(self.settings.first_token_timeout, listed)
            .await
            .unwrap_or(Err(ChatError::TimedOut("the list of models")))
    }

    /// Whether the server answers, takes the key, and has the model. Costs no tokens.
    ///
    /// # Errors
    /// See [`ChatError`]; an unknown model is [`ChatError::Rejected`] and names what there is.
    pub async fn reachable(&self) -> Result<(), ChatError> {
        let offered = self.list_models().await?;
        endpoint::offers(&offered, &self.settings.model).map_err(ChatError::Rejected)
    }

    fn named(&self) -> failure::Named<'_> {
        let key = self.settings.api_key.as_ref().map_or("", ExposeSecret::expose_secret);
        failure::Named { model: &self.settings.model, base: &self.settings.base_url, key }
    }

    fn capabilities(&self) -> Capabilities {
        *self.can.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks until the server accepts the form of the request. Every refusal that is answered takes one capability
    /// away, so this ends.
    async fn ask(&self, request: &ChatRequest) -> Result<ChatResponse, ChatError> {
        loop {
            let can = self.capabilities();
            let body = request::encode(&self.settings.model, request, &can);
            let (status, wait, said) = match self.send(request, &body).await? {
                Sent::Answered(response) => return Ok(response),
                Sent::Refused { status, wait, said } => (status, wait, said),
            };
            if matches!(status, 400 | 422)
                && let Some(less) = can.without(&said, &body)
            {
                tracing::debug!(gen_ai.request.model = %self.settings.model, "the server lacks a feature; asking without it");
                *self.can.lock().unwrap_or_else(PoisonError::into_inner) = less;
                continue;
            }
            return Err(failure::classify(status, wait, &said, &self.named(), Some(request)));
        }
    }

    async fn send(&self, request: &ChatRequest, body: &Value) -> Result<Sent, ChatError> {
        let sent_for = Stopwatch::start();
        let body = body.to_string();
        let prompt_bytes = body.len();
        let sent = self.client.post(self.chat_url.clone()).headers(self.headers.clone()).body(body).send();
        let response = tokio::time::timeout(self.settings.first_token_timeout, sent)
            .await
            .map_err(|_| ChatError::TimedOut("first token"))?
            .map_err(|e| read::transport(&e, &self.chat_url))?;
        let status = response.status().as_u16();
        if !(200..300).contains(&status) {
            let wait = failure::retry_after(response.headers(), self.clock.now());
            let text = tokio::time::timeout(self.settings.idle_timeout, read::text(response, MAX_REFUSAL)).await;
            let said = failure::Said::of(&text.ok().and_then(Result::ok).unwrap_or_default());
            return Ok(Sent::Refused { status, wait, said });
        }
        let limits = read::Limits {
            first: self.settings.first_token_timeout.saturating_sub(sent_for.elapsed()),
            idle: self.settings.idle_timeout,
            max_text: self.settings.max_response_bytes,
        };
        let answer = read::answer(response, limits).await.map_err(|failed| match failed {
            read::Failed::Error(error) => error,
            read::Failed::InBand { status, said } => {
                failure::classify(status, None, &said, &self.named(), Some(request))
            }
        })?;
        answer.finish(&response::id_seed(request), prompt_bytes).map(Sent::Answered)
    }
}

#[async_trait]
impl ChatModel for OpenAiModel {
    fn name(&self) -> &str {
        &self.name
    }

    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, ChatError> {
        tokio::time::timeout(self.settings.whole_timeout, self.ask(request))
            .await
            .unwrap_or(Err(ChatError::TimedOut("whole answer")))
    }
}

/// What a server did with a request.
enum Sent {
    Answered(ChatResponse),
    Refused { status: u16, wait: Option<Duration>, said: failure::Said },
}

fn headers(settings: &Settings) -> Result<HeaderMap, ChatError> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(key) = &settings.api_key {
        let (name, text) = match settings.key_header {
            KeyHeader::Bearer => (AUTHORIZATION, format!("Bearer {}", key.expose_secret().trim())),
            KeyHeader::ApiKey => (HeaderName::from_static("api-key"), key.expose_secret().trim().to_owned()),
        };
        headers.insert(name, secret_value("the API key", &text)?);
    }
    for (name, value) in &settings.headers {
        let header = HeaderName::try_from(name.as_str())
            .map_err(|_| ChatError::Rejected(format!("`{name}` is not a name for an HTTP header")))?;
        headers.insert(header, secret_value(name, value.expose_secret())?);
    }
    Ok(headers)
}

fn secret_value(what: &str, text: &str) -> Result<HeaderValue, ChatError> {
    let mut value = HeaderValue::from_str(text).map_err(|_| {
        ChatError::Rejected(format!("{what} holds characters that cannot stand in an HTTP header; copy it again"))
    })?;
    value.set_sensitive(true);
    Ok(value)
}
