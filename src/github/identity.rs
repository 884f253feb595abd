//! Who the App is.

use http::Method;

use super::auth::TokenScope;
use super::client::{AppIdentity, Credentials, GitHubApp, JSON, Request};
use super::endpoint::segment;
use super::error::GitHubError;
use super::{User, wire};

impl GitHubApp {
    /// Who we are (two requests, remembered for the life of this value).
    ///
    /// # Errors
    /// As any request.
    pub async fn identity(&self) -> Result<AppIdentity, GitHubError> {
        self.identity.get_or_try_init(|| self.ask_identity()).await.cloned()
    }

    async fn ask_identity(&self) -> Result<AppIdentity, GitHubError> {
        let as_app = Credentials::App(self.key.clone());
        let app: wire::AppWire = self.ask(&as_app, "/app", "App with this id").await?;
        let route = format!("/users/{}", segment(&format!("{}[bot]", app.slug)));
        let what = format!("user {}[bot]", app.slug);
        // Users are public on github.com, and the App's own assertion is not taken there. A GHES in private mode wants
        // a token: any installation's will do.
        let bot: wire::UserWire = match self.ask(&Credentials::Anonymous, &route, &what).await {
            Err(
                GitHubError::Unauthorized(_)
                | GitHubError::Forbidden(_)
                | GitHubError::NotFound(_)
                | GitHubError::RateLimited { .. },
            ) => self.ask(&self.any_installation(&as_app).await?, &route, &what).await?,
            other => other?,
        };
        let bot = User { is_bot: true, ..User::from(bot) };
        Ok(AppIdentity { slug: app.slug, bot, permissions: app.permissions, events: app.events })
    }

    async fn any_installation(&self, as_app: &Credentials) -> Result<Credentials, GitHubError> {
        let what = "installation of the App; install it on a repository";
        let installations: Vec<wire::Id> = self.ask(as_app, "/app/installations?per_page=1", what).await?;
        let first = installations.first().ok_or_else(|| GitHubError::NotFound(what.to_owned()))?;
        Ok(Credentials::Installation {
            key: self.key.clone(),
            scope: TokenScope { installation: first.id, repository: None },
        })
    }

    async fn ask<T: serde::de::DeserializeOwned>(
        &self,
        credentials: &Credentials,
        route: &str,
        what: &str,
    ) -> Result<T, GitHubError> {
        let request =
            Request { method: Method::GET, route: route.to_owned(), accept: JSON, body: None, what, tenure: None };
        self.connection.send(credentials, &request).await?.json(what)
    }
}
