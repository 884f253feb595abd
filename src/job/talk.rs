//! What answering in a thread and on the timeline have in common: who is heard, what a command does, and that an answer
//! is written once.

use std::sync::Arc;

use super::worker::{End, JobError, Worker};
use super::{Job, PullRef, Trigger};
use crate::agent::graph::{RunContext, RunError};
use crate::agent::react::{self, Ask};
use crate::app::App;
use crate::chat::{ChatMessage, Conversation, ModelRole};
use crate::conversation::answer::{self, Topic};
use crate::conversation::command::{Command, Need, Scope};
use crate::conversation::thread::{by, conversation_id, may, visible};
use crate::db::DbError;
use crate::github::client::{AppIdentity, RepositoryClient};
use crate::github::error::GitHubError;
use crate::github::{PullRequest, User};
use crate::queue::worker::Stop;
use crate::review::finding::Finding;
use crate::review::policy;
use crate::review::publish::store::{Post, PostKind, PostState};
use crate::review::render::marker;
use crate::review::store::PullStore;
use crate::tool::ToolContext;
use crate::tool::remote::Remote;
use crate::tool::toolbox::Toolbox;

/// Where an answer goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Into the thread with this first comment.
    Thread { root: u64, comment: u64 },
    /// Onto the timeline.
    Timeline { comment: u64 },
}

/// A question, with all that an answer needs.
pub(super) struct Question<'q> {
    /// The pull request as it is now.
    pub now: &'q PullRequest,
    /// The finding of the thread, if it is about one of ours.
    pub finding: Option<&'q Finding>,
    /// The path and the diff around the thread, if it stands on a line.
    pub line: Option<(&'q str, &'q str)>,
    /// What was said, each with the comment it came from, the question last.
    pub said: Vec<(u64, ChatMessage)>,
    /// Put after what was said, when that does not say what is wanted.
    pub wish: Option<&'q str>,
}

/// A conversation on one pull request.
pub(super) struct Talk<'w> {
    pub worker: &'w Worker,
    pub pull: &'w PullRef,
    pub client: RepositoryClient,
    pub store: PullStore,
    pub us: AppIdentity,
    pub stop: &'w Stop,
}

impl Place {
    fn comment(self) -> u64 {
        match self {
            Self::Thread { comment, .. } | Self::Timeline { comment } => comment,
        }
    }

    /// Names the comment among the commands that were carried out: the two sorts of comments count apart.
    fn cause(self) -> String {
        match self {
            Self::Thread { comment, .. } => format!("line-comment:{comment}"),
            Self::Timeline { comment } => comment.to_string(),
        }
    }

    fn root(self) -> Option<u64> {
        match self {
            Self::Thread { root, .. } => Some(root),
            Self::Timeline { .. } => None,
        }
    }

    fn kind(self) -> PostKind {
        match self {
            Self::Thread { .. } => PostKind::Reply,
            Self::Timeline { .. } => PostKind::Comment,
        }
    }
}

/// A command as it is told from another one of the same comment.
fn spelled(command: &Command) -> String {
    match command {
        Command::Review(Scope::New) => "review".into(),
        Command::Review(Scope::Full) => "review full".into(),
        Command::Review(Scope::Path(path)) => format!("review {path}"),
        other => other.word().to_owned(),
    }
}

impl<'w> Talk<'w> {
    pub(super) async fn new(worker: &'w Worker, pull: &'w PullRef, stop: &'w Stop) -> Result<Self, JobError> {
        Ok(Self {
            worker,
            pull,
            client: worker.client(pull.installation, &pull.repository, stop)?,
            store: worker.pulls(stop),
            us: worker.github()?.identity().await?,
            stop,
        })
    }

