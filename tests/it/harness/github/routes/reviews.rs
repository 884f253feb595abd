//! Reviews. All or nothing: one bad comment, and the whole review is refused.

use serde_json::{Value, json};

use super::super::judge::{self, Circumstances};
use super::super::server::{Answer, Asked};
use super::super::state::{Comment, Review, State};
use super::super::webhook;
use super::{actor, find, may_write, page};

pub fn list(state: &State, asked: &Asked, repo: u64, number: u64) -> Answer {
    let (repo, pull) = match find(state, repo, number) {
        Ok(found) => found,
        Err(answer) => return answer,
    };
    let me = actor(state, asked);
    // A pending review is seen by its author only.
    let seen = pull.reviews.iter().filter(|review| review.state != "PENDING" || review.author == me);
    let all: Vec<Value> = seen.map(|review| state.review_json(repo, pull, review)).collect();
    page(state, asked, &format!("/repos/{}/pulls/{number}/reviews", repo.full_name()), &all)
}

pub fn create(state: &mut State, asked: &Asked, repo: u64, number: u64) -> Answer {
    if let Err(answer) = may_write(state, asked, &["pull_requests"]) {
        return answer;
    }
    let me = actor(state, asked);
    let (entries, head, base, against, doubts) = {
        let (_, pull) = match find(state, repo, number) {
            Ok(found) => found,
            Err(answer) => return answer,
        };
        let entries = state.entries_of(pull);
        let commits = state.commits_of(pull);
        let around = Circumstances {
            own_pull: pull.author.as_ref() == Some(&me),
            pending: pull.reviews.iter().any(|review| review.state == "PENDING" && review.author == me),
            commits: &commits,
        };
        let (against, doubts) = judge::review(&entries, &asked.body, &around);
        (entries, pull.head().to_owned(), state.base_of(pull), against, doubts)
    };
    state.complaints.extend(doubts.into_iter().map(|doubt| format!("review on pull request {number}: {doubt}")));
    if !against.is_empty() {
        let errors: Vec<Value> = against.into_iter().map(Value::String).collect();
        return Answer::invalid(&errors);
    }
    let text = |name: &str| asked.body.get(name).and_then(Value::as_str);
    let at = state.now();
    let review = Review {
        id: state.id(),
        author: me.clone(),
        body: text("body").unwrap_or_default().to_owned(),
        state: match text("event") {
            Some("APPROVE") => "APPROVED",
            Some("REQUEST_CHANGES") => "CHANGES_REQUESTED",
            Some(_) => "COMMENTED",
            None => "PENDING",
        },
        commit: text("commit_id").unwrap_or(&head).to_owned(),
        at,
    };
    let mut comments = Vec::new();
    for json in asked.body.get("comments").and_then(Value::as_array).into_iter().flatten() {
        let Some(place) = judge::comment(&entries, json).1 else { continue };
        let path = json.get("path").and_then(Value::as_str).unwrap_or_default().to_owned();
        let patch =
            entries.iter().find(|entry| entry.filename == path).and_then(|entry| entry.patch()).unwrap_or_default();
        comments.push(Comment {
            id: state.id(),
            review: review.id,
            reply_to: None,
            author: Some(me.clone()),
            body: json.get("body").and_then(Value::as_str).unwrap_or_default().to_owned(),
            left: place.left,
            line: place.line,
            start: place.start,
            commit: review.commit.clone(),
            base: base.clone(),
            hunk: State::hunk_above(patch, place.left, place.line),
            path,
            reactions: Vec::new(),
            resolved: false,
            at,
        });
    }
    let pull = state.repo_by_id(repo).pulls.get_mut(&number).unwrap();
    pull.reviews.push(review.clone());
    pull.comments.extend(comments.clone());
    if review.state != "PENDING" {
        webhook::review(state, repo, number, &me, &review);
        for comment in &comments {
            webhook::comment(state, repo, number, &me, comment);
        }
    }
    let (repo, pull) = find(state, repo, number).unwrap();
    Answer::ok(state.review_json(repo, pull, &review))
}

pub fn delete_pending(state: &mut State, asked: &Asked, repo: u64, number: u64, id: u64) -> Answer {
    if let Err(answer) = may_write(state, asked, &["pull_requests"]) {
        return answer;
    }
    let me = actor(state, asked);
    let json = {
        let (repo, pull) = match find(state, repo, number) {
            Ok(found) => found,
            Err(answer) => return answer,
        };
        match pull.reviews.iter().find(|review| review.id == id && review.author == me) {
            None => return Answer::not_found(),
            Some(review) if review.state != "PENDING" => {
                return Answer::invalid(&[json!("Can not delete a non-pending pull request review")]);
            }
            Some(review) => state.review_json(repo, pull, review),
        }
    };
    let pull = state.repo_by_id(repo).pulls.get_mut(&number).unwrap();
    pull.reviews.retain(|review| review.id != id);
    pull.comments.retain(|comment| comment.review != id);
    Answer::ok(json)
}
