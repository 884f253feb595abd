//! The stand-in itself: as strict as GitHub, and unable to be pleased by accident.

use std::sync::Arc;
use std::time::Duration;

use secondlook::clock::Clock;
use serde_json::{Value, json};

use crate::harness::clock::ManualClock;
use crate::harness::github::actions::PullSpec;
use crate::harness::github::diff::{self, Entry};
use crate::harness::github::fault::Fault;
use crate::harness::github::files::{self, Change, File};
use crate::harness::github::judge::{Circumstances, Verdict, comment, review};
use crate::harness::github::{FakeGitHub, Pr};

struct Raw {
    gh: FakeGitHub,
    clock: ManualClock,
    token: String,
    http: reqwest::Client,
}

impl Raw {
    async fn new() -> Self {
        let clock = ManualClock::default();
        let gh = FakeGitHub::start(Arc::new(clock.clone())).await;
        let token = gh.installation_token("acme/app");
        Self { gh, clock, token, http: reqwest::Client::new() }
    }

    async fn ask(&self, method: &str, route: &str, body: Option<Value>) -> (u16, Value, String) {
        let mut request = self.http.request(method.parse().unwrap(), format!("{}{route}", self.gh.url()));
        request =
            request.bearer_auth(&self.token).header("user-agent", "test").header("x-github-api-version", "2022-11-28");
        if let Some(body) = body {
            request = request.json(&body);
        }
        let answer = request.send().await.unwrap();
        let link = answer.headers().get("link").map(|link| link.to_str().unwrap().to_owned()).unwrap_or_default();
        (answer.status().as_u16(), answer.json().await.unwrap_or_default(), link)
    }

    fn small(&self) -> Pr {
        self.gh.open_pull(PullSpec::new("//- a.txt\n one\n-two\n+three"))
    }

    /// The complaints so far, as one text.
    fn complaints(&self) -> String {
        self.gh.complaints().join("\n")
    }
}

#[tokio::test]
async fn what_github_does_not_know_is_complained_of() {
    let raw = Raw::new().await;
    raw.small();
    assert_eq!(raw.ask("GET", "/repos/acme/app/wonders", None).await.0, 404);
    assert!(raw.complaints().contains("wonders"), "{}", raw.complaints());
    raw.ask("GET", "/repos/acme/app/pulls/1/files?per_page=500&sort=x", None).await;
    assert!(raw.complaints().contains("per_page=500") && raw.complaints().contains("`sort`"), "{}", raw.complaints());
    let review = json!({ "body": "x", "event": "COMMENT", "comments": [{ "path": "a.txt", "line": 2, "body": "y", "subject_type": "line" }] });
    raw.ask("POST", "/repos/acme/app/pulls/1/reviews", Some(review)).await;
    assert!(raw.complaints().contains("subject_type"), "{}", raw.complaints());
    raw.gh.fault(Fault::status("GET /app", 500, "never met"));
    assert!(
        raw.complaints().contains("never met") || raw.complaints().contains("not met 1 more"),
        "{}",
        raw.complaints()
    );
    raw.http.get(format!("{}/users/acme", raw.gh.url())).header("user-agent", "x").send().await.unwrap();
    assert!(raw.complaints().contains("x-github-api-version"), "{}", raw.complaints());
}

#[tokio::test]
async fn credentials_reach_as_far_as_they_go() {
    let raw = Raw::new().await;
    raw.small();
    raw.gh.open_pull(PullSpec::new("//- b.txt\n+b").repo("acme/other"));
    assert_eq!(raw.ask("GET", "/repos/acme/app/pulls/1", None).await.0, 200);
    assert_eq!(raw.ask("GET", "/repos/acme/other/pulls/1", None).await.0, 404, "the token is for another repository");
    assert_eq!(raw.ask("GET", "/app", None).await.0, 401, "that takes the App's own assertion");
    let nobody = raw.http.get(format!("{}/repos/acme/app/pulls/1", raw.gh.url())).send().await.unwrap();
    assert_eq!(nobody.status().as_u16(), 404);
    raw.clock.advance(Duration::from_secs(3_600));
    assert_eq!(raw.ask("GET", "/repos/acme/app/pulls/1", None).await.0, 401, "an hour is over");
}

