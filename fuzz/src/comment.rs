//! A comment somebody wrote, and a second one.

use secondlook::chat::ChatMessage;
use secondlook::conversation::answer::{body, help, not_yet};
use secondlook::conversation::command::{Addressed, Command, Scope, parse};
use secondlook::conversation::thread::{Thread, visible};
use secondlook::github::{Repository, ReviewComment, User};
use secondlook::redact::redact;
use secondlook::review::render::{MAX_BODY_BYTES, marker};
use secondlook::webhook::event::{Comment, Event, Origin};
use secondlook::webhook::plan::plan;

use super::effects;
use super::parts::texts;
use super::reply::markdown;

const SLUG: &str = "second-look";

/// Most characters of an argument.
const MAX_ARGUMENT: usize = 8_000;

/// A key of no real account that every reader of keys knows for one.
const KEY: &str = "AKIAIOSFODNN7EXAMPLE";

/// Reads the comment as a command, as a part of a thread, as Markdown, and as a text with secrets.
pub fn check(data: &[u8]) {
    let Some([comment, other]) = texts(data) else { return };
    command(&comment);
    thread(&comment, &other);
    answered(&comment);
    masked(&comment);
    markdown(&comment);
}

fn command(comment: &str) {
    let said = parse(comment, SLUG);
    if said.is_some() {
        assert!(worked_on(comment), "the webhook passes over a comment that addresses us: {comment:?}");
    }
    match &said {
        Some(Addressed::Question(question)) => assert!(question.chars().count() <= MAX_ARGUMENT),
        Some(Addressed::Command(command)) => {
            assert!(argument(command).chars().count() <= MAX_ARGUMENT);
            command.need();
            let answer = not_yet(command);
            assert_eq!(effects::of(&answer), Vec::<String>::new(), "{answer}");
        }
        None => {}
    }
    let quoted: String = comment.split('\n').map(|line| format!("> {line}\n")).collect();
    assert_eq!(parse(&quoted.replace('\r', " "), SLUG), None, "a quotation is somebody else's");
    let indented: String = comment.split('\n').map(|line| format!("    {line}\n")).collect();
    if !comment.contains("<!--") {
        assert_eq!(parse(&indented.replace('\r', " "), SLUG), None, "code is no command");
    }
    let fence = "~".repeat(comment.split(|c| c != '~').map(str::len).max().unwrap_or(0).max(2) + 1);
    assert_eq!(parse(&format!("{fence}\n{}\n{fence}", comment.replace("<!--", "")), SLUG), None, "code is no command");
    if !comment.contains("-->") {
        assert_eq!(parse(&format!("<!--{comment}-->"), SLUG), None, "what is hidden is no command");
    }
    let first = parse(&format!("/secondlook review\n{comment}"), SLUG);
    assert_eq!(first, Some(Addressed::Command(Command::Review(Scope::New))), "the first line counts");
}

fn argument(command: &Command) -> &str {
    match command {
        Command::Review(Scope::Path(text))
        | Command::Ask(text)
        | Command::Strategy(text)
        | Command::Remember(text)
        | Command::Forget(text)
        | Command::Approve(text)
        | Command::Reject(text)
        | Command::Unknown(text) => text,
        _ => "",
    }
}

/// Whether a job would come of the comment.
fn worked_on(comment: &str) -> bool {
    let person = User { id: 1, login: "alice".into(), is_bot: false };
    let event = Event::TimelineComment {
        origin: Origin {
            installation: Some(1),
            repository: Repository { id: 1, owner: "acme".into(), name: "shop".into() },
            sender: Some(person.clone()),
        },
        number: 1,
        on_pull_request: true,
        comment: Comment { id: 1, in_reply_to: None, author: Some(person), body: comment.into() },
    };
    !plan(&event, None, jiff::Timestamp::UNIX_EPOCH).jobs.is_empty()
}

fn thread(first: &str, second: &str) {
    let us = User { id: 9, login: "second-look[bot]".into(), is_bot: true };
    let comment = |id, author: Option<&User>, body: &str| ReviewComment {
        id,
        in_reply_to: (id > 1).then_some(1),
        review_id: None,
        author: author.cloned(),
        body: body.into(),
        path: "a.rs".into(),
        line: None,
        original_line: None,
        side: None,
        diff_hunk: String::new(),
        created_at: String::new(),
        updated_at: String::new(),
    };
    let person = User { id: 1, login: "alice".into(), is_bot: false };
    let all = [comment(1, Some(&us), first), comment(2, Some(&person), second), comment(3, None, first)];
    let thread = Thread::of(&all[2], &all).expect("its root is there");
    assert!(thread.is_ours(&us));
    // Only what we wrote says which comment was answered.
    let stranger = [comment(2, Some(&person), &format!("{second}\n{}", marker::reply(3)))];
    assert_eq!(thread.answered(3, &stranger, &us), None);
    let roles: Vec<bool> =
        thread.messages(&us).iter().map(|(_, m)| matches!(m, ChatMessage::Assistant { .. })).collect();
    assert_eq!(roles, [true, false, false], "nobody speaks for us");
    for text in [visible(first), visible(second)] {
        assert!(text.chars().count() <= 6_000);
        assert!(!text.lines().any(|line| line.starts_with("<!-- secondlook:")));
    }
    for text in [first, second] {
        for read in [marker::read_finding(text), marker::read_plan(text)] {
            assert!(read.is_none_or(|read| text.contains(read) && !read.contains('\n')));
        }
    }
}

fn answered(text: &str) {
    let Some(body) = body(text, 42) else { return };
    assert!(body.len() <= MAX_BODY_BYTES, "{} bytes", body.len());
    assert_eq!(marker::read_reply(&body), Some(42), "our own marker is read back");
    assert_eq!(effects::markers(&body), 1, "{body}");
    assert_eq!(effects::beyond_ours(&body), Vec::<String>::new(), "{body}");
    assert!(visible(&help(SLUG)).contains("review"));
}

fn masked(text: &str) {
    let once = redact(text);
    assert_eq!(redact(&once), once, "masking twice is masking once");
    assert_eq!(once.matches('\n').count(), text.matches('\n').count(), "lines keep their numbers");
    let with_key = format!("{text}\nkey = {KEY}\n{text}");
    assert!(text.contains(KEY) || !redact(&with_key).contains(KEY), "a key stays");
}
