//! Set-up by GitHub's manifest flow: this page → GitHub, which creates the App → back here with a code → credentials.
//!
//! A code is good once and for an hour. The state that travels with it is given out by this page only, so that nobody
//! can bring a visitor here with a code for an App of somebody else.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Form, Query, State};
use axum::http::{HeaderMap, StatusCode, header::HOST};
use axum::response::Response;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use url::Url;

use super::credentials::{StoredApp, create_private_directory, store};
use super::manifest::{self, PERMISSIONS, Wish};
use super::{Dashboard, message, page};
use crate::github::client::{AppCredentials, ConvertedApp, GitHubApp, convert_manifest};
use crate::ids;

/// The name proposed for a new App. Names are unique on all of GitHub, so most people will want another.
const NAME: &str = "secondlook";

/// The query of the first page.
#[derive(Deserialize)]
pub struct AskQuery {
    #[serde(default, rename = "once")]
    token: String,
}

/// What the first page's form holds.
#[derive(Deserialize)]
pub struct CreateForm {
    #[serde(default)]
    token: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    organization: String,
    #[serde(default)]
    webhook: String,
}

/// What GitHub sends people back with.
#[derive(Deserialize)]
pub struct CallbackQuery {
    #[serde(default)]
    code: String,
    #[serde(default)]
    state: String,
}

#[derive(Template)]
#[template(path = "setup.html")]
struct Ask {
    complaint: Option<String>,
    token: String,
    name: String,
    organization: String,
    webhook: String,
}

#[derive(Template)]
#[template(path = "create.html")]
struct Create {
    wish: Wish,
    permissions: &'static [(&'static str, &'static str)],
    action: String,
    manifest: String,
}

#[derive(Template)]
#[template(path = "created.html")]
struct Created {
    page: String,
    secret: Option<String>,
}

/// `GET /setup`: asks who shall own the App and where events go.
pub async fn ask(
    State(dashboard): State<Arc<Dashboard>>,
    headers: HeaderMap,
    Query(query): Query<AskQuery>,
) -> Response {
    if let Some(refusal) = refusal(&dashboard, &headers, &query.token) {
        return refusal;
    }
    let webhook = dashboard.settings.public_url.as_ref().and_then(|url| join(url, "webhook"));
    let webhook = webhook.map(String::from).unwrap_or_default();
    let ask = Ask { complaint: None, token: query.token, name: NAME.into(), organization: String::new(), webhook };
    page(StatusCode::OK, &ask, None)
}

/// `POST /setup/create`: shows what will be created, with the form that goes to GitHub.
pub async fn create(
    State(dashboard): State<Arc<Dashboard>>,
    headers: HeaderMap,
    Form(form): Form<CreateForm>,
) -> Response {
    if let Some(refusal) = refusal(&dashboard, &headers, &form.token) {
        return refusal;
    }
    let complain = |complaint: String| {
        let CreateForm { token, name, organization, webhook } = &form;
        let ask = Ask {
            complaint: Some(complaint),
            token: token.clone(),
            name: name.clone(),
            organization: organization.clone(),
            webhook: webhook.clone(),
        };
        page(StatusCode::UNPROCESSABLE_ENTITY, &ask, None)
    };
    let wish = match Wish::read(&form.name, &form.organization, &form.webhook) {
        Ok(wish) => wish,
        Err(wrong) => return complain(wrong.0),
    };
    // Once GitHub has made the App, its key is shown to us once: the place for it has to be there before.
    let file = &dashboard.settings.app_file;
    if let Err(error) = create_private_directory(file.parent().unwrap_or(file)) {
        return complain(format!(
            "The data directory cannot be written ({error}); set SECONDLOOK_DATA_DIR to one that can."
        ));
    }
    let Some(home) = base(&dashboard, &headers) else {
        return complain("The address of this server is not known; set SECONDLOOK_PUBLIC_URL.".into());
    };
    let Some(redirect) = join(&home, "setup/callback") else {
        return complain("The address of this server cannot be used; set SECONDLOOK_PUBLIC_URL.".into());
    };
    let state = dashboard.access.open_state(dashboard.clock.now());
    let web = manifest::web_address(&dashboard.settings.github.api_url);
    let create = Create {
        action: manifest::creation_page(&web, wish.organization.as_deref(), &state),
        manifest: manifest::manifest(&wish, &home, &redirect).to_string(),
        permissions: PERMISSIONS,
        wish,
    };
    page(StatusCode::OK, &create, Some(&web))
}

