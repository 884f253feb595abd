//! The client's transport: how a request reaches GitHub, as whom, and what its answer means. The only file that knows
//! octocrab; what is asked of GitHub stands in the neighbours (`pulls`, `files`, `reviews` …).
//!
//! octocrab is used for its connection only. Its own retry sends a failed POST again, its pager loses the credentials
//! on other hosts than api.github.com, its redirects turn a POST into a GET, and its routes are not percent-encoded;
//! so retrying is the queue's, and the rest is here.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use jiff::Timestamp;
use octocrab::Octocrab;
use secrecy::{ExposeSecret, SecretString};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::auth::{AppKey, TokenCache, TokenScope};
use super::endpoint::{Endpoints, segment};
use super::error::GitHubError;
use super::etag::{self, EtagCache};
use super::rate::{Budgets, Payer, Resource};
use super::skew::Skew;
use super::{Repository, User, wire};
use crate::clock::SharedClock;
use crate::db::Db;
use crate::queue::store::tenure::Tenure;
use crate::room::Inputs;

/// The media type of GitHub's JSON.
pub(super) const JSON: &str = "application/vnd.github+json";
/// The media type of a blob's bytes.
pub(super) const RAW: &str = "application/vnd.github.raw+json";

/// Largest answer that is read, in bytes: a page of 100 files with the largest patches is 10 MB, a tree 7 MB.
const MAX_ANSWER: usize = 32 << 20;

/// Redirects followed: a repository may have been renamed and transferred more than once.
const MAX_REDIRECTS: usize = 5;

/// The App's identity towards GitHub.
#[derive(Debug, Clone)]
pub struct AppCredentials {
    /// App id.
    pub app_id: u64,
    /// RSA key, PEM.
    pub private_key: SecretString,
}

/// Where GitHub is, and our limits towards it.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `https://api.github.com`, or `https://HOST/api/v3` on GHES. GraphQL is found beside it.
    pub api_url: String,
    /// Whole time of one request.
    pub timeout: Duration,
    /// Largest file whose text is fetched to be diffed or reviewed, in bytes.
    pub max_file_bytes: usize,
    /// Pause between two writes of an installation. GitHub's documentation asks for at least a second.
    pub write_gap: Duration,
    /// How much of large texts is held at the same time.
    pub inputs: Inputs,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            api_url: "https://api.github.com".into(),
            timeout: Duration::from_secs(20),
            max_file_bytes: 1 << 20,
            write_gap: Duration::from_secs(1),
            inputs: Inputs::default(),
        }
    }
}

/// The App: makes clients for installations.
#[derive(Clone)]
pub struct GitHubApp {
    pub(super) connection: Connection,
    pub(super) key: AppKey,
    pub(super) identity: Arc<tokio::sync::OnceCell<AppIdentity>>,
}

/// A client that acts for one installation (or one personal token), in one repository.
#[derive(Clone)]
pub struct RepositoryClient {
    pub(super) connection: Connection,
    pub(super) credentials: Credentials,
    pub(super) repository: Arc<Repository>,
    /// The lease of the job it writes for.
    pub(super) tenure: Option<Tenure>,
}

/// Who the App is on GitHub.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct AppIdentity {
    /// URL name of the App.
    pub slug: String,
    /// The user `<slug>[bot]` that writes our comments.
    pub bot: User,
    /// Permissions the App has, by name (`pull_requests` → `write`).
    pub permissions: std::collections::BTreeMap<String, String>,
    /// Events it receives.
    pub events: Vec<String>,
}

/// What the manifest conversion returns (`POST /app-manifests/{code}/conversions`).
#[derive(Debug, Clone)]
pub struct ConvertedApp {
    /// App id.
    pub id: u64,
    /// URL name.
    pub slug: String,
    /// Private key.
    pub pem: SecretString,
    /// Webhook secret, which GitHub may leave out.
    pub webhook_secret: Option<SecretString>,
    /// OAuth client id.
    pub client_id: String,
    /// OAuth client secret.
    pub client_secret: SecretString,
    /// The App's page.
    pub html_url: String,
}

/// Exchanges the code of GitHub's manifest flow for the new App.
///
/// # Errors
/// [`GitHubError::NotFound`] when the code is unknown or older than an hour.
pub async fn convert_manifest(settings: &Settings, code: &str) -> Result<ConvertedApp, GitHubError> {
    let connection = Connection::new(settings, Arc::new(crate::clock::SystemClock))?;
    let request = Request {
        method: Method::POST,
        route: format!("/app-manifests/{}/conversions", segment(code)),
        accept: JSON,
        body: None,
        what: "App for this code (it is valid for one hour and for one use; create the App again)",
        tenure: None,
    };
    let answer = connection.send(&Credentials::Anonymous, &request).await.map_err(|error| match error {
        GitHubError::Unprocessable(_) => GitHubError::NotFound(request.what.to_owned()),
        other => other,
    })?;
    Ok(answer.json::<wire::ConvertedAppWire>("the new App")?.into_app())
}

