//! ReflectiveReviewer: Draft → Critique → Revise …: the second look.
//!
//! A draft goes through the gate, which is code and costs nothing. What the gate would have mended is asked for before a
//! critic is paid; the critic is asked once for everything that is not settled yet. So an answer that claims nothing
//! costs one run of the agent, one that claims something two, and only what is missing costs more.

use std::collections::BTreeSet;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{Attempt, Judged, Lesson, Missing, Task};
use crate::agent::graph::{Edge, RunContext, RunError, StateGraph};
use crate::agent::react::{self, Ask, Said};
use crate::chat::router::Router;
use crate::chat::{ChatMessage, Conversation, ModelRole, ResponseSchema, TokenUsage};
use crate::event::RunState;
use crate::tool::ToolContext;
use crate::tool::toolbox::Toolbox;

/// Answers of two rounds that are at least this alike have converged (product rule).
pub const CONVERGED: f64 = 0.85;

/// Most lessons that are kept; the oldest go first.
const MAX_LESSONS: usize = 30;

/// Characters of an unusable answer that are shown to the model again.
const SHOWN_AGAIN: usize = 4_000;

/// Complaints about an answer that are passed on.
const SHOWN_COMPLAINTS: usize = 20;

/// The graph. `A` is the answer of its task.
pub struct ReflectiveReviewer<'a, T> {
    /// What it works on.
    pub task: &'a T,
    /// Who drafts and who refutes.
    pub models: &'a Router,
    /// What both may call.
    pub toolbox: &'a Toolbox,
    /// What the tools work on.
    pub tools: &'a ToolContext,
    /// Most rounds.
    pub max_rounds: u32,
}

/// The nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Node {
    /// An agent makes an answer, and the gate looks at it.
    Draft,
    /// A critic tries to refute it.
    Critique,
    /// The next round is prepared from what was missing.
    Revise,
}

/// The state of a reflective run.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(bound(deserialize = "A: DeserializeOwned"))]
pub struct Rounds<A> {
    /// The round, from 1 once a draft is there.
    pub round: u32,
    /// The answer as it stands.
    pub answer: Option<A>,
    /// The answer at the end of the last round.
    pub before: Option<A>,
    /// The best round so far.
    pub best: Option<Best<A>>,
    /// What the answer lacks and was not asked for before.
    pub missing: Vec<Missing>,
    /// Shortcomings that were asked for before.
    pub told: BTreeSet<String>,
    /// What was learned.
    pub lessons: Vec<Lesson>,
    /// Set when this round is the last one.
    pub last: bool,
    /// Set when the answer is like the last round's: the gate asks no more then, but a critic may still have news.
    pub converged: bool,
    /// Why the answer is not whole, if it is not.
    pub problem: Option<String>,
    /// What the finished runs of the agent cost.
    pub usage: TokenUsage,
}

/// A round's answer and its mark.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Best<A> {
    /// The answer.
    pub answer: A,
    /// The round.
    pub round: u32,
    /// The gate's score.
    pub score: f64,
    /// Whether a critic looked at it, or had nothing to look at.
    pub judged: bool,
}

impl<A> Default for Rounds<A> {
    fn default() -> Self {
        Self {
            round: 0,
            answer: None,
            before: None,
            best: None,
            missing: Vec::new(),
            told: BTreeSet::new(),
            lessons: Vec::new(),
            last: false,
            converged: false,
            problem: None,
            usage: TokenUsage::default(),
        }
    }
}

impl<A> Rounds<A> {
    /// The best round's answer.
    pub fn into_answer(self) -> Option<A> {
        self.best.map(|best| best.answer)
    }

    /// Takes an answer as the best one, unless an earlier round is better. A judged one is better than one that is not.
    fn consider(&mut self, answer: A, score: f64, judged: bool) {
        let better = self.best.as_ref().is_none_or(|best| (judged, score) >= (best.judged, best.score));
        if better {
            self.best = Some(Best { answer, round: self.round, score, judged });
        }
    }

    fn learn(&mut self, lessons: impl IntoIterator<Item = Lesson>) {
        for lesson in lessons {
            if !self.lessons.contains(&lesson) {
                self.lessons.push(lesson);
            }
        }
        let excess = self.lessons.len().saturating_sub(MAX_LESSONS);
        self.lessons.drain(..excess);
    }
}

