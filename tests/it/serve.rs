//! The server as an operator runs it: the real binary, its answers, how it stops and why it does not start.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};

use hmac::{Hmac, KeyInit as _, Mac as _};
use reqwest::StatusCode;
use serde_json::{Value, json};
use sha2::Sha256;

use crate::repository::{binary, run};

/// A key that GitHub would accept as an App's, made for these tests.
pub(crate) const KEY: &str = include_str!("../../fixtures/github/test-app-key.pem");

/// A running server. Dropped, it is killed.
pub(crate) struct Server {
    child: Child,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    log: BufReader<ChildStderr>,
    /// What it logged until it was ready.
    pub(crate) said: String,
}

impl Server {
    /// Starts one on a free port, with its data in `directory`, and waits until it says where it listens.
    pub(crate) fn start(directory: &Path, variables: &[(&str, &str)]) -> Self {
        let data = directory.join("data");
        let arguments =
            ["serve", "--listen", "127.0.0.1:0", "--data-dir", data.to_str().unwrap(), "--log-format", "json"];
        Self::spawn(binary(directory, &arguments, variables))
    }

    /// The same, with files of at most so many blocks of 512 bytes each.
    pub(crate) fn start_limited(directory: &Path, variables: &[(&str, &str)], blocks: u32) -> Self {
        let data = directory.join("data");
        let arguments =
            ["serve", "--listen", "127.0.0.1:0", "--data-dir", data.to_str().unwrap(), "--log-format", "json"];
        let plain = binary(directory, &arguments, variables);
        let mut limited = Command::new("sh");
        // Without the trap the first write over the limit would end the process.
        limited.args(["-c", &format!("trap '' XFSZ; ulimit -S -f {blocks}; exec \"$0\" \"$@\"")]);
        limited.arg(plain.get_program()).args(plain.get_args()).current_dir(directory).env_clear();
        limited.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        Self::spawn(limited)
    }

    fn spawn(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut server = Self { child, address, log, said: String::new() };
        let line: Value = serde_json::from_str(&server.read_until("\"listen\"")).unwrap();
        server.address = line["listen"].as_str().unwrap().parse().unwrap();
        server
    }

    /// The process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The address of a page.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Reads the log up to a line that holds `text`.
    pub(crate) fn read_until(&mut self, text: &str) -> String {
        loop {
            let mut line = String::new();
            assert!(self.log.read_line(&mut line).unwrap() > 0, "the server never said {text}: {}", self.said);
            self.said.push_str(&line);
            if line.contains(text) {
                return line;
            }
        }
    }

    /// Asks it to stop; its exit code and the rest of its log.
    pub(crate) fn stop(mut self) -> (Option<i32>, String) {
        assert!(Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().unwrap().success());
        let mut rest = String::new();
        self.log.read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap().code(), rest)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It has ended already when the test stopped it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client that never goes through a proxy of this machine.
pub(crate) fn client() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().build().unwrap()
}

/// Sends a `ping` as GitHub would, signed with `secret`.
pub(crate) async fn ping(server: &Server, secret: &str, id: &str) -> StatusCode {
    let body = json!({ "zen": "Keep it logically awesome.", "hook_id": 1 }).to_string();
    let mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap().chain_update(&body);
    let request = client()
        .post(server.url("/webhook"))
        .header("X-GitHub-Event", "ping")
        .header("X-GitHub-Delivery", id)
        .header("X-Hub-Signature-256", format!("sha256={}", hex::encode(mac.finalize().into_bytes())))
        .header("Content-Type", "application/json")
        .body(body);
    request.send().await.unwrap().status()
}