#[tokio::test]
async fn lists_come_thirty_at_a_time_with_links() {
    let raw = Raw::new().await;
    let pr = raw.small();
    for n in 0..70 {
        raw.gh.comment(&pr, "bob", &n.to_string());
    }
    let route = "/repos/acme/app/issues/1/comments";
    let (_, first, link) = raw.ask("GET", route, None).await;
    assert_eq!(first.as_array().unwrap().len(), 30);
    assert!(link.contains("page=2>; rel=\"next\"") && link.contains("page=3>; rel=\"last\""), "{link}");
    let (_, last, link) = raw.ask("GET", &format!("{route}?page=3"), None).await;
    assert_eq!(last.as_array().unwrap().len(), 10);
    assert!(!link.contains("next"), "{link}");
    assert_eq!(raw.ask("GET", &format!("{route}?per_page=100&page=2"), None).await.1, json!([]));
    raw.gh.reckon();
}

#[tokio::test]
async fn a_reply_to_a_reply_goes_to_the_root() {
    let raw = Raw::new().await;
    let pr = raw.small();
    let root = raw.gh.comment_on_line(&pr, "bob", "a.txt", 2, "Why?");
    let reply = raw.gh.reply(&pr, root, "alice", "Because.");
    let route = format!("/repos/acme/app/pulls/1/comments/{reply}/replies");
    let (status, json, _) = raw.ask("POST", &route, Some(json!({ "body": "Indeed." }))).await;
    assert_eq!((status, &json["in_reply_to_id"]), (201, &json!(root)));
    let events: Vec<(String, String)> = raw
        .gh
        .take_deliveries()
        .into_iter()
        .map(|delivery| (delivery.event, delivery.payload["sender"]["type"].as_str().unwrap().to_owned()))
        .collect();
    let last = events.last().unwrap();
    assert_eq!(*last, ("pull_request_review_comment".into(), "Bot".into()), "the bot's own doings come back to it");
    raw.gh.reckon();
}

