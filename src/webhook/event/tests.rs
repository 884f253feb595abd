use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const EVENTS: &[(&str, &str)] = &[
    ("pull_request", "opened"),
    ("pull_request", "edited"),
    ("pull_request_review_comment", "created"),
    ("pull_request_review_thread", "resolved"),
    ("issue_comment", "created"),
    ("check_run", "rerequested"),
    ("check_suite", "rerequested"),
    ("merge_group", "checks_requested"),
    ("installation", "created"),
    ("installation_repositories", "added"),
    ("repository", "renamed"),
];

/// Everything that any event needs, with nulls wherever GitHub may send them.
fn payload(action: &str) -> Value {
    let sha = "2ffea6db159f6b6c47a24e778fb9ef40cf6b1c7d";
    json!({
        "action": action,
        "number": 7,
        "pull_request": { "number": 7, "user": null, "head": { "repo": null, "user": null } },
        "changes": { "base": { "ref": { "from": "main" } } },
        "comment": { "id": 5, "in_reply_to_id": null, "user": null, "body": null },
        "issue": { "number": 7, "user": null, "pull_request": { "url": "" } },
        "thread": { "comments": [] },
        "check_run": { "head_sha": sha, "name": "secondlook", "app": { "id": 9 } },
        "check_suite": { "head_sha": sha, "app": null },
        "merge_group": { "head_sha": sha },
        "repository": { "id": 3, "name": "cache", "full_name": "acme/cache", "owner": { "login": "acme" } },
        "repositories": [{ "id": 4, "name": "list", "full_name": "acme/list" }],
        "repositories_added": [{ "id": 4, "name": "list", "full_name": "acme/list" }],
        "repositories_removed": [],
        "installation": { "id": 2, "account": { "login": "acme" } },
        "sender": null,
    })
}

fn read(event: &str, payload: &Value) -> Result<Event, BadPayload> {
    parse(event, payload.to_string().as_bytes())
}

fn origin() -> Origin {
    let repository = Repository { id: 3, owner: "acme".into(), name: "cache".into() };
    Origin { installation: Some(2), repository, sender: None }
}

#[test]
fn deleted_accounts_and_forks_that_are_gone_are_tolerated() {
    let comment = Comment { id: 5, in_reply_to: None, author: None, body: String::new() };
    assert_eq!(
        read("pull_request", &payload("synchronize")).unwrap(),
        Event::Pull { origin: origin(), number: 7, action: PullAction::Synchronized }
    );
    assert_eq!(
        read("pull_request_review_comment", &payload("created")).unwrap(),
        Event::LineComment { origin: origin(), number: 7, comment: comment.clone() }
    );
    assert_eq!(
        read("issue_comment", &payload("edited")).unwrap(),
        Event::TimelineComment { origin: origin(), number: 7, on_pull_request: true, comment }
    );
    let sha = "2ffea6db159f6b6c47a24e778fb9ef40cf6b1c7d".to_owned();
    assert_eq!(
        read("check_suite", &payload("rerequested")).unwrap(),
        Event::CheckRerequested { origin: origin(), head_sha: sha, name: None, app: None }
    );
}

#[test]
fn a_list_names_its_owner_in_the_full_name() {
    let list = Repository { id: 4, owner: "acme".into(), name: "list".into() };
    assert_eq!(
        read("installation_repositories", &payload("removed")).unwrap(),
        Event::InstallationRepositories { installation: 2, account: "acme".into(), added: vec![list], removed: vec![] }
    );
    let mut enterprise = payload("created");
    enterprise["installation"]["account"] = json!({ "slug": "big", "name": "Big" });
    enterprise["repositories"] = Value::Null;
    assert_eq!(
        read("installation", &enterprise).unwrap(),
        Event::Installation {
            installation: 2,
            account: "big".into(),
            action: InstallationAction::Present,
            repositories: vec![]
        }
    );
}