    /// A person whose words may count: not a bot, not us, not a deleted account.
    pub(super) fn person<'u>(&self, author: Option<&'u User>) -> Option<&'u User> {
        author.filter(|user| !user.is_bot && !by(Some(user), &self.us.bot))
    }

    /// Whether a person may have what they ask for. Nobody else gets an answer, nor spends a token.
    pub(super) async fn allows(&self, person: &User, now: &PullRequest, need: Need) -> Result<bool, JobError> {
        let is_author = now.author.as_ref().is_some_and(|author| author.id == person.id);
        if is_author && need == Need::Ask {
            return Ok(true);
        }
        match self.client.permission(&person.login).await {
            Ok(permission) => Ok(may(permission, is_author, need)),
            Err(GitHubError::NotFound(_)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Carries out a command that needs no model; `said` is when its comment was last edited. `None` for the others.
    pub(super) async fn carry_out(&self, command: &Command, place: Place, said: &str) -> Result<Option<End>, JobError> {
        match command {
            Command::Ask(_) | Command::Explain => return Ok(None),
            Command::Review(_) | Command::Pause | Command::Resume => self.once(place, command, said).await?,
            Command::Help => {
                return self.say(place, &place.comment().to_string(), &answer::help(&self.us.slug)).await.map(Some);
            }
            // However often somebody mistypes, the help is written once.
            Command::Unknown(_) => return self.say(place, "unknown", &answer::help(&self.us.slug)).await.map(Some),
            other => {
                return self.say(place, &place.comment().to_string(), &answer::not_yet(other)).await.map(Some);
            }
        }
        Ok(Some(End::Done))
    }

    /// Asks the model and writes its answer.
    pub(super) async fn answer(&self, place: Place, question: Question<'_>) -> Result<End, JobError> {
        let cause = place.comment().to_string();
        let conversation = conversation_id(self.pull.repository.id, self.pull.number, place.root());
        let run_id = format!("answer:{conversation}:{cause}");
        let post = match self.store.answer(self.pull.ids(), place.kind(), &cause).await? {
            Some(planned) => planned,
            None => {
                // The database may be older than GitHub. In a thread, the job has looked already.
                if place.root().is_none() && self.find(place, Some(place.comment())).await?.is_some() {
                    return Ok(End::Done);
                }
                let text = match self.ask(&run_id, &conversation, &question).await {
                    // Asking again would not help, and silence would leave the person waiting.
                    Err(JobError::Run(RunError::Limit(why))) => answer::given_up(&why),
                    answered => answered?,
                };
                let Some(body) = answer::body(&text, place.comment()) else {
                    tracing::warn!(run.id = %run_id, "the model's answer was empty; nothing is written");
                    return Ok(End::Done);
                };
                self.store.plan_answer(self.pull.ids(), place.kind(), &cause, &body).await?
            }
        };
        let said = ChatMessage::assistant(visible(&post.content));
        let end = self.send(place, post).await?;
        if place.root().is_none() && end == End::Done {
            // A thread is read back from GitHub with our answers in it; of the timeline only what concerns us is kept.
            self.worker.app.history.append(&conversation, &format!("answer:{cause}"), &[said]).await?;
        }
        self.worker.app.engine.checkpoints.forget(&run_id).await?;
        Ok(end)
    }

    async fn ask(&self, run_id: &str, conversation: &str, question: &Question<'_>) -> Result<String, JobError> {
        let App { engine, history, .. } = &self.worker.app;
        for (comment, message) in &question.said {
            history.append(conversation, &format!("comment:{comment}"), std::slice::from_ref(message)).await?;
        }
        let topic = Topic { pull: question.now, finding: question.finding, place: question.line };
        let told: Vec<ChatMessage> = match question.line {
            // A thread is told up to the question. What is remembered of it may go beyond: comments come late, too.
            Some(_) => question.said.iter().map(|(_, message)| message.clone()).collect(),
            None => history.load(conversation).await?,
        };
        let mut messages = answer::messages(&topic, &told);
        messages.extend(question.wish.map(ChatMessage::user));
        let files = self.client.pull_files(question.now).await?.files;
        let tools = ToolContext {
            source: Arc::new(Remote::new(self.client.clone(), question.now.head_sha.clone())),
            files: Arc::new(files.into_iter().map(|file| file.diff).collect()),
            path: question.line.map(|(path, _)| path.to_owned()).unwrap_or_default(),
        };
        let texts = self.client.file_texts(&question.now.base_sha, &policy::policy_files()).await?;
        let run = RunContext::new(
            run_id,
            engine.checkpoints.clone(),
            engine.events.clone(),
            engine.clock.clone(),
            self.stop.token.clone(),
        );
        let purse = self.worker.app.purse(self.pull.ids(), &policy::load(&texts).policy.budget);
        let run = RunContext { budget: run.budget.clone().booked_on(purse), ..run };
        let ask = Ask {
            conversation: Conversation { role: ModelRole::Answer, subject: conversation.to_owned() },
            messages,
            response_schema: None,
        };
        Ok(react::ask(ask, &engine.models, &Toolbox::reviewing(), &tools, &run).await?.text)
    }

    /// Carries out a command, and only once however often its comment is redelivered or edited: an edit that leaves the
    /// command as it is asks for nothing new.
    async fn once(&self, place: Place, command: &Command, said: &str) -> Result<(), JobError> {
        let (pull, asked) = (self.pull.ids(), spelled(command));
        let mut post = self.store.plan_answer(pull, PostKind::Command, &place.cause(), &asked).await?;
        if post.content != asked {
            self.store.plan_again(&post.id, &asked).await?;
            post.state = PostState::Planned;
        }
        if post.state == PostState::Posted {
            return Ok(());
        }
        self.acknowledge(place).await?;
        let trigger = match command {
            Command::Pause => self.store.set_paused(pull, true, said).await.map(|_| None)?,
            // Pushes of the meantime were passed over.
            Command::Resume => self.store.set_paused(pull, false, said).await?.then_some(Trigger::Push),
            Command::Review(Scope::New) => Some(Trigger::AskedForNew),
            // One path alone cannot be reviewed yet; everything holds it.
            _ => Some(Trigger::Asked),
        };
        // Together, so that a command whose end could not be written down does not ask for another review.
        let mut tx = self.store.begin().await?;
        if let Some(trigger) = trigger {
            let job = Job::ReviewPullRequest { pull: self.pull.clone(), trigger };
            self.worker.enqueue_in(&mut tx, job).await?;
        }
        self.store.set_state_in(&mut tx, &post.id, PostState::Posted).await?;
        tx.commit().await.map_err(DbError::from)?;
        self.worker.queue.announce();
        Ok(())
    }

    /// A reaction says that a command was understood. A comment that is gone needs none.
    async fn acknowledge(&self, place: Place) -> Result<(), JobError> {
        let reacted = match place {
            Place::Thread { comment, .. } => self.client.react_to_review_comment(comment, "eyes").await,
            Place::Timeline { comment } => self.client.react_to_issue_comment(comment, "eyes").await,
        };
        match reacted {
            Ok(()) | Err(GitHubError::NotFound(_) | GitHubError::Forbidden(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes a text of our own.
    async fn say(&self, place: Place, cause: &str, text: &str) -> Result<End, JobError> {
        let body = format!("{text}\n\n{}", marker::reply(place.comment()));
        let post = self.store.plan_answer(self.pull.ids(), place.kind(), cause, &body).await?;
        self.send(place, post).await
    }

    /// Writes a planned answer, unless it stands already.
    async fn send(&self, place: Place, post: Post) -> Result<End, JobError> {
        match post.state {
            PostState::Posted | PostState::Abandoned => return Ok(End::Done),
            PostState::Planned if place.root().is_some() => {}
            PostState::Planned | PostState::Sending => {
                if let Some(id) = self.find(place, marker::read_reply(&post.content)).await? {
                    self.store.set_answer(&post.id, PostState::Posted, Some(id)).await?;
                    return Ok(End::Done);
                }
            }
        }
        if self.stop.token.is_cancelled() {
            return Ok(End::Stopped);
        }
        self.store.set_answer(&post.id, PostState::Sending, None).await?;
        let sent = match place {
            Place::Thread { root, .. } => self.client.reply(self.pull.number, root, &post.content).await,
            Place::Timeline { .. } => self.client.create_issue_comment(self.pull.number, &post.content).await,
        };
        match sent {
            Ok(id) => self.store.set_answer(&post.id, PostState::Posted, Some(id)).await?,
            Err(GitHubError::NotFound(what)) => {
                tracing::info!(github.message = %what, "what was to be answered is gone");
                self.store.set_answer(&post.id, PostState::Abandoned, None).await?;
            }
            Err(error) => {
                if !error.doubtful() {
                    self.store.set_answer(&post.id, PostState::Planned, None).await?;
                }
                return Err(error.into());
            }
        }
        Ok(End::Done)
    }

    /// Our own comment that answers this one, by its marker.
    async fn find(&self, place: Place, answered: Option<u64>) -> Result<Option<u64>, JobError> {
        let ours = |author: Option<&User>, body: &str| {
            by(author, &self.us.bot) && answered.is_some() && marker::read_reply(body) == answered
        };
        Ok(match place {
            Place::Thread { .. } => {
                let all = self.client.review_comments(self.pull.number).await?;
                all.iter().find(|c| ours(c.author.as_ref(), &c.body)).map(|c| c.id)
            }
            Place::Timeline { .. } => {
                let all = self.client.issue_comments(self.pull.number).await?;
                all.iter().find(|c| ours(c.author.as_ref(), &c.body)).map(|c| c.id)
            }
        })
    }
}
