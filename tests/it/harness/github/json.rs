//! GitHub's JSON of what the state holds. The answers of the API and the webhooks are made of the same parts.

use serde_json::{Map, Value, json};

use super::diff;
use super::state::{Account, Check, Comment, Commit, Fork, Pull, Reaction, Repo, Review, State, Talk, encoded};

const REPO_LINKS: &[&str] = &[
    "archive/{archive_format}{/ref}",
    "assignees{/user}",
    "git/blobs{/sha}",
    "branches{/branch}",
    "collaborators{/collaborator}",
    "comments{/number}",
    "commits{/sha}",
    "compare/{base}...{head}",
    "contents/{+path}",
    "contributors",
    "deployments",
    "downloads",
    "events",
    "forks",
    "git/commits{/sha}",
    "git/refs{/sha}",
    "git/tags{/sha}",
    "hooks",
    "issues/comments{/number}",
    "issues/events{/number}",
    "issues{/number}",
    "keys{/key_id}",
    "labels{/name}",
    "languages",
    "merges",
    "milestones{/number}",
    "notifications{?since,all,participating}",
    "pulls{/number}",
    "releases{/id}",
    "stargazers",
    "statuses/{sha}",
    "subscribers",
    "subscription",
    "tags",
    "teams",
    "git/trees{/sha}",
];
const REPO_LINK_NAMES: &[&str] = &[
    "archive_url",
    "assignees_url",
    "blobs_url",
    "branches_url",
    "collaborators_url",
    "comments_url",
    "commits_url",
    "compare_url",
    "contents_url",
    "contributors_url",
    "deployments_url",
    "downloads_url",
    "events_url",
    "forks_url",
    "git_commits_url",
    "git_refs_url",
    "git_tags_url",
    "hooks_url",
    "issue_comment_url",
    "issue_events_url",
    "issues_url",
    "keys_url",
    "labels_url",
    "languages_url",
    "merges_url",
    "milestones_url",
    "notifications_url",
    "pulls_url",
    "releases_url",
    "stargazers_url",
    "statuses_url",
    "subscribers_url",
    "subscription_url",
    "tags_url",
    "teams_url",
    "trees_url",
];

