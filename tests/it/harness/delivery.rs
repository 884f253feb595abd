//! Sends deliveries to the real router over loopback, signed as GitHub signs them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use hmac::{Hmac, KeyInit, Mac};
use secondlook::serve::http::{self, Settings};
use secondlook::webhook::{Intake, router};
use sha2::Sha256;
use tokio_util::sync::CancellationToken;

/// The secret of GitHub's documentation.
pub(crate) const SECRET: &str = "It's a Secret to Everybody";

/// A file under `fixtures/webhook`.
pub(crate) fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/webhook").join(name)
}

/// What GitHub puts into `X-Hub-Signature-256`.
pub(crate) fn sign(secret: &str, body: &[u8]) -> String {
    let mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap().chain_update(body);
    format!("sha256={}", hex::encode(mac.finalize().into_bytes()))
}

/// The intake, listening.
pub(crate) struct Server {
    /// Where.
    pub(crate) address: SocketAddr,
    client: reqwest::Client,
    task: tokio::task::JoinHandle<()>,
    stop: CancellationToken,
}

impl Server {
    pub(crate) async fn start(intake: Intake) -> Self {
        Self::start_with(intake, Settings::default()).await
    }

    /// The same, with other limits.
    pub(crate) async fn start_with(intake: Intake, settings: Settings) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let task = tokio::spawn(http::serve(listener, router(intake), settings, stop.clone()));
        Self { address, client: reqwest::Client::builder().no_proxy().build().unwrap(), task, stop }
    }

    /// Asks it to stop, and waits until every connection has ended.
    pub(crate) async fn stop(mut self) {
        self.stop.cancel();
        (&mut self.task).await.unwrap();
    }

    /// A signed delivery: status and text of the answer.
    pub(crate) async fn deliver(&self, id: &str, event: &str, body: &[u8]) -> (u16, String) {
        self.send(Some(&sign(SECRET, body)), Some(id), Some(event), body.to_vec()).await
    }

    /// Any delivery, with the headers that are given.
    pub(crate) async fn send(
        &self,
        signature: Option<&str>,
        id: Option<&str>,
        event: Option<&str>,
        body: impl Into<reqwest::Body>,
    ) -> (u16, String) {
        let mut request = self.client.post(format!("http://{}/webhook", self.address)).body(body);
        for (name, value) in [("x-hub-signature-256", signature), ("x-github-delivery", id), ("x-github-event", event)]
        {
            if let Some(value) = value {
                request = request.header(name, value);
            }
        }
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    /// `GET` of a path: status and text of the answer.
    pub(crate) async fn get(&self, path: &str) -> (u16, String) {
        let answer = self.client.get(format!("http://{}{path}", self.address)).send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}
