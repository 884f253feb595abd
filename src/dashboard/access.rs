//! Who may use the set-up page: somebody at this machine, or somebody who has read the token in the server's log.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::http::HeaderMap;
use axum::http::header::HOST;
use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use super::manifest::is_loopback;
use crate::ids;

/// How long a state may take to come back from GitHub, whose own code is valid for an hour.
const STATE_LIFETIME: Duration = Duration::from_secs(60 * 60);

/// Most states that are open at the same time; the oldest give way.
const MOST_STATES: usize = 16;

/// Headers that a proxy adds: a request with one of them does not come from this machine itself.
const FORWARDED: &[&str] = &["forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip"];

/// The doors of set-up.
#[derive(Debug)]
pub struct Access {
    /// No token is asked of requests from this machine.
    local: bool,
    token: String,
    states: Mutex<Vec<(String, Timestamp)>>,
}

impl Access {
    /// A new token. `local` says that the server listens on this machine's loopback only and has no public address.
    pub fn new(local: bool) -> Self {
        Self { local, token: ids::secret(), states: Mutex::default() }
    }

    /// The token, for the server's log.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Whether every visitor needs the token.
    pub fn asks_token(&self) -> bool {
        !self.local
    }

    /// Whether a request may use the page. A name other than this machine's in `Host` means that a proxy, or a page
    /// elsewhere that had its name pointed here, is asking.
    pub fn allows(&self, headers: &HeaderMap, token: Option<&str>) -> bool {
        if token.is_some_and(|token| same(token, &self.token)) {
            return true;
        }
        let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let name = host
            .rsplit_once(':')
            .filter(|(_, port)| port.bytes().all(|b| b.is_ascii_digit()))
            .map_or(host, |(name, _)| name);
        self.local && is_loopback(name) && !FORWARDED.iter().any(|header| headers.contains_key(*header))
    }

    /// A new state, to come back once.
    pub fn open_state(&self, now: Timestamp) -> String {
        let state = ids::secret();
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        if states.len() >= MOST_STATES {
            states.remove(0);
        }
        states.push((state.clone(), now));
        state
    }

    /// Whether a state was opened here within the last hour; it is used up by that.
    pub fn close_state(&self, state: &str, now: Timestamp) -> bool {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(at) = states.iter().position(|(known, _)| same(known, state)) else { return false };
        let (_, opened) = states.remove(at);
        now.duration_since(opened).unsigned_abs() <= STATE_LIFETIME
    }
}

/// Equality that takes the same time wherever two texts differ.
fn same(a: &str, b: &str) -> bool {
    Sha256::digest(a) == Sha256::digest(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(of: &[(&'static str, &str)]) -> HeaderMap {
        of.iter()
            .map(|(name, value)| (name.parse::<axum::http::HeaderName>().unwrap(), value.parse().unwrap()))
            .collect()
    }

    #[test]
    fn this_machine_needs_no_token_and_others_do() {
        let access = Access::new(true);
        for host in ["127.0.0.1:8080", "localhost", "localhost:8080", "[::1]:8080"] {
            assert!(access.allows(&headers(&[("host", host)]), None), "{host}");
        }
        assert!(!access.allows(&headers(&[("host", "rebound.example:8080")]), None));
        assert!(!access.allows(&headers(&[("host", "127.0.0.1:8080"), ("x-forwarded-for", "9.9.9.9")]), None));
        assert!(!access.allows(&headers(&[]), None));
        assert!(access.allows(&headers(&[("host", "rebound.example")]), Some(access.token())));
        assert!(!access.allows(&headers(&[("host", "rebound.example")]), Some("guess")));
        assert!(!Access::new(false).allows(&headers(&[("host", "localhost")]), None));
    }

    #[test]
    fn a_state_works_once_and_for_an_hour() {
        let access = Access::new(true);
        let start = Timestamp::UNIX_EPOCH;
        let state = access.open_state(start);
        assert!(!access.close_state("other", start));
        assert!(access.close_state(&state, start + Duration::from_secs(3600)));
        assert!(!access.close_state(&state, start));
        let late = access.open_state(start);
        assert!(!access.close_state(&late, start + Duration::from_secs(3601)));
        let oldest = access.open_state(start);
        let newer: Vec<String> = (0..MOST_STATES).map(|_| access.open_state(start)).collect();
        assert!(!access.close_state(&oldest, start));
        assert!(newer.iter().all(|state| access.close_state(state, start)));
    }
}
