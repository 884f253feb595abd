//! Real traffic: what GitHub was recorded to answer is read rightly, and the stand-in answers no less.
//!
//! The recordings may not be copied into the project; without them these tests say so and prove nothing, and the same
//! is proved on smaller samples beside the code in `github::wire` and `github::error`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use secondlook::github::error::GitHubError;
use secondlook::github::{IssueComment, PullRequest, Review, ReviewComment, wire};
use serde_json::{Value, json};

use crate::harness::clock::ManualClock;
use crate::harness::github::actions::PullSpec;
use crate::harness::github::{FakeGitHub, openapi};
use crate::harness::material::material;

/// A request and its answer.
struct Exchange {
    method: String,
    path: Vec<String>,
    status: u16,
    headers: HeaderMap,
    body: Value,
}

fn exchanges() -> Option<Vec<Exchange>> {
    let text = std::fs::read_to_string(material("github/recorded/pr_exchanges.jsonl")?).unwrap();
    let read = |line: &str| {
        let json: Value = serde_json::from_str(line).unwrap();
        let url = json["url"].as_str().unwrap();
        let path = url.split('?').next().unwrap().trim_start_matches("/api/v3");
        let path = path.split_once("://").map_or(path, |(_, rest)| rest.split_once('/').map_or("", |(_, path)| path));
        let mut headers = HeaderMap::new();
        for (name, value) in json["headers"].as_object().into_iter().flatten() {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(&value)) {
                headers.insert(name, value);
            }
        }
        Exchange {
            method: json["verb"].as_str().unwrap().to_owned(),
            path: path.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect(),
            status: u16::try_from(json["status"].as_u64().unwrap()).unwrap(),
            headers,
            // Some recordings hold the body as text.
            body: json["body"]
                .as_str()
                .and_then(|text| serde_json::from_str(text).ok())
                .unwrap_or(json["body"].clone()),
        }
    };
    Some(text.lines().map(read).collect())
}

impl Exchange {
    /// What it is of, in the words of the client's methods.
    fn kind(&self) -> Option<&'static str> {
        let path: Vec<&str> = self.path.iter().map(String::as_str).collect();
        let rest = match path.as_slice() {
            ["repos", _, _, rest @ ..] | ["repositories", _, rest @ ..] => rest,
            ["app", "installations", _, "access_tokens"] => return Some("token"),
            ["app-manifests", _, "conversions"] => return Some("manifest"),
            _ => return None,
        };
        Some(match (self.method.as_str(), rest) {
            ("GET", ["pulls", "comments"]) | ("GET", ["pulls", _, "comments"]) => "line comments",
            ("GET", ["pulls", "comments", _]) | ("POST", ["pulls", _, "comments", ..]) => "line comment",
            ("GET", ["pulls", n]) if n.parse::<u64>().is_ok() => "pull",
            ("GET", ["pulls", _, "files"]) => "files",
            ("GET", ["pulls", _, "reviews"]) => "reviews",
            ("POST", ["pulls", _, "reviews"]) | ("DELETE", ["pulls", _, "reviews", _]) => "review",
            ("GET", ["issues", "comments"]) | ("GET", ["issues", _, "comments"]) => "talk",
            ("GET", ["issues", "comments", _]) | ("POST", ["issues", _, "comments"]) => "said",
            ("POST", ["pulls" | "issues", "comments", _, "reactions"]) => "reaction",
            ("POST", ["check-runs"]) | ("PATCH", ["check-runs", _]) => "check run",
            _ => return None,
        })
    }
}

