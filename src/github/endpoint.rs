//! Where GitHub's APIs are, and how a path is spelled in a URL.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use url::Url;

use super::error::GitHubError;

/// Everything but the unreserved characters of RFC 3986. A file name may hold `#`, `?`, `%` or a space, and octocrab
/// does not encode routes.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// One path segment of a route (a login, a branch, a code), percent-encoded, slashes too.
pub fn segment(text: &str) -> String {
    utf8_percent_encode(text, SEGMENT).to_string()
}

/// A file path as GitHub's contents route wants it: every segment percent-encoded, the slashes kept.
pub fn file_path(path: &str) -> String {
    path.split('/').map(segment).collect::<Vec<_>>().join("/")
}

/// The base URLs of one GitHub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoints {
    rest: String,
    graphql: String,
    origin: String,
}

impl Endpoints {
    /// Reads the REST base URL and finds GraphQL beside it: `/graphql` on github.com, ghe.com and any other base,
    /// `/api/graphql` where the base ends in `/api/v3` (GitHub Enterprise Server).
    ///
    /// # Errors
    /// [`GitHubError::Configuration`] when it is not an `http(s)` URL.
    pub fn new(api_url: &str) -> Result<Self, GitHubError> {
        let wrong = |why: String| {
            GitHubError::Configuration(format!(
                "the GitHub API URL `{api_url}` cannot be used ({why}); \
                 set it to https://api.github.com, or to https://HOST/api/v3 on GitHub Enterprise Server"
            ))
        };
        let url = Url::parse(api_url.trim()).map_err(|error| wrong(error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return Err(wrong("it is not an http or https URL".into()));
        }
        if url.query().is_some() || url.fragment().is_some() || !url.username().is_empty() || url.password().is_some() {
            return Err(wrong("it must hold no user, query or fragment".into()));
        }
        let origin = url.origin().ascii_serialization();
        let rest = format!("{origin}{}", url.path().trim_end_matches('/'));
        let graphql = rest
            .strip_suffix("/api/v3")
            .map_or_else(|| format!("{rest}/graphql"), |host| format!("{host}/api/graphql"));
        Ok(Self { rest, graphql, origin })
    }

    /// The absolute URL of a REST route such as `/app`.
    pub fn rest(&self, route: &str) -> String {
        format!("{}{route}", self.rest)
    }

    /// The absolute URL of GraphQL.
    pub fn graphql(&self) -> &str {
        &self.graphql
    }

    /// The absolute target of a redirect, when it stays on this GitHub. Credentials never follow anywhere else.
    pub fn redirect(&self, from: &str, location: &str) -> Option<String> {
        let target = Url::parse(from).ok()?.join(location).ok()?;
        (target.origin().ascii_serialization() == self.origin).then(|| target.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graphql_stands_beside_rest() {
        for (api, rest, graphql) in [
            ("https://api.github.com", "https://api.github.com/app", "https://api.github.com/graphql"),
            ("https://api.github.com/", "https://api.github.com/app", "https://api.github.com/graphql"),
            ("https://ghe.acme.test/api/v3", "https://ghe.acme.test/api/v3/app", "https://ghe.acme.test/api/graphql"),
            ("https://ghe.acme.test/api/v3/", "https://ghe.acme.test/api/v3/app", "https://ghe.acme.test/api/graphql"),
            ("https://api.acme.ghe.com", "https://api.acme.ghe.com/app", "https://api.acme.ghe.com/graphql"),
            ("http://127.0.0.1:4000", "http://127.0.0.1:4000/app", "http://127.0.0.1:4000/graphql"),
            ("http://127.0.0.1:4000/api/v3", "http://127.0.0.1:4000/api/v3/app", "http://127.0.0.1:4000/api/graphql"),
        ] {
            let endpoints = Endpoints::new(api).unwrap();
            assert_eq!(endpoints.rest("/app"), rest);
            assert_eq!(endpoints.graphql(), graphql);
        }
    }

    #[test]
    fn a_base_that_is_no_url_is_refused_with_what_to_do() {
        for wrong in ["", "github.com", "ftp://github.com", "https://", "https://u:p@ghe.test/api/v3", "https://h/?x=1"]
        {
            let error = Endpoints::new(wrong).unwrap_err().to_string();
            assert!(error.contains("https://api.github.com"), "{wrong}: {error}");
        }
    }

    #[test]
    fn names_are_encoded_and_slashes_kept() {
        assert_eq!(file_path("a b/c#d?e%f/ü.rs"), "a%20b/c%23d%3Fe%25f/%C3%BC.rs");
        assert_eq!(segment("secondlook[bot]"), "secondlook%5Bbot%5D");
        assert_eq!(segment("a/b"), "a%2Fb");
    }

    #[test]
    fn redirects_leave_this_github_without_us() {
        let endpoints = Endpoints::new("https://api.github.com").unwrap();
        let from = "https://api.github.com/repos/acme/old/pulls/1";
        assert_eq!(
            endpoints.redirect(from, "https://api.github.com/repositories/7/pulls/1").as_deref(),
            Some("https://api.github.com/repositories/7/pulls/1")
        );
        assert_eq!(
            endpoints.redirect(from, "/repositories/7/pulls/1").as_deref(),
            Some("https://api.github.com/repositories/7/pulls/1")
        );
        assert_eq!(endpoints.redirect(from, "https://evil.test/repositories/7"), None);
        assert_eq!(endpoints.redirect(from, "http://api.github.com/x"), None);
    }
}