async fn get(server: &Server, path: &str) -> (StatusCode, String) {
    let response = client().get(server.url(path)).send().await.unwrap();
    (response.status(), response.text().await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn it_answers_machines_and_stops_when_asked() {
    let directory = tempfile::tempdir().unwrap();
    let variables = [("GITHUB_APP_ID", "7"), ("GITHUB_APP_PRIVATE_KEY", KEY), ("GITHUB_WEBHOOK_SECRET", "s3cret")];
    let server = Server::start(directory.path(), &variables);
    assert_eq!(get(&server, "/healthz").await.0, StatusCode::OK);
    let (status, ready) = get(&server, "/readyz").await;
    assert_eq!((status, ready.contains("\"ready\":true")), (StatusCode::OK, true), "{ready}");
    assert_eq!(ping(&server, "s3cret", "d-1").await, StatusCode::ACCEPTED);
    assert_eq!(ping(&server, "other", "d-2").await, StatusCode::UNAUTHORIZED);
    assert_eq!(
        client().post(server.url("/webhook")).body("{}").send().await.unwrap().status(),
        StatusCode::UNAUTHORIZED
    );
    let (status, metrics) = get(&server, "/metrics").await;
    assert_eq!(status, StatusCode::OK);
    assert!(metrics.contains("# TYPE secondlook_"), "{metrics}");
    assert_eq!(get(&server, "/nowhere").await.0, StatusCode::NOT_FOUND);
    let (code, log) = server.stop();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("\"stopped\""), "{log}");
    assert!(!log.contains("s3cret"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_previous_secret_is_still_good() {
    let directory = tempfile::tempdir().unwrap();
    let variables = [
        ("GITHUB_APP_ID", "7"),
        ("GITHUB_APP_PRIVATE_KEY", KEY),
        ("GITHUB_WEBHOOK_SECRET", "new"),
        ("GITHUB_WEBHOOK_SECRET_PREVIOUS", "old"),
    ];
    let server = Server::start(directory.path(), &variables);
    assert_eq!(ping(&server, "new", "d-1").await, StatusCode::ACCEPTED);
    assert_eq!(ping(&server, "old", "d-2").await, StatusCode::ACCEPTED);
    assert_eq!(ping(&server, "", "d-3").await, StatusCode::UNAUTHORIZED);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_app_nothing_is_believed() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &[]);
    assert_eq!(ping(&server, "", "d-1").await, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(ping(&server, "guess", "d-2").await, StatusCode::SERVICE_UNAVAILABLE);
    assert!(!server.said.contains("GITHUB_WEBHOOK_SECRET"), "{}", server.said);
    drop(server);
    // A secret alone is not silently of no use.
    let server = Server::start(directory.path(), &[("GITHUB_WEBHOOK_SECRET", "s3cret")]);
    assert_eq!(ping(&server, "s3cret", "d-1").await, StatusCode::SERVICE_UNAVAILABLE);
    assert!(server.said.contains("no GitHub App is configured, so the secret is not used"), "{}", server.said);
    assert!(!server.said.contains("s3cret"));
}

/// A channel that streams one signed delivery to whoever listens.
async fn channel(secret: &str) -> String {
    let body = json!({ "zen": "Half measures are as bad as nothing at all.", "hook_id": 1 });
    let mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap().chain_update(body.to_string());
    let data = json!({
        "x-github-event": "ping", "x-github-delivery": "through-smee", "body": body, "query": {},
        "x-hub-signature-256": format!("sha256={}", hex::encode(mac.finalize().into_bytes())),
    });
    let events = format!("event: ready\ndata: {{}}\n\nid: 1\ndata: {data}\n\n");
    let page = async move || ([("content-type", "text/event-stream")], events);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async { axum::serve(listener, axum::Router::new().route("/abc", axum::routing::get(page))).await });
    format!("http://{address}/abc")
}

#[tokio::test(flavor = "multi_thread")]
async fn deliveries_come_through_a_channel_too() {
    let directory = tempfile::tempdir().unwrap();
    let channel = channel("s3cret").await;
    let variables = [
        ("GITHUB_APP_ID", "7"),
        ("GITHUB_APP_PRIVATE_KEY", KEY),
        ("GITHUB_WEBHOOK_SECRET", "s3cret"),
        ("SECONDLOOK_SMEE", channel.as_str()),
    ];
    let mut server = Server::start(directory.path(), &variables);
    let line = server.read_until("A delivery was recorded");
    assert!(line.contains("through-smee"), "{line}");
    assert_eq!(server.stop().0, Some(0));
}

#[test]
fn it_does_not_start_on_bad_input() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let serve = |variables: &[(&str, &str)]| {
        let arguments = ["serve", "--listen", "127.0.0.1:0", "--data-dir", data.to_str().unwrap(), "--log", "off"];
        run(directory.path(), &arguments, variables, "")
    };
    let app = ("GITHUB_APP_ID", "7");
    let secret = ("GITHUB_WEBHOOK_SECRET", "s");
    serve(&[app, ("GITHUB_APP_PRIVATE_KEY", KEY)]).refuses("without a webhook secret");
    serve(&[app, secret]).refuses("there is no private key");
    serve(&[app, secret, ("GITHUB_APP_PRIVATE_KEY_PATH", "/no/key.pem")])
        .refuses("cannot read the private key /no/key.pem");
    serve(&[("SECONDLOOK_DATABASE_URL", "mysql://u:hush@h/d")]).refuses("write sqlite:PATH or postgres://");
    serve(&[("SECONDLOOK_MODEL", "nobody::x")]).refuses("no known provider");
    serve(&[("SECONDLOOK_PUBLIC_URL", "nowhere")])
        .refuses("is no web address: write it in full, as in https://secondlook.example.com");
    assert!(!data.exists(), "nothing is written before everything is checked");
    serve(&[app, secret, ("GITHUB_APP_PRIVATE_KEY", "not a key")]).refuses("the GitHub App cannot be used");
    serve(&[("SECONDLOOK_DATABASE_URL", "postgres://u:hush@127.0.0.1:9/d")]).refuses("SECONDLOOK_DATABASE_URL");
    let unreachable = serve(&[("SECONDLOOK_DATABASE_URL", "postgres://u:hush@127.0.0.1:9/d")]);
    assert!(!unreachable.err.contains("hush"), "{}", unreachable.err);
}

#[test]
fn a_port_in_use_is_said_before_anything_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let data = directory.path().join("data");
    let arguments = ["serve", "--listen", &address, "--data-dir", data.to_str().unwrap(), "--log", "off"];
    run(directory.path(), &arguments, &[], "").refuses("another program has that port");
    assert!(!data.exists());
}