impl GitHubApp {
    /// Checks the key and builds the client; asks GitHub nothing. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// [`GitHubError::Configuration`], with what to do, when the key is not an RSA key in PEM or the base URL is not one.
    pub fn new(credentials: &AppCredentials, settings: &Settings, clock: SharedClock) -> Result<Self, GitHubError> {
        Ok(Self {
            key: AppKey::new(credentials.app_id, &credentials.private_key)?,
            connection: Connection::new(settings, clock)?,
            identity: Arc::default(),
        })
    }

    /// The same App, whose instances share GitHub's limits through this database.
    #[must_use]
    pub fn sharing(self, db: Db) -> Self {
        self.connection.inner.budgets.share_in(db);
        self
    }

    /// A client for one repository of an installation. The token is made at the first request, narrowed to this
    /// repository, kept for the installation, renewed before it expires and once after a 401.
    pub fn repository(&self, installation: u64, repository: &Repository) -> RepositoryClient {
        let scope = TokenScope { installation, repository: Some(repository.id) };
        RepositoryClient {
            connection: self.connection.clone(),
            credentials: Credentials::Installation { key: self.key.clone(), scope },
            repository: Arc::new(repository.clone()),
            tenure: None,
        }
    }
}

/// As whom a request is sent.
#[derive(Clone)]
pub(super) enum Credentials {
    /// Nobody.
    Anonymous,
    /// The App itself.
    App(AppKey),
    /// An installation, in one repository.
    Installation {
        /// Signs the request for a token.
        key: AppKey,
        /// What the token is for.
        scope: TokenScope,
    },
    /// A personal token.
    Person(SecretString),
}

impl Credentials {
    pub(super) fn payer(&self) -> Payer {
        match self {
            Self::Anonymous => Payer::Anonymous,
            Self::App(_) => Payer::App,
            Self::Installation { scope, .. } => Payer::Installation(scope.installation),
            Self::Person(_) => Payer::Person,
        }
    }
}

/// Stands for the GraphQL endpoint in [`Request::route`].
pub(super) const GRAPHQL: &str = "graphql";

/// One request.
pub(super) struct Request<'a> {
    pub(super) method: Method,
    pub(super) route: String,
    pub(super) accept: &'static str,
    pub(super) body: Option<Value>,
    /// What is asked for, as an error names it ("pull request 7 of acme/app").
    pub(super) what: &'a str,
    /// What must be ours at the moment of sending.
    pub(super) tenure: Option<&'a Tenure>,
}

impl Request<'_> {
    /// Whether it changes nothing on GitHub. All our GraphQL only reads.
    fn reads(&self) -> bool {
        self.method == Method::GET || self.route == GRAPHQL
    }
}

