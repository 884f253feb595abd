//! Check runs.

use serde_json::{Value, json};

use super::super::server::{Answer, Asked, Caller};
use super::super::state::{Check, State};
use super::may_write;

pub fn create(state: &mut State, asked: &Asked, repo: u64) -> Answer {
    if let Err(answer) = allowed(state, asked) {
        return answer;
    }
    let body = &asked.body;
    let text = |name: &str| body.get(name).and_then(Value::as_str).map(str::to_owned);
    let (Some(name), Some(head_sha)) = (text("name"), text("head_sha")) else {
        return Answer::error(422, "Invalid request.\n\n\"name\", \"head_sha\" weren't supplied.");
    };
    if !state.commits.contains_key(&head_sha) {
        return Answer::error(422, &format!("No commit found for SHA: {head_sha}"));
    }
    let mut check = Check {
        id: state.id(),
        name,
        head_sha,
        status: "queued".into(),
        conclusion: None,
        title: None,
        summary: None,
        external_id: String::new(),
        details_url: None,
        started_at: state.now(),
        completed_at: None,
    };
    if let Err(answer) = apply(state, &mut check, body) {
        return answer;
    }
    state.repo_by_id(repo).checks.push(check.clone());
    let repo = state.repos.iter().find(|r| r.id == repo).unwrap();
    Answer::json(201, state.check_json(repo, &check))
}

pub fn update(state: &mut State, asked: &Asked, repo: u64, id: u64) -> Answer {
    if let Err(answer) = allowed(state, asked) {
        return answer;
    }
    let Some(mut check) = state.repo_by_id(repo).checks.iter().find(|check| check.id == id).cloned() else {
        return Answer::not_found();
    };
    if let Err(answer) = apply(state, &mut check, &asked.body) {
        return answer;
    }
    *state.repo_by_id(repo).checks.iter_mut().find(|check| check.id == id).unwrap() = check.clone();
    let repo = state.repos.iter().find(|r| r.id == repo).unwrap();
    Answer::ok(state.check_json(repo, &check))
}

/// The check runs of a commit, newest first.
pub fn of_commit(state: &State, asked: &Asked, repo: u64, sha: &str) -> Answer {
    let Some(repo) = state.repos.iter().find(|r| r.id == repo) else { return Answer::not_found() };
    let named = |check: &&Check| asked.query.get("check_name").is_none_or(|name| *name == check.name);
    let found = repo.checks.iter().rev().filter(|check| check.head_sha == sha).filter(named);
    let runs: Vec<Value> = found.map(|check| state.check_json(repo, check)).collect();
    Answer::ok(json!({ "total_count": runs.len(), "check_runs": runs }))
}

/// Only Apps write check runs, a person's token never does.
fn allowed(state: &State, asked: &Asked) -> Result<(), Answer> {
    if matches!(asked.caller, Caller::Person(_)) {
        return Err(Answer::error(403, "You must authenticate via a GitHub App."));
    }
    may_write(state, asked, &["checks"])
}

fn apply(state: &State, check: &mut Check, body: &Value) -> Result<(), Answer> {
    let text = |name: &str| body.get(name).and_then(Value::as_str).map(str::to_owned);
    if let Some(status) = text("status") {
        check.status = status;
    }
    if let Some(conclusion) = text("conclusion") {
        check.conclusion = Some(conclusion);
        check.status = "completed".into();
    }
    if check.status == "completed" && check.conclusion.is_none() {
        let message = "Invalid request.\n\nNo subschema in \"anyOf\" matched.\n\"conclusion\" wasn't supplied.";
        return Err(Answer::error(422, message));
    }
    if check.status != "completed" {
        (check.conclusion, check.completed_at) = (None, None);
    } else {
        check.completed_at = Some(state.now());
    }
    check.external_id = text("external_id").unwrap_or_else(|| check.external_id.clone());
    check.details_url = text("details_url").or_else(|| check.details_url.clone());
    if let Some(output) = body.get("output") {
        let part = |name: &str| output.get(name).and_then(Value::as_str).map(str::to_owned);
        for (name, limit) in [("title", 255), ("summary", 65_535)] {
            if part(name).is_some_and(|text| text.chars().count() > limit) {
                let error = json!({ "resource": "CheckRun", "field": name, "code": "custom", "message": format!("Only {limit} characters are allowed") });
                return Err(Answer::invalid(&[error]));
            }
        }
        (check.title, check.summary) = (part("title"), part("summary"));
    }
    Ok(())
}