#[tokio::test]
async fn comments_follow_their_line_or_become_outdated() {
    let raw = Raw::new().await;
    let pr = raw.gh.open_pull(PullSpec::new("//- a.txt\n one\n-two\n+three\n four"));
    let comment = raw.gh.comment_on_line(&pr, "bob", "a.txt", 2, "Why?");
    let at =
        async || raw.ask("GET", &format!("/repos/acme/app/pulls/comments/{comment}"), None).await.1["line"].clone();
    assert_eq!(at().await, json!(2));
    raw.gh.push(&pr, "//- a.txt\n+zero\n one\n three\n four");
    assert_eq!(at().await, json!(3));
    raw.gh.push(&pr, "//- a.txt\n zero\n one\n-three\n+drei\n four");
    assert_eq!(at().await, Value::Null);
    insta::assert_snapshot!(raw.gh.page(&pr), @r"
    #1 Change something [open] by alice

    bob reviewed head1

      a.txt:2 [outdated]
      | +three
        Why?
    ");
    raw.gh.reckon();
}

#[tokio::test]
async fn retargeting_changes_the_diff_but_not_the_head() {
    let raw = Raw::new().await;
    let pr = raw.gh.open_pull(PullSpec::new("//- a.txt\n one\n-two\n+three"));
    raw.gh.commit("acme/app", "next", files::files("//- a.txt\none\nthree\n"));
    let head = raw.gh.head(&pr);
    raw.gh.retarget(&pr, "next");
    assert_eq!(raw.gh.head(&pr), head);
    let last = raw.gh.take_deliveries().pop().unwrap();
    assert_eq!(last.payload["changes"]["base"]["ref"]["from"], "main");
    assert_eq!(raw.gh.pull_files(&pr).len(), 1, "what the branches parted from is the same");
    let before = raw.clock.now();
    raw.gh.merge(&pr);
    assert_eq!(raw.ask("GET", "/repos/acme/app/pulls/1", None).await.1["merged_at"], before.to_string());
    raw.gh.reckon();
}

fn entries() -> Vec<Entry> {
    let file = |text: &str| Some(File::new(text));
    let long = |mark: &str| format!("1\n2{mark}\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14{mark}\n15");
    let change = Change::of("x.rs", file(&long("")), file(&long("!")))
        .and("gone.rs", file("eins\nzwei\n"), None)
        .and("add.rs", None, file("one\ntwo\n"))
        .and("img.png", file("a\0"), file("b\0"))
        .and("old.rs", file("1\n2\n3\n4\n5\n"), None)
        .and("new.rs", None, file("1\n2\n3\n4\n5!\n"))
        .and("q.sql", file("-- drop old\nkeep\n"), file("++ x\nkeep\n"))
        .and("u\u{2028} x.txt", file("a\u{2028}b\nc\r\nd"), file("z\u{2028}b\nc\r\nd"));
    diff::entries(&change.before, &change.after)
}

#[test]
fn comments_are_judged_as_github_does() {
    let entries = entries();
    for (json, wanted) in [
        (json!({"path": "x.rs", "line": 2}), "ok"),
        (json!({"path": "x.rs", "line": 2, "side": "LEFT"}), "ok"),
        (json!({"path": "x.rs", "line": 5, "side": "right"}), "ok"),
        (json!({"path": "x.rs", "line": 3, "side": "LEFT"}), "not documented"),
        (json!({"path": "x.rs", "line": 7}), "Line could not"),
        (json!({"path": "x.rs", "line": 15}), "ok"),
        (json!({"path": "x.rs", "line": 16}), "Line could not"),
        (json!({"path": "x.rs", "line": 0}), "positive"),
        (json!({"path": "x.rs", "line": -1}), "positive"),
        (json!({"path": "x.rs", "line": "2"}), "positive"),
        (json!({"path": "x.rs", "line": 2.0}), "positive"),
        (json!({"path": "x.rs"}), "positive"),
        (json!({"path": "x.rs", "line": 2, "side": "MIDDLE"}), "LEFT or RIGHT"),
        (json!({"path": "x.rs", "start_line": 1, "line": 3, "start_side": "RIGHT", "side": "RIGHT"}), "ok"),
        (json!({"path": "x.rs", "start_line": 2, "line": 2}), "precede"),
        (json!({"path": "x.rs", "start_line": 3, "line": 2}), "precede"),
        (json!({"path": "x.rs", "start_line": 2, "line": 14}), "same hunk"),
        (json!({"path": "x.rs", "start_line": 7, "line": 12}), "same hunk"),
        (json!({"path": "x.rs", "start_line": 2, "start_side": "LEFT", "line": 2, "side": "LEFT"}), "precede"),
        (json!({"path": "x.rs", "start_line": 2, "start_side": "LEFT", "line": 2}), "two sides"),
        (json!({"path": "x.rs", "start_side": "RIGHT", "line": 2}), "without start_line"),
        (json!({"path": "x.rs", "position": 1}), "deprecated"),
        (json!({"path": "gone.rs", "line": 1, "side": "LEFT"}), "ok"),
        (json!({"path": "gone.rs", "line": 1}), "Line could not"),
        (json!({"path": "add.rs", "line": 2}), "ok"),
        (json!({"path": "add.rs", "line": 1, "side": "LEFT"}), "Line could not"),
        (json!({"path": "img.png", "line": 1}), "Line could not"),
        (json!({"path": "new.rs", "line": 5}), "ok"),
        (json!({"path": "old.rs", "line": 5}), "Path could not"),
        (json!({"path": "./x.rs", "line": 2}), "Path could not"),
        (json!({"path": "X.RS", "line": 2}), "Path could not"),
        (json!({"path": "q.sql", "line": 1, "side": "LEFT"}), "ok"),
        (json!({"path": "q.sql", "line": 1}), "ok"),
        (json!({"path": "q.sql", "line": 2}), "ok"),
        (json!({"path": "u\u{2028} x.txt", "line": 3}), "ok"),
        (json!({"path": "u\u{2028} x.txt", "line": 4}), "Line could not"),
        (json!({"path": "x.rs", "line": 2, "body": " \n"}), "blank"),
        (json!({"path": "x.rs", "line": 2, "body": "ä".repeat(65_536)}), "ok"),
        (json!({"path": "x.rs", "line": 2, "body": "ä".repeat(65_537)}), "too long"),
        (json!({"path": "x.rs", "line": 2, "body": "```suggestion\nx\n```"}), "ok"),
        (json!({"path": "x.rs", "line": 2, "body": "````suggestion\n```\n````"}), "ok"),
        (json!({"path": "x.rs", "line": 2, "body": "```suggestion\nx"}), "not closed"),
        (json!({"path": "x.rs", "line": 2, "side": "LEFT", "body": "```suggestion\nx\n```"}), "old side"),
    ] {
        let mut json = json;
        if json.get("body").is_none() {
            json["body"] = json!("text");
        }
        let got = match comment(&entries, &json).0 {
            Verdict::Accept => "ok".to_owned(),
            Verdict::Reject(why) | Verdict::Doubt(why) => why,
        };
        assert!(got.contains(wanted), "{json}: {got}");
    }
}

#[test]
fn reviews_are_judged_as_github_does() {
    let entries = entries();
    let commits = ["beef".to_owned()];
    let fine = Circumstances { own_pull: false, pending: false, commits: &commits };
    let own = Circumstances { own_pull: true, ..fine };
    let pending = Circumstances { pending: true, ..fine };
    let good = json!({"path": "x.rs", "line": 2, "body": "b"});
    for (json, around, wanted) in [
        (json!({"event": "COMMENT", "body": "s", "commit_id": "beef", "comments": [good]}), &fine, ""),
        (
            json!({"event": "COMMENT", "body": "s", "comments": [good, {"path": "x.rs", "line": 9, "body": "b"}]}),
            &fine,
            "Line",
        ),
        (json!({"event": "COMMENT", "comments": [good]}), &fine, "documented as refused"),
        (json!({"event": "COMMENT"}), &fine, "blank"),
        (json!({"event": "REQUEST_CHANGES", "comments": [good]}), &fine, "blank"),
        (json!({"event": "APPROVE"}), &fine, ""),
        (json!({"event": "APPROVE"}), &own, "approve your own"),
        (json!({"event": "REQUEST_CHANGES", "body": "x"}), &own, "request changes on your own"),
        (json!({"event": "COMMENT", "body": "x"}), &own, ""),
        (json!({"event": "COMMENT", "body": "x"}), &pending, "one pending review"),
        (json!({"event": "COMMENT", "body": "x", "commit_id": "dead"}), &fine, "not part of"),
        (json!({"event": "comment", "body": "x"}), &fine, "invalid value"),
        (json!({"event": "COMMENT", "body": "x", "comments": vec![&good; 51]}), &fine, "51 comments"),
    ] {
        let (against, doubts) = review(&entries, &json, around);
        let all = [against, doubts].concat().join("; ");
        assert!(all.contains(wanted) && all.is_empty() == wanted.is_empty(), "{json}: {all}");
    }
}

#[test]
fn hunks_turn_the_old_text_into_the_new() {
    let texts = [
        "",
        "a",
        "a\n",
        "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\nl\n",
        "a\nB\nc\nd\ne\nf\ng\nh\ni\nj\nK\nl",
        "x\n\n\ny\r\n",
        "\n",
    ];
    for old in texts {
        for new in texts.iter().filter(|new| **new != old) {
            let change = Change::of("f", Some(File::new(old)), Some(File::new(*new)));
            let entries = diff::entries(&change.before, &change.after);
            let patch = entries[0].patch().unwrap();
            let side = |mark: char| -> Vec<(u64, String)> {
                let lines = diff::lines(patch).into_iter().filter(|line| line.mark != mark);
                lines
                    .map(|line| (line.old.filter(|_| mark == '+').or(line.new).unwrap(), line.text.to_owned()))
                    .collect()
            };
            let split = |text: &str| -> Vec<String> { text.split_terminator('\n').map(str::to_owned).collect() };
            for (number, text) in side('+') {
                assert_eq!(split(old)[usize::try_from(number).unwrap() - 1], text, "{patch}");
            }
            for (number, text) in side('-') {
                assert_eq!(split(new)[usize::try_from(number).unwrap() - 1], text, "{patch}");
            }
            let marks = patch.matches("\\ No newline at end of file").count();
            assert!(marks <= 2 && !patch.ends_with('\n') && patch.starts_with("@@ -"), "{patch}");
        }
    }
}

#[test]
fn marked_lines_are_files_before_and_after() {
    let change = files::change(
        "
        //- src/a.rs
         fn a() {
        -    1
        +    2

         }
        \\
        //- new.txt
        +only now
        //- gone.txt
        -no more
        //- old/name -> new/name
         same
        ",
    );
    let text = |files: &files::Files, path: &str| String::from_utf8(files[path].bytes.clone()).unwrap();
    assert_eq!(text(&change.before, "src/a.rs"), "fn a() {\n    1\n\n}");
    assert_eq!(text(&change.after, "src/a.rs"), "fn a() {\n    2\n\n}");
    assert_eq!(change.before.keys().collect::<Vec<_>>(), ["gone.txt", "old/name", "src/a.rs"]);
    assert_eq!(change.after.keys().collect::<Vec<_>>(), ["new.txt", "new/name", "src/a.rs"]);
    let moved = diff::entries(&change.before, &change.after);
    let named: Vec<_> = moved.iter().map(|entry| (entry.filename.as_str(), entry.status)).collect();
    assert_eq!(
        named,
        [("gone.txt", "removed"), ("new.txt", "added"), ("new/name", "renamed"), ("src/a.rs", "modified")]
    );
    assert_eq!(text(&files::files("//- a\nx\n\ny"), "a"), "x\n\ny\n");
}