/// A successful answer.
pub(super) struct Answer {
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Answer {
    /// Reads the body as JSON.
    pub(super) fn json<T: DeserializeOwned>(&self, what: &str) -> Result<T, GitHubError> {
        serde_json::from_slice(&self.body).map_err(|error| {
            // The parser's own text may quote the body.
            let place = format!("line {}, column {}", error.line(), error.column());
            GitHubError::Unreadable(format!("{what}: unexpected JSON at {place}"))
        })
    }
}

/// The way to one GitHub, with everything that is remembered of it. Cheap to clone.
#[derive(Clone)]
pub(super) struct Connection {
    inner: Arc<Inner>,
}

struct Inner {
    octocrab: Octocrab,
    endpoints: Endpoints,
    settings: Settings,
    clock: SharedClock,
    budgets: Budgets,
    tokens: TokenCache,
    etags: EtagCache,
    skew: Skew,
}

impl Connection {
    pub(super) fn new(settings: &Settings, clock: SharedClock) -> Result<Self, GitHubError> {
        let endpoints = Endpoints::new(&settings.api_url)?;
        let octocrab = Octocrab::builder().set_connect_timeout(Some(settings.timeout)).build().map_err(|error| {
            let cause = root_cause(&error);
            GitHubError::Configuration(format!(
                "no connection to GitHub can be made ({cause}); is ca-certificates installed?"
            ))
        })?;
        let budgets = Budgets::new(settings.write_gap, clock.clone());
        let (settings, tokens, etags, skew) =
            (settings.clone(), TokenCache::default(), EtagCache::default(), Skew::default());
        Ok(Self { inner: Arc::new(Inner { octocrab, endpoints, settings, clock, budgets, tokens, etags, skew }) })
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    /// What time it is at GitHub.
    pub(super) fn now(&self) -> Timestamp {
        self.inner.skew.there(self.inner.clock.now())
    }

    /// How far its clock is from ours.
    pub(super) fn skew(&self) -> &Skew {
        &self.inner.skew
    }

    /// What GitHub lets us do.
    pub(super) fn budgets(&self) -> &Budgets {
        &self.inner.budgets
    }

    /// Sends a request: within the budget, writes one at a time, with a fresh token after a 401.
    pub(super) async fn send(&self, credentials: &Credentials, request: &Request<'_>) -> Result<Answer, GitHubError> {
        let payer = credentials.payer();
        // Asking for tokens creates no content, so the App itself need not wait.
        if request.reads() || !matches!(payer, Payer::Installation(_) | Payer::Person) {
            return self.send_as(credentials, request).await;
        }
        let turn = self.inner.budgets.turn(payer).await?;
        let result = self.send_as(credentials, request).await;
        self.inner.budgets.give_back(turn, result.is_ok()).await;
        result
    }

    async fn send_as(&self, credentials: &Credentials, request: &Request<'_>) -> Result<Answer, GitHubError> {
        let payer = credentials.payer();
        match credentials {
            Credentials::Anonymous => self.exchange(payer, None, request).await,
            Credentials::Person(token) => self.exchange(payer, Some(token), request).await,
            Credentials::App(key) => self.send_signed(key, request).await,
            Credentials::Installation { key, scope } => {
                let slot = self.inner.tokens.slot(*scope, self.now());
                let token = self.installation_token(key, *scope, &slot).await?;
                match self.exchange(payer, Some(&token), request).await {
                    // A token may be revoked before its time; nothing was done yet, so a write may be sent again too.
                    Err(GitHubError::Unauthorized(_)) => {
                        slot.refuse(&token);
                        let token = self.installation_token(key, *scope, &slot).await?;
                        self.exchange(payer, Some(&token), request).await.map_err(refused_twice)
                    }
                    other => other,
                }
            }
        }
    }

    /// One request and its answer, over redirects, with the ETag of the last answer.
    pub(super) async fn exchange(
        &self,
        payer: Payer,
        token: Option<&SecretString>,
        request: &Request<'_>,
    ) -> Result<Answer, GitHubError> {
        let inner = &*self.inner;
        let (resource, mut url) = match request.route.as_str() {
            GRAPHQL => (Resource::GraphQl, inner.endpoints.graphql().to_owned()),
            route => (Resource::Core, inner.endpoints.rest(route)),
        };
        inner.budgets.admit(payer, resource).await?;
        let key = etag::Key { payer, url: url.clone(), accept: request.accept };
        let known = if request.method == Method::GET { inner.etags.get(&key) } else { None };
        for _ in 0..=MAX_REDIRECTS {
            if let Some(tenure) = request.tenure {
                // Asked last of all: waiting for a turn or for a token may have taken longer than the lease.
                tenure.ensure().await.map_err(|error| GitHubError::NotSent(error.to_string()))?;
            }
            let answer = self.once(&url, token, request, known.as_ref().map(|(etag, _)| etag)).await;
            let (status, headers, body) = match answer {
                Ok(answer) => answer,
                Err(error) => return Err(self.failed(payer, request, error)),
            };
            let sent_at = sent_at(&headers).unwrap_or_else(|| self.now());
            inner.skew.note(sent_at, inner.clock.now());
            inner.budgets.note(payer, resource, &headers, sent_at);
            metrics::counter!("secondlook_github_requests_total",
                "method" => request.method.to_string(), "status" => status.as_str().to_owned())
            .increment(1);
            tracing::debug!(http.method = %request.method, http.url = %url, http.status = status.as_u16(), "GitHub answered");
            match status.as_u16() {
                301 | 302 | 307 | 308 => {
                    let target = headers.get(header::LOCATION).and_then(|location| location.to_str().ok());
                    // GitHub documents that the request is to be repeated verbatim, a write too.
                    url = target.and_then(|location| inner.endpoints.redirect(&url, location)).ok_or_else(|| {
                        GitHubError::Unreadable(format!("a redirect of {} that leaves this GitHub", request.what))
                    })?;
                }
                304 => {
                    inner.budgets.answered(payer);
                    let Some((_, body)) = known else {
                        return Err(GitHubError::Unreadable(format!("304 for {} that was never read", request.what)));
                    };
                    return Ok(Answer { headers, body });
                }
                200..=299 => {
                    inner.budgets.answered(payer);
                    let etag = headers.get(header::ETAG).and_then(|etag| etag.to_str().ok());
                    if let (&Method::GET, Some(etag)) = (&request.method, etag) {
                        inner.etags.put(key, etag, &body);
                    }
                    return Ok(Answer { headers, body });
                }
                _ => {
                    let error = GitHubError::from_answer(status, &headers, &body, request.what, sent_at);
                    return Err(match error {
                        GitHubError::RateLimited { wait } => self.limited(payer, resource, wait).await,
                        error => self.failed(payer, request, error),
                    });
                }
            }
        }
        Err(GitHubError::Unreadable(format!("more than {MAX_REDIRECTS} redirects of {}", request.what)))
    }

    /// What a failed request comes to, once the breaker has heard of it.
    fn failed(&self, payer: Payer, request: &Request<'_>, error: GitHubError) -> GitHubError {
        // A token that nobody got to see does no harm either.
        let harmless = request.reads() || payer == Payer::App;
        self.inner.budgets.ended(payer, harmless, error)
    }

    /// GitHub limits a payer: everybody who pays from the same budget hears of it.
    pub(super) async fn limited(&self, payer: Payer, resource: Resource, told: Duration) -> GitHubError {
        self.inner.budgets.answered(payer);
        let wait = self.inner.budgets.limited(payer, resource, told).await;
        tracing::warn!(github.wait = wait.as_secs(), github.resource = resource.name(), "GitHub limits us");
        GitHubError::RateLimited { wait }
    }

    async fn once(
        &self,
        url: &str,
        token: Option<&SecretString>,
        request: &Request<'_>,
        known: Option<&String>,
    ) -> Result<(StatusCode, HeaderMap, Bytes), GitHubError> {
        let mut builder = http::Request::builder()
            .method(request.method.clone())
            .uri(url)
            .header(header::ACCEPT, request.accept)
            .header(header::USER_AGENT, concat!("secondlook/", env!("CARGO_PKG_VERSION")))
            .header("x-github-api-version", "2022-11-28");
        if let Some(token) = token {
            let mut value = HeaderValue::from_str(&format!("Bearer {}", token.expose_secret())).map_err(|_| {
                GitHubError::Configuration("the GitHub token holds characters that no token has".into())
            })?;
            value.set_sensitive(true);
            builder = builder.header(header::AUTHORIZATION, value);
        }
        if let Some(etag) = known {
            builder = builder.header(header::IF_NONE_MATCH, etag);
        }
        let body = request.body.as_ref().map(Value::to_string).unwrap_or_default();
        if request.body.is_some() {
            builder = builder.header(header::CONTENT_TYPE, "application/json");
        }
        let what = request.what;
        let ready = builder
            .body(body)
            .map_err(|error| GitHubError::Configuration(format!("no request for {what}: {error}")))?;
        let exchange = async {
            let answer =
                self.inner.octocrab.send(ready.map(Into::into)).await.map_err(|error| {
                    GitHubError::Unavailable(format!("no answer for {what}: {}", root_cause(&error)))
                })?;
            let (parts, body) = answer.into_parts();
            let body = Limited::new(body, MAX_ANSWER).collect().await.map_err(|error| {
                if error.is::<LengthLimitError>() {
                    return GitHubError::Unreadable(format!("more than {} MiB for {what}", MAX_ANSWER >> 20));
                }
                GitHubError::Unavailable(format!("the answer for {what} broke off: {}", root_cause(&*error)))
            })?;
            Ok((parts.status, parts.headers, body.to_bytes()))
        };
        let limit = self.inner.settings.timeout;
        tokio::time::timeout(limit, exchange).await.unwrap_or_else(|_| {
            Err(GitHubError::Unavailable(format!("no answer for {what} within {} s", limit.as_secs())))
        })
    }
}

/// A token that was made a moment ago is refused too.
fn refused_twice(error: GitHubError) -> GitHubError {
    match error {
        GitHubError::Unauthorized(message) => GitHubError::Unauthorized(format!(
            "{message}, also with a token that it gave a moment ago; see whether the App is suspended in this \
             installation and whether a proxy changes the Authorization header, then requeue the job"
        )),
        other => other,
    }
}

/// GitHub's own clock, at an answer.
pub(super) fn sent_at(headers: &HeaderMap) -> Option<Timestamp> {
    let date = headers.get(header::DATE)?.to_str().ok()?;
    Some(jiff::fmt::rfc2822::parse(date).ok()?.timestamp())
}

/// The innermost cause: the outer ones only say that something failed.
fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
