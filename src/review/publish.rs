//! Writes a planned round on GitHub, once.
//!
//! GitHub takes a review as a whole or not at all, does not say which comment it dislikes, and may have taken one
//! although it answered with an error. So a review is planned in the database first, carries the id of its plan in a
//! hidden marker, and is sent only after a look at our own reviews whenever it may have been sent before.
//!
//! A review that GitHub refuses is not given up: a stale pending review of ours is removed, and a block on our own pull
//! request becomes a comment. Comments are placed on lines of the diff that GitHub showed, so a refusal for their sake
//! means that the diff is another by now: it is read afresh once, every comment is put on its line anew, and one whose
//! line is gone is said in the body. Should GitHub refuse even that, all of them are said in the body. So a refused
//! review costs at most two more tries and the removal of what stood in its way; it is never sent comment by comment.
//!
//! Known race: two workers of which one lost its lease without noticing could both send. The lease is looked at before
//! each request, and the second one's marker is found by the first; a window of one request remains.

pub mod catch_up;
pub mod plan;
pub mod store;

use tokio_util::sync::CancellationToken;

use crate::db::DbError;
use crate::github::ReviewEvent;
use crate::github::client::{GitHubApp, RepositoryClient};
use crate::github::error::GitHubError;
use crate::retry::Retry;
use plan::PlannedReview;
use store::{OpenReview, OpenRound, PostState};

use super::anchor::anchor;
use super::render::marker;
use super::store::{PullKey, PullStore};

/// Why a round could not be written now.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// GitHub failed or refused.
    #[error(transparent)]
    GitHub(#[from] GitHubError),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] DbError),
}

impl PublishError {
    /// Whether trying again can help.
    pub fn retry(&self) -> Retry {
        match self {
            Self::GitHub(error) => error.retry(),
            Self::Store(error) => error.retry(),
        }
    }
}

/// How far a round came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carried {
    /// Every review of it stands on GitHub.
    Out,
    /// The head is no longer part of the pull request: the rest is pointless.
    Overtaken,
    /// Somebody else wants to go on with it.
    Stopped,
}

/// Writes reviews on one pull request.
pub struct Publisher<'p> {
    /// GitHub.
    pub client: &'p RepositoryClient,
    /// The App, for its own user id; `None` when a person's token writes.
    pub app: Option<&'p GitHubApp>,
    /// The number of the pull request.
    pub number: u64,
}

/// What became of sending one review.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// It stands, with this id.
    Posted(u64),
    /// Its head is no longer part of the pull request.
    Overtaken,
}

/// Why a review is not known to stand.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct Unsent {
    /// What GitHub said, or that it said nothing.
    pub error: GitHubError,
    /// It may stand all the same: look before sending it again.
    pub may_stand: bool,
}

impl Unsent {
    /// A request failed that was made after GitHub had refused the review. A refusal has been seen to leave a record, so
    /// whatever this failure is, it does not say that there is none.
    fn after_refusal(error: GitHubError) -> Self {
        Self { error, may_stand: true }
    }
}

impl From<GitHubError> for Unsent {
    fn from(error: GitHubError) -> Self {
        Self { may_stand: error.doubtful(), error }
    }
}

/// What a refusal (422) is about, from GitHub's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusal {
    PendingReview,
    OwnPullRequest,
    CommitNotInPull,
    CommitNotFound,
    Other,
}

