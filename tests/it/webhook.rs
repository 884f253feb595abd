//! How the intake answers over HTTP.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue};
use secondlook::db::Backend;
use secondlook::job::Job;
use secondlook::queue::Settings;
use secondlook::queue::store::Queue;
use secondlook::webhook::receive::{BODY_LIMIT, receive};
use secondlook::webhook::{Intake, Secrets};
use serde_json::json;
use tokio::sync::Notify;

use crate::harness::clock::ManualClock;
use crate::harness::database::{TestDb, fresh};
use crate::harness::delivery::{SECRET, Server, sign};

const BODY: &[u8] = b"{\"zen\":\"x\"}";

async fn intake(secrets: &Secrets) -> (TestDb, Intake) {
    let db = fresh(Backend::Sqlite).await.unwrap();
    let clock = Arc::new(ManualClock::default());
    let queue: Queue<Job> = Queue::new(db.clone(), clock.clone(), Settings::default());
    let intake = Intake::new(db.clone(), queue, clock, secrets.clone(), Arc::new(Notify::new()));
    (db, intake)
}

async fn deliveries(db: &TestDb) -> usize {
    sqlx::query("SELECT id FROM deliveries").fetch_all(db.reader()).await.unwrap().len()
}

#[tokio::test]
async fn what_is_not_signed_is_refused_without_detail() {
    let (db, intake) = intake(&Secrets::new(vec![SECRET.into()])).await;
    let server = Server::start(intake).await;
    let good = sign(SECRET, BODY);
    for signature in [
        None,
        Some(""),
        Some("sha256="),
        Some("sha256=zz"),
        Some(good.trim_start_matches("sha256=")),
        Some(&*good.replace("sha256", "sha1")),
        Some(&*sign("another", BODY)),
        Some(&*sign(SECRET, b"{\"zen\":\"y\"}")),
    ] {
        let answer = server.send(signature, Some("1"), Some("ping"), BODY).await;
        assert_eq!(answer, (401, String::new()), "{signature:?}");
    }
    assert_eq!(deliveries(&db).await, 0);
    assert_eq!(server.send(Some(&good), Some("1"), Some("ping"), BODY).await, (202, "ignored".to_owned()));
}

#[tokio::test]
async fn two_secrets_hold_while_one_replaces_the_other_and_may_change_while_running() {
    let secrets = Secrets::default();
    let (_db, intake) = intake(&secrets).await;
    let server = Server::start(intake).await;
    let (status, text) = server.deliver("1", "ping", BODY).await;
    assert_eq!(status, 503);
    assert!(text.contains("No GitHub App is configured here yet"), "{text}");
    secrets.set(vec!["".into()]);
    assert_eq!(server.send(Some(&sign("", BODY)), Some("1"), Some("ping"), BODY).await.0, 503);
    secrets.set(vec!["new".into(), SECRET.into()]);
    assert_eq!(server.deliver("1", "ping", BODY).await.0, 202);
    assert_eq!(server.send(Some(&sign("new", BODY)), Some("2"), Some("ping"), BODY).await.0, 202);
    secrets.set(vec!["new".into()]);
    assert_eq!(server.deliver("3", "ping", BODY).await.0, 401);
}

#[tokio::test]
async fn what_is_signed_and_no_delivery_is_malformed() {
    let (db, intake) = intake(&Secrets::new(vec![SECRET.into()])).await;
    let server = Server::start(intake).await;
    let good = sign(SECRET, BODY);
    for (id, event) in [
        (None, Some("ping")),
        (Some("1"), None),
        (Some(""), Some("ping")),
        (Some("1"), Some("Ping!")),
        (Some("a b"), Some("ping")),
        (Some(&*"x".repeat(101)), Some("ping")),
    ] {
        assert_eq!(server.send(Some(&good), id, event, BODY).await, (400, String::new()), "{id:?} {event:?}");
    }
    for body in ["", "payload=%7B%7D", "[1]", "{\"action\":"] {
        assert_eq!(server.deliver("1", "ping", body.as_bytes()).await, (400, String::new()), "{body}");
    }
    let no_number = json!({ "action": "opened", "repository": { "id": 1, "name": "a" }, "pull_request": {} });
    assert_eq!(server.deliver("1", "pull_request", no_number.to_string().as_bytes()).await.0, 400);
    assert_eq!(deliveries(&db).await, 0);
}

