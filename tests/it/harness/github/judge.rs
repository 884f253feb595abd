//! Whether GitHub would take a line comment or a review.
//!
//! `Doubt` is what no source documents either way: the stand-in accepts it, and the test fails, since a careful bot does
//! not depend on it.

use serde_json::Value;

use super::diff::{Entry, Line, lines};

/// GitHub says no, with this text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Accept,
    Reject(String),
    Doubt(String),
}

use Verdict::{Accept, Doubt, Reject};

const NOT_IN_DIFF: &str = "Line could not be resolved";
const NO_PATH: &str = "Path could not be resolved";
const OTHER_HUNK: &str = "Pull request review thread start line must be part of the same hunk as the line.";
const ORDER: &str = "Pull request review thread start line must precede the end line.";

/// Where a comment lands: the side, the last and the first line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub left: bool,
    pub line: u64,
    pub start: Option<u64>,
}

/// One comment of a review.
pub fn comment(entries: &[Entry], comment: &Value) -> (Verdict, Option<Place>) {
    let reject = |text: &str| (Reject(text.to_owned()), None);
    let text = |name: &str| comment.get(name).and_then(Value::as_str);
    let given = |name: &str| comment.get(name).filter(|value| !value.is_null());
    let body = text("body").unwrap_or_default();
    if let Some(why) = body_refused(body) {
        return reject(&why);
    }
    let Some(entry) = entries.iter().find(|entry| Some(entry.filename.as_str()) == text("path")) else {
        return reject(NO_PATH);
    };
    let Some(patch) = entry.patch() else { return reject(NOT_IN_DIFF) };
    if given("position").is_some() {
        return (Doubt("`position` is deprecated".into()), None);
    }
    let left = match text("side").unwrap_or("RIGHT").to_uppercase().as_str() {
        "LEFT" => true,
        "RIGHT" => false,
        _ => return reject("side must be LEFT or RIGHT"),
    };
    let whole = |name: &str| given(name).and_then(Value::as_u64).filter(|number| *number > 0);
    let Some(number) = whole("line") else { return reject("line is not a positive integer") };
    let all = lines(patch);
    let at = |left: bool, number: u64| -> Option<Line<'_>> {
        all.iter().find(|line| if left { line.old } else { line.new } == Some(number)).copied()
    };
    let Some(end) = at(left, number) else { return reject(NOT_IN_DIFF) };
    let mut doubt = (left && end.mark == ' ').then(|| "LEFT on an unchanged line is not documented".to_owned());
    let mut place = Place { left, line: number, start: None };
    if given("start_line").is_some() {
        let Some(start_number) = whole("start_line") else { return reject("start_line is not a positive integer") };
        let start_left = match text("start_side").map(str::to_uppercase).as_deref() {
            None => {
                doubt = doubt.or_else(|| left.then(|| "start_side left out with side LEFT".to_owned()));
                false
            }
            Some("LEFT") => true,
            Some("RIGHT") => false,
            Some(_) => return reject("start_side must be LEFT or RIGHT"),
        };
        if start_left == left && start_number >= number {
            return reject(ORDER);
        }
        let Some(start) = at(start_left, start_number).filter(|start| start.hunk == end.hunk) else {
            return reject(OTHER_HUNK);
        };
        if start.index >= end.index {
            return reject(ORDER);
        }
        if start_left && start.mark == ' ' {
            doubt = doubt.or_else(|| Some("LEFT on an unchanged line is not documented".to_owned()));
        }
        if start_left != left {
            doubt = doubt.or_else(|| Some("a range over two sides".to_owned()));
        }
        place.start = Some(start_number);
    } else if given("start_side").is_some() {
        doubt = doubt.or_else(|| Some("start_side without start_line".to_owned()));
    }
    if let Some(why) = suggestion_refused(entry, place, body) {
        doubt = Some(why);
    }
    (doubt.map_or(Accept, Doubt), Some(place))
}

/// What is known of a review besides its comments.
pub struct Circumstances<'a> {
    pub own_pull: bool,
    pub pending: bool,
    pub commits: &'a [String],
}

/// A whole review: all the reasons against it, and all the doubts.
pub fn review(entries: &[Entry], review: &Value, around: &Circumstances<'_>) -> (Vec<String>, Vec<String>) {
    let (mut against, mut doubts) = (Vec::new(), Vec::new());
    let text = |name: &str| review.get(name).and_then(Value::as_str);
    let comments = review.get("comments").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let event = text("event");
    if !matches!(event, None | Some("APPROVE" | "REQUEST_CHANGES" | "COMMENT")) {
        against.push("Variable $event of type PullRequestReviewEvent was provided invalid value".to_owned());
    }
    let body = text("body").unwrap_or_default();
    if matches!(event, Some("REQUEST_CHANGES" | "COMMENT")) && body.trim().is_empty() {
        if event == Some("COMMENT") && !comments.is_empty() {
            doubts.push("COMMENT without a body is documented as refused".to_owned());
        } else {
            against.push("Body can't be blank".to_owned());
        }
    } else if !body.is_empty() {
        against.extend(body_refused(body));
    }
    if around.pending {
        against.push("User can only have one pending review per pull request".to_owned());
    }
    match event {
        Some("APPROVE") if around.own_pull => against.push("Can not approve your own pull request".to_owned()),
        Some("REQUEST_CHANGES") if around.own_pull => {
            against.push("Review Can not request changes on your own pull request".to_owned());
        }
        _ => {}
    }
    if text("commit_id").is_some_and(|commit| !around.commits.iter().any(|own| own == commit)) {
        against.push("The commitOID is not part of the pull request".to_owned());
    }
    for (index, json) in comments.iter().enumerate() {
        match comment(entries, json).0 {
            Accept => {}
            Reject(why) => against.push(why),
            Doubt(why) => doubts.push(format!("comments[{index}]: {why}")),
        }
    }
    if comments.len() > 50 {
        doubts.push(format!("{} comments in one review: GitHub is known to fail from about 70", comments.len()));
    }
    (against, doubts)
}

/// The text of GitHub's refusal speaks of characters; measured is a limit in bytes.
pub fn body_refused(body: &str) -> Option<String> {
    if body.trim().is_empty() {
        return Some("Body can't be blank".to_owned());
    }
    (body.chars().count() > 65_536).then(|| "Body is too long (maximum is 65536 characters)".to_owned())
}

/// A suggestion can be committed on the new side only, and its fence must be closed.
fn suggestion_refused(entry: &Entry, place: Place, body: &str) -> Option<String> {
    let body = body.replace("\r\n", "\n");
    let mut open: Option<(char, usize, bool)> = None;
    for line in body.split('\n') {
        let bare = line.trim_start_matches(' ');
        if line.len() - bare.len() > 3 {
            continue;
        }
        let mark = bare.chars().next().filter(|mark| matches!(mark, '`' | '~'));
        let Some(mark) = mark else { continue };
        let length = bare.chars().take_while(|c| *c == mark).count();
        let rest = bare.trim_start_matches(mark).trim();
        match open {
            None if length >= 3 => open = Some((mark, length, rest.split_whitespace().next() == Some("suggestion"))),
            Some((opened, least, suggestion)) if opened == mark && length >= least && rest.is_empty() => {
                if suggestion && (place.left || entry.status == "removed") {
                    return Some("a suggestion on the old side cannot be committed".to_owned());
                }
                open = None;
            }
            _ => {}
        }
    }
    open.filter(|(_, _, suggestion)| *suggestion).map(|_| "a suggestion whose fence is not closed".to_owned())
}
