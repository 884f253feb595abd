//! What people may do.

use super::client::RepositoryClient;
use super::endpoint::segment;
use super::error::GitHubError;
use super::{Permission, wire};

impl RepositoryClient {
    /// What a person may do here; nothing, when GitHub does not know them as a collaborator.
    ///
    /// # Errors
    /// As any request.
    pub async fn permission(&self, login: &str) -> Result<Permission, GitHubError> {
        let what = format!("collaborator of {}", self.repository().full_name());
        match self.get::<wire::PermissionWire>(&format!("/collaborators/{}/permission", segment(login)), &what).await {
            Ok(wire) => Ok(wire.into()),
            Err(GitHubError::NotFound(_)) => Ok(Permission::None),
            Err(other) => Err(other),
        }
    }
}
