//! Set-up in the browser: the page, GitHub's part, and what is stored.

use std::sync::Arc;

use reqwest::StatusCode;
use secondlook::clock::SystemClock;
use serde_json::{Value, json};

use crate::harness::github::FakeGitHub;
use crate::serve::{Server, client, ping};

/// The value of a form's hidden field, or of an attribute, as a browser would read it.
fn attribute(page: &str, before: &str) -> String {
    let rest = page.split_once(before).unwrap_or_else(|| panic!("{before} is not in {page}")).1;
    let value = rest.split('"').next().unwrap();
    value
        .replace("&quot;", "\"")
        .replace("&#34;", "\"")
        .replace("&#38;", "&")
        .replace("&amp;", "&")
        .replace("&#39;", "'")
}

/// Pairs as a form or a query carries them.
fn encoded(pairs: &[(&str, &str)]) -> String {
    url::form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish()
}

/// Sends the first page's form.
async fn submit(server: &Server, host: Option<&str>, form: &[(&str, &str)]) -> reqwest::Response {
    let request = client().post(server.url("/setup/create")).body(encoded(form));
    let request = request.header("Content-Type", "application/x-www-form-urlencoded");
    let request = if let Some(host) = host { request.header("Host", host) } else { request };
    request.send().await.unwrap()
}

async fn begin(server: &Server) -> (String, Value) {
    let form = [("name", "Look twice"), ("organization", "octo-org"), ("webhook", "https://a.example/webhook")];
    let answer = submit(server, None, &form).await;
    assert_eq!(answer.status(), StatusCode::OK);
    let page = answer.text().await.unwrap();
    let action = attribute(&page, "action=\"");
    let manifest = serde_json::from_str(&attribute(&page, "name=\"manifest\" value=\"")).unwrap();
    (action, manifest)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_is_created_stored_and_at_work_without_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let github = FakeGitHub::start(Arc::new(SystemClock)).await;
    let api = github.url();
    let variables = [("GITHUB_API_URL", api)];
    let mut server = Server::start(directory.path(), &variables);
    let hint = server.read_until("no GitHub App is configured");
    assert!(hint.contains(&server.url("/setup")), "{hint}");

    let first = client().get(server.url("/setup")).send().await.unwrap();
    let policy = first.headers()["content-security-policy"].to_str().unwrap().to_owned();
    assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{policy}");
    assert!(first.text().await.unwrap().contains("Create the GitHub App"));

    let (action, manifest) = begin(&server).await;
    assert!(action.starts_with(&format!("{api}/organizations/octo-org/settings/apps/new?state=")), "{action}");
    assert_eq!(manifest["hook_attributes"]["url"], "https://a.example/webhook");
    assert_eq!(manifest["redirect_url"], server.url("/setup/callback"));
    assert_eq!(manifest["default_permissions"]["checks"], "write");

    let callback = async |code: &str, state: &str| {
        let query = encoded(&[("code", code), ("state", state)]);
        let answer = client().get(server.url(&format!("/setup/callback?{query}"))).send().await.unwrap();
        (answer.status(), answer.text().await.unwrap())
    };
    let state = action.split_once("state=").unwrap().1.to_owned();
    assert_eq!(callback(&github.manifest_code(), "made-up").await.0, StatusCode::FORBIDDEN);
    let (status, page) = callback("stale", &state).await;
    assert_eq!(status, StatusCode::BAD_GATEWAY, "{page}");
    assert_eq!(callback(&github.manifest_code(), &state).await.0, StatusCode::FORBIDDEN, "a state is good once");

    let (action, _) = begin(&server).await;
    let (status, page) = callback(&github.manifest_code(), action.split_once("state=").unwrap().1).await;
    assert_eq!(status, StatusCode::OK, "{page}");
    assert!(page.contains("/apps/secondlook/installations/new"), "{page}");
    assert!(!page.contains("a-webhook-secret"), "a secret is not shown");

    assert_eq!(ping(&server, "a-webhook-secret", "d-1").await, StatusCode::ACCEPTED);
    assert_eq!(client().get(server.url("/setup")).send().await.unwrap().status(), StatusCode::CONFLICT);
    let home = client().get(server.url("/")).send().await.unwrap().text().await.unwrap();
    assert!(home.contains("/apps/secondlook"), "{home}");

    let file = directory.path().join("data/app.json");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let stored: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!((&stored["app_id"], &stored["webhook_secret"]), (&json!(4711), &json!("a-webhook-secret")));

    let (code, log) = server.stop();
    assert_eq!(code, Some(0));
    assert!(!log.contains("PRIVATE KEY") && !log.contains("a-webhook-secret"), "{log}");
    let again = Server::start(directory.path(), &variables);
    assert_eq!(ping(&again, "a-webhook-secret", "d-2").await, StatusCode::ACCEPTED);
    assert_eq!(ping(&again, "another", "d-3").await, StatusCode::UNAUTHORIZED);
}

#[tokio::test(flavor = "multi_thread")]
async fn setup_is_for_this_machine_or_for_whoever_has_the_token() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &[]);
    let ask = async |path: &str, host: &str| {
        client().get(server.url(path)).header("Host", host).send().await.unwrap().status()
    };
    assert_eq!(ask("/setup", "localhost:1").await, StatusCode::OK);
    assert_eq!(ask("/setup", "rebound.example").await, StatusCode::FORBIDDEN);
    let form = [("name", "n"), ("webhook", "https://a.example/webhook")];
    assert_eq!(submit(&server, Some("rebound.example"), &form).await.status(), StatusCode::FORBIDDEN);
    let wrong = submit(&server, None, &[("name", "n"), ("webhook", "http://localhost/webhook")]).await;
    assert_eq!(wrong.status(), StatusCode::UNPROCESSABLE_ENTITY);
    assert!(wrong.text().await.unwrap().contains("that GitHub can reach"));

    let directory = tempfile::tempdir().unwrap();
    let mut public = Server::start(directory.path(), &[("SECONDLOOK_PUBLIC_URL", "https://look.example")]);
    assert_eq!(client().get(public.url("/setup")).send().await.unwrap().status(), StatusCode::FORBIDDEN);
    let hint = public.read_until("no GitHub App is configured");
    let path = hint.split_once("https://look.example").unwrap().1.split([' ', '"']).next().unwrap().to_owned();
    assert!(path.starts_with("/setup?once="), "{hint}");
    let page = client().get(public.url(&path)).send().await.unwrap();
    assert_eq!(page.status(), StatusCode::OK);
    assert!(page.text().await.unwrap().contains("value=\"https://look.example/webhook\""));
}