#[test]
fn recorded_answers_are_read() {
    let Some(exchanges) = exchanges() else { return };
    let mut read: BTreeMap<&str, usize> = BTreeMap::new();
    for exchange in exchanges.iter().filter(|exchange| (200..300).contains(&exchange.status)) {
        let Some(kind) = exchange.kind() else { continue };
        let body = &exchange.body;
        let at = format!("{} {}", exchange.method, exchange.path.join("/"));
        match kind {
            "pull" => same_pull(body, &parse::<wire::PullWire>(body, &at).into()),
            "files" => {
                let files: Vec<wire::FileWire> = parse(body, &at);
                for (file, raw) in files.iter().zip(body.as_array().unwrap()) {
                    assert_eq!(json!(file.filename), raw["filename"]);
                    assert_eq!(json!(file.patch), raw["patch"]);
                    assert_eq!(json!(file.additions), raw["additions"]);
                    assert_eq!(json!(format!("{:?}", file.status()).to_lowercase()), raw["status"]);
                }
            }
            "reviews" => {
                for raw in body.as_array().unwrap() {
                    let review: Review = parse::<wire::ReviewWire>(raw, &at).into();
                    assert_eq!(json!(review.id), raw["id"]);
                    assert_eq!(review.pending, raw["state"] == "PENDING");
                    assert_eq!(json!(review.author.map(|author| author.login)), raw["user"]["login"]);
                }
            }
            "line comments" => body.as_array().unwrap().iter().for_each(same_line_comment),
            "line comment" => same_line_comment(body),
            "talk" => body.as_array().unwrap().iter().for_each(same_talk),
            "said" => same_talk(body),
            "token" => {
                let token: wire::InstallationToken = parse(body, &at);
                token.expires_at.parse::<jiff::Timestamp>().unwrap();
            }
            "manifest" => {
                let app = parse::<wire::ConvertedAppWire>(body, &at).into_app();
                assert_eq!(json!(app.id), body["id"]);
            }
            _ => drop(parse::<wire::Id>(body, &at)),
        }
        *read.entry(kind).or_default() += 1;
    }
    println!("{read:?}");
    assert_eq!(read.len(), 12, "{read:?}");
}

fn parse<T: serde::de::DeserializeOwned>(raw: &Value, at: &str) -> T {
    serde_json::from_value(raw.clone()).unwrap_or_else(|error| panic!("{at}: {error}"))
}

fn same_pull(raw: &Value, pull: &PullRequest) {
    assert_eq!(json!(pull.number), raw["number"]);
    assert_eq!(json!(pull.head_sha), raw["head"]["sha"]);
    assert_eq!(json!(pull.base_ref), raw["base"]["ref"]);
    assert_eq!(pull.open, raw["state"] == "open");
    assert_eq!(json!(pull.merged), raw["merged"]);
    assert_eq!(json!(pull.changed_files), raw["changed_files"]);
    assert_eq!(
        pull.from_fork,
        raw["head"]["repo"]["id"].is_null() || raw["head"]["repo"]["id"] != raw["base"]["repo"]["id"]
    );
    assert_eq!(json!(pull.author.as_ref().map(|author| author.id)), raw["user"]["id"]);
}

fn same_line_comment(raw: &Value) {
    let comment: ReviewComment = serde_json::from_value::<wire::ReviewCommentWire>(raw.clone()).unwrap().into();
    assert_eq!(json!(comment.id), raw["id"]);
    assert_eq!(json!(comment.in_reply_to), raw["in_reply_to_id"]);
    assert_eq!(json!(comment.path), raw["path"]);
    assert_eq!(json!(comment.line), raw["line"]);
    assert_eq!(json!(comment.side), raw["side"]);
    assert_eq!(comment.diff_hunk, raw["diff_hunk"].as_str().unwrap_or_default());
    assert_eq!(json!(comment.author.map(|author| author.is_bot)), json!(raw["user"]["type"] == "Bot"));
}

fn same_talk(raw: &Value) {
    let comment: IssueComment = serde_json::from_value::<wire::IssueCommentWire>(raw.clone()).unwrap().into();
    assert_eq!(json!(comment.id), raw["id"]);
    assert_eq!(comment.body, raw["body"].as_str().unwrap_or_default());
}

