//! Comments on lines and on the timeline, and reactions.

use serde_json::{Value, json};

use super::super::judge::body_refused;
use super::super::server::{Answer, Asked};
use super::super::state::{Comment, Pull, Reaction, Review, State, Talk};
use super::super::webhook;
use super::{actor, find, may_write, page};

pub fn list(state: &State, asked: &Asked, repo: u64, number: u64) -> Answer {
    let (repo, pull) = match find(state, repo, number) {
        Ok(found) => found,
        Err(answer) => return answer,
    };
    let all: Vec<Value> = submitted(pull).map(|comment| state.comment_json(repo, pull, comment)).collect();
    page(state, asked, &format!("/repos/{}/pulls/{number}/comments", repo.full_name()), &all)
}

pub fn one(state: &State, repo: u64, id: u64) -> Answer {
    let Some(repo) = state.repos.iter().find(|r| r.id == repo) else { return Answer::not_found() };
    let found = repo.pulls.values().find_map(|pull| Some((pull, submitted(pull).find(|comment| comment.id == id)?)));
    found.map_or_else(Answer::not_found, |(pull, comment)| Answer::ok(state.comment_json(repo, pull, comment)))
}

/// `POST /pulls/{number}/comments/{id}/replies`. A reply to a reply goes to the thread's first comment.
pub fn reply(state: &mut State, asked: &Asked, repo: u64, number: u64, id: u64) -> Answer {
    if let Err(answer) = may_write(state, asked, &["pull_requests"]) {
        return answer;
    }
    let body = asked.body.get("body").and_then(Value::as_str).unwrap_or_default().to_owned();
    if let Some(why) = body_refused(&body) {
        return Answer::invalid(&[
            json!({ "resource": "PullRequestReviewComment", "field": "body", "code": "custom", "message": why }),
        ]);
    }
    let me = actor(state, asked);
    match add_reply(state, repo, number, id, &me, &body) {
        None => Answer::not_found(),
        Some(comment) => {
            let (repo, pull) = find(state, repo, number).unwrap();
            Answer::json(201, state.comment_json(repo, pull, &comment))
        }
    }
}

/// Adds a reply and sends its webhooks; for the API and for people alike. Every reply comes with a review of its own.
pub fn add_reply(state: &mut State, repo: u64, number: u64, id: u64, by: &str, body: &str) -> Option<Comment> {
    let (_, pull) = find(state, repo, number).ok()?;
    let to = pull.comments.iter().find(|comment| comment.id == id)?;
    let root = to.reply_to.unwrap_or(to.id);
    let root = pull.comments.iter().find(|comment| comment.id == root)?.clone();
    let (head, at) = (pull.head().to_owned(), state.now());
    let review =
        Review { id: state.id(), author: by.into(), body: String::new(), state: "COMMENTED", commit: head, at };
    let comment = Comment {
        id: state.id(),
        review: review.id,
        reply_to: Some(root.id),
        author: Some(by.to_owned()),
        body: body.to_owned(),
        reactions: Vec::new(),
        at,
        ..root
    };
    let pull = state.repo_by_id(repo).pulls.get_mut(&number)?;
    pull.reviews.push(review.clone());
    pull.comments.push(comment.clone());
    webhook::review(state, repo, number, by, &review);
    webhook::comment(state, repo, number, by, &comment);
    Some(comment)
}

pub fn talk(state: &State, asked: &Asked, repo: u64, number: u64) -> Answer {
    let (repo, pull) = match find(state, repo, number) {
        Ok(found) => found,
        Err(answer) => return answer,
    };
    let all: Vec<Value> = pull.talk.iter().map(|talk| state.talk_json(repo, pull, talk)).collect();
    page(state, asked, &format!("/repos/{}/issues/{number}/comments", repo.full_name()), &all)
}

