//! HTTP over TCP, with the limits that keep slow or many strangers from keeping GitHub out.
//!
//! - A head must be there in time, also the next one of a connection that is kept alive: hyper closes it otherwise.
//! - A request has so much time in all; the intake gives bodies less. One that takes longer is answered 408.
//! - There are so many connections and no more. Where all are taken, a newcomer gets the place of the one that has
//!   waited longest without a request in work, so that connections opened only to be held cannot shut others out.
//!   While all are at work, newcomers wait in the system's queue.
//! - What a connection may hold in memory is bounded by the largest head; bodies are bounded by the intake.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::serve::Listener;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Limits of the server.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Connections at the same time.
    pub connections: usize,
    /// Time for a request's head, from the connection or the end of the request before.
    pub head_time: Duration,
    /// Time for a whole request: its body, the work, and the head of the answer.
    pub request_time: Duration,
    /// Most bytes of a head, and so of what a connection buffers; at least 8 KiB.
    pub head_bytes: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            connections: 512,
            head_time: Duration::from_secs(10),
            request_time: Duration::from_secs(60),
            head_bytes: 64 * 1024,
        }
    }
}

/// Serves until `shutdown`; then takes no new connection, lets requests end, and returns when all have.
pub async fn serve(mut listener: TcpListener, router: Router, settings: Settings, shutdown: CancellationToken) {
    let seats = Arc::new(Seats::new(settings.connections));
    let tasks = TaskTracker::new();
    loop {
        let stream = tokio::select! {
            () = shutdown.cancelled() => break,
            (stream, _) = Listener::accept(&mut listener) => stream,
        };
        let seat = tokio::select! {
            () = shutdown.cancelled() => break,
            seat = seats.take() => seat,
        };
        tasks.spawn(connection(stream, router.clone(), settings.clone(), seat, shutdown.clone()));
    }
    drop(listener);
    tasks.close();
    tasks.wait().await;
}

/// One connection, from its first byte to its end.
async fn connection(stream: TcpStream, router: Router, settings: Settings, seat: Seat, shutdown: CancellationToken) {
    let (seat, limit) = (Arc::new(seat), settings.request_time);
    let given_up = seat.given_up.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let (router, seat) = (router.clone(), seat.clone());
        async move {
            seat.begin();
            let answer = answer(router, request, limit).await;
            seat.end();
            Ok::<_, Infallible>(answer)
        }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(settings.head_time).max_buf_size(settings.head_bytes.max(8_192));
    let mut served = pin!(http.serve_connection(TokioIo::new(stream), service));
    let mut stopping = false;
    loop {
        tokio::select! {
            // Whatever is wrong with a connection is the other side's affair.
            _ = served.as_mut() => return,
            () = given_up.cancelled() => return,
            () = shutdown.cancelled(), if !stopping => {
                stopping = true;
                served.as_mut().graceful_shutdown();
            }
        }
    }
}

/// What the pages and the intake answer, in time.
async fn answer(router: Router, request: Request<Incoming>, limit: Duration) -> Response {
    let answering = TowerToHyperService::new(router).call(request.map(Body::new));
    match tokio::time::timeout(limit, answering).await {
        Ok(Ok(answer)) => answer,
        Err(_) => StatusCode::REQUEST_TIMEOUT.into_response(),
    }
}

/// The places for connections.
struct Seats {
    most: usize,
    taken: Mutex<Taken>,
    freed: Notify,
}

#[derive(Default)]
struct Taken {
    count: usize,
    next: u64,
    /// Connections without a request in work, the one that waits longest first.
    idle: BTreeMap<u64, CancellationToken>,
}

/// A connection's place, given back when it is dropped.
struct Seat {
    seats: Arc<Seats>,
    /// Set when somebody else got the place.
    given_up: CancellationToken,
    /// Under which number it waits, while it does.
    idle: Mutex<Option<u64>>,
}

impl Seats {
    fn new(most: usize) -> Self {
        Self { most: most.max(1), taken: Mutex::default(), freed: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place, as soon as there is one that is free or held for nothing.
    async fn take(self: &Arc<Self>) -> Seat {
        loop {
            if let Some(seat) = self.try_take() {
                return seat;
            }
            self.freed.notified().await;
        }
    }

    fn try_take(self: &Arc<Self>) -> Option<Seat> {
        let mut taken = self.lock();
        if taken.count >= self.most {
            let (_, waits_longest) = taken.idle.pop_first()?;
            taken.count -= 1;
            waits_longest.cancel();
        }
        taken.count += 1;
        let seat = Seat { seats: self.clone(), given_up: CancellationToken::new(), idle: Mutex::default() };
        seat.wait_in(&mut taken);
        Some(seat)
    }
}

impl Seat {
    fn number(&self) -> MutexGuard<'_, Option<u64>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_in(&self, taken: &mut Taken) {
        taken.next += 1;
        taken.idle.insert(taken.next, self.given_up.clone());
        *self.number() = Some(taken.next);
    }

    /// A request is in work: the place cannot be taken.
    fn begin(&self) {
        let mut taken = self.seats.lock();
        if let Some(number) = self.number().take() {
            taken.idle.remove(&number);
        }
    }

    /// The request is answered.
    fn end(&self) {
        let mut taken = self.seats.lock();
        if !self.given_up.is_cancelled() {
            self.wait_in(&mut taken);
            self.seats.freed.notify_one();
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.lock();
        if let Some(number) = self.number().take() {
            taken.idle.remove(&number);
        }
        if !self.given_up.is_cancelled() {
            taken.count -= 1;
            self.seats.freed.notify_one();
        }
    }
}
