//! Answers a comment in a review thread.
//!
//! A thread of ours is answered whatever is said in it, another only where we are mentioned. Nobody is answered twice,
//! and bots, ourselves, and people who may not ask are not answered at all.

use super::PullRef;
use super::talk::{Place, Question, Talk};
use super::worker::{End, JobError, Worker};
use crate::conversation::command::{Addressed, Command, Need, parse};
use crate::conversation::thread::Thread;
use crate::github::error::GitHubError;
use crate::queue::worker::Stop;
use crate::review::render::marker;

pub(super) async fn run(worker: &Worker, pull: &PullRef, comment: u64, stop: &Stop) -> Result<End, JobError> {
    let talk = Talk::new(worker, pull, stop).await?;
    let comment = match talk.client.review_comment(comment).await {
        Err(GitHubError::NotFound(_)) => return Ok(End::Done),
        other => other?,
    };
    let Some(person) = talk.person(comment.author.as_ref()) else { return Ok(End::Done) };
    let all = talk.client.review_comments(pull.number).await?;
    let Some(thread) = Thread::of(&comment, &all) else { return Ok(End::Done) };
    let addressed = parse(&comment.body, &talk.us.slug);
    let ours = thread.is_ours(&talk.us.bot);
    if addressed.is_none() && !ours {
        return Ok(End::Done);
    }
    if thread.answered(comment.id, &all, &talk.us.bot).is_some() {
        return Ok(End::Done);
    }
    let now = talk.client.pull_request(pull.number).await?;
    let command = match addressed {
        Some(Addressed::Command(command)) => Some(command),
        Some(Addressed::Question(_)) | None => None,
    };
    let need = command.as_ref().map_or(Need::Ask, Command::need);
    if !talk.allows(person, &now, need).await? {
        return Ok(End::Done);
    }
    let place = Place::Thread { root: thread.root.id, comment: comment.id };
    if let Some(command) = &command
        && let Some(end) = talk.carry_out(command, place, &comment.updated_at).await?
    {
        return Ok(end);
    }
    let fingerprint = if ours { marker::read_finding(&thread.root.body) } else { None };
    let ledger = talk.store.ledger(pull.ids()).await?;
    let finding = fingerprint.and_then(|fingerprint| ledger.entry(fingerprint)).map(|entry| &entry.finding);
    if let Some(fingerprint) = fingerprint {
        talk.store.set_comment(pull.ids(), fingerprint, thread.root.id).await?;
    }
    let wish = match &command {
        Some(Command::Explain) => Some("Explain the finding of this thread: what happens, when, and what to do."),
        _ => None,
    };
    let question = Question {
        now: &now,
        finding,
        line: Some((&thread.root.path, &thread.root.diff_hunk)),
        said: thread.messages(&talk.us.bot),
        wish,
    };
    talk.answer(place, question).await
}