impl<T: Task> ReflectiveReviewer<'_, T> {
    async fn draft(&self, state: &mut Rounds<T::Answer>, cx: &RunContext) -> Result<(), RunError> {
        state.round += 1;
        let name = format!("draft-{}", state.round);
        let attempt = Attempt {
            round: state.round,
            lessons: &state.lessons,
            missing: &state.missing,
            before: state.before.as_ref(),
        };
        let messages = self.task.prompt(&attempt);
        let schema = self.task.schema();
        let said = self.ask(ModelRole::Reviewer, &name, messages.clone(), schema.clone(), state, cx).await?;
        let first = self.task.parse(&said);
        let mut answer = first.answer;
        if !first.complaints.is_empty() {
            // Should the model fail now, what is whole is not lost with it.
            state.consider(answer.clone(), 0.0, false);
            let messages = once_more(messages, &said.text, &first.complaints);
            let said = self.ask(ModelRole::Reviewer, &format!("{name}-again"), messages, schema, state, cx).await?;
            let second = self.task.parse(&said);
            answer = self.task.merge(answer, second.answer);
            if !second.complaints.is_empty() {
                // The answer of an earlier round stands; without one, the task does not count as done.
                state.last = true;
                match state.before.take() {
                    Some(before) => answer = self.task.merge(before, answer),
                    None => state.problem = Some(unusable(&second.complaints)),
                }
            }
        }
        if let Some(before) = &state.before {
            answer = self.task.carry(before, answer);
            state.converged = self.task.similarity(before, &answer) >= CONVERGED;
        }
        state.last |= state.round >= self.max_rounds;
        let verdict = self.task.evaluate(&answer);
        state.missing = verdict.missing.into_iter().filter(|m| !state.told.contains(&m.key)).collect();
        state.consider(answer.clone(), verdict.score, false);
        state.answer = Some(answer);
        Ok(())
    }

    async fn critique(&self, state: &mut Rounds<T::Answer>, cx: &RunContext) -> Result<(), RunError> {
        let Some(mut answer) = state.answer.clone() else { return Ok(()) };
        let mut missing = Vec::new();
        if let Some(messages) = self.task.refute(&answer) {
            match self.second_look(answer.clone(), messages, state, cx).await {
                Ok(judged) => {
                    answer = judged.answer;
                    missing = judged.missing;
                    state.learn(judged.lessons);
                }
                Err(error) if cx.patient && error.passes() => return Err(error),
                // The draft stands, and says that nobody confirmed it; asking for more would fail in the same way.
                Err(error @ (RunError::Model(_) | RunError::Limit(_))) => {
                    answer = self.task.unjudged(answer, &error.to_string());
                    state.last = true;
                }
                Err(error) => return Err(error),
            }
        }
        let verdict = self.task.evaluate(&answer);
        if !state.converged {
            missing.extend(verdict.missing);
        }
        missing.retain(|m| !state.told.contains(&m.key));
        state.missing = missing;
        state.consider(answer.clone(), verdict.score, true);
        state.answer = Some(answer);
        Ok(())
    }

    async fn second_look(
        &self,
        answer: T::Answer,
        messages: Vec<ChatMessage>,
        state: &mut Rounds<T::Answer>,
        cx: &RunContext,
    ) -> Result<Judged<T::Answer>, RunError> {
        let name = format!("critique-{}", state.round);
        let schema = self.task.critic_schema();
        let said = self.ask(ModelRole::Critic, &name, messages.clone(), schema.clone(), state, cx).await?;
        let first = self.task.judge(answer.clone(), &said, state.round);
        if first.complaints.is_empty() {
            return Ok(first);
        }
        // What the critic did say stands; the second answer is only asked about the rest.
        let messages = match self.task.refute(&first.answer) {
            Some(rest) => once_more(rest, "", &first.complaints),
            None => return Ok(first),
        };
        let again = self.ask(ModelRole::Critic, &format!("{name}-again"), messages, schema, state, cx).await;
        let mut second = match again {
            Ok(said) => self.task.judge(first.answer, &said, state.round),
            Err(error) if cx.patient && error.passes() => return Err(error),
            Err(error @ (RunError::Model(_) | RunError::Limit(_))) => Judged {
                answer: first.answer,
                complaints: vec![error.to_string()],
                missing: Vec::new(),
                lessons: Vec::new(),
            },
            Err(error) => return Err(error),
        };
        if let Some(complaint) = second.complaints.first() {
            second.answer = self.task.unjudged(second.answer, complaint);
        }
        second.missing.splice(0..0, first.missing);
        second.lessons.splice(0..0, first.lessons);
        Ok(second)
    }

    async fn ask(
        &self,
        role: ModelRole,
        name: &str,
        messages: Vec<ChatMessage>,
        response_schema: Option<ResponseSchema>,
        state: &mut Rounds<T::Answer>,
        cx: &RunContext,
    ) -> Result<Said, RunError> {
        let conversation = Conversation { role, subject: self.task.subject().to_owned() };
        let ask = Ask { conversation, messages, response_schema };
        let said = react::ask(ask, self.models, self.toolbox, self.tools, &cx.child(name)).await?;
        state.usage += said.usage;
        Ok(said)
    }
}

