//! The requests of one repository: single documents, lists page by page, and GraphQL.

use std::sync::Arc;

use bytes::Bytes;
use http::Method;
use secrecy::SecretString;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::client::{
    Answer, Connection, Credentials, GRAPHQL, JSON, RAW, RepositoryClient, Request, Settings, sent_at,
};
use super::endpoint::segment;
use super::error::GitHubError;
use super::rate::Resource;
use super::{Repository, wire};
use crate::clock::SharedClock;
use crate::queue::store::tenure::Tenure;

/// Entries of one page, the most that GitHub gives.
pub(super) const PER_PAGE: usize = 100;

impl RepositoryClient {
    /// A client with a personal token, for the command line. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// [`GitHubError::Configuration`] when the base URL is not one.
    pub fn with_token(
        token: &SecretString,
        repository: &Repository,
        settings: &Settings,
        clock: SharedClock,
    ) -> Result<Self, GitHubError> {
        Ok(Self {
            connection: Connection::new(settings, clock)?,
            credentials: Credentials::Person(token.clone()),
            repository: Arc::new(repository.clone()),
            tenure: None,
        })
    }

    /// The same, for a job: it writes only while the job's lease is held, which it asks right before each write.
    #[must_use]
    pub fn while_held(self, tenure: Option<Tenure>) -> Self {
        Self { tenure, ..self }
    }

    /// The repository it acts in.
    pub fn repository(&self) -> &Repository {
        &self.repository
    }

    /// A route below this repository; `rest` begins with `/`.
    fn route(&self, rest: &str) -> String {
        format!("/repos/{}/{}{rest}", segment(&self.repository.owner), segment(&self.repository.name))
    }

    /// Sends one request below this repository.
    pub(super) async fn call(
        &self,
        method: Method,
        rest: &str,
        body: Option<Value>,
        what: &str,
    ) -> Result<Answer, GitHubError> {
        let tenure = self.tenure.as_ref().filter(|_| method != Method::GET);
        let request = Request { method, route: self.route(rest), accept: JSON, body, what, tenure };
        self.connection.send(&self.credentials, &request).await
    }

    /// Reads one JSON document.
    pub(super) async fn get<T: DeserializeOwned>(&self, rest: &str, what: &str) -> Result<T, GitHubError> {
        self.call(Method::GET, rest, None, what).await?.json(what)
    }

    /// Creates something and reads what GitHub made of it.
    pub(super) async fn post<T: DeserializeOwned>(
        &self,
        rest: &str,
        body: Value,
        what: &str,
    ) -> Result<T, GitHubError> {
        self.call(Method::POST, rest, Some(body), what).await?.json(what)
    }

    /// Reads the bytes behind a route.
    pub(super) async fn get_raw(&self, rest: &str, what: &str) -> Result<Bytes, GitHubError> {
        let request =
            Request { method: Method::GET, route: self.route(rest), accept: RAW, body: None, what, tenure: None };
        Ok(self.connection.send(&self.credentials, &request).await?.body)
    }

    /// Reads a list page by page until one is not full, or `max_pages` were read.
    pub(super) async fn pages<T: DeserializeOwned>(
        &self,
        rest: &str,
        max_pages: usize,
        what: &str,
    ) -> Result<Vec<T>, GitHubError> {
        let mut all = Vec::new();
        for page in 1..=max_pages {
            let entries: Vec<T> = self.get(&format!("{rest}?per_page={PER_PAGE}&page={page}"), what).await?;
            let full = entries.len() >= PER_PAGE;
            all.extend(entries);
            if !full {
                break;
            }
        }
        Ok(all)
    }

    /// Runs a GraphQL query that only reads: its `data` and the errors that came with it.
    ///
    /// # Errors
    /// As any request, and when there are errors and no data at all.
    pub(super) async fn graphql(
        &self,
        query: &str,
        variables: Value,
        what: &str,
    ) -> Result<(Value, Vec<Value>), GitHubError> {
        let body = Some(json!({ "query": query, "variables": variables }));
        let request = Request { method: Method::POST, route: GRAPHQL.into(), accept: JSON, body, what, tenure: None };
        let answer = self.connection.send(&self.credentials, &request).await?;
        let wire::GraphQl { data, errors } = answer.json(what)?;
        match data {
            Some(Value::Object(data)) if errors.is_empty() || data.values().any(|field| !field.is_null()) => {
                Ok((Value::Object(data), errors))
            }
            _ if errors.is_empty() => Err(GitHubError::Unreadable(format!("no data for {what}"))),
            _ => {
                let now = sent_at(&answer.headers).unwrap_or_else(|| self.connection.now());
                Err(match GitHubError::from_graphql(&errors, &answer.headers, what, now) {
                    GitHubError::RateLimited { wait } => {
                        self.connection.limited(self.credentials.payer(), Resource::GraphQl, wait).await
                    }
                    error => error,
                })
            }
        }
    }

    /// Whether new work that nobody asked for may begin: not when little is left of the hour's budget, as far as answers
    /// have said.
    ///
    /// # Errors
    /// [`GitHubError::Reserved`], with how long to wait.
    pub fn spare(&self) -> Result<(), GitHubError> {
        let reserved = self.connection.budgets().reserved(self.credentials.payer());
        reserved.map_or(Ok(()), |wait| Err(GitHubError::Reserved { wait }))
    }

    /// Our limits.
    pub(super) fn settings(&self) -> &Settings {
        self.connection.settings()
    }
}
