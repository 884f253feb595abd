//! Pull requests and their files.

use serde_json::Value;

use super::super::diff;
use super::super::server::{Answer, Asked};
use super::super::state::State;
use super::{find, page, page_of};

/// `GET /repos/{owner}/{repo}/pulls`, as it is asked for here: the open ones, those that changed last first.
pub fn list(state: &State, asked: &Asked, repo: u64) -> Answer {
    let Some(repo) = state.repos.iter().find(|r| r.id == repo) else { return Answer::not_found() };
    let all = asked.query.get("state").is_some_and(|state| state == "all");
    let mut open: Vec<_> = repo.pulls.values().filter(|pull| pull.open || all).collect();
    open.sort_by_key(|pull| (pull.updated_at, pull.number));
    open.reverse();
    let all: Vec<Value> = open.iter().map(|pull| state.pull_json(repo, pull)).collect();
    page(state, asked, &format!("/repos/{}/pulls", repo.full_name()), &all)
}

pub fn one(state: &State, repo: u64, number: u64) -> Answer {
    match find(state, repo, number) {
        Ok((repo, pull)) => Answer::ok(state.full_pull_json(repo, pull)),
        Err(answer) => answer,
    }
}

/// The files: 3,000 at most, and patches left out per page.
pub fn files(state: &State, asked: &Asked, repo: u64, number: u64) -> Answer {
    let (repo, pull) = match find(state, repo, number) {
        Ok(found) => found,
        Err(answer) => return answer,
    };
    let entries = state.entries_of(pull);
    let entries = entries.get(..3_000).unwrap_or(&entries);
    let (per_page, at) = page_of(asked);
    let shown: Vec<_> = entries.iter().skip((at - 1) * per_page).take(per_page).cloned().collect();
    let json = diff::page_json(&shown, &state.repo_url(repo), &state.repo_html(repo), pull.head());
    let route = format!("/repos/{}/pulls/{number}/files", repo.full_name());
    let blank = vec![Value::Null; entries.len()];
    let mut answer = page(state, asked, &route, &blank);
    answer.body = super::super::server::Content::Json(json);
    answer
}

/// `GET /repos/{owner}/{repo}/commits/{sha}/pulls`.
pub fn of_commit(state: &State, asked: &Asked, repo: u64, sha: &str) -> Answer {
    let Some(repo) = state.repos.iter().find(|r| r.id == repo) else { return Answer::not_found() };
    if !state.commits.contains_key(sha) {
        return Answer::error(422, &format!("No commit found for SHA: {sha}"));
    }
    let with = repo.pulls.values().filter(|pull| state.commits_of(pull).iter().any(|commit| commit == sha));
    let all: Vec<Value> = with.map(|pull| state.pull_json(repo, pull)).collect();
    page(state, asked, &format!("/repos/{}/commits/{sha}/pulls", repo.full_name()), &all)
}