/// `GET /setup/callback`: takes the code that GitHub sends, stores the App and puts it to work.
pub async fn callback(State(dashboard): State<Arc<Dashboard>>, Query(query): Query<CallbackQuery>) -> Response {
    if dashboard.github.get().is_some() {
        return configured();
    }
    // The state alone lets this page in: it was given to somebody who had passed the first one.
    if !dashboard.access.close_state(&query.state, dashboard.clock.now()) {
        return message(
            StatusCode::FORBIDDEN,
            "This link is not valid any more",
            "It works once, within an hour, and only while the server is not restarted. Begin again at /setup.",
        );
    }
    let plain =
        |code: &str| (1..=128).contains(&code.len()) && code.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    if !plain(&query.code) {
        return message(StatusCode::BAD_REQUEST, "GitHub sent no code", "Begin again at /setup.");
    }
    match install(&dashboard, &query.code).await {
        Ok(created) => page(StatusCode::OK, &created, None),
        Err(sentence) => message(StatusCode::BAD_GATEWAY, "The App could not be set up", &sentence),
    }
}

async fn install(dashboard: &Dashboard, code: &str) -> Result<Created, String> {
    let settings = &dashboard.settings;
    let converted =
        convert_manifest(&settings.github, code).await.map_err(|error| format!("{error}. Begin again at /setup."))?;
    let ConvertedApp { id, slug, pem, webhook_secret, client_id, client_secret, html_url, .. } = converted;
    // Without a secret of GitHub's, one of ours is kept, and the person is asked to write it there.
    let ours = webhook_secret.is_none().then(ids::secret);
    let webhook_secret = webhook_secret.unwrap_or_else(|| SecretString::from(ours.clone().unwrap_or_else(ids::secret)));
    let credentials = AppCredentials { app_id: id, private_key: pem.clone() };
    let app = GitHubApp::new(&credentials, &settings.github, dashboard.clock.clone())
        .map_err(|error| format!("The key that GitHub sent cannot be used: {error}."))?;
    let stored = StoredApp {
        app_id: id,
        slug,
        private_key: pem,
        webhook_secret: webhook_secret.clone(),
        client_id,
        client_secret,
        html_url: html_url.clone(),
    };
    store(&settings.app_file, &stored).map_err(|error| {
        format!(
            "GitHub made the App {html_url}, but its credentials cannot be written to {} ({error}). Mend that, make a new \
             private key on the App's page, and give it by GITHUB_APP_ID, GITHUB_APP_PRIVATE_KEY_PATH and \
             GITHUB_WEBHOOK_SECRET; or delete the App and begin again.",
            settings.app_file.display()
        )
    })?;
    dashboard.secrets.set_app(Some(id));
    dashboard.secrets.set(vec![SecretString::from(webhook_secret.expose_secret().to_owned())]);
    dashboard.github.set(app);
    dashboard.set_app_page(html_url.clone());
    tracing::info!(app.id = id, "the GitHub App is set up");
    Ok(Created { page: html_url, secret: ours })
}

fn refusal(dashboard: &Dashboard, headers: &HeaderMap, token: &str) -> Option<Response> {
    if dashboard.github.get().is_some() {
        return Some(configured());
    }
    if dashboard.access.allows(headers, Some(token)) {
        return None;
    }
    Some(message(
        StatusCode::FORBIDDEN,
        "Set-up asks for its token",
        "The server printed an address with a token when it started. Open that one.",
    ))
}

fn configured() -> Response {
    let text = "Set-up is over. To change the App, change the configuration, or remove app.json and restart.";
    message(StatusCode::CONFLICT, "A GitHub App is configured already", text)
}

/// The address people use for this server: the configured one, else the one this request came to.
fn base(dashboard: &Dashboard, headers: &HeaderMap) -> Option<Url> {
    if let Some(url) = &dashboard.settings.public_url {
        return Some(url.clone());
    }
    let host = headers.get(HOST)?.to_str().ok()?;
    Url::parse(&format!("http://{host}")).ok()
}

/// `path` below a base address, whether or not that ends with a slash.
fn join(base: &Url, path: &str) -> Option<Url> {
    Url::parse(&format!("{}/{path}", base.as_str().trim_end_matches('/'))).ok()
}
