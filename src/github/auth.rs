//! Credentials: the App's signed assertion, and the installation tokens it is exchanged for.
//!
//! An installation token lives one hour; it is asked for narrowed to one repository, kept in memory only, and treated
//! as an opaque string (since 2026 GitHub makes tokens of about 520 characters with dots and dashes).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;

use super::error::GitHubError;

/// How long before its expiry a token is no longer used: a request that starts now must still find it valid.
const RENEW_BEFORE: SignedDuration = SignedDuration::from_secs(60);

/// Signs assertions of the App's identity.
#[derive(Clone)]
pub struct AppKey {
    app_id: u64,
    key: EncodingKey,
}

impl AppKey {
    /// Reads an RSA key in PEM, PKCS#1 (as GitHub hands it out) or PKCS#8. Line breaks written as `\n`, as they often
    /// arrive from the environment, are understood.
    ///
    /// # Errors
    /// [`GitHubError::Configuration`] with what to do when it is no such key.
    pub fn new(app_id: u64, pem: &SecretString) -> Result<Self, GitHubError> {
        let unusable = || {
            GitHubError::Configuration(
                "the App's private key is not an RSA key in PEM form; generate one on the App's settings page under \
                 \"Private keys\" and give the whole downloaded file, from -----BEGIN to -----END"
                    .into(),
            )
        };
        let pem = SecretString::from(pem.expose_secret().trim().replace("\\n", "\n"));
        let key = EncodingKey::from_rsa_pem(pem.expose_secret().as_bytes()).map_err(|_| unusable())?;
        let app = Self { app_id, key };
        // Reading the PEM does not look into the key itself; signing does.
        app.assertion(Timestamp::UNIX_EPOCH).map_err(|_| unusable())?;
        Ok(app)
    }

    /// Whose key it is.
    pub fn id(&self) -> u64 {
        self.app_id
    }

    /// A JSON Web Token as GitHub wants it: RS256, issued 60 s ago against clock drift, valid for 9 of the 10 minutes
    /// that GitHub allows at most.
    ///
    /// # Errors
    /// [`GitHubError::Configuration`] when the key cannot sign.
    pub fn assertion(&self, now: Timestamp) -> Result<SecretString, GitHubError> {
        #[derive(Serialize)]
        struct Claims {
            iat: i64,
            exp: i64,
            iss: String,
        }
        let now = now.as_second();
        let claims = Claims { iat: now - 60, exp: now + 9 * 60, iss: self.app_id.to_string() };
        jsonwebtoken::encode(&Header::new(Algorithm::RS256), &claims, &self.key)
            .map(SecretString::from)
            .map_err(|error| GitHubError::Configuration(format!("the App's private key cannot sign: {error}")))
    }
}

/// What a token is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TokenScope {
    /// The installation.
    pub installation: u64,
    /// The one repository (by id) it is narrowed to; `None` for all that the installation has.
    pub repository: Option<u64>,
}

/// Installation tokens, shared by all clients of an App.
#[derive(Clone, Default)]
pub struct TokenCache {
    slots: Arc<Mutex<HashMap<TokenScope, Arc<TokenSlot>>>>,
}

/// The token of one scope. `renewing` lets one of many concurrent requests fetch a new token while the others wait.
#[derive(Default)]
pub struct TokenSlot {
    current: Mutex<Option<(SecretString, Timestamp)>>,
    /// Held while a new token is asked for.
    pub renewing: tokio::sync::Mutex<()>,
}

/// Most scopes kept at once; beyond it those with expired tokens are let go, so that an App with many repositories
/// does not grow without bound.
const MAX_SCOPES: usize = 1_000;

impl TokenCache {
    /// The slot of a scope.
    pub fn slot(&self, scope: TokenScope, now: Timestamp) -> Arc<TokenSlot> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.len() >= MAX_SCOPES && !slots.contains_key(&scope) {
            slots.retain(|_, slot| slot.valid(now).is_some());
        }
        if slots.len() >= MAX_SCOPES && !slots.contains_key(&scope) {
            slots.clear();
        }
        Arc::clone(slots.entry(scope).or_default())
    }
}

impl TokenSlot {
    /// The token, unless there is none or it is about to expire.
    pub fn valid(&self, now: Timestamp) -> Option<SecretString> {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        current.as_ref().filter(|(_, expires)| *expires - RENEW_BEFORE > now).map(|(token, _)| token.clone())
    }

    /// Puts a new token in place.
    pub fn set(&self, token: SecretString, expires: Timestamp) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Some((token, expires));
    }

    /// Forgets a token that GitHub refused, unless another request has replaced it meanwhile.
    pub fn refuse(&self, refused: &SecretString) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.as_ref().is_some_and(|(token, _)| token.expose_secret() == refused.expose_secret()) {
            *current = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEST_KEY: &str = include_str!("../../fixtures/github/test-app-key.pem");

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn the_assertion_is_what_github_asks_for() {
        let key = AppKey::new(42, &SecretString::from(TEST_KEY)).unwrap();
        let token = key.assertion(at(1_800_000_000)).unwrap();
        let claims = jsonwebtoken::dangerous::insecure_decode::<serde_json::Value>(token.expose_secret()).unwrap();
        assert_eq!(claims.header.alg, Algorithm::RS256);
        assert_eq!(claims.claims, serde_json::json!({"iat": 1_799_999_940_i64, "exp": 1_800_000_540_i64, "iss": "42"}));
    }

    #[test]
    fn line_breaks_may_be_written_out() {
        assert!(AppKey::new(1, &SecretString::from(TEST_KEY.replace('\n', "\\n"))).is_ok());
    }

    #[test]
    fn an_unreadable_key_says_what_to_do() {
        let body_cut = TEST_KEY.lines().take(5).collect::<Vec<_>>().join("\n") + "\n-----END RSA PRIVATE KEY-----\n";
        for wrong in ["", "hello", "-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----\n", &body_cut]
        {
            let error = AppKey::new(1, &SecretString::from(wrong)).err().unwrap().to_string();
            assert!(error.contains("settings page"), "{error}");
            assert!(!error.contains("AAAA"), "{error}");
        }
    }

    #[test]
    fn a_token_is_not_used_in_its_last_minute() {
        let slot = TokenSlot::default();
        assert!(slot.valid(at(0)).is_none());
        slot.set(SecretString::from("ghs_a"), at(3600));
        assert!(slot.valid(at(3539)).is_some());
        assert!(slot.valid(at(3540)).is_none());
    }

    #[test]
    fn refusing_an_older_token_keeps_the_newer() {
        let slot = TokenSlot::default();
        slot.set(SecretString::from("new"), at(3600));
        slot.refuse(&SecretString::from("old"));
        assert!(slot.valid(at(0)).is_some());
        slot.refuse(&SecretString::from("new"));
        assert!(slot.valid(at(0)).is_none());
    }

    #[test]
    fn the_cache_is_bounded() {
        let cache = TokenCache::default();
        for repository in 0..(2 * MAX_SCOPES as u64) {
            cache
                .slot(TokenScope { installation: 1, repository: Some(repository) }, at(0))
                .set(SecretString::from("t"), at(3600));
        }
        assert!(cache.slots.lock().unwrap().len() <= MAX_SCOPES);
    }
}