#[test]
fn recorded_refusals_have_a_meaning() {
    let Some(exchanges) = exchanges() else { return };
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for exchange in exchanges.iter().filter(|exchange| exchange.status >= 400) {
        let status = StatusCode::from_u16(exchange.status).unwrap();
        let body = exchange.body.to_string();
        let error = GitHubError::from_answer(status, &exchange.headers, body.as_bytes(), "the thing", now);
        let kind = match (&error, exchange.status) {
            (GitHubError::RateLimited { wait }, 403 | 429) => {
                assert!(wait.as_secs() >= 1 && wait.as_secs() <= 65 * 60, "{wait:?}");
                "limited"
            }
            (GitHubError::Unauthorized(_), 401) => "unauthorized",
            (GitHubError::Forbidden(_), 403) => "forbidden",
            (GitHubError::NotFound(_), 404) => "not found",
            (GitHubError::Unprocessable(text), 422) => {
                assert!(
                    text.contains(exchange.body["message"].as_str().unwrap().split('\n').next().unwrap()),
                    "{text}"
                );
                "unprocessable"
            }
            (GitHubError::Unexpected { .. }, 400) => "unexpected",
            other => panic!("{other:?} for {}", exchange.path.join("/")),
        };
        *seen.entry(kind.to_owned()).or_default() += 1;
    }
    println!("{seen:?}");
    assert!(seen["limited"] >= 10 && seen.len() >= 5, "{seen:?}");
}

/// What every recorded answer of a kind has, and GitHub's description promises, the stand-in has too.
#[tokio::test]
async fn the_stand_in_answers_no_less_than_github() {
    let gh = FakeGitHub::start(Arc::new(ManualClock::default())).await;
    let pr = gh.open_pull(PullSpec::new("//- a.txt\n one\n-two\n+three"));
    let comment = gh.comment_on_line(&pr, "bob", "a.txt", 2, "Why?");
    let said = gh.comment(&pr, "bob", "Hello.");
    let token = gh.installation_token("acme/app");
    let head = gh.head(&pr);
    let asked = [
        ("pull", "GET", "/pulls/1".to_owned(), "GET /repos/{owner}/{repo}/pulls/{pull_number}", Value::Null),
        (
            "files",
            "GET",
            "/pulls/1/files".to_owned(),
            "GET /repos/{owner}/{repo}/pulls/{pull_number}/files",
            Value::Null,
        ),
        (
            "reviews",
            "GET",
            "/pulls/1/reviews".to_owned(),
            "GET /repos/{owner}/{repo}/pulls/{pull_number}/reviews",
            Value::Null,
        ),
        (
            "line comments",
            "GET",
            "/pulls/1/comments".to_owned(),
            "GET /repos/{owner}/{repo}/pulls/{pull_number}/comments",
            Value::Null,
        ),
        (
            "line comment",
            "POST",
            format!("/pulls/1/comments/{comment}/replies"),
            "POST /repos/{owner}/{repo}/pulls/{pull_number}/comments/{comment_id}/replies",
            json!({"body": "So."}),
        ),
        (
            "talk",
            "GET",
            "/issues/1/comments".to_owned(),
            "GET /repos/{owner}/{repo}/issues/{issue_number}/comments",
            Value::Null,
        ),
        (
            "said",
            "GET",
            format!("/issues/comments/{said}"),
            "GET /repos/{owner}/{repo}/issues/comments/{comment_id}",
            Value::Null,
        ),
        (
            "reaction",
            "POST",
            format!("/issues/comments/{said}/reactions"),
            "POST /repos/{owner}/{repo}/issues/comments/{comment_id}/reactions",
            json!({"content": "eyes"}),
        ),
        (
            "review",
            "POST",
            "/pulls/1/reviews".to_owned(),
            "POST /repos/{owner}/{repo}/pulls/{pull_number}/reviews",
            json!({"body": "x", "event": "COMMENT"}),
        ),
        (
            "check run",
            "POST",
            "/check-runs".to_owned(),
            "POST /repos/{owner}/{repo}/check-runs",
            json!({"name": "x", "head_sha": head}),
        ),
    ];
    let recorded = exchanges().unwrap_or_default();
    let http = reqwest::Client::new();
    for (kind, method, route, operation, body) in asked {
        let url = format!("{}/repos/acme/app{route}", gh.url());
        let mut request = http.request(method.parse().unwrap(), url).bearer_auth(&token);
        request = request.header("user-agent", "test").header("x-github-api-version", "2022-11-28");
        if !body.is_null() {
            request = request.json(&body);
        }
        let answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        let answer: Value = answer.json().await.unwrap();
        let has = keys(first(&answer));
        let promised: BTreeSet<String> = openapi::promised(operation, status).into_iter().collect();
        assert!(!promised.is_empty(), "{operation} promises nothing for {status}");
        let missing: Vec<_> = promised.difference(&has).collect();
        assert!(missing.is_empty(), "{kind}: the description promises {missing:?}");
        let answers = recorded.iter().filter(|exchange| exchange.kind() == Some(kind) && exchange.status < 300);
        let all = answers.flat_map(|exchange| match &exchange.body {
            Value::Array(entries) => entries.iter().map(keys).collect::<Vec<_>>(),
            body => vec![keys(body)],
        });
        let always = all.reduce(|one, other| one.intersection(&other).cloned().collect()).unwrap_or_default();
        let missing: Vec<_> = always.difference(&has).collect();
        assert!(missing.is_empty(), "{kind}: GitHub always sends {missing:?}");
    }
    gh.reckon();
}