pub fn one_said(state: &State, repo: u64, id: u64) -> Answer {
    let Some(repo) = state.repos.iter().find(|r| r.id == repo) else { return Answer::not_found() };
    let found = repo.pulls.values().find_map(|pull| Some((pull, pull.talk.iter().find(|talk| talk.id == id)?)));
    found.map_or_else(Answer::not_found, |(pull, talk)| Answer::ok(state.talk_json(repo, pull, talk)))
}

pub fn say(state: &mut State, asked: &Asked, repo: u64, number: u64) -> Answer {
    if let Err(answer) = may_write(state, asked, &["issues", "pull_requests"]) {
        return answer;
    }
    let body = asked.body.get("body").and_then(Value::as_str).unwrap_or_default().to_owned();
    if let Some(why) = body_refused(&body) {
        return Answer::invalid(&[
            json!({ "resource": "IssueComment", "field": "data", "code": "unprocessable", "message": why }),
        ]);
    }
    if find(state, repo, number).is_err() {
        return Answer::not_found();
    }
    let me = actor(state, asked);
    let talk = add_talk(state, repo, number, &me, &body);
    let (repo, pull) = find(state, repo, number).unwrap();
    Answer::json(201, state.talk_json(repo, pull, &talk))
}

/// Adds a comment to the timeline and sends its webhook; for the API and for people alike.
pub fn add_talk(state: &mut State, repo: u64, number: u64, by: &str, body: &str) -> Talk {
    let (id, at) = (state.id(), state.now());
    let talk = Talk { id, author: Some(by.into()), body: body.into(), reactions: Vec::new(), at, edited_at: at };
    state.repo_by_id(repo).pulls.get_mut(&number).unwrap().talk.push(talk.clone());
    webhook::talk(state, repo, number, by, &talk, None);
    talk
}

pub fn react(state: &mut State, asked: &Asked, repo: u64, id: u64) -> Answer {
    if let Err(answer) = may_write(state, asked, &["pull_requests"]) {
        return answer;
    }
    put_reaction(state, asked, repo, |pull| {
        pull.comments.iter_mut().find(|comment| comment.id == id).map(|comment| &mut comment.reactions)
    })
}

pub fn react_said(state: &mut State, asked: &Asked, repo: u64, id: u64) -> Answer {
    if let Err(answer) = may_write(state, asked, &["issues", "pull_requests"]) {
        return answer;
    }
    put_reaction(state, asked, repo, |pull| {
        pull.talk.iter_mut().find(|talk| talk.id == id).map(|talk| &mut talk.reactions)
    })
}

/// 201 for a new reaction, 200 for one that was there.
fn put_reaction(
    state: &mut State,
    asked: &Asked,
    repo: u64,
    find: impl Fn(&mut Pull) -> Option<&mut Vec<Reaction>>,
) -> Answer {
    let content = asked.body.get("content").and_then(Value::as_str).unwrap_or_default().to_owned();
    if !["+1", "-1", "laugh", "confused", "heart", "hooray", "rocket", "eyes"].contains(&content.as_str()) {
        return Answer::invalid(&[json!({ "resource": "Reaction", "field": "content", "code": "invalid" })]);
    }
    let (me, id, at) = (actor(state, asked), state.id(), state.now());
    let Some(reactions) = state.repo_by_id(repo).pulls.values_mut().find_map(find) else { return Answer::not_found() };
    let known = reactions.iter().find(|reaction| reaction.author == me && reaction.content == content).cloned();
    let status = if known.is_some() { 200 } else { 201 };
    let reaction = known.unwrap_or_else(|| {
        let reaction = Reaction { id, author: me, content, at };
        reactions.push(reaction.clone());
        reaction
    });
    Answer::json(status, state.reaction_json(&reaction))
}

/// Comments of a pending review are seen by nobody in lists.
fn submitted(pull: &Pull) -> impl Iterator<Item = &Comment> {
    let pending = |comment: &&Comment| !pull.reviews.iter().any(|r| r.id == comment.review && r.state == "PENDING");
    pull.comments.iter().filter(pending)
}
