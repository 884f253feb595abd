//! The webhooks that what happens leads to. GitHub sends them for the App's own doings too.

use serde_json::{Value, json};

use super::state::{Check, Comment, Delivery, Pull, Repo, Review, Sent, State, Talk};

/// Puts a delivery into the outbox, for an installation that has the repository.
fn send(state: &mut State, repo: u64, event: &str, by: &str, mut payload: Value) {
    let Some(installation) = state.installations.iter().find(|installation| installation.repos.contains(&repo)) else {
        return;
    };
    if installation.suspended {
        return;
    }
    payload["installation"] = json!({ "id": installation.id, "node_id": format!("I_{}", installation.id) });
    let repository = state.repos.iter().find(|r| r.id == repo).map(|repo| state.repo_json(repo));
    payload["repository"] = json!(repository);
    payload["sender"] = state.user_json(Some(by));
    deliver(state, event, payload);
}

/// Puts a delivery into the outbox as it is.
pub fn deliver(state: &mut State, event: &str, payload: Value) {
    let serial = state.id();
    let id = format!("00000000-0000-4000-8000-{serial:012}");
    attempt(state, Delivery { id, event: event.to_owned(), payload }, false);
}

/// Tries to deliver: whoever empties the outbox says what was answered.
pub fn attempt(state: &mut State, delivery: Delivery, redelivery: bool) {
    let (id, at) = (state.id(), state.now());
    state.outbox.push(delivery.clone());
    state.sent.push(Sent { id, at, status: 0, redelivery, payload_gone: false, delivery });
}

fn with<T>(state: &State, repo: u64, number: u64, make: impl Fn(&Repo, &Pull) -> T) -> T {
    let repo = state.repos.iter().find(|r| r.id == repo).unwrap();
    make(repo, &repo.pulls[&number])
}

/// `pull_request`.
pub fn pull(state: &mut State, repo: u64, number: u64, by: &str, action: &str, more: Value) {
    let pull = with(state, repo, number, |repo, pull| state.full_pull_json(repo, pull));
    let mut payload = json!({ "action": action, "number": number, "pull_request": pull });
    super::json::extend(&mut payload, more);
    send(state, repo, "pull_request", by, payload);
}

/// `pull_request_review` submitted.
pub fn review(state: &mut State, repo: u64, number: u64, by: &str, review: &Review) {
    let (pull, mut json) =
        with(state, repo, number, |repo, pull| (state.pull_json(repo, pull), state.review_json(repo, pull, review)));
    // Webhooks spell the state in lower case.
    json["state"] = json!(review.state.to_lowercase());
    send(
        state,
        repo,
        "pull_request_review",
        by,
        json!({ "action": "submitted", "review": json, "pull_request": pull }),
    );
}

/// `pull_request_review_comment` created.
pub fn comment(state: &mut State, repo: u64, number: u64, by: &str, comment: &Comment) {
    let (pull, json) =
        with(state, repo, number, |repo, pull| (state.pull_json(repo, pull), state.comment_json(repo, pull, comment)));
    let payload = json!({ "action": "created", "comment": json, "pull_request": pull });
    send(state, repo, "pull_request_review_comment", by, payload);
}

/// `pull_request_review_thread` resolved, unresolved.
pub fn thread(state: &mut State, repo: u64, number: u64, by: &str, root: u64, action: &str) {
    let (pull, comments) = with(state, repo, number, |repo, pull| {
        let of_thread = pull.comments.iter().filter(|comment| comment.id == root || comment.reply_to == Some(root));
        let comments: Vec<Value> = of_thread.map(|comment| state.comment_json(repo, pull, comment)).collect();
        (state.pull_json(repo, pull), comments)
    });
    let thread = json!({ "node_id": format!("PRRT_{root}"), "comments": comments });
    send(
        state,
        repo,
        "pull_request_review_thread",
        by,
        json!({ "action": action, "thread": thread, "pull_request": pull }),
    );
}

/// `issue_comment` created; edited when it is known what the body was before.
pub fn talk(state: &mut State, repo: u64, number: u64, by: &str, talk: &Talk, before: Option<&str>) {
    let (issue, json) =
        with(state, repo, number, |repo, pull| (state.issue_json(repo, pull), state.talk_json(repo, pull, talk)));
    let mut payload = json!({ "action": "created", "issue": issue, "comment": json });
    if let Some(before) = before {
        payload["action"] = json!("edited");
        payload["changes"] = json!({ "body": { "from": before } });
    }
    send(state, repo, "issue_comment", by, payload);
}

/// `check_run` rerequested.
pub fn check_rerequested(state: &mut State, repo: u64, by: &str, check: &Check) {
    let json = state.check_json(state.repos.iter().find(|r| r.id == repo).unwrap(), check);
    send(state, repo, "check_run", by, json!({ "action": "rerequested", "check_run": json }));
}

/// `merge_group` checks_requested.
pub fn merge_group(state: &mut State, repo: u64, by: &str, head: &str, base: &str) {
    let group = json!({
        "head_sha": head, "head_ref": format!("refs/heads/gh-readonly-queue/main/pr-1-{head}"), "base_sha": base,
        "base_ref": "refs/heads/main", "head_commit": { "id": head, "tree_id": head, "message": "merge", "timestamp": state.now().to_string(),
            "author": { "name": "x", "email": "x@example.com" }, "committer": { "name": "x", "email": "x@example.com" } },
    });
    send(state, repo, "merge_group", by, json!({ "action": "checks_requested", "merge_group": group }));
}

/// `repository` renamed.
pub fn renamed(state: &mut State, repo: u64, by: &str, from: &str) {
    let payload = json!({ "action": "renamed", "changes": { "repository": { "name": { "from": from } } } });
    send(state, repo, "repository", by, payload);
}

/// `repository` deleted.
pub fn deleted(state: &mut State, repo: u64, by: &str) {
    send(state, repo, "repository", by, json!({ "action": "deleted" }));
}

/// `installation` and `installation_repositories`, with the repositories named.
pub fn installation(state: &mut State, installation: u64, event: &str, by: &str, action: &str, repos: &[u64]) {
    let named: Vec<Value> = state
        .repos
        .iter()
        .filter(|repo| repos.contains(&repo.id))
        .map(|repo| json!({ "id": repo.id, "node_id": format!("R_{}", repo.id), "name": repo.name, "full_name": repo.full_name(), "private": repo.private }))
        .collect();
    let mut payload = json!({ "action": action, "installation": state.installation_json(installation), "sender": state.user_json(Some(by)) });
    let key = match (event, action) {
        ("installation_repositories", "removed") => "repositories_removed",
        ("installation_repositories", _) => "repositories_added",
        _ => "repositories",
    };
    if event == "installation_repositories" {
        payload["repository_selection"] = json!("selected");
        payload["requester"] = Value::Null;
        payload["repositories_added"] = json!([]);
        payload["repositories_removed"] = json!([]);
    }
    payload[key] = json!(named);
    deliver(state, event, payload);
}
