//! Asking as the App itself, and for the tokens of installations.

use http::Method;
use jiff::Timestamp;
use secrecy::SecretString;
use serde_json::json;

use super::auth::{AppKey, TokenScope, TokenSlot};
use super::client::{Answer, Connection, JSON, Request};
use super::error::GitHubError;
use super::rate::Payer;
use super::wire;

impl Connection {
    /// Sends a request as the App itself. An assertion that is refused while GitHub's clock shows another time than ours
    /// is made anew by that clock, once: nothing was done yet.
    pub(super) async fn send_signed(&self, key: &AppKey, request: &Request<'_>) -> Result<Answer, GitHubError> {
        let assertion = key.assertion(self.now())?;
        match self.exchange(Payer::App, Some(&assertion), request).await {
            Err(GitHubError::Unauthorized(message)) if about_time(&message) && self.skew().adopt() => {
                tracing::warn!(github.message = %message, "this machine's clock is off; GitHub's is used for its tokens");
                let assertion = key.assertion(self.now())?;
                self.exchange(Payer::App, Some(&assertion), request).await
            }
            other => other,
        }
    }

    /// The token of a scope: the one we have, or a new one, which one of many concurrent requests asks for.
    pub(super) async fn installation_token(
        &self,
        key: &AppKey,
        scope: TokenScope,
        slot: &TokenSlot,
    ) -> Result<SecretString, GitHubError> {
        if let Some(token) = slot.valid(self.now()) {
            return Ok(token);
        }
        let _renewing = slot.renewing.lock().await;
        if let Some(token) = slot.valid(self.now()) {
            return Ok(token);
        }
        let TokenScope { installation, repository } = scope;
        let what = match repository {
            Some(repository) => format!("repository {repository} in installation {installation}"),
            None => format!("installation {installation}"),
        };
        let request = Request {
            method: Method::POST,
            route: format!("/app/installations/{installation}/access_tokens"),
            accept: JSON,
            body: Some(repository.map_or_else(|| json!({}), |repository| json!({ "repository_ids": [repository] }))),
            what: &what,
            tenure: None,
        };
        let answer = self.send_signed(key, &request).await.map_err(|error| match error {
            GitHubError::NotFound(_) => GitHubError::Unauthorized(format!(
                "installation {installation} is unknown; the App was uninstalled there, or the id and key are another App's"
            )),
            GitHubError::Forbidden(why) => GitHubError::Unauthorized(why),
            GitHubError::Unprocessable(_) => GitHubError::NotFound(what.clone()),
            other => other,
        })?;
        let wire::InstallationToken { token, expires_at } = answer.json("the installation token")?;
        let expires: Timestamp =
            expires_at.parse().map_err(|_| GitHubError::Unreadable("the installation token's expiry".into()))?;
        slot.set(token.clone(), expires);
        Ok(token)
    }
}

/// Whether GitHub refused an assertion for the times in it: it names the claim.
fn about_time(message: &str) -> bool {
    message.contains("('exp')") || message.contains("('iat')")
}
