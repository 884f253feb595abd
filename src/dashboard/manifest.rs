//! The App that set-up asks GitHub to create: its permissions, its events and its addresses. Pure.

use serde_json::{Value, json};
use url::Url;

/// Permissions the App asks for, with why.
///
/// `contents` stays at read: only resolving threads would need write, and pushing code is nothing a reviewer does.
/// Comments on a pull request's timeline count as comments of an issue.
pub const PERMISSIONS: &[(&str, &str)] = &[
    ("checks", "write"),
    ("contents", "read"),
    ("issues", "write"),
    ("merge_queues", "read"),
    ("metadata", "read"),
    ("pull_requests", "write"),
];

/// Events the App subscribes to. GitHub delivers those of installations without being asked, and refuses a manifest
/// that asks.
pub const EVENTS: &[&str] = &[
    "check_run",
    "check_suite",
    "issue_comment",
    "merge_group",
    "pull_request",
    "pull_request_review_comment",
    "pull_request_review_thread",
    "repository",
];

/// What a person says of the App on the set-up page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish {
    /// Its name, unique on GitHub; at most 34 characters.
    pub name: String,
    /// The organisation that is to own it; the person's own account without.
    pub organization: Option<String>,
    /// Where GitHub delivers events.
    pub webhook: Url,
}

/// Why a wish cannot be fulfilled: a sentence that says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadWish(pub String);

impl Wish {
    /// Checks what was typed.
    ///
    /// # Errors
    /// A sentence for the page.
    pub fn read(name: &str, organization: &str, webhook: &str) -> Result<Self, BadWish> {
        let name = name.trim();
        if name.is_empty() || name.chars().count() > 34 || name.chars().any(char::is_control) {
            return Err(BadWish("Give the App a name of 1 to 34 characters.".into()));
        }
        let organization = organization.trim();
        let login = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if organization.chars().count() > 100 || !organization.chars().all(login) {
            return Err(BadWish("Write the organisation as it stands in its address, without @ or slashes.".into()));
        }
        let address = Url::parse(webhook.trim()).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let Some(webhook) = address.filter(|url| !is_loopback(url.host_str().unwrap_or_default())) else {
            return Err(BadWish(
                "Give a webhook address that GitHub can reach, beginning with https://; it cannot reach this machine's \
                 localhost."
                    .into(),
            ));
        };
        Ok(Self {
            name: name.into(),
            organization: Some(organization.to_owned()).filter(|organization| !organization.is_empty()),
            webhook,
        })
    }
}

/// The manifest. `redirect` is where GitHub sends the person back to, with a code.
pub fn manifest(wish: &Wish, home: &Url, redirect: &Url) -> Value {
    let permissions: serde_json::Map<String, Value> =
        PERMISSIONS.iter().map(|(name, level)| ((*name).to_owned(), json!(level))).collect();
    json!({
        "name": wish.name,
        "url": home,
        "hook_attributes": { "url": wish.webhook, "active": true },
        "redirect_url": redirect,
        "description": "Reviews pull requests, and looks a second time before it speaks.",
        "public": false,
        "default_permissions": permissions,
        "default_events": EVENTS,
    })
}

/// The page on GitHub that takes the manifest.
pub fn creation_page(web: &str, organization: Option<&str>, state: &str) -> String {
    match organization {
        Some(organization) => format!("{web}/organizations/{organization}/settings/apps/new?state={state}"),
        None => format!("{web}/settings/apps/new?state={state}"),
    }
}

/// The address of GitHub's pages, by that of its API: `https://github.com` for `https://api.github.com`,
/// `https://HOST` for `https://HOST/api/v3`, `https://SUB.ghe.com` for `https://api.SUB.ghe.com`.
pub fn web_address(api_url: &str) -> String {
    let Ok(url) = Url::parse(api_url) else { return "https://github.com".into() };
    let host = url.host_str().unwrap_or("github.com");
    let host =
        host.strip_prefix("api.").filter(|rest| *rest == "github.com" || rest.ends_with(".ghe.com")).unwrap_or(host);
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{host}{port}", url.scheme())
}

/// Whether a host name means this machine.
pub fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare == "localhost"
        || bare.ends_with(".localhost")
        || bare.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback() || ip.is_unspecified())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_found_by_the_api() {
        assert_eq!(web_address("https://api.github.com"), "https://github.com");
        assert_eq!(web_address("https://ghe.example.com/api/v3"), "https://ghe.example.com");
        assert_eq!(web_address("https://api.octo.ghe.com"), "https://octo.ghe.com");
        assert_eq!(web_address("http://127.0.0.1:4000"), "http://127.0.0.1:4000");
        assert_eq!(creation_page("w", None, "s"), "w/settings/apps/new?state=s");
        assert_eq!(creation_page("w", Some("o"), "s"), "w/organizations/o/settings/apps/new?state=s");
    }

    #[test]
    fn a_wish_is_checked() {
        let read = |name, organization, webhook| Wish::read(name, organization, webhook).map_err(|error| error.0);
        let wish = read(" Look ", "", "https://a.example/webhook").unwrap();
        assert_eq!((wish.name.as_str(), wish.organization), ("Look", None));
        assert!(read("", "", "https://a.example").unwrap_err().contains("a name of 1 to 34"));
        assert!(read("n", "a/b?c", "https://a.example").unwrap_err().contains("organisation"));
        for unreachable in
            ["", "a.example", "http://localhost:8080/webhook", "https://127.0.0.1/", "http://[::1]/", "ftp://a"]
        {
            assert!(read("n", "o", unreachable).unwrap_err().contains("that GitHub can reach"), "{unreachable}");
        }
    }

    #[test]
    fn the_manifest_asks_for_what_is_used() {
        let url = |text| Url::parse(text).unwrap();
        let wish = Wish::read("n", "", "https://a.example/webhook").unwrap();
        let manifest = manifest(&wish, &url("https://a.example"), &url("https://a.example/setup/callback"));
        assert_eq!(manifest["default_permissions"]["pull_requests"], "write");
        assert_eq!(manifest["hook_attributes"]["url"], "https://a.example/webhook");
        assert_eq!(manifest["redirect_url"], "https://a.example/setup/callback");
        assert!(!manifest["default_events"].to_string().contains("installation"));
    }
}
