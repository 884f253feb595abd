//! What GitHub does for each request.

pub mod app;
mod checks;
pub mod comments;
mod git;
mod graphql;
mod hook;
mod pulls;
mod reviews;

use serde_json::{Value, json};

use super::server::{Answer, Asked, Caller};
use super::state::{Pull, Repo, State};

/// Finds and does what is asked; `None` for a route that the stand-in does not know.
pub fn route(state: &mut State, asked: &Asked) -> Option<Answer> {
    let path: Vec<&str> = asked.path.iter().map(String::as_str).collect();
    match (asked.method.as_str(), path.as_slice()) {
        ("GET", ["app"]) => Some(app::app(state, asked)),
        ("GET", ["app", "installations"]) => Some(app::installations(state, asked)),
        ("POST", ["app", "installations", id, "access_tokens"]) => Some(app::token(state, asked, id)),
        ("GET", ["app", "hook", "deliveries"]) => Some(hook::list(state, asked)),
        ("GET", ["app", "hook", "deliveries", id]) => Some(hook::one(state, asked, id.parse().ok()?)),
        ("POST", ["app", "hook", "deliveries", id, "attempts"]) => Some(hook::again(state, asked, id.parse().ok()?)),
        ("POST", ["app-manifests", code, "conversions"]) => Some(app::convert(state, code)),
        ("GET", ["users", login]) => Some(app::user(state, asked, login)),
        ("POST", ["graphql"]) => Some(graphql::query(state, asked)),
        ("GET", ["repos", owner, name, "installation"]) => Some(app::installation_of(state, asked, owner, name)),
        (_, ["repos", owner, name, rest @ ..]) => {
            let (owner, name) = ((*owner).to_owned(), (*name).to_owned());
            if let Some(target) = moved(state, &owner, &name, rest, asked) {
                return Some(target);
            }
            let Some(id) = reachable(state, asked, &owner, &name) else { return Some(Answer::not_found()) };
            in_repo(state, asked, id, rest)
        }
        (_, ["repositories", id, rest @ ..]) => {
            let id: u64 = id.parse().ok()?;
            let repo = state.repos.iter().find(|repo| repo.id == id)?;
            let (owner, name) = (repo.owner.clone(), repo.name.clone());
            let Some(id) = reachable(state, asked, &owner, &name) else { return Some(Answer::not_found()) };
            in_repo(state, asked, id, rest)
        }
        _ => None,
    }
}

fn in_repo(state: &mut State, asked: &Asked, repo: u64, rest: &[&str]) -> Option<Answer> {
    let number = |text: &str| text.parse::<u64>().ok();
    let answer = match (asked.method.as_str(), rest) {
        ("GET", []) => {
            let mut whole = state.repo_json(state.repos.iter().find(|r| r.id == repo)?);
            (whole["network_count"], whole["subscribers_count"]) = (json!(0), json!(1));
            Answer::ok(whole)
        }
        ("GET", ["pulls", "comments", id]) => comments::one(state, repo, number(id)?),
        ("POST", ["pulls", "comments", id, "reactions"]) => comments::react(state, asked, repo, number(id)?),
        ("GET", ["pulls"]) => pulls::list(state, asked, repo),
        ("GET", ["pulls", n]) => pulls::one(state, repo, number(n)?),
        ("GET", ["pulls", n, "files"]) => pulls::files(state, asked, repo, number(n)?),
        ("GET", ["pulls", n, "reviews"]) => reviews::list(state, asked, repo, number(n)?),
        ("POST", ["pulls", n, "reviews"]) => reviews::create(state, asked, repo, number(n)?),
        ("DELETE", ["pulls", n, "reviews", id]) => reviews::delete_pending(state, asked, repo, number(n)?, number(id)?),
        ("GET", ["pulls", n, "comments"]) => comments::list(state, asked, repo, number(n)?),
        ("POST", ["pulls", n, "comments", id, "replies"]) => {
            comments::reply(state, asked, repo, number(n)?, number(id)?)
        }
        ("GET", ["issues", n, "comments"]) if number(n).is_some() => comments::talk(state, asked, repo, number(n)?),
        ("POST", ["issues", n, "comments"]) if number(n).is_some() => comments::say(state, asked, repo, number(n)?),
        ("GET", ["issues", "comments", id]) => comments::one_said(state, repo, number(id)?),
        ("POST", ["issues", "comments", id, "reactions"]) => comments::react_said(state, asked, repo, number(id)?),
        ("POST", ["check-runs"]) => checks::create(state, asked, repo),
        ("PATCH", ["check-runs", id]) => checks::update(state, asked, repo, number(id)?),
        ("GET", ["commits", sha, "check-runs"]) => checks::of_commit(state, asked, repo, sha),
        ("GET", ["commits", sha, "pulls"]) => pulls::of_commit(state, asked, repo, sha),
        ("GET", ["compare", range]) => git::compare(state, repo, range),
        ("GET", ["contents", path @ ..]) => git::contents(state, asked, repo, &path.join("/")),
        ("GET", ["git", "blobs", sha]) => git::blob(state, asked, repo, sha),
        ("GET", ["git", "trees", sha]) => git::tree(state, repo, sha),
        ("GET", ["collaborators", login, "permission"]) => app::permission(state, repo, login),
        _ => return None,
    };
    Some(answer)
}