fn first(json: &Value) -> &Value {
    json.get(0).unwrap_or(json)
}

fn keys(json: &Value) -> BTreeSet<String> {
    json.as_object().into_iter().flat_map(|members| members.keys().cloned()).collect()
}

/// The webhooks of the stand-in have what GitHub's examples of the same event and action have in common.
#[test]
fn the_stand_in_sends_no_less_than_github() {
    let Some(directory) = material("github/payloads") else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let sent = runtime.block_on(everything_people_do());
    let index: Vec<Value> =
        serde_json::from_str(&std::fs::read_to_string(directory.join("INDEX.json")).unwrap()).unwrap();
    let mut compared = 0;
    for (event, payload) in &sent {
        let action = payload["action"].as_str().unwrap();
        let alike = index.iter().filter(|entry| entry["event"] == *event && entry["action"] == action);
        let examples: Vec<Value> = alike
            .map(|entry| directory.join(entry["file"].as_str().unwrap()))
            .map(|path| serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap())
            .collect();
        for at in [
            "",
            "/pull_request",
            "/comment",
            "/review",
            "/issue",
            "/check_run",
            "/repository",
            "/sender",
            "/installation",
        ] {
            let of = |json: &Value| json.pointer(at).map(keys);
            let always =
                examples.iter().filter_map(of).reduce(|one, other| one.intersection(&other).cloned().collect());
            let Some(always) = always else { continue };
            let has = of(payload).unwrap_or_default();
            let missing: Vec<_> = always.difference(&has).filter(|key| *key != "organization").collect();
            assert!(missing.is_empty(), "{event} {action}{at}: GitHub always sends {missing:?}");
            compared += 1;
        }
    }
    assert!(compared > 40, "{compared}");
}

async fn everything_people_do() -> Vec<(String, Value)> {
    let gh = FakeGitHub::start(Arc::new(ManualClock::default())).await;
    let pr = gh.open_pull(PullSpec::new("//- a.txt\n one\n-two\n+three").draft());
    gh.ready_for_review(&pr);
    gh.convert_to_draft(&pr);
    gh.push(&pr, "//- a.txt\n one\n-three\n+four");
    let comment = gh.comment_on_line(&pr, "bob", "a.txt", 2, "Why?");
    gh.reply(&pr, comment, "alice", "Because.");
    gh.resolve(&pr, comment, "alice");
    let said = gh.comment(&pr, "bob", "Hello.");
    gh.edit_comment(&pr, said, "bob", "Hello!");
    gh.close(&pr);
    gh.reopen(&pr);
    gh.enqueue(&pr);
    gh.rename("acme/app", "program");
    gh.remove_from_installation("acme/program");
    gh.uninstall("acme");
    gh.take_deliveries().into_iter().map(|delivery| (delivery.event, delivery.payload)).collect()
}
