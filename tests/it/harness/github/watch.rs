//! Somebody who looks on: for tests that stop a process at a request, whichever it is.

use async_trait::async_trait;

use super::fault::Fault;

/// A request as a watch sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The door it came in by.
    pub door: usize,
    pub method: String,
    pub path: String,
}

/// Sees every request of a door twice. Both may let it wait.
#[async_trait]
pub trait Watch: Send + Sync {
    /// Before anything is done. A fault that is returned strikes this request.
    async fn arrives(&self, seen: &Seen) -> Option<Fault>;

    /// When it is done, before it is answered.
    async fn done(&self, seen: &Seen);
}
