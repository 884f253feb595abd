//! ReactAgent: Model → Tools → Model … → end. Reason, act, observe, until the model answers without calling a tool.
//!
//! Every way round the loop is bounded: turns, calls of a turn, identical calls, the size of the conversation, time. At
//! each bound the model gets one last turn without tools and is asked for its answer, so that what it has read already
//! is not lost.

mod calls;

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use serde::{Deserialize, Serialize};

use super::graph::{Edge, RunContext, RunError, StateGraph, run as run_graph};
use super::hook::{self, messages_tokens};
use super::limits::AGENT_RUN_TIME;
use crate::chat::router::Router;
use crate::chat::{
    ChatError, ChatMessage, ChatRequest, ChatResponse, Conversation, FinishReason, ResponseSchema, TokenUsage, ToolCall,
};
use crate::event::RunState;
use crate::tool::ToolContext;
use crate::tool::toolbox::{ToolResult, Toolbox};
use calls::{Plan, Seen, clip, number_ids};

/// A question to an agent.
#[derive(Debug, Clone)]
pub struct Ask {
    /// Which conversation it is.
    pub conversation: Conversation,
    /// The messages so far, the stable part first.
    pub messages: Vec<ChatMessage>,
    /// The form of the final answer.
    pub response_schema: Option<ResponseSchema>,
}

/// An agent's answer.
#[derive(Debug, Clone)]
pub struct Said {
    /// The final text.
    pub text: String,
    /// Everything said after the question: calls, results and the answer.
    pub transcript: Vec<ChatMessage>,
    /// What it cost.
    pub usage: TokenUsage,
    /// True when the answer ran into a limit of length, the provider's or ours.
    pub cut: bool,
}

/// Bounds of one agent run.
#[derive(Debug, Clone, Copy)]
pub struct ReactLimits {
    /// Model calls; the last one is without tools.
    pub turns: u32,
    /// Tool calls of one turn that are run; the others are told so.
    pub calls_per_turn: usize,
    /// Estimated tokens of the conversation from which on no more tools are offered.
    pub context_tokens: u64,
    /// Bytes of an answer that are kept; a longer one counts as cut.
    pub answer_bytes: usize,
    /// Whole time.
    pub time: Duration,
}

impl Default for ReactLimits {
    fn default() -> Self {
        Self { turns: 12, calls_per_turn: 16, context_tokens: 100_000, answer_bytes: 256 * 1024, time: AGENT_RUN_TIME }
    }
}

/// The nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Node {
    /// Asks the model.
    Model,
    /// Runs the tools it called.
    Tools,
}

/// The state of an agent run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Talk {
    /// Everything said, the question first.
    pub messages: Vec<ChatMessage>,
    /// How many of the messages are the question.
    pub question: usize,
    /// What it cost.
    pub usage: TokenUsage,
    /// Model calls made.
    pub turns: u32,
    /// Tool calls that wait for their results.
    pub pending: Vec<ToolCall>,
    /// Calls made before, by name and canonical arguments.
    pub seen: BTreeMap<String, Seen>,
    /// Set when no more tools are offered.
    pub withdrawn: bool,
    /// How often tools were called although none were offered.
    pub stubborn: u32,
    /// The final answer.
    pub answer: Option<Answer>,
}

/// A final answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The text.
    pub text: String,
    /// Whether it ran into a limit of length.
    pub cut: bool,
}

/// Said to the model when its tools are taken away.
pub const ANSWER_NOW: &str = "No more tools are available. Give your final answer now, from what you know, in exactly the form that was asked for.";

/// Bytes of the text beside tool calls that are kept.
const ASIDE_BYTES: usize = 16 * 1024;

/// The graph of one agent run.
pub struct ReactAgent<'a> {
    conversation: Conversation,
    response_schema: Option<ResponseSchema>,
    models: &'a Router,
    toolbox: &'a Toolbox,
    tools: &'a ToolContext,
    limits: ReactLimits,
}

/// Runs the agent to its answer, from its checkpoint if it has one.
///
/// # Errors
/// See [`RunError`].
pub async fn ask(
    ask: Ask,
    models: &Router,
    toolbox: &Toolbox,
    tools: &ToolContext,
    run: &RunContext,
) -> Result<Said, RunError> {
    ask_within(ask, models, toolbox, tools, run, ReactLimits::default()).await
}

/// [`ask`] with bounds of the caller's choice.
///
/// # Errors
/// See [`RunError`].
pub async fn ask_within(
    ask: Ask,
    models: &Router,
    toolbox: &Toolbox,
    tools: &ToolContext,
    run: &RunContext,
    limits: ReactLimits,
) -> Result<Said, RunError> {
    let Ask { conversation, messages, response_schema } = ask;
    let agent = ReactAgent { conversation, response_schema, models, toolbox, tools, limits };
    let talk = run_graph(&agent, Talk::new(messages), &run.within(limits.time)).await.into_result()?;
    let Answer { text, cut } = talk.answer.unwrap_or(Answer { text: String::new(), cut: true });
    let transcript = talk.messages.into_iter().skip(talk.question).collect();
    Ok(Said { text, transcript, usage: talk.usage, cut })
}

