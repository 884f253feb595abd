//! Faults are values in one table. Each says for which requests it holds, and how often; one that was never met fails
//! the test.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::Semaphore;

/// Something that goes wrong.
#[derive(Clone)]
pub struct Fault {
    /// `POST /repos/*/*/pulls/*/reviews`: `*` stands for one segment, `**` for the rest.
    route: String,
    /// Requests that still pass before the first that fails.
    skip: usize,
    /// Requests that still fail.
    left: usize,
    /// How often it has to be met yet.
    owed: usize,
    /// Met at all, and then for good: how often is not the test's affair.
    lasts: bool,
    pub(super) kind: Kind,
}

/// What goes wrong.
#[derive(Clone)]
pub(super) enum Kind {
    /// This answer; nothing is done.
    Answer { status: u16, headers: Vec<(&'static str, String)>, body: Value },
    /// It is done, but this status is answered.
    ApplyThenStatus(u16),
    /// It is done, and the connection is cut before the answer.
    ApplyThenDrop,
    /// Nothing is done, and the connection is cut.
    Drop,
    /// The answer breaks off in the middle.
    Truncated,
    /// The answer is a page of HTML.
    NotJson,
    /// The request waits at a gate.
    Hold(Gate),
    /// It is done, and the answer waits at a gate.
    ApplyThenHold(Gate),
}

/// Where requests wait until a test lets them pass.
#[derive(Clone)]
pub struct Gate {
    arrived: Arc<Semaphore>,
    open: Arc<Semaphore>,
}

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        Self { arrived: Arc::new(Semaphore::new(0)), open: Arc::new(Semaphore::new(0)) }
    }

    /// Waits until one more request stands before it.
    pub async fn reached(&self) {
        self.arrived.acquire().await.unwrap().forget();
    }

    /// Lets all requests pass, those to come too.
    pub fn open(&self) {
        self.open.close();
    }

    pub async fn pass(&self) {
        self.arrived.add_permits(1);
        // Acquiring fails once the gate is open.
        let _ = self.open.acquire().await;
    }
}

impl Fault {
    fn on(route: &str, kind: Kind) -> Self {
        assert!(route.contains(" /"), "a fault is for `METHOD /path`, not {route}");
        Self { route: route.to_owned(), skip: 0, left: 1, owed: 1, lasts: false, kind }
    }

    /// GitHub answers with a status and a message.
    pub fn status(route: &str, status: u16, message: &str) -> Self {
        let body = json!({ "message": message, "documentation_url": "https://docs.github.com/rest", "status": status.to_string() });
        Self::on(route, Kind::Answer { status, headers: Vec::new(), body })
    }

    /// GitHub answers with this, and does nothing.
    pub fn answer(route: &str, status: u16, body: Value) -> Self {
        Self::on(route, Kind::Answer { status, headers: Vec::new(), body })
    }

    /// GitHub refuses with 422 and a list of errors.
    pub fn unprocessable(route: &str, errors: &[&str]) -> Self {
        let body = json!({ "message": "Unprocessable Entity", "errors": errors, "documentation_url": "https://docs.github.com/rest", "status": "422" });
        Self::on(route, Kind::Answer { status: 422, headers: Vec::new(), body })
    }

    /// The hourly budget is used up until `reset` (seconds since 1970).
    pub fn primary_limit(route: &str, reset: i64) -> Self {
        let headers = vec![
            ("x-ratelimit-limit", "5000".into()),
            ("x-ratelimit-remaining", "0".into()),
            ("x-ratelimit-reset", reset.to_string()),
        ];
        let body = json!({ "message": "API rate limit exceeded for installation.", "documentation_url": "https://docs.github.com/rest/overview/rate-limits-for-the-rest-api" });
        Self::on(route, Kind::Answer { status: 403, headers, body })
    }

    /// Too much at once, with or without `Retry-After`.
    pub fn secondary_limit(route: &str, retry_after: Option<&str>) -> Self {
        let headers = retry_after.map(|after| ("retry-after", after.to_owned())).into_iter().collect();
        let body = json!({ "message": "You have exceeded a secondary rate limit. Please wait a few minutes before you try again.", "documentation_url": "https://docs.github.com/rest/overview/rate-limits-for-the-rest-api#about-secondary-rate-limits" });
        Self::on(route, Kind::Answer { status: 403, headers, body })
    }

    /// It is done, but GitHub answers a 5xx.
    pub fn apply_then_status(route: &str, status: u16) -> Self {
        Self::on(route, Kind::ApplyThenStatus(status))
    }

    /// It is done, and the connection is cut before the answer.
    pub fn apply_then_drop(route: &str) -> Self {
        Self::on(route, Kind::ApplyThenDrop)
    }

    /// Nothing is done, and the connection is cut.
    pub fn drop(route: &str) -> Self {
        Self::on(route, Kind::Drop)
    }

    /// It is done, and the answer breaks off in the middle.
    pub fn truncated(route: &str) -> Self {
        Self::on(route, Kind::Truncated)
    }

    /// Nothing is done, and a proxy answers 200 with a page of HTML.
    pub fn not_json(route: &str) -> Self {
        Self::on(route, Kind::NotJson)
    }

    /// The request waits at a gate, then goes on.
    pub fn hold(route: &str, gate: &Gate) -> Self {
        Self::on(route, Kind::Hold(gate.clone()))
    }

    /// It is done, and the answer waits at a gate.
    pub fn apply_then_hold(route: &str, gate: &Gate) -> Self {
        Self::on(route, Kind::ApplyThenHold(gate.clone()))
    }

    /// Not for the first `count` requests.
    pub fn after(mut self, count: usize) -> Self {
        self.skip = count;
        self
    }

    /// For `count` requests instead of one.
    pub fn times(mut self, count: usize) -> Self {
        (self.left, self.owed) = (count, count);
        self
    }

    /// For up to `count` requests, and at least one: who can do without an answer does not ask again.
    pub fn up_to(mut self, count: usize) -> Self {
        self.left = count;
        self
    }

    /// From the first such request on for good.
    pub fn lasting(mut self) -> Self {
        self.lasts = true;
        self
    }

    /// Takes this request, if it is for it.
    pub(super) fn takes(&mut self, method: &str, path: &str) -> bool {
        if self.left == 0 || !matches(&self.route, method, path) {
            return false;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        self.left = if self.lasts { usize::MAX } else { self.left - 1 };
        self.owed = self.owed.saturating_sub(1);
        true
    }

    /// Says so when it was not met as often as it should.
    pub(super) fn unused(&self) -> Option<String> {
        (self.owed > 0).then(|| format!("fault on `{}` was not met {} more times", self.route, self.owed))
    }
}

/// Whether a request is one of `METHOD /path/*`.
pub fn matches(route: &str, method: &str, path: &str) -> bool {
    let Some((wanted, pattern)) = route.split_once(' ') else { return false };
    if wanted != "*" && wanted != method {
        return false;
    }
    let mut path = path.split('/');
    for part in pattern.split('/') {
        match (part, path.next()) {
            ("**", _) => return true,
            (_, None) => return false,
            ("*", Some(_)) => {}
            (part, Some(segment)) if part == segment => {}
            _ => return false,
        }
    }
    path.next().is_none()
}
