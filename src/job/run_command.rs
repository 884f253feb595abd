//! Carries out a command, or answers a question, from the timeline.

use super::PullRef;
use super::talk::{Place, Question, Talk};
use super::worker::{End, JobError, Worker};
use crate::chat::ChatMessage;
use crate::conversation::command::{Addressed, Command, Need, parse};
use crate::conversation::thread::visible;
use crate::github::error::GitHubError;
use crate::queue::worker::Stop;

pub(super) async fn run(worker: &Worker, pull: &PullRef, comment: u64, stop: &Stop) -> Result<End, JobError> {
    let talk = Talk::new(worker, pull, stop).await?;
    let comment = match talk.client.issue_comment(comment).await {
        Err(GitHubError::NotFound(_)) => return Ok(End::Done),
        other => other?,
    };
    let Some(person) = talk.person(comment.author.as_ref()) else { return Ok(End::Done) };
    let Some(addressed) = parse(&comment.body, &talk.us.slug) else { return Ok(End::Done) };
    let now = talk.client.pull_request(pull.number).await?;
    let need = match &addressed {
        Addressed::Command(command) => command.need(),
        Addressed::Question(_) => Need::Ask,
    };
    if !talk.allows(person, &now, need).await? {
        return Ok(End::Done);
    }
    let place = Place::Timeline { comment: comment.id };
    let words = match &addressed {
        Addressed::Command(command) => {
            if let Some(end) = talk.carry_out(command, place, &comment.updated_at).await? {
                return Ok(end);
            }
            match command {
                Command::Ask(question) => question.clone(),
                _ => "Explain what this change does and where its risks are.".to_owned(),
            }
        }
        Addressed::Question(question) => question.clone(),
    };
    let said = ChatMessage::user(format!("{} wrote:\n\n{}", person.login, visible(&words)));
    let question = Question { now: &now, finding: None, line: None, said: vec![(comment.id, said)], wish: None };
    talk.answer(place, question).await
}