#[test]
fn a_bot_is_known_by_its_type() {
    let mut payload = payload("created");
    payload["sender"] = json!({ "id": 1, "login": "ci[bot]", "type": "Bot" });
    payload["comment"]["user"] = json!({ "id": 2, "login": "bot-lover", "type": "User" });
    let Event::LineComment { origin, comment, .. } = read("pull_request_review_comment", &payload).unwrap() else {
        panic!("another event")
    };
    assert!(origin.sender.unwrap().is_bot);
    assert!(!comment.author.unwrap().is_bot);
}

#[test]
fn an_edit_matters_only_when_the_base_changed() {
    let mut edited = payload("edited");
    assert!(matches!(read("pull_request", &edited), Ok(Event::Pull { action: PullAction::Retargeted, .. })));
    edited["changes"] = json!({ "title": { "from": "a" } });
    assert!(matches!(read("pull_request", &edited), Ok(Event::Ignored { .. })));
    edited["changes"] = Value::Null;
    assert!(matches!(read("pull_request", &edited), Ok(Event::Ignored { .. })));
}

#[test]
fn what_is_unknown_is_ignored_whatever_it_holds() {
    let ignored = |event: &str, action: &str| Event::Ignored { event: event.into(), action: action.into() };
    assert_eq!(read("pull_request", &json!({ "action": "stacked" })).unwrap(), ignored("pull_request", "stacked"));
    assert_eq!(read("from_the_future", &json!({ "comment": 5 })).unwrap(), ignored("from_the_future", ""));
    assert_eq!(read("push", &json!({ "action": { "no": "word" } })).unwrap(), ignored("push", ""));
    assert_eq!(read("ping", &json!({ "action": "X\u{0}" })).unwrap(), ignored("ping", ""));
}

#[test]
fn a_missing_number_is_named_and_not_lost() {
    let mut payload = payload("opened");
    payload["pull_request"] = json!({ "title": "`secret`" });
    let error = read("pull_request", &payload).unwrap_err().to_string();
    assert_eq!(error, "the payload of pull_request cannot be read: missing field number");
    payload["pull_request"] = json!({ "number": "secret" });
    let error = read("pull_request", &payload).unwrap_err().to_string();
    assert!(error.contains("line 1, column") && !error.contains("secret"), "{error}");
    payload["pull_request"] = json!({ "number": u64::MAX });
    assert!(read("pull_request", &payload).is_err(), "no id that the database cannot hold");
}

#[test]
fn a_commit_is_forty_or_sixty_four_digits() {
    let mut payload = payload("checks_requested");
    payload["merge_group"]["head_sha"] = json!("../../etc");
    assert!(read("merge_group", &payload).is_err());
    payload["merge_group"]["head_sha"] = json!("ab".repeat(32));
    assert!(read("merge_group", &payload).is_ok());
}

#[test]
fn what_is_no_json_object_is_refused() {
    for body in ["", " ", "[\"opened\"]", "\"opened\"", "null", "{", "{}{}", "{\"action\":\"opened\"", "payload=%7B%7D"]
    {
        assert_eq!(parse("pull_request", body.as_bytes()), Err(BadPayload::NotJson), "{body}");
    }
    assert_eq!(parse("ping", b"{\"a\":\"\xff\xfe"), Err(BadPayload::NotJson));
    let deep = format!("{}{}", "{\"a\":".repeat(200_000), "1");
    assert!(parse("ping", deep.as_bytes()).is_err());
    assert!(matches!(parse("ping", b" \n{\"zen\":\"x\"} "), Ok(Event::Ignored { .. })));
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map("id|number|login|name|base|user", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn no_payload_panics(
        which in 0..EVENTS.len(),
        field in 0..14_usize,
        value in any_json(),
        cut in any::<prop::sample::Index>(),
    ) {
        let (event, action) = EVENTS[which];
        let mut payload = payload(action);
        let key = payload.as_object().unwrap().keys().nth(field).unwrap().clone();
        payload[&key] = value;
        let text = payload.to_string();
        let _ = parse(event, text.as_bytes());
        let _ = parse(event, &text.as_bytes()[..cut.index(text.len())]);
    }
}
