//! The deliveries of the App's webhook as GitHub keeps them (3 days; Enterprise Server 7), and who reaches a repository.
//!
//! The list's `status` filter is not used: by its description it knows answers from 200 to 599 only, and a delivery
//! that got no answer at all, as while a server is down, is in neither half.

use http::{HeaderMap, Method, header};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use url::Url;

use super::Repository;
use super::client::{Answer, Credentials, GitHubApp, JSON, Request};
use super::endpoint::segment;
use super::error::GitHubError;
use super::repository::PER_PAGE;

/// One try of GitHub's to deliver an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Names this try.
    pub id: u64,
    /// Names the event, and stays the same when it is delivered again: the `X-GitHub-Delivery` header.
    pub guid: String,
    /// When.
    pub delivered_at: Timestamp,
    /// Whether whoever answered took it.
    pub taken: bool,
    /// The event's name.
    pub event: String,
    /// Its action; empty when it has none.
    pub action: String,
}

/// A page of the list, the newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryPage {
    /// Its entries.
    pub attempts: Vec<Attempt>,
    /// Leads to the next page, with older ones.
    pub next: Option<String>,
}

/// Who reaches a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reach {
    /// The installation.
    pub installation: u64,
    /// Whether its owner put it to rest.
    pub suspended: bool,
}

impl GitHubApp {
    /// Which App this is.
    pub fn id(&self) -> u64 {
        self.key.id()
    }

    /// A page of the deliveries of the App's webhook, the newest when no cursor is given.
    ///
    /// # Errors
    /// As any request. An old Enterprise Server, or one whose App has no webhook, knows no such list.
    pub async fn deliveries(&self, cursor: Option<&str>) -> Result<DeliveryPage, GitHubError> {
        let cursor = cursor.map(|cursor| format!("&cursor={}", segment(cursor))).unwrap_or_default();
        let what = "list of the App's webhook deliveries";
        let answer =
            self.as_app(Method::GET, format!("/app/hook/deliveries?per_page={PER_PAGE}{cursor}"), what).await?;
        let attempts: Vec<AttemptWire> = answer.json(what)?;
        Ok(DeliveryPage { attempts: attempts.into_iter().map(Attempt::from).collect(), next: next(&answer.headers) })
    }

    /// The payload that was delivered; `None` when GitHub does not keep it any more.
    ///
    /// # Errors
    /// As any request.
    pub async fn delivered_payload(&self, id: u64) -> Result<Option<Value>, GitHubError> {
        let what = "delivery of the App's webhook";
        let answer = self.as_app(Method::GET, format!("/app/hook/deliveries/{id}"), what).await?;
        Ok(answer.json::<DetailWire>(what)?.request.payload)
    }

    /// Has an event delivered again, to the webhook's address.
    ///
    /// # Errors
    /// As any request.
    pub async fn redeliver(&self, id: u64) -> Result<(), GitHubError> {
        let what = "delivery of the App's webhook to be sent again";
        self.as_app(Method::POST, format!("/app/hook/deliveries/{id}/attempts"), what).await.map(drop)
    }

    /// Which installation reaches a repository now.
    ///
    /// # Errors
    /// [`GitHubError::NotFound`] when none does; else as any request.
    pub async fn reach(&self, repository: &Repository) -> Result<Reach, GitHubError> {
        let what = format!("installation of the App on {}", repository.full_name());
        let route = format!("/repos/{}/{}/installation", segment(&repository.owner), segment(&repository.name));
        let reach: ReachWire = self.as_app(Method::GET, route, &what).await?.json(&what)?;
        Ok(Reach { installation: reach.id, suspended: reach.suspended_at.is_some() })
    }

    async fn as_app(&self, method: Method, route: String, what: &str) -> Result<Answer, GitHubError> {
        let request = Request { method, route, accept: JSON, body: None, what, tenure: None };
        self.connection.send(&Credentials::App(self.key.clone()), &request).await
    }
}

/// The cursor of the page that a `Link` header calls the next one.
fn next(headers: &HeaderMap) -> Option<String> {
    let links = headers.get(header::LINK)?.to_str().ok()?;
    let next = links.split(',').find(|link| link.contains("rel=\"next\""))?;
    let address = next.split_once('<')?.1.split_once('>')?.0;
    let address = Url::parse(address).ok()?;
    address.query_pairs().find(|(name, _)| name == "cursor").map(|(_, cursor)| cursor.into_owned())
}

#[derive(Deserialize)]
struct AttemptWire {
    id: u64,
    guid: String,
    delivered_at: Timestamp,
    status_code: Option<u16>,
    event: String,
    action: Option<String>,
}

impl From<AttemptWire> for Attempt {
    fn from(wire: AttemptWire) -> Self {
        Self {
            id: wire.id,
            guid: wire.guid,
            delivered_at: wire.delivered_at,
            taken: wire.status_code.is_some_and(|status| (200..400).contains(&status)),
            event: wire.event,
            action: wire.action.unwrap_or_default(),
        }
    }
}

#[derive(Deserialize)]
struct DetailWire {
    request: SentWire,
}

#[derive(Deserialize)]
struct SentWire {
    payload: Option<Value>,
}

#[derive(Deserialize)]
struct ReachWire {
    id: u64,
    suspended_at: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cursor(link: &str) -> Option<String> {
        let mut headers = HeaderMap::new();
        headers.insert(header::LINK, link.parse().unwrap());
        next(&headers)
    }

    #[test]
    fn the_next_page_is_found_in_the_link() {
        let address = "https://api.github.com/app/hook/deliveries";
        assert_eq!(
            cursor(&format!("<{address}?per_page=100&cursor=v1_17%2B3>; rel=\"next\"")).as_deref(),
            Some("v1_17+3")
        );
        let both = format!("<{address}?cursor=a>; rel=\"prev\", <{address}?cursor=b&per_page=100>; rel=\"next\"");
        assert_eq!(cursor(&both).as_deref(), Some("b"));
        for none in ["", "<x>; rel=\"next\"", "rel=\"next\"", &format!("<{address}?cursor=a>; rel=\"prev\"")] {
            assert_eq!(cursor(none), None, "{none}");
        }
        assert_eq!(next(&HeaderMap::new()), None);
    }

    #[test]
    fn only_an_answer_that_says_so_was_taken() {
        let read = |status: Value| {
            let attempt = serde_json::json!({
                "id": 9_007_199_254_740_993_u64, "guid": "g", "delivered_at": "2021-05-12T20:33:44Z", "status_code": status,
                "event": "ping", "action": null,
            });
            Attempt::from(serde_json::from_value::<AttemptWire>(attempt).unwrap())
        };
        for status in [200, 202, 302] {
            assert!(read(status.into()).taken, "{status}");
        }
        for status in [Value::Null, 0.into(), 401.into(), 502.into()] {
            assert!(!read(status.clone()).taken, "{status}");
        }
        assert_eq!(read(0.into()).id, 9_007_199_254_740_993);
    }
}
