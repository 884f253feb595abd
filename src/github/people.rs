//! What people may do.

use serde_json::{Value, json};

use super::client::RepositoryClient;
use super::endpoint::segment;
use super::error::GitHubError;
use super::{Permission, wire};

impl RepositoryClient {
    /// The id of the user that this client's requests act as. Asked by GraphQL, since the token of a workflow may not
    /// ask for it otherwise.
    ///
    /// # Errors
    /// As any request.
    pub async fn viewer(&self) -> Result<u64, GitHubError> {
        let what = "user of this token";
        let (data, _) = self.graphql("query{viewer{databaseId}}", json!({}), what).await?;
        let id = data.pointer("/viewer/databaseId").and_then(Value::as_u64);
        id.ok_or_else(|| GitHubError::Unreadable(format!("no id of the {what}")))
    }

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
