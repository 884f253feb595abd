//! The App, its installations and tokens, and people.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde_json::{Value, json};

use super::super::server::{Answer, Asked, Caller};
use super::super::state::{State, Token};

const PUBLIC_KEY: &[u8] = include_bytes!("../../../../../fixtures/github/test-app-key.pub.pem");

/// Who is behind an `Authorization` header.
pub fn caller(state: &State, authorization: &str) -> Result<Caller, Answer> {
    let Some(token) = authorization.strip_prefix("Bearer ").or_else(|| authorization.strip_prefix("token ")) else {
        return Ok(Caller::Nobody);
    };
    if let Some(known) = state.tokens.get(token) {
        if known.expires <= state.now() {
            return Err(Answer::error(401, "Bad credentials"));
        }
        return Ok(Caller::Installation { id: known.installation, repos: known.repos.clone() });
    }
    if let Some(login) = token.strip_prefix("ghp_").filter(|login| state.users.contains_key(*login)) {
        return Ok(Caller::Person(login.to_owned()));
    }
    let mut validation = Validation::new(Algorithm::RS256);
    validation.validate_exp = false;
    validation.required_spec_claims.clear();
    let key = DecodingKey::from_rsa_pem(PUBLIC_KEY).unwrap();
    let Ok(assertion) = jsonwebtoken::decode::<Value>(token, &key, &validation) else {
        return Err(Answer::error(401, "Bad credentials"));
    };
    let claim = |name: &str| assertion.claims.get(name).and_then(Value::as_i64).unwrap_or_default();
    let now = state.now().as_second();
    let expiry = "'Expiration time' claim ('exp')";
    let wrong = if claim("exp") > now + 600 {
        Some(format!("{expiry} is too far in the future"))
    } else if claim("exp") <= now {
        Some(format!("{expiry} must be a numeric value representing the future time at which the assertion expires"))
    } else if claim("iat") > now {
        let issue = "'Issued at' claim ('iat')";
        Some(format!("{issue} must be an Integer representing the time that the assertion was issued"))
    } else {
        None
    };
    if let Some(wrong) = wrong {
        return Err(Answer::error(401, &wrong));
    }
    if assertion.claims.get("iss").and_then(Value::as_str) != Some(&state.app.id.to_string()) {
        return Err(Answer::error(404, "Integration not found"));
    }
    Ok(Caller::App)
}

pub fn app(state: &State, asked: &Asked) -> Answer {
    if asked.caller != Caller::App {
        return Answer::error(401, "A JSON web token could not be decoded");
    }
    let mut json = state.app_json();
    json["installations_count"] = json!(state.installations.len());
    Answer::ok(json)
}

pub fn installations(state: &State, asked: &Asked) -> Answer {
    if asked.caller != Caller::App {
        return Answer::error(401, "A JSON web token could not be decoded");
    }
    let all: Vec<Value> =
        state.installations.iter().map(|installation| state.installation_json(installation.id)).collect();
    super::page(state, asked, "/app/installations", &all)
}

/// `GET /repos/{owner}/{repo}/installation`, also by a name that the repository had before.
pub fn installation_of(state: &State, asked: &Asked, owner: &str, name: &str) -> Answer {
    if asked.caller != Caller::App {
        return Answer::error(401, "A JSON web token could not be decoded");
    }
    let was = |former: &(String, String)| former.0 == owner && former.1 == name;
    let found = state.repo(owner, name).or_else(|| state.repos.iter().find(|repo| repo.former.iter().any(was)));
    let reaches = |repo: u64| state.installations.iter().find(|installation| installation.repos.contains(&repo));
    match found.and_then(|repo| reaches(repo.id)) {
        Some(installation) => Answer::ok(state.installation_json(installation.id)),
        None => Answer::not_found(),
    }
}

/// `POST /app/installations/{id}/access_tokens`: one hour, for all or some of its repositories.
pub fn token(state: &mut State, asked: &Asked, id: &str) -> Answer {
    if asked.caller != Caller::App {
        return Answer::error(401, "A JSON web token could not be decoded");
    }
    let Some(installation) = state.installations.iter().find(|installation| installation.id.to_string() == id) else {
        return Answer::not_found();
    };
    if installation.suspended {
        return Answer::error(403, "This installation has been suspended");
    }
    let asked_for: Option<BTreeSet<u64>> = asked
        .body
        .get("repository_ids")
        .and_then(Value::as_array)
        .map(|ids| ids.iter().filter_map(Value::as_u64).collect());
    let repos = asked_for.unwrap_or_else(|| installation.repos.clone());
    if !repos.is_subset(&installation.repos) {
        return Answer::error(
            422,
            "There is at least one repository that does not exist or is not accessible to the parent installation.",
        );
    }
    let installation = installation.id;
    let (token, expires) = mint(state, installation, repos);
    Answer::json(
        201,
        json!({
            "token": token, "expires_at": expires.to_string(), "permissions": state.app.permissions, "repository_selection": "selected",
        }),
    )
}

/// A new token. In the stateless form of 2026: long, with dots and dashes, different each time.
pub fn mint(state: &mut State, installation: u64, repos: BTreeSet<u64>) -> (String, Timestamp) {
    let serial = state.id();
    let parts = ["eyJ0eXAiOiJKV1Qi".repeat(8), "Zm9yIHRlc3Rz-X_".repeat(16), "c2ln".repeat(32)];
    let token = format!("ghs_{}_{}.{}-{serial}.{}", state.app.id, parts[0], parts[1], parts[2]);
    let expires = state.now() + SignedDuration::from_hours(1);
    state.tokens.insert(token.clone(), Token { installation, repos, expires });
    (token, expires)
}

/// `POST /app-manifests/{code}/conversions`: each code once.
pub fn convert(state: &mut State, code: &str) -> Answer {
    if !state.manifest_codes.remove(code) {
        return Answer::not_found();
    }
    let mut json = state.app_json();
    super::super::json::extend(
        &mut json,
        json!({
            "client_secret": "a-client-secret", "webhook_secret": "a-webhook-secret",
            "pem": include_str!("../../../../../fixtures/github/test-app-key.pem"),
        }),
    );
    Answer::json(201, json)
}

/// `GET /users/{login}`: public, but the App's own assertion is not taken here.
pub fn user(state: &State, asked: &Asked, login: &str) -> Answer {
    if asked.caller == Caller::App {
        return Answer::error(401, "Bad credentials");
    }
    if !state.users.contains_key(login) {
        return Answer::not_found();
    }
    Answer::ok(state.public_user_json(login))
}

/// `GET /repos/{owner}/{repo}/collaborators/{login}/permission`.
pub fn permission(state: &State, repo: u64, login: &str) -> Answer {
    let Some(repo) = state.repos.iter().find(|r| r.id == repo) else { return Answer::not_found() };
    if !state.users.contains_key(login) {
        return Answer::not_found();
    }
    let role = state.role(repo, login);
    let legacy = match role.as_str() {
        "maintain" => "write",
        "triage" => "read",
        other => other,
    };
    let mut user = state.user_json(Some(login));
    user["role_name"] = json!(role);
    Answer::ok(json!({ "permission": legacy, "role_name": role, "user": user }))
}
