//! Receives deliveries through a smee.io channel, for a server that GitHub cannot reach: GitHub posts to the channel,
//! and the channel streams what it got to whoever listens.
//!
//! The channel passes on the parsed body, not its bytes. GitHub sends compact JSON, and writing the parsed body compactly
//! with its keys in their order gives the same bytes again, which the signature then proves; where it does not, the
//! delivery is refused as any other with a wrong signature.

use std::time::Duration;

use eventsource_stream::Eventsource as _;
use futures_util::StreamExt as _;
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use url::Url;

/// Headers of a delivery that are passed on; the channel gives many more of its own.
const HEADERS: &[&str] = &["x-github-event", "x-github-delivery", "x-github-hook-id", "x-hub-signature-256"];

/// The first wait before a broken stream is opened again; it doubles up to [`LONGEST_WAIT`].
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// The longest such wait.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// A delivery as it came through the channel.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Delivery {
    headers: Vec<(&'static str, String)>,
    body: String,
}

/// Passes deliveries of `channel` on to the intake at `target`, and opens the stream again whenever it breaks, until
/// `shutdown`.
pub async fn listen(channel: Url, target: Url, shutdown: CancellationToken) {
    let mut wait = FIRST_WAIT;
    while !shutdown.is_cancelled() {
        let came = tokio::select! {
            came = stream(&channel, &target) => came,
            () = shutdown.cancelled() => return,
        };
        match came {
            Ok(()) => {
                tracing::info!("the smee channel closed the stream; opening it again");
                wait = FIRST_WAIT;
            }
            Err(error) => {
                tracing::warn!(error = %error, wait.seconds = wait.as_secs(), "the smee channel cannot be read")
            }
        }
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = shutdown.cancelled() => return,
        }
        wait = (wait * 2).min(LONGEST_WAIT);
    }
}

async fn stream(channel: &Url, target: &Url) -> Result<(), reqwest::Error> {
    let outside = reqwest::Client::builder().connect_timeout(Duration::from_secs(10)).build()?;
    // A proxy cannot reach this machine's own loopback.
    let inside = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(30)).build()?;
    let answer = outside.get(channel.clone()).header(ACCEPT, "text/event-stream").send().await?.error_for_status()?;
    tracing::info!(channel = %channel, "listening to the smee channel");
    let mut events = answer.bytes_stream().eventsource();
    while let Some(event) = events.next().await {
        let event = match event {
            Ok(event) => event,
            Err(error) => {
                tracing::warn!(error = %error, "the smee channel sent what is no event stream");
                return Ok(());
            }
        };
        // `ready` and `ping` are the channel's own.
        let Some(delivery) = Some(event.data.as_str()).filter(|_| event.event == "message").and_then(delivery) else {
            continue;
        };
        let mut request = inside.post(target.clone()).header(CONTENT_TYPE, "application/json").body(delivery.body);
        for (name, value) in delivery.headers {
            request = request.header(name, value);
        }
        let status = request.send().await?.status();
        if !status.is_success() {
            tracing::warn!(status = status.as_u16(), "a delivery of the smee channel was refused");
        }
    }
    Ok(())
}

/// The delivery in an event's data; `None` for anything else.
fn delivery(data: &str) -> Option<Delivery> {
    let mut data: Map<String, Value> = serde_json::from_str(data).ok()?;
    let body = match data.remove("body")? {
        // A channel that passes the bytes on passes them as text.
        Value::String(text) => text,
        body => body.to_string(),
    };
    let header = |name: &&'static str| Some((*name, data.get(*name)?.as_str()?.to_owned()));
    let headers: Vec<_> = HEADERS.iter().filter_map(header).collect();
    headers.iter().any(|(name, _)| *name == "x-github-event").then_some(Delivery { headers, body })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delivery_keeps_its_bytes_and_its_signature() {
        let body = r#"{"z":1,"a":{"é":"\u0001/<>&"},"n":12345678901234567890,"list":[true,null]}"#;
        let data = format!(
            r#"{{"host":"smee.io","x-github-event":"ping","x-github-delivery":"d","x-hub-signature-256":"sha256=0","body":{body},"query":{{}}}}"#
        );
        let delivery = delivery(&data).unwrap();
        assert_eq!(delivery.body, body);
        let names: Vec<&str> = delivery.headers.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["x-github-event", "x-github-delivery", "x-hub-signature-256"]);
    }

    #[test]
    fn anything_else_is_passed_over() {
        for data in ["", "{}", "[]", r#"{"body":{}}"#, r#"{"x-github-event":"ping"}"#] {
            assert_eq!(delivery(data), None, "{data}");
        }
    }
}
