//! A repository on GitHub, at one commit.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use tokio::sync::OnceCell;

use super::ToolError;
use super::source::SourceTree;
use crate::github::FileText;
use crate::github::client::RepositoryClient;
use crate::github::error::GitHubError;
use crate::retry::Retry;

/// Most text kept in memory for one tree, in bytes. What does not fit is fetched again.
const MAX_CACHE: usize = 64 << 20;

/// Most files fetched ahead with one call.
const MAX_PREFETCH: usize = 300;

/// The tree of a commit, read through the API. Files are kept while the tree lives: a commit does not change.
pub struct Remote {
    client: RepositoryClient,
    commit: String,
    files: Mutex<Cache>,
    paths: OnceCell<(Vec<String>, bool)>,
}

#[derive(Default)]
struct Cache {
    files: HashMap<String, FileText>,
    bytes: usize,
}

impl Remote {
    /// The tree at a commit; asks nothing yet.
    pub fn new(client: RepositoryClient, commit: impl Into<String>) -> Self {
        Self { client, commit: commit.into(), files: Mutex::default(), paths: OnceCell::new() }
    }

    fn cached(&self, path: &str) -> Option<FileText> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).files.get(path).cloned()
    }

    fn keep(&self, path: &str, text: &FileText) {
        let size = path.len() + if let FileText::Text(text) = text { text.len() } else { 0 };
        let mut cache = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.bytes + size <= MAX_CACHE && cache.files.insert(path.to_owned(), text.clone()).is_none() {
            cache.bytes += size;
        }
    }

    async fn fetch(&self, paths: &[String]) -> Result<Vec<FileText>, ToolError> {
        let texts = self.client.file_texts(&self.commit, paths).await.map_err(failed)?;
        for (path, text) in paths.iter().zip(&texts) {
            self.keep(path, text);
        }
        Ok(texts)
    }
}

#[async_trait]
impl SourceTree for Remote {
    async fn read(&self, path: &str) -> Result<FileText, ToolError> {
        if !stays_inside(path) {
            return Ok(FileText::Missing);
        }
        if let Some(text) = self.cached(path) {
            return Ok(text);
        }
        let mut texts = self.fetch(&[path.to_owned()]).await?;
        Ok(texts.pop().unwrap_or(FileText::Missing))
    }

    async fn list(&self) -> Result<(Vec<String>, bool), ToolError> {
        let listed = self.paths.get_or_try_init(|| async {
            let (mut paths, cut) = self.client.paths(&self.commit).await.map_err(failed)?;
            paths.sort_unstable();
            Ok((paths, !cut))
        });
        listed.await.cloned()
    }

    async fn prefetch(&self, paths: &[String]) -> Result<(), ToolError> {
        let missing = paths.iter().filter(|path| stays_inside(path) && self.cached(path).is_none());
        let missing: Vec<String> = missing.take(MAX_PREFETCH).cloned().collect();
        if missing.is_empty() { Ok(()) } else { self.fetch(&missing).await.map(drop) }
    }
}

/// Whether a path names something below the root: no `..`, no empty part, not absolute. Such paths cannot exist in a
/// commit, and some servers resolve them.
pub(super) fn stays_inside(path: &str) -> bool {
    !path.contains('\0') && path.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

fn failed(error: GitHubError) -> ToolError {
    match error.retry() {
        Retry::Never => ToolError::Refused(error.to_string()),
        Retry::After(_) | Retry::Backoff => ToolError::Transient(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_leave_the_root_are_known() {
        for path in ["a", "a/b.rs", "..a/b..", "a/.hidden", "é\u{2028}/ü"] {
            assert!(stays_inside(path), "{path}");
        }
        for path in ["", "/a", "a/", "a//b", "../a", "a/../../b", "./a", "a\0b", "."] {
            assert!(!stays_inside(path), "{path}");
        }
    }

    #[test]
    fn passing_faults_may_be_tried_again_and_others_not() {
        assert!(matches!(failed(GitHubError::Unavailable("x".into())), ToolError::Transient(_)));
        assert!(matches!(failed(GitHubError::NotFound("x".into())), ToolError::Refused(_)));
    }
}