impl State {
    fn html(&self) -> &'static str {
        "https://github.example"
    }

    pub fn repo_url(&self, repo: &Repo) -> String {
        format!("{}/repos/{}", self.url, repo.full_name())
    }

    pub fn repo_html(&self, repo: &Repo) -> String {
        format!("{}/{}", self.html(), repo.full_name())
    }

    /// A user by login; `null` when the account is gone.
    pub fn user_json(&self, login: Option<&str>) -> Value {
        let Some(account) = login.and_then(|login| self.users.get(login)) else { return Value::Null };
        let Account { id, login, kind } = account;
        let url = format!("{}/users/{}", self.url, encoded(login));
        json!({
            "login": login, "id": id, "node_id": format!("U_{id}"), "avatar_url": format!("https://avatars.example/{id}"),
            "gravatar_id": "", "url": url, "html_url": format!("{}/{}", self.html(), encoded(login)),
            "followers_url": format!("{url}/followers"), "following_url": format!("{url}/following{{/other_user}}"),
            "gists_url": format!("{url}/gists{{/gist_id}}"), "starred_url": format!("{url}/starred{{/owner}}{{/repo}}"),
            "subscriptions_url": format!("{url}/subscriptions"), "organizations_url": format!("{url}/orgs"),
            "repos_url": format!("{url}/repos"), "events_url": format!("{url}/events{{/privacy}}"),
            "received_events_url": format!("{url}/received_events"), "type": kind, "user_view_type": "public",
            "site_admin": false,
        })
    }

    /// `GET /users/{login}`.
    pub fn public_user_json(&self, login: &str) -> Value {
        let mut json = self.user_json(Some(login));
        for (key, value) in [
            ("name", Value::Null),
            ("company", Value::Null),
            ("blog", json!("")),
            ("location", Value::Null),
            ("email", Value::Null),
            ("hireable", Value::Null),
            ("bio", Value::Null),
            ("public_repos", json!(0)),
            ("public_gists", json!(0)),
            ("followers", json!(0)),
            ("following", json!(0)),
            ("created_at", json!("2020-01-01T00:00:00Z")),
            ("updated_at", json!("2020-01-01T00:00:00Z")),
        ] {
            json[key] = value;
        }
        json
    }

    pub fn repo_json(&self, repo: &Repo) -> Value {
        let (url, html) = (self.repo_url(repo), self.repo_html(repo));
        let mut json = json!({
            "id": repo.id, "node_id": format!("R_{}", repo.id), "name": repo.name, "full_name": repo.full_name(),
            "private": repo.private, "owner": self.user_json(Some(&repo.owner)), "html_url": html, "description": null,
            "fork": false, "url": url, "created_at": "2020-01-01T00:00:00Z", "updated_at": "2020-01-01T00:00:00Z",
            "pushed_at": "2020-01-01T00:00:00Z", "git_url": format!("git://github.example/{}.git", repo.full_name()),
            "ssh_url": format!("git@github.example:{}.git", repo.full_name()), "clone_url": format!("{html}.git"),
            "svn_url": html,
        });
        let more = json!({
            "homepage": null, "size": 1, "stargazers_count": 0, "watchers_count": 0, "language": null,
            "has_issues": true, "has_projects": true, "has_downloads": true, "has_wiki": true, "has_pages": false,
            "has_discussions": false, "forks_count": 0, "mirror_url": null, "archived": false, "disabled": false,
            "open_issues_count": 0, "license": null, "allow_forking": true, "is_template": false,
            "web_commit_signoff_required": false, "topics": [], "forks": 0, "open_issues": 0, "custom_properties": {}, "watchers": 0,
            "visibility": if repo.private { "private" } else { "public" }, "default_branch": "main",
        });
        extend(&mut json, more);
        for (name, link) in REPO_LINK_NAMES.iter().zip(REPO_LINKS) {
            let slash = if link.starts_with('{') { "" } else { "/" };
            json[*name] = json!(format!("{url}{slash}{link}"));
        }
        json
    }

    fn branch_json(&self, repo: &Repo, name: &str, sha: &str, fork: Option<&Fork>) -> Value {
        let (owner, repository) = match fork {
            None => (Some(repo.owner.clone()), self.repo_json(repo)),
            Some(Fork::Gone) => (None, Value::Null),
            Some(Fork::Of(owner)) => {
                let mut json = self.repo_json(repo);
                json["id"] = json!(repo.id + 500_000);
                json["fork"] = json!(true);
                json["full_name"] = json!(format!("{owner}/{}", repo.name));
                json["owner"] = self.user_json(Some(owner));
                (Some(owner.clone()), json)
            }
        };
        let label = format!("{}:{name}", owner.as_deref().unwrap_or("unknown repository"));
        json!({ "label": label, "ref": name, "sha": sha, "user": self.user_json(owner.as_deref()), "repo": repository })
    }

    /// A pull request as in lists.
    pub fn pull_json(&self, repo: &Repo, pull: &Pull) -> Value {
        let (url, html) = (self.repo_url(repo), self.repo_html(repo));
        let (own, number) = (format!("{url}/pulls/{}", pull.number), pull.number);
        let issue = format!("{url}/issues/{number}");
        let statuses = format!("{url}/statuses/{}", pull.head());
        let href = |url: &str| json!({ "href": url });
        let mut json = json!({
            "url": own, "id": pull.id, "node_id": format!("PR_{}", pull.id), "html_url": format!("{html}/pull/{number}"),
            "diff_url": format!("{html}/pull/{number}.diff"), "patch_url": format!("{html}/pull/{number}.patch"),
            "issue_url": issue, "number": number, "state": if pull.open { "open" } else { "closed" }, "locked": false,
            "title": pull.title, "user": self.user_json(pull.author.as_deref()), "body": pull.body,
            "created_at": pull.created_at.to_string(), "updated_at": pull.updated_at.to_string(),
            "closed_at": if pull.open { Value::Null } else { json!(self.now().to_string()) },
            "merged_at": pull.merged_at.map(|at| at.to_string()), "merge_commit_sha": pull.head(), "assignee": null,
            "assignees": [], "requested_reviewers": [], "requested_teams": [], "labels": [], "milestone": null,
        });
        let more = json!({
            "draft": pull.draft, "commits_url": format!("{own}/commits"), "review_comments_url": format!("{own}/comments"),
            "review_comment_url": format!("{url}/pulls/comments{{/number}}"), "comments_url": format!("{issue}/comments"),
            "statuses_url": statuses,
            "head": self.branch_json(repo, &pull.head_ref, pull.head(), pull.fork.as_ref()),
            "base": self.branch_json(repo, &pull.base_ref, &pull.base_sha, None),
            "_links": {
                "self": href(&own), "html": href(&format!("{html}/pull/{number}")), "issue": href(&issue),
                "comments": href(&format!("{issue}/comments")), "review_comments": href(&format!("{own}/comments")),
                "review_comment": href(&format!("{url}/pulls/comments{{/number}}")), "commits": href(&format!("{own}/commits")),
                "statuses": href(&statuses),
            },
            "author_association": "CONTRIBUTOR", "auto_merge": null, "active_lock_reason": null,
        });
        extend(&mut json, more);
        json
    }

    /// A pull request as `GET /pulls/{number}` and webhooks have it.
    pub fn full_pull_json(&self, repo: &Repo, pull: &Pull) -> Value {
        let entries = self.entries_of(pull);
        let mut json = self.pull_json(repo, pull);
        let more = json!({
            "merged": pull.merged_at.is_some(), "mergeable": true, "rebaseable": true, "mergeable_state": "clean",
            "merged_by": null, "comments": pull.talk.len(), "review_comments": pull.comments.len(),
            "maintainer_can_modify": false, "commits": self.commits_of(pull).len(),
            "additions": entries.iter().map(|entry| entry.additions).sum::<usize>(),
            "deletions": entries.iter().map(|entry| entry.deletions).sum::<usize>(), "changed_files": entries.len(),
        });
        extend(&mut json, more);
        json
    }

    pub fn review_json(&self, repo: &Repo, pull: &Pull, review: &Review) -> Value {
        let html = format!("{}/pull/{}#pullrequestreview-{}", self.repo_html(repo), pull.number, review.id);
        let pull_url = format!("{}/pulls/{}", self.repo_url(repo), pull.number);
        let mut json = json!({
            "id": review.id, "node_id": format!("PRR_{}", review.id), "user": self.user_json(Some(&review.author)),
            "body": review.body, "state": review.state, "html_url": html, "pull_request_url": pull_url,
            "author_association": "NONE", "commit_id": review.commit,
            "_links": { "html": { "href": html }, "pull_request": { "href": pull_url } },
        });
        // A review that is not submitted has no such time.
        if review.state != "PENDING" {
            json["submitted_at"] = json!(review.at.to_string());
        }
        json
    }

    pub fn comment_json(&self, repo: &Repo, pull: &Pull, comment: &Comment) -> Value {
        let url = format!("{}/pulls/comments/{}", self.repo_url(repo), comment.id);
        let html = format!("{}/pull/{}#discussion_r{}", self.repo_html(repo), pull.number, comment.id);
        let pull_url = format!("{}/pulls/{}", self.repo_url(repo), pull.number);
        let line = self.present_line(pull, comment, comment.line);
        let side = if comment.left { "LEFT" } else { "RIGHT" };
        let start = comment.start.filter(|_| line.is_some()).and_then(|start| self.present_line(pull, comment, start));
        let mut json = json!({
            "url": url, "pull_request_review_id": comment.review, "id": comment.id, "node_id": format!("PRRC_{}", comment.id),
            "diff_hunk": comment.hunk, "path": comment.path, "commit_id": pull.head(), "original_commit_id": comment.commit,
            "user": self.user_json(comment.author.as_deref()), "body": comment.body, "created_at": comment.at.to_string(),
            "updated_at": comment.at.to_string(), "html_url": html, "pull_request_url": pull_url,
            "author_association": "NONE",
            "_links": { "self": { "href": url }, "html": { "href": html }, "pull_request": { "href": pull_url } },
            "reactions": reactions_json(&url, &comment.reactions), "start_line": start, "original_start_line": comment.start,
            "start_side": comment.start.map(|_| side), "line": line, "original_line": comment.line, "side": side,
            "position": line.map(|_| 1), "original_position": 1, "subject_type": "line",
        });
        if let Some(root) = comment.reply_to {
            json["in_reply_to_id"] = json!(root);
        }
        json
    }

    pub fn talk_json(&self, repo: &Repo, pull: &Pull, talk: &Talk) -> Value {
        let url = format!("{}/issues/comments/{}", self.repo_url(repo), talk.id);
        let html = format!("{}/pull/{}#issuecomment-{}", self.repo_html(repo), pull.number, talk.id);
        json!({
            "url": url, "html_url": html, "issue_url": format!("{}/issues/{}", self.repo_url(repo), pull.number),
            "id": talk.id, "node_id": format!("IC_{}", talk.id), "user": self.user_json(talk.author.as_deref()),
            "created_at": talk.at.to_string(), "updated_at": talk.edited_at.to_string(), "author_association": "NONE",
            "body": talk.body, "reactions": reactions_json(&url, &talk.reactions), "performed_via_github_app": null,
        })
    }

    /// The issue that every pull request also is.
    pub fn issue_json(&self, repo: &Repo, pull: &Pull) -> Value {
        let url = format!("{}/issues/{}", self.repo_url(repo), pull.number);
        let html = format!("{}/pull/{}", self.repo_html(repo), pull.number);
        let mut json = json!({
            "url": url, "repository_url": self.repo_url(repo), "labels_url": format!("{url}/labels{{/name}}"),
            "comments_url": format!("{url}/comments"), "events_url": format!("{url}/events"), "html_url": html,
            "id": pull.id + 700_000, "node_id": format!("PR_{}", pull.id), "number": pull.number, "title": pull.title,
            "user": self.user_json(pull.author.as_deref()), "labels": [], "state": if pull.open { "open" } else { "closed" },
            "locked": false, "assignee": null, "assignees": [], "milestone": null, "comments": pull.talk.len(),
            "created_at": pull.created_at.to_string(), "updated_at": pull.created_at.to_string(), "closed_at": null,
            "author_association": "CONTRIBUTOR", "active_lock_reason": null, "draft": pull.draft, "body": pull.body,
            "reactions": reactions_json(&url, &[]), "timeline_url": format!("{url}/timeline"),
            "performed_via_github_app": null, "state_reason": null,
        });
        json["pull_request"] = json!({
            "url": format!("{}/pulls/{}", self.repo_url(repo), pull.number), "html_url": html,
            "diff_url": format!("{html}.diff"), "patch_url": format!("{html}.patch"), "merged_at": null,
        });
        json
    }

    pub fn reaction_json(&self, reaction: &Reaction) -> Value {
        json!({
            "id": reaction.id, "node_id": format!("REA_{}", reaction.id), "user": self.user_json(Some(&reaction.author)),
            "content": reaction.content, "created_at": reaction.at.to_string(),
        })
    }

    pub fn app_json(&self) -> Value {
        json!({
            "id": self.app.id, "slug": self.app.slug, "client_id": "Iv1.0000000000000000", "node_id": "A_1",
            "owner": self.user_json(Some("acme")), "name": self.app.slug, "description": "", "external_url": "https://secondlook.example",
            "html_url": format!("{}/apps/{}", self.html(), self.app.slug), "created_at": "2020-01-01T00:00:00Z",
            "updated_at": "2020-01-01T00:00:00Z", "permissions": self.app.permissions,
            "events": ["check_run", "check_suite", "issue_comment", "merge_group", "pull_request", "pull_request_review",
                "pull_request_review_comment", "pull_request_review_thread", "repository"],
        })
    }

    pub fn installation_json(&self, id: u64) -> Value {
        let Some(installation) = self.installations.iter().find(|installation| installation.id == id) else {
            return Value::Null;
        };
        let suspended = installation.suspended.then(|| self.now().to_string());
        json!({
            "id": id, "app_id": self.app.id, "app_slug": self.app.slug, "target_id": self.users[&installation.account].id,
            "target_type": self.users[&installation.account].kind, "single_file_name": null, "repository_selection": "selected",
            "access_tokens_url": format!("{}/app/installations/{id}/access_tokens", self.url),
            "html_url": format!("{}/settings/installations/{id}", self.html()),
            "repositories_url": format!("{}/installation/repositories", self.url), "events": self.app_json()["events"],
            "account": self.user_json(Some(&installation.account)), "permissions": self.app.permissions,
            "created_at": "2020-01-01T00:00:00Z", "updated_at": "2020-01-01T00:00:00Z", "suspended_by": null,
            "suspended_at": suspended,
        })
    }

    pub fn check_json(&self, repo: &Repo, check: &Check) -> Value {
        let url = format!("{}/check-runs/{}", self.repo_url(repo), check.id);
        let html = format!("{}/runs/{}", self.repo_html(repo), check.id);
        // Pull requests of forks are not named here.
        let own = |pull: &&Pull| pull.fork.is_none() && pull.open && pull.head() == check.head_sha;
        let pulls: Vec<Value> =
            repo.pulls.values().filter(own).map(|pull| self.minimal_pull_json(repo, pull)).collect();
        json!({
            "id": check.id, "name": check.name, "node_id": format!("CR_{}", check.id), "head_sha": check.head_sha,
            "external_id": check.external_id, "url": url, "html_url": html,
            "details_url": check.details_url.clone().unwrap_or_else(|| "https://secondlook.example".into()),
            "status": check.status, "conclusion": check.conclusion, "started_at": check.started_at.to_string(),
            "completed_at": check.completed_at.map(|at| at.to_string()),
            "output": { "title": check.title, "summary": check.summary, "text": null, "annotations_count": 0, "annotations_url": format!("{url}/annotations") },
            "check_suite": { "id": repo.id + 800_000 }, "app": self.app_json(), "pull_requests": pulls,
        })
    }

    fn minimal_pull_json(&self, repo: &Repo, pull: &Pull) -> Value {
        let minimal = json!({ "id": repo.id, "url": self.repo_url(repo), "name": repo.name });
        json!({
            "url": format!("{}/pulls/{}", self.repo_url(repo), pull.number), "id": pull.id, "number": pull.number,
            "head": { "ref": pull.head_ref, "sha": pull.head(), "repo": minimal },
            "base": { "ref": pull.base_ref, "sha": pull.base_sha, "repo": minimal },
        })
    }

    pub fn commit_json(&self, repo: &Repo, commit: &Commit) -> Value {
        let url = format!("{}/commits/{}", self.repo_url(repo), commit.sha);
        let person = json!({ "name": "Somebody", "email": "somebody@example.com", "date": commit.at.to_string() });
        let parents: Vec<Value> = commit
            .parents
            .iter()
            .map(|sha| json!({ "sha": sha, "url": format!("{}/commits/{sha}", self.repo_url(repo)), "html_url": format!("{}/commit/{sha}", self.repo_html(repo)) }))
            .collect();
        json!({
            "sha": commit.sha, "node_id": format!("C_{}", commit.sha), "url": url, "html_url": format!("{}/commit/{}", self.repo_html(repo), commit.sha),
            "comments_url": format!("{url}/comments"), "author": null, "committer": null, "parents": parents,
            "commit": {
                "url": format!("{}/git/commits/{}", self.repo_url(repo), commit.sha), "author": person, "committer": person,
                "message": commit.message, "comment_count": 0,
                "tree": { "sha": commit.sha, "url": format!("{}/git/trees/{}", self.repo_url(repo), commit.sha) },
                "verification": { "verified": false, "reason": "unsigned", "signature": null, "payload": null, "verified_at": null },
            },
        })
    }

    /// The piece of diff that GitHub shows over a comment: from the hunk's beginning to the line.
    pub fn hunk_above(patch: &str, left: bool, line: u64) -> String {
        let all = diff::lines(patch);
        let Some(at) = all.iter().find(|l| if left { l.old } else { l.new } == Some(line)) else {
            return String::new();
        };
        let header = patch.split('\n').filter(|text| text.starts_with("@@ ")).nth(at.hunk - 1).unwrap_or_default();
        let shown =
            all.iter().filter(|l| l.hunk == at.hunk && l.index <= at.index).map(|l| format!("{}{}", l.mark, l.text));
        std::iter::once(header.to_owned()).chain(shown).collect::<Vec<_>>().join("\n")
    }
}

/// Adds the members of one object to another.
pub fn extend(json: &mut Value, more: Value) {
    if let (Value::Object(json), Value::Object(more)) = (json, more) {
        json.extend(more);
    }
}

fn reactions_json(url: &str, reactions: &[Reaction]) -> Value {
    let mut json = Map::new();
    json.insert("url".into(), json!(format!("{url}/reactions")));
    json.insert("total_count".into(), json!(reactions.len()));
    for content in ["+1", "-1", "laugh", "hooray", "confused", "heart", "rocket", "eyes"] {
        json.insert(content.into(), json!(reactions.iter().filter(|reaction| reaction.content == content).count()));
    }
    Value::Object(json)
}
