//! What can go wrong with GitHub, and whether to try again.

use std::time::Duration;

use crate::retry::Retry;

/// A failed request. Texts are for people and never hold a token or a body.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GitHubError {
    /// The App's key or id is wrong, or the installation is gone or suspended (401, or 404 on a token).
    #[error("GitHub refused the credentials: {0}")]
    Unauthorized(String),
    /// The App lacks a permission (403 that is no rate limit).
    #[error("GitHub forbids {0}; the App may lack a permission")]
    Forbidden(String),
    /// Gone, or hidden from us.
    #[error("GitHub knows no {0}")]
    NotFound(String),
    /// Understood and refused (422): all of a review is lost with one bad comment.
    #[error("GitHub refused the request: {0}")]
    Unprocessable(String),
    /// A primary or secondary limit.
    #[error("GitHub is limiting requests")]
    RateLimited {
        /// How long to wait.
        wait: Duration,
    },
    /// A 5xx, a time-out or a cut connection. A write may have happened all the same.
    #[error("GitHub failed: {0}")]
    Unavailable(String),
    /// An answer that is not what the documentation promises.
    #[error("GitHub's answer cannot be read: {0}")]
    Unreadable(String),
    /// An unexpected status.
    #[error("GitHub answered {status}: {message}")]
    Unexpected {
        /// HTTP status.
        status: u16,
        /// GitHub's message.
        message: String,
    },
}

impl GitHubError {
    /// Whether trying again can help.
    pub fn retry(&self) -> Retry {
        match self {
            Self::RateLimited { wait } => Retry::After(*wait),
            Self::Unavailable(_) | Self::Unreadable(_) => Retry::Backoff,
            Self::Unprocessable(message) if message.contains("No commit found for SHA") => Retry::Backoff,
            _ => Retry::Never,
        }
    }

    /// Whether a write may have been applied although it failed: read back before writing again.
    pub fn doubtful(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::Unreadable(_) | Self::Unprocessable(_))
    }
}
