//! A repository at one commit, read-only.

use async_trait::async_trait;

use super::ToolError;
use crate::github::FileText;

/// Where tools read code from: a checkout on disk, or GitHub.
#[async_trait]
pub trait SourceTree: Send + Sync {
    /// The text of a file. Paths are relative to the root with `/`; anything that leaves the root is [`FileText::Missing`].
    ///
    /// # Errors
    /// [`ToolError::Transient`] when it cannot be read for now.
    async fn read(&self, path: &str) -> Result<FileText, ToolError>;

    /// All paths, sorted, and whether the list is complete.
    ///
    /// # Errors
    /// [`ToolError::Transient`] when they cannot be listed for now.
    async fn list(&self) -> Result<(Vec<String>, bool), ToolError>;

    /// Announces files that will be read one by one, in this order, so that a remote tree can fetch many at once.
    ///
    /// # Errors
    /// [`ToolError::Transient`] when it fails; reading one by one still works.
    async fn prefetch(&self, paths: &[String]) -> Result<(), ToolError> {
        let _ = paths;
        Ok(())
    }

    /// How many files one search may read: few where each costs a share of a request, many on a disk.
    fn search_width(&self) -> usize {
        300
    }
}
