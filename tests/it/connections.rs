//! Slow, greedy and lying senders, over real sockets.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use secondlook::db::Backend;
use secondlook::job::Job;
use secondlook::queue;
use secondlook::queue::store::Queue;
use secondlook::serve::http::Settings;
use secondlook::webhook::receive::{BODY_LIMIT, SMALL};
use secondlook::webhook::{Intake, Secrets};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use crate::harness::clock::ManualClock;
use crate::harness::database::{TestDb, fresh};
use crate::harness::delivery::{SECRET, Server, sign};

const BODY: &str = "{\"zen\":\"x\"}";

/// Longer than anything here takes on the slowest machine: what is waited for must come, and at once.
const PATIENCE: Duration = Duration::from_secs(30);

async fn serve(settings: Settings) -> (TestDb, Server) {
    let db = fresh(Backend::Sqlite).await.unwrap();
    let clock = Arc::new(ManualClock::default());
    let queue: Queue<Job> = Queue::new(db.clone(), clock.clone(), queue::Settings::default());
    let secrets = Secrets::new(vec![SECRET.into()]);
    // No body is given up for being slow: what ends here ends for another reason.
    let intake = Intake::new(db.clone(), queue, clock, secrets, Arc::new(Notify::new())).body_time(2 * PATIENCE);
    let server = Server::start_with(intake, settings).await;
    (db, server)
}

async fn connect(server: &Server, text: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    stream
}

/// Everything that comes until the other side closes.
async fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut bytes)).await;
    // A reset is an end too.
    let _ = read.expect("the connection is closed");
    String::from_utf8_lossy(&bytes).into_owned()
}

fn head(id: &str, body: &str, more: &str) -> String {
    format!(
        "POST /webhook HTTP/1.1\r\nhost: x\r\nx-github-event: ping\r\nx-github-delivery: {id}\r\n\
         x-hub-signature-256: {}\r\n{more}\r\n",
        sign(SECRET, body.as_bytes())
    )
}

async fn deliveries(db: &TestDb) -> usize {
    sqlx::query("SELECT id FROM deliveries").fetch_all(db.reader()).await.unwrap().len()
}

#[tokio::test]
async fn a_head_that_does_not_come_ends_the_connection() {
    let (_db, server) = serve(Settings { head_time: Duration::from_millis(50), ..Settings::default() }).await;
    for begun in ["", "POST /webhook HTTP/1.1\r\nhost: x\r\n", "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"] {
        let mut stream = connect(&server, begun).await;
        let said = rest(&mut stream).await;
        // The last one was answered, and then nothing more was asked.
        assert_eq!(said.contains("200 OK"), begun.starts_with("GET"), "{begun}: {said}");
    }
    assert_eq!(server.get("/healthz").await.0, 200);
}

#[tokio::test]
async fn who_holds_all_connections_keeps_nobody_out() {
    let settings = Settings { connections: 8, head_time: 2 * PATIENCE, ..Settings::default() };
    let (_db, server) = serve(settings).await;
    let mut held = Vec::new();
    for _ in 0..8 {
        held.push(connect(&server, "POST /webhook HTTP/1.1\r\nhost: x\r\n").await);
    }
    for round in 0..3 {
        let id = format!("d-{round}");
        let delivered = server.deliver(&id, "ping", BODY.as_bytes());
        let answer = tokio::time::timeout(PATIENCE, delivered).await.unwrap();
        assert_eq!(answer.0, 202);
        held.push(connect(&server, "POST").await);
    }
    // The one that waited longest had to go.
    assert_eq!(rest(&mut held[0]).await, "");
}