impl Talk {
    /// The beginning.
    pub fn new(messages: Vec<ChatMessage>) -> Self {
        Self {
            question: messages.len(),
            messages,
            usage: TokenUsage::default(),
            turns: 0,
            pending: Vec::new(),
            seen: BTreeMap::new(),
            withdrawn: false,
            stubborn: 0,
            answer: None,
        }
    }

    /// Takes a model's answer in: a final one, or tool calls that wait to be run.
    fn take(&mut self, response: ChatResponse, limits: &ReactLimits) {
        self.usage += response.usage;
        self.turns += 1;
        let mut calls = response.tool_calls;
        if self.withdrawn && !calls.is_empty() {
            self.stubborn += 1;
            // Beside a text, calls that nobody offered are noise. Without one, the model is told once.
            if !response.text.trim().is_empty() || self.stubborn > 1 {
                calls.clear();
            }
        }
        if calls.is_empty() {
            let (text, clipped) = clip(response.text, limits.answer_bytes);
            let cut = clipped || matches!(response.finish, FinishReason::Length | FinishReason::ContentFilter);
            self.messages.push(ChatMessage::assistant(text.clone()));
            self.answer = Some(Answer { text, cut });
            return;
        }
        number_ids(&mut calls, self.turns);
        let (text, _) = clip(response.text, ASIDE_BYTES);
        self.messages.push(ChatMessage::Assistant { text, tool_calls: calls.clone() });
        self.pending = calls;
    }
}

impl ReactAgent<'_> {
    /// Whether the next turn has to be the last one.
    fn must_answer(&self, talk: &Talk, cx: &RunContext) -> bool {
        let time_left = cx.budget.time_left(cx.clock.now());
        talk.withdrawn
            || talk.turns + 1 >= self.limits.turns
            || time_left < self.limits.time / 4
            || (talk.turns > 0 && messages_tokens(&talk.messages) > self.limits.context_tokens)
    }

    async fn think(&self, talk: &mut Talk, cx: &RunContext) -> Result<(), RunError> {
        let specifications = self.toolbox.specifications();
        let last = specifications.is_empty() || self.must_answer(talk, cx);
        if last && !specifications.is_empty() && talk.turns > 0 && talk.stubborn == 0 {
            talk.messages.push(ChatMessage::user(ANSWER_NOW));
        }
        talk.withdrawn = last;
        let request = ChatRequest {
            conversation: self.conversation.clone(),
            messages: talk.messages.clone(),
            tools: if last { Vec::new() } else { specifications },
            response_schema: self.response_schema.clone(),
            max_output_tokens: None,
        };
        let response = hook::chat(self.models, request, cx).await?;
        let silent = response.text.trim().is_empty() && response.tool_calls.is_empty();
        if silent && response.finish == FinishReason::ContentFilter {
            return Err(ChatError::Rejected("it held its answer back (content filter)".to_owned()).into());
        }
        talk.take(response, &self.limits);
        Ok(())
    }

    async fn act(&self, talk: &mut Talk) {
        let pending = std::mem::take(&mut talk.pending);
        let plans = calls::plan(&pending, talk, self.limits.calls_per_turn);
        let run = pending.iter().zip(&plans).map(|(call, plan)| self.call_if_planned(call, plan));
        let results = join_all(run).await;
        calls::settle(pending, plans, results, talk);
    }

    async fn call_if_planned(&self, call: &ToolCall, plan: &Plan) -> Option<ToolResult> {
        match plan {
            Plan::Run => Some(self.toolbox.call(call, self.tools).await),
            Plan::Again | Plan::Refuse(_) => None,
        }
    }
}

impl StateGraph for ReactAgent<'_> {
    type Node = Node;
    type State = Talk;
    const NAME: &'static str = "react";
    const START: Node = Node::Model;

    async fn visit(&self, node: Node, talk: &mut Talk, cx: &RunContext) -> Result<(), RunError> {
        match node {
            Node::Model => self.think(talk, cx).await,
            Node::Tools => {
                self.act(talk).await;
                Ok(())
            }
        }
    }

    fn edge(&self, node: Node, talk: &Talk) -> Edge<Node> {
        match node {
            Node::Model if talk.answer.is_some() => Edge::End,
            Node::Model => Edge::To(Node::Tools),
            Node::Tools => Edge::To(Node::Model),
        }
    }

    fn doing(&self, node: Node) -> RunState {
        match node {
            Node::Model => RunState::Thinking,
            Node::Tools => RunState::ToolCalling,
        }
    }

    fn detail(&self, node: Node, talk: &Talk) -> String {
        match node {
            Node::Model => format!("turn {}", talk.turns + 1),
            Node::Tools => {
                // A name the model made up could hold anything, so only known ones are shown.
                let known = self.toolbox.specifications();
                let names = talk.pending.iter().map(|call| {
                    known
                        .iter()
                        .find(|tool| tool.name == call.name)
                        .map_or("an unknown tool", |tool| tool.name.as_str())
                });
                names.collect::<Vec<_>>().join(", ")
            }
        }
    }
}