#[tokio::test]
async fn a_body_up_to_the_limit_is_taken_and_a_larger_one_is_not() {
    let (db, intake) = intake(&Secrets::new(vec![SECRET.into()])).await;
    let server = Server::start(intake).await;
    let mut body = BODY.to_vec();
    body.resize(BODY_LIMIT, b' ');
    assert_eq!(server.deliver("1", "ping", &body).await.0, 202);
    body.push(b' ');
    // Too large is told before anything is hashed, so any signature will do.
    let signature = sign(SECRET, BODY);
    let answer = server.send(Some(&signature), Some("2"), Some("ping"), body.clone()).await;
    assert_eq!(answer, (413, String::new()));
    assert_eq!(server.send(None, Some("2"), Some("ping"), body.clone()).await.0, 413);
    // Without a length: the limit is found while reading.
    let pieces: Vec<Result<Vec<u8>, std::io::Error>> = body.chunks(1 << 20).map(|piece| Ok(piece.to_vec())).collect();
    let stream = reqwest::Body::wrap_stream(futures_util::stream::iter(pieces));
    assert_eq!(server.send(Some(&signature), Some("2"), Some("ping"), stream).await.0, 413);
    assert_eq!(deliveries(&db).await, 1);
}

#[tokio::test]
async fn a_body_that_does_not_come_is_given_up() {
    let (db, intake) = intake(&Secrets::new(vec![SECRET.into()])).await;
    let mut headers = HeaderMap::new();
    headers.insert("x-hub-signature-256", HeaderValue::from_str(&sign(SECRET, BODY)).unwrap());
    let pieces = futures_util::stream::iter([Ok::<_, std::io::Error>(Bytes::from_static(b"{"))]);
    let pieces = futures_util::StreamExt::chain(pieces, futures_util::stream::pending());
    let intake = intake.body_time(Duration::from_millis(20));
    let (status, text) = receive(State(intake), headers, Body::from_stream(pieces)).await;
    assert_eq!((status.as_u16(), text.as_str()), (408, ""));
    assert_eq!(deliveries(&db).await, 0);
}

#[tokio::test]
async fn bodies_in_memory_are_bounded() {
    let (_db, intake) = intake(&Secrets::new(vec![SECRET.into()])).await;
    let mut headers = HeaderMap::new();
    headers.insert("x-hub-signature-256", HeaderValue::from_str(&sign(SECRET, BODY)).unwrap());
    let most = Bytes::from(vec![b' '; BODY_LIMIT - 1024]);
    let endless = || {
        let begun = futures_util::stream::iter([Ok::<_, std::io::Error>(most.clone())]);
        Body::from_stream(futures_util::StreamExt::chain(begun, futures_util::stream::pending()))
    };
    let mut waiting: Vec<_> =
        (0..4).map(|_| Box::pin(receive(State(intake.clone()), headers.clone(), endless()))).collect();
    for one in &mut waiting {
        assert!(futures_util::poll!(one).is_pending());
    }
    let (status, _) = receive(State(intake.clone()), headers.clone(), endless()).await;
    assert_eq!(status.as_u16(), 503, "a fifth body of 25 MB would be too much");
    headers.insert("x-github-event", HeaderValue::from_static("ping"));
    headers.insert("x-github-delivery", HeaderValue::from_static("small"));
    let (status, _) = receive(State(intake.clone()), headers.clone(), Body::from(BODY)).await;
    assert_eq!(status.as_u16(), 202, "there is room for small ones");
    drop(waiting);
    let mut again = Box::pin(receive(State(intake), headers, endless()));
    assert!(futures_util::poll!(&mut again).is_pending(), "their room is free again");
}

#[tokio::test]
async fn health_tells_the_numbers_of_the_queue() {
    let (db, intake) = intake(&Secrets::new(vec![SECRET.into()])).await;
    let server = Server::start(intake).await;
    assert_eq!(server.get("/healthz").await, (200, "ok".to_owned()));
    let merge_group = std::fs::read(crate::harness::delivery::fixture("merge_group.checks_requested.json")).unwrap();
    assert_eq!(server.deliver("1", "merge_group", &merge_group).await.0, 202);
    let (status, text) = server.get("/readyz").await;
    let answer: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(status, 200);
    let queue = json!({ "queued": 1, "planned": 0, "running": 0, "dead": 0, "oldest_due_ms": 0 });
    assert_eq!(answer, json!({ "ready": true, "database": "ok", "queue": queue }));
    db.close().await;
    assert_eq!(server.get("/readyz").await.0, 503);
    assert_eq!(server.get("/healthz").await.0, 200);
    assert_eq!(server.get("/webhook").await.0, 405);
}