impl<T: Task> StateGraph for ReflectiveReviewer<'_, T> {
    type Node = Node;
    type State = Rounds<T::Answer>;
    const NAME: &'static str = "reflexion";
    const START: Node = Node::Draft;

    async fn visit(&self, node: Node, state: &mut Rounds<T::Answer>, cx: &RunContext) -> Result<(), RunError> {
        match node {
            Node::Draft => self.draft(state, cx).await,
            Node::Critique => self.critique(state, cx).await,
            Node::Revise => {
                state.before = state.answer.take();
                state.told.extend(state.missing.iter().map(|m| m.key.clone()));
                let lessons: Vec<_> = state.missing.iter().map(|m| Lesson { text: m.say.clone() }).collect();
                state.learn(lessons);
                Ok(())
            }
        }
    }

    fn edge(&self, node: Node, state: &Rounds<T::Answer>) -> Edge<Node> {
        let more = !state.missing.is_empty() && !state.last;
        match node {
            Node::Draft if more && !state.converged => Edge::To(Node::Revise),
            Node::Draft => Edge::To(Node::Critique),
            Node::Critique if more => Edge::To(Node::Revise),
            Node::Critique => Edge::End,
            Node::Revise => Edge::To(Node::Draft),
        }
    }

    fn doing(&self, node: Node) -> RunState {
        match node {
            Node::Draft | Node::Critique => RunState::Thinking,
            Node::Revise => RunState::Responding,
        }
    }

    fn detail(&self, node: Node, state: &Rounds<T::Answer>) -> String {
        match node {
            Node::Draft => format!("round {}", state.round + 1),
            Node::Critique => format!("second look, round {}", state.round),
            Node::Revise => format!("{} to mend", state.missing.len()),
        }
    }
}

/// The question again with the unusable answer, clipped, and what is wrong with it. Tool calls and their results are
/// left out: what they showed is in the answer, and they are the dear part.
fn once_more(mut messages: Vec<ChatMessage>, said: &str, complaints: &[String]) -> Vec<ChatMessage> {
    let list: Vec<_> = complaints.iter().take(SHOWN_COMPLAINTS).map(|c| format!("- {c}")).collect();
    let list = list.join("\n");
    let sentence = format!(
        "An answer to this could not be used as it was:\n{list}\nGive the whole answer, only as JSON in the form asked for."
    );
    match messages.last_mut() {
        // Some servers refuse two messages of one side in a row.
        Some(ChatMessage::User { text }) if said.trim().is_empty() => {
            text.push_str("\n\n");
            text.push_str(&sentence);
        }
        _ => {
            let mut shown: String = said.chars().take(SHOWN_AGAIN).collect();
            if shown.len() < said.len() {
                shown.push_str("\n[… cut here]");
            }
            messages.push(ChatMessage::assistant(shown));
            messages.push(ChatMessage::user(sentence));
        }
    }
    messages
}

fn unusable(complaints: &[String]) -> String {
    let first = complaints.first().map(String::as_str).unwrap_or_default();
    format!("the model's answer was unusable, also when asked again: {first}")
}