impl Publisher<'_> {
    /// Writes what of a round does not stand yet, and keeps the rows in step.
    ///
    /// # Errors
    /// See [`PublishError`]; calling again goes on where it failed.
    pub async fn carry_out(
        &self,
        store: &PullStore,
        pull: PullKey,
        round: &mut OpenRound,
        stop: &CancellationToken,
    ) -> Result<Carried, PublishError> {
        for open in &mut round.reviews {
            if open.state == PostState::Posted {
                continue;
            }
            if stop.is_cancelled() {
                return Ok(Carried::Stopped);
            }
            if self.stands_already(store, pull, open).await? {
                continue;
            }
            store.keep_review(&open.id, PostState::Sending, &open.review).await?;
            open.state = PostState::Sending;
            match self.send(&open.id, &mut open.review).await {
                Ok(Sent::Posted(id)) => {
                    store.review_posted(pull, &open.id, &open.review, id).await?;
                    open.state = PostState::Posted;
                }
                Ok(Sent::Overtaken) => return Ok(Carried::Overtaken),
                Err(Unsent { error, may_stand }) => {
                    if !may_stand {
                        // Certainly not sent, so the next try need not look.
                        open.state = PostState::Planned;
                    }
                    store.keep_review(&open.id, open.state, &open.review).await?;
                    return Err(error.into());
                }
            }
        }
        Ok(Carried::Out)
    }

    /// Looks which of the reviews that may have been sent stand on GitHub, before the rest of the round is given up.
    ///
    /// # Errors
    /// See [`PublishError`].
    pub async fn look_back(&self, store: &PullStore, pull: PullKey, round: &mut OpenRound) -> Result<(), PublishError> {
        for open in &mut round.reviews {
            self.stands_already(store, pull, open).await?;
        }
        Ok(())
    }

    async fn stands_already(
        &self,
        store: &PullStore,
        pull: PullKey,
        open: &mut OpenReview,
    ) -> Result<bool, PublishError> {
        if open.state != PostState::Sending {
            return Ok(false);
        }
        let Some(id) = self.find(&open.id).await? else { return Ok(false) };
        store.review_posted(pull, &open.id, &open.review, id).await?;
        open.state = PostState::Posted;
        Ok(true)
    }

    /// Sends one review; `plan` is the id in its marker. What GitHub refuses of it moves from the lines into the body.
    ///
    /// # Errors
    /// [`Unsent`] when it does not stand afterwards as far as we know.
    pub async fn send(&self, plan: &str, review: &mut PlannedReview) -> Result<Sent, Unsent> {
        let mut pending_removed = false;
        let mut placed_anew = false;
        let mut refused = false;
        loop {
            let message = match self.client.create_review(self.number, &review.to_review(plan)).await {
                Ok(id) => return Ok(Sent::Posted(id)),
                Err(GitHubError::Unprocessable(message)) => message,
                Err(error) => return Err(Unsent { may_stand: refused || error.doubtful(), error }),
            };
            refused = true;
            let refusal = Refusal::of(&message);
            tracing::warn!(pull.number = self.number, github.message = %message, "a review was refused");
            if refusal == Refusal::CommitNotFound {
                return Err(GitHubError::Unprocessable(message).into());
            }
            // A record may exist in spite of the refusal.
            if let Some(id) = self.find(plan).await.map_err(Unsent::after_refusal)? {
                return Ok(Sent::Posted(id));
            }
            match refusal {
                Refusal::CommitNotInPull => return Ok(Sent::Overtaken),
                // One person has one pending review: it is what they are writing now, and not ours to throw away.
                Refusal::PendingReview if self.app.is_none() => return Err(GitHubError::Unprocessable(message).into()),
                Refusal::PendingReview if !pending_removed => {
                    pending_removed = true;
                    self.remove_pending().await.map_err(Unsent::after_refusal)?;
                }
                Refusal::OwnPullRequest if review.event == ReviewEvent::RequestChanges => {
                    review.event = ReviewEvent::Comment;
                }
                _ if review.comments.is_empty() => return Err(GitHubError::Unprocessable(message).into()),
                _ if !placed_anew => {
                    placed_anew = true;
                    if !self.place_anew(review).await.map_err(Unsent::after_refusal)? {
                        return Ok(Sent::Overtaken);
                    }
                }
                _ => review.refuse(|_, _| true),
            }
        }
    }

    /// The id of the user we write as.
    async fn author(&self) -> Result<u64, GitHubError> {
        match self.app {
            Some(app) => Ok(app.identity().await?.bot.id),
            None => self.client.viewer().await,
        }
    }

    /// Our own review that carries this plan: anybody can write our markers, and foretell a plan of the command line.
    async fn find(&self, plan: &str) -> Result<Option<u64>, GitHubError> {
        let author = self.author().await?;
        let reviews = self.client.reviews(self.number).await?;
        let ours = reviews.iter().find(|review| {
            let by_us = review.author.as_ref().is_some_and(|user| user.id == author);
            by_us && !review.pending && marker::read_plan(&review.body) == Some(plan)
        });
        Ok(ours.map(|review| review.id))
    }

    /// Pending reviews are visible to their author alone, so those the App sees are its own.
    async fn remove_pending(&self) -> Result<(), GitHubError> {
        for review in self.client.reviews(self.number).await? {
            if review.pending {
                self.client.delete_pending_review(self.number, review.id).await?;
            }
        }
        Ok(())
    }

    /// Reads the diff once more and puts every comment on its line anew: the base may have moved. False when the head
    /// did.
    async fn place_anew(&self, review: &mut PlannedReview) -> Result<bool, GitHubError> {
        let pull = self.client.pull_request(self.number).await?;
        if pull.head_sha != review.head {
            return Ok(false);
        }
        let files = self.client.pull_files(&pull).await?.files;
        for comment in &mut review.comments {
            let finding = comment.reported.finding.clone();
            let file = files.iter().find(|file| file.diff.path == finding.path && !file.self_made);
            let placed = file.and_then(|file| anchor(vec![finding], &file.diff).comments.into_iter().next());
            let Some(placed) = placed else {
                comment.comment.line = 0;
                continue;
            };
            if comment.reported.place.as_ref() != Ok(&placed.anchor) {
                // The suggestion was made for the lines it had before.
                comment.reported.suggestion = None;
                comment.reported.place = Ok(placed.anchor);
                if let Some(anew) = plan::comment(&comment.reported) {
                    comment.comment = anew;
                }
            }
        }
        review.refuse(|_, comment| comment.comment.line == 0);
        Ok(true)
    }
}

impl Refusal {
    /// GitHub's texts, as recorded in public reports; it gives no code for them.
    fn of(message: &str) -> Self {
        let message = message.to_ascii_lowercase();
        let says = |words: &str| message.contains(words);
        if says("pending review") {
            Self::PendingReview
        } else if says("own pull request") {
            Self::OwnPullRequest
        } else if says("commitoid is not part of the pull request") {
            Self::CommitNotInPull
        } else if says("no commit found for sha") {
            Self::CommitNotFound
        } else {
            Self::Other
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("User can only have one pending review per pull request", Refusal::PendingReview)]
    #[case("Review Can not request changes on your own pull request", Refusal::OwnPullRequest)]
    #[case("The commitOID is not part of the pull request", Refusal::CommitNotInPull)]
    #[case("No commit found for SHA: abc", Refusal::CommitNotFound)]
    #[case("Line could not be resolved", Refusal::Other)]
    fn refusals_are_told_apart_by_their_words(#[case] message: &str, #[case] refusal: Refusal) {
        assert_eq!(Refusal::of(message), refusal);
    }
}