#[tokio::test]
async fn a_request_at_work_keeps_its_place_and_newcomers_wait() {
    let settings = Settings { connections: 2, head_time: 2 * PATIENCE, ..Settings::default() };
    let (_db, server) = serve(settings).await;
    let expect = "content-length: 11\r\nexpect: 100-continue\r\nconnection: close\r\n";
    let mut working =
        [connect(&server, &head("a", BODY, expect)).await, connect(&server, &head("b", BODY, expect)).await];
    let mut answer = [0; 512];
    for stream in &mut working {
        // The server asks for the body only once the request is at work.
        assert!(stream.read(&mut answer).await.unwrap() > 0);
    }
    let mut third = connect(&server, "GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
    for stream in &mut working {
        stream.write_all(BODY.as_bytes()).await.unwrap();
    }
    let said = futures_util::future::join_all(working.iter_mut().map(rest)).await;
    assert!(said.iter().all(|said| said.contains("202 Accepted")), "{said:?}");
    assert!(rest(&mut third).await.contains("200 OK"));
}

#[tokio::test]
async fn many_large_bodies_take_little_memory_and_small_ones_go_through() {
    let (db, server) = serve(Settings::default()).await;
    let large =
        format!("{}{}", head("large", BODY, &format!("content-length: {BODY_LIMIT}\r\n")), " ".repeat(2 * SMALL));
    let mut senders: FuturesUnordered<_> = (0..64)
        .map(|_| async {
            let mut stream = TcpStream::connect(server.address).await.unwrap();
            // A refusal may come before all is sent.
            let _ = stream.write_all(large.as_bytes()).await;
            let mut answer = [0; 64];
            let read = stream.read(&mut answer).await.unwrap_or(0);
            String::from_utf8_lossy(&answer[..read]).into_owned()
        })
        .collect();
    for _ in 0..60 {
        let said = tokio::time::timeout(PATIENCE, senders.next()).await.unwrap().unwrap();
        // The rest of a body that nobody reads may reset the connection before the answer is seen.
        assert!(said.is_empty() || said.contains("503"), "{said}");
    }
    for small in 0..16 {
        assert_eq!(server.deliver(&small.to_string(), "ping", BODY.as_bytes()).await.0, 202);
    }
    assert!(futures_util::poll!(senders.next()).is_pending(), "four are still being received");
    assert_eq!(deliveries(&db).await, 16);
    drop(senders);
    // Their room is free again.
    let mut body = BODY.as_bytes().to_vec();
    body.resize(2 * SMALL, b' ');
    let mut tries = 0;
    while server.deliver("whole", "ping", &body).await.0 != 202 {
        tries += 1;
        assert!(tries < 100, "the room of connections that are gone is never free");
    }
}

#[tokio::test]
async fn a_body_in_pieces_is_a_body() {
    let (db, server) = serve(Settings::default()).await;
    let mut body = BODY.as_bytes().to_vec();
    body.resize(BODY_LIMIT, b' ');
    let signature = sign(SECRET, &body);
    let pieces: Vec<Result<Vec<u8>, std::io::Error>> = body.chunks(1 << 20).map(|piece| Ok(piece.to_vec())).collect();
    let stream = reqwest::Body::wrap_stream(futures_util::stream::iter(pieces));
    assert_eq!(server.send(Some(&signature), Some("whole"), Some("ping"), stream).await.0, 202);
    let small = format!(
        "{}4\r\n{{\"ze\r\n7\r\nn\":\"x\"}}\r\n0\r\n\r\n",
        head("small", BODY, "transfer-encoding: chunked\r\nconnection: close\r\n")
    );
    assert!(rest(&mut connect(&server, &small).await).await.contains("202 Accepted"));
    assert_eq!(deliveries(&db).await, 2);
}

#[tokio::test]
async fn a_length_that_is_a_lie_brings_nothing_in() {
    let (db, server) = serve(Settings::default()).await;
    // Less than announced, and then the end.
    let mut cut = connect(&server, &format!("{}{BODY}", head("cut", BODY, "content-length: 100\r\n"))).await;
    cut.shutdown().await.unwrap();
    assert!(!rest(&mut cut).await.contains("202 Accepted"));
    let mut cut =
        connect(&server, &format!("{}b\r\n{BODY}\r\n", head("cut", BODY, "transfer-encoding: chunked\r\n"))).await;
    cut.shutdown().await.unwrap();
    assert!(!rest(&mut cut).await.contains("202 Accepted"));
    for lie in ["content-length: -1\r\n", "content-length: x\r\n", "content-length: 1\r\ncontent-length: 11\r\n"] {
        let said = rest(&mut connect(&server, &format!("{}{BODY}", head("lie", BODY, lie))).await).await;
        assert!(said.contains("400 Bad Request"), "{lie}: {said}");
    }
    // More than announced: what was announced is not what was signed, and the rest is no request.
    let said =
        rest(&mut connect(&server, &format!("{}{BODY}", head("more", BODY, "content-length: 5\r\n"))).await).await;
    assert!(said.contains("401") && said.contains("400 Bad Request"), "{said}");
    // In two ways at once, as requests are smuggled through proxies.
    let both = format!("{}0\r\n\r\n{BODY}", head("both", BODY, "content-length: 11\r\ntransfer-encoding: chunked\r\n"));
    assert!(!rest(&mut connect(&server, &both).await).await.contains("202 Accepted"));
    assert_eq!(deliveries(&db).await, 0);
    assert_eq!(server.get("/healthz").await.0, 200);
}

#[tokio::test]
async fn a_head_without_end_is_refused() {
    let (_db, server) = serve(Settings { head_bytes: 8_192, ..Settings::default() }).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let endless = format!("GET /healthz HTTP/1.1\r\nhost: x\r\nx: {}", "y".repeat(100_000));
    let _ = stream.write_all(endless.as_bytes()).await;
    let said = rest(&mut stream).await;
    assert!(said.is_empty() || said.contains("431"), "{said}");
}

#[tokio::test]
async fn a_server_that_stops_finishes_what_it_has_begun() {
    let (db, server) = serve(Settings::default()).await;
    let mut idle = connect(&server, "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let mut answer = [0; 512];
    assert!(idle.read(&mut answer).await.unwrap() > 0);
    // The server asks for the body only once the request is at work.
    let expect = "content-length: 11\r\nexpect: 100-continue\r\n";
    let mut working = connect(&server, &head("last", BODY, expect)).await;
    let read = working.read(&mut answer).await.unwrap();
    assert!(String::from_utf8_lossy(&answer[..read]).contains("100 Continue"));
    let address = server.address;
    let mut stopped = Box::pin(server.stop());
    assert!(futures_util::poll!(&mut stopped).is_pending());
    assert_eq!(rest(&mut idle).await, "");
    working.write_all(BODY.as_bytes()).await.unwrap();
    let (said, ()) = tokio::join!(rest(&mut working), async {
        tokio::time::timeout(PATIENCE, stopped).await.expect("it stops");
    });
    assert!(said.contains("202 Accepted"), "{said}");
    assert!(TcpStream::connect(address).await.is_err(), "nobody listens any more");
    assert_eq!(deliveries(&db).await, 1);
}
