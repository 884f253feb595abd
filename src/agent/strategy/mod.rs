//! How thinking, acting and observing are ordered. Generic over the task a strategy works on.

pub mod reflexion;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::agent::react::Said;
use crate::chat::{ChatMessage, ResponseSchema};

/// What a strategy works on. Pure: it makes prompts and judges answers; the strategy asks the models.
pub trait Task: Send + Sync {
    /// The answer it is after.
    type Answer: Clone + Serialize + DeserializeOwned + Send + Sync;

    /// What the conversations are about, for routing and logs.
    fn subject(&self) -> &str;

    /// The messages that ask for an answer, the stable part first.
    fn prompt(&self, attempt: &Attempt<'_, Self::Answer>) -> Vec<ChatMessage>;

    /// The form of an answer.
    fn schema(&self) -> Option<ResponseSchema>;

    /// Reads an answer, as much of it as is whole.
    fn parse(&self, said: &Said) -> Parsed<Self::Answer>;

    /// What both answers to the same question hold.
    fn merge(&self, first: Self::Answer, second: Self::Answer) -> Self::Answer;

    /// A new round's answer together with what was settled in the rounds before.
    fn carry(&self, before: &Self::Answer, answer: Self::Answer) -> Self::Answer;

    /// The quality gate: what an answer lacks.
    fn evaluate(&self, answer: &Self::Answer) -> Verdict;

    /// How alike two answers are, 0 to 1.
    fn similarity(&self, a: &Self::Answer, b: &Self::Answer) -> f64;

    /// The messages that ask a critic to refute an answer; `None` when it claims nothing that is not settled.
    fn refute(&self, answer: &Self::Answer) -> Option<Vec<ChatMessage>>;

    /// The form of a critic's answer.
    fn critic_schema(&self) -> Option<ResponseSchema>;

    /// Applies what the critic said in `round`.
    fn judge(&self, answer: Self::Answer, said: &Said, round: u32) -> Judged<Self::Answer>;

    /// The answer when there was no usable second look at it, and why.
    fn unjudged(&self, answer: Self::Answer, why: &str) -> Self::Answer;
}

/// What a round starts from.
#[derive(Debug, Clone, Copy)]
pub struct Attempt<'a, A> {
    /// The round, from 1.
    pub round: u32,
    /// What was learned in all rounds before.
    pub lessons: &'a [Lesson],
    /// What the answer of the last round lacked.
    pub missing: &'a [Missing],
    /// The answer of the last round.
    pub before: Option<&'a A>,
}

/// Something to keep in mind in the following rounds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lesson {
    /// A sentence.
    pub text: String,
}

/// What was read out of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parsed<A> {
    /// What is whole.
    pub answer: A,
    /// What is wrong with the rest, in sentences the model can act on; empty when the answer is complete.
    pub complaints: Vec<String>,
}

/// What a gate says of an answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// What is missing; an answer that lacks nothing is accepted.
    pub missing: Vec<Missing>,
    /// How good it is, 0 to 1; rounds are compared by it.
    pub score: f64,
}

impl Verdict {
    /// Whether nothing is missing.
    pub fn accepted(&self) -> bool {
        self.missing.is_empty()
    }
}

/// A dimension in which an answer falls short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// Which dimension.
    pub dimension: String,
    /// The identity of the shortcoming: the model is asked once about each.
    pub key: String,
    /// What the next prompt says about it.
    pub say: String,
}

/// An answer after the second look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged<A> {
    /// What is left of it.
    pub answer: A,
    /// What is wrong with the critic's own answer; empty when it is complete.
    pub complaints: Vec<String>,
    /// What the critic found missing.
    pub missing: Vec<Missing>,
    /// What the next rounds should know.
    pub lessons: Vec<Lesson>,
}
