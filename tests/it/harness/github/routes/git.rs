//! Commits, trees and files.

use base64::Engine as _;
use serde_json::{Value, json};

use super::super::server::{Answer, Asked, Content};
use super::super::state::{State, blob_sha, encoded};

/// `GET /compare/{base}...{head}`. Commits and files are not shown: the client asks for the merge base only.
pub fn compare(state: &mut State, repo: u64, range: &str) -> Answer {
    let Some(repo) = state.repos.iter().find(|r| r.id == repo) else { return Answer::not_found() };
    let Some((base, head)) = range.split_once("...") else { return Answer::not_found() };
    let (Some(base), Some(head)) = (state.commits.get(base), state.commits.get(head)) else {
        return Answer::not_found();
    };
    let Some(merge_base) = state.merge_base(&base.sha, &head.sha) else {
        return Answer::error(404, &format!("No common ancestor between {} and {}.", base.sha, head.sha));
    };
    let (ours, theirs) = (state.ancestors(&head.sha), state.ancestors(&base.sha));
    let ahead = ours.iter().filter(|sha| !theirs.contains(sha)).count();
    let behind = theirs.iter().filter(|sha| !ours.contains(sha)).count();
    let status = match (ahead, behind) {
        (0, 0) => "identical",
        (_, 0) => "ahead",
        (0, _) => "behind",
        _ => "diverged",
    };
    let (url, html) =
        (format!("{}/compare/{range}", state.repo_url(repo)), format!("{}/compare/{range}", state.repo_html(repo)));
    Answer::ok(json!({
        "url": url, "html_url": html, "permalink_url": html, "diff_url": format!("{html}.diff"), "patch_url": format!("{html}.patch"),
        "base_commit": state.commit_json(repo, base), "merge_base_commit": state.commit_json(repo, state.commit(&merge_base)),
        "status": status, "ahead_by": ahead, "behind_by": behind, "total_commits": ahead, "commits": [],
    }))
}

/// `GET /contents/{path}?ref=`: JSON up to 1 MB of content, `none` above; directories are lists.
pub fn contents(state: &State, asked: &Asked, repo: u64, path: &str) -> Answer {
    let Some(repo) = state.repos.iter().find(|r| r.id == repo) else { return Answer::not_found() };
    let at = asked.query.get("ref").map_or("main", String::as_str);
    let sha = repo.branches.get(at).map_or(at, String::as_str);
    let Some(commit) = state.commits.get(sha) else {
        return Answer::error(404, &format!("No commit found for the ref {at}"));
    };
    let one = |path: &str, whole: bool| -> Option<Value> {
        let file = commit.files.get(path)?;
        let name = path.rsplit('/').next().unwrap_or(path);
        let url = format!("{}/contents/{}?ref={at}", state.repo_url(repo), encoded(path));
        let sha = if file.mode == "160000" {
            String::from_utf8_lossy(&file.bytes).into_owned()
        } else {
            blob_sha(&file.bytes)
        };
        let git = format!("{}/git/blobs/{sha}", state.repo_url(repo));
        let html = format!("{}/blob/{at}/{}", state.repo_html(repo), encoded(path));
        // GitHub shows a submodule in a listing as a file.
        let kind = if file.mode == "120000" {
            "symlink"
        } else if file.mode == "160000" && whole {
            "submodule"
        } else {
            "file"
        };
        let mut json = json!({
            "name": name, "path": path, "sha": sha, "size": file.bytes.len(), "url": url, "html_url": html, "git_url": git,
            "download_url": html, "type": kind, "_links": { "self": url, "git": git, "html": html },
        });
        if whole && kind == "file" {
            let small = file.bytes.len() <= 1 << 20;
            json["encoding"] = json!(if small { "base64" } else { "none" });
            json["content"] = json!(if small {
                base64::engine::general_purpose::STANDARD.encode(&file.bytes)
            } else {
                String::new()
            });
        }
        if kind == "submodule" {
            json["submodule_git_url"] = json!("https://github.example/acme/other.git");
        }
        if kind == "symlink" && whole {
            json["target"] = json!(String::from_utf8_lossy(&file.bytes));
        }
        Some(json)
    };
    if let Some(json) = one(path, true) {
        if asked.accept.contains("raw") {
            return Answer { status: 200, headers: Vec::new(), body: Content::Raw(commit.files[path].bytes.clone()) };
        }
        return Answer::ok(json);
    }
    let prefix = if path.is_empty() { String::new() } else { format!("{path}/") };
    let listing: Vec<Value> = commit
        .files
        .keys()
        .filter(|file| file.starts_with(&prefix) && !file[prefix.len()..].contains('/'))
        .filter_map(|file| one(file, false))
        .collect();
    if listing.is_empty() { Answer::not_found() } else { Answer::ok(Value::Array(listing)) }
}

pub fn blob(state: &State, asked: &Asked, repo: u64, sha: &str) -> Answer {
    let Some(repo) = state.repos.iter().find(|r| r.id == repo) else { return Answer::not_found() };
    let Some(bytes) = state.blobs.get(sha) else { return Answer::not_found() };
    if asked.accept.contains("raw") {
        return Answer { status: 200, headers: Vec::new(), body: Content::Raw(bytes.clone()) };
    }
    Answer::ok(json!({
        "sha": sha, "node_id": format!("B_{sha}"), "size": bytes.len(), "url": format!("{}/git/blobs/{sha}", state.repo_url(repo)),
        "content": base64::engine::general_purpose::STANDARD.encode(bytes), "encoding": "base64",
    }))
}

/// `GET /git/trees/{sha}?recursive=1`, directories too.
pub fn tree(state: &State, repo: u64, sha: &str) -> Answer {
    let Some(repo) = state.repos.iter().find(|r| r.id == repo) else { return Answer::not_found() };
    let Some(commit) = state.commits.get(sha) else { return Answer::not_found() };
    let mut entries = std::collections::BTreeMap::new();
    for (path, file) in commit.files.iter() {
        for (at, _) in path.match_indices('/') {
            let directory = &path[..at];
            entries.insert(
                directory.to_owned(),
                json!({ "path": directory, "mode": "040000", "type": "tree", "sha": blob_sha(directory.as_bytes()) }),
            );
        }
        let (kind, sha) = if file.mode == "160000" {
            ("commit", String::from_utf8_lossy(&file.bytes).into_owned())
        } else {
            ("blob", blob_sha(&file.bytes))
        };
        entries.insert(
            path.clone(),
            json!({ "path": path, "mode": file.mode, "type": kind, "sha": sha, "size": file.bytes.len() }),
        );
    }
    let entries: Vec<Value> = entries.into_values().collect();
    Answer::ok(
        json!({ "sha": sha, "url": format!("{}/git/trees/{sha}", state.repo_url(repo)), "tree": entries, "truncated": false }),
    )
}
