//! The pages people see in a browser: what state the server is in, and set-up.

pub mod access;
pub mod credentials;
pub mod home;
pub mod manifest;
pub mod setup;

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use askama::Template;
use axum::Router;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use url::Url;

use crate::app::GitHubHandle;
use crate::clock::SharedClock;
use crate::github::client;
use crate::webhook::Secrets;
use access::Access;

/// What the pages tell and set-up needs to know.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Whether the server listens on this machine's loopback only.
    pub listens_locally: bool,
    /// Where people reach the server.
    pub public_url: Option<Url>,
    /// Where set-up stores the App's credentials.
    pub app_file: PathBuf,
    /// Where GitHub is.
    pub github: client::Settings,
    /// The name of the model.
    pub model: String,
    /// The App's page on GitHub, when an earlier set-up stored it.
    pub app_page: Option<String>,
}

/// The state behind the pages.
pub struct Dashboard {
    settings: Settings,
    app_page: RwLock<Option<String>>,
    access: Access,
    github: GitHubHandle,
    secrets: Secrets,
    clock: SharedClock,
}

impl Dashboard {
    /// Pages over the parts that set-up fills while the server runs.
    pub fn new(settings: Settings, github: GitHubHandle, secrets: Secrets, clock: SharedClock) -> Self {
        let local = settings.listens_locally && settings.public_url.is_none();
        let app_page = RwLock::new(settings.app_page.clone());
        Self { settings, app_page, access: Access::new(local), github, secrets, clock }
    }

    /// The path of the set-up page while no App is configured, with the token when one is asked; for the server's log.
    pub fn setup_path(&self) -> Option<String> {
        if self.github.get().is_some() {
            return None;
        }
        Some(match self.access.asks_token() {
            // Not named for what it is: the log would mask it.
            true => format!("/setup?once={}", self.access.token()),
            false => "/setup".into(),
        })
    }

    fn app_page(&self) -> Option<String> {
        self.app_page.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_app_page(&self, page: String) {
        *self.app_page.write().unwrap_or_else(PoisonError::into_inner) = Some(page);
    }
}

/// The pages.
pub fn router(dashboard: Arc<Dashboard>) -> Router {
    Router::new()
        .route("/", get(home::show))
        .route("/style.css", get(style))
        .route("/setup", get(setup::ask))
        .route("/setup/create", post(setup::create))
        .route("/setup/callback", get(setup::callback))
        .with_state(dashboard)
}

async fn style() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/css; charset=utf-8")], include_str!("style.css"))
}

/// Some words on a page of their own.
#[derive(Template)]
#[template(path = "message.html")]
struct Message<'a> {
    title: &'a str,
    text: &'a str,
}

fn message(status: StatusCode, title: &str, text: &str) -> Response {
    page(status, &Message { title, text }, None)
}

/// A page with the headers that keep others out of it. `form_target` is the one other origin its form may go to.
fn page(status: StatusCode, template: &impl Template, form_target: Option<&str>) -> Response {
    let Ok(text) = template.render() else {
        return (StatusCode::INTERNAL_SERVER_ERROR, "The page cannot be shown.").into_response();
    };
    let policy = format!(
        "default-src 'none'; style-src 'self'; form-action 'self'{}; frame-ancestors 'none'; base-uri 'none'",
        form_target.map(|target| format!(" {target}")).unwrap_or_default()
    );
    let mut response = (status, Html(text)).into_response();
    let headers = response.headers_mut();
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    for (name, value) in [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}