/// The repository, when the caller may see it. GitHub says 404 rather than 403 to hide what is private.
fn reachable(state: &State, asked: &Asked, owner: &str, name: &str) -> Option<u64> {
    let repo = state.repo(owner, name)?;
    let may = match &asked.caller {
        Caller::Nobody | Caller::App => false,
        Caller::Installation { repos, .. } => repos.contains(&repo.id),
        Caller::Person(login) => state.role(repo, login) != "none",
    };
    may.then_some(repo.id)
}

/// A repository that was renamed is redirected: GET with 301, writes with 307, to a URL by id.
fn moved(state: &State, owner: &str, name: &str, rest: &[&str], asked: &Asked) -> Option<Answer> {
    let was = |repo: &&Repo| repo.former.iter().any(|(o, n)| o == owner && n == name);
    let repo = state.repos.iter().find(was)?;
    let rest: String = rest.iter().map(|part| format!("/{}", super::state::encoded(part))).collect();
    let query: Vec<String> = asked.query.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
    let location = format!("{}/repositories/{}{rest}{query}", state.url, repo.id);
    let (status, message) =
        if asked.method == "GET" { (301, "Moved Permanently") } else { (307, "Temporary Redirect") };
    let mut answer = Answer::json(
        status,
        json!({ "message": message, "url": location, "documentation_url": "https://docs.github.com/rest" }),
    );
    answer.headers.push(("location".into(), location));
    Some(answer)
}

/// The repository and pull request, or 404.
fn find(state: &State, repo: u64, number: u64) -> Result<(&Repo, &Pull), Answer> {
    let repo = state.repos.iter().find(|r| r.id == repo).ok_or_else(Answer::not_found)?;
    Ok((repo, repo.pulls.get(&number).ok_or_else(Answer::not_found)?))
}

/// The login that a request acts as.
fn actor(state: &State, asked: &Asked) -> String {
    match &asked.caller {
        Caller::Person(login) => login.clone(),
        _ => state.app.bot.clone(),
    }
}

/// Whether an installation may write; people may by their role.
fn may_write(state: &State, asked: &Asked, any_of: &[&str]) -> Result<(), Answer> {
    let granted = |name: &&str| state.app.permissions.get(*name).is_some_and(|level| level == "write");
    if matches!(asked.caller, Caller::Person(_)) || any_of.iter().any(granted) {
        return Ok(());
    }
    let mut answer = Answer::error(403, "Resource not accessible by integration");
    let needed = any_of.iter().map(|name| format!("{name}=write")).collect::<Vec<_>>().join("; ");
    answer.headers.push(("x-accepted-github-permissions".into(), needed));
    Err(answer)
}

/// One page of a list: 30 entries unless asked for more, 100 at most, with the links that GitHub gives.
fn page(state: &State, asked: &Asked, route: &str, all: &[Value]) -> Answer {
    let (per_page, page) = page_of(asked);
    let last = all.len().div_ceil(per_page).max(1);
    let shown: Vec<Value> = all.iter().skip((page - 1) * per_page).take(per_page).cloned().collect();
    let mut answer = Answer::ok(Value::Array(shown));
    let link =
        |page: usize, rel: &str| format!("<{}{route}?per_page={per_page}&page={page}>; rel=\"{rel}\"", state.url);
    let mut links = Vec::new();
    if page > 1 {
        links.extend([link(1, "first"), link(page - 1, "prev")]);
    }
    if page < last {
        links.extend([link(page + 1, "next"), link(last, "last")]);
    }
    if !links.is_empty() {
        answer.headers.push(("link".into(), links.join(", ")));
    }
    answer
}

fn page_of(asked: &Asked) -> (usize, usize) {
    let number = |name: &str| asked.query.get(name).and_then(|value| value.parse::<usize>().ok());
    (number("per_page").unwrap_or(30).clamp(1, 100), number("page").unwrap_or(1).max(1))
}
