//! What happens around every node and every model call, whichever graph runs: log lines and metrics by hooks, and the
//! budget by [`chat`], the only way to a model. Nodes stay free of it. Secrets are masked by the router, which knows
//! whether a prompt leaves the process.

use std::sync::Arc;
use std::time::Duration;

use super::graph::{RunContext, RunError};
use super::limits::Cost;
use super::spending::NotBooked;
use crate::chat::router::Router;
use crate::chat::{ChatError, ChatMessage, ChatRequest, ChatResponse, ModelRole, TokenUsage, estimate_tokens};
use crate::clock::Stopwatch;

/// Something that watches or guards a run. Every method does nothing unless it is written.
pub trait Hook: Send + Sync {
    /// Before a node acts.
    fn before_node(&self, step: &Step<'_>, cx: &RunContext) {
        let _ = (step, cx);
    }

    /// After a node acted, and how that went.
    fn after_node(&self, step: &Step<'_>, outcome: Result<(), &RunError>, took: Duration, cx: &RunContext) {
        let _ = (step, outcome, took, cx);
    }

    /// Before a model is asked. May change what is sent, or refuse.
    ///
    /// # Errors
    /// When the call must not be made; the run then ends with that error.
    fn before_model(&self, request: &mut ChatRequest, cx: &RunContext) -> Result<(), RunError> {
        let _ = (request, cx);
        Ok(())
    }

    /// After a model answered or failed.
    fn after_model(
        &self,
        request: &ChatRequest,
        outcome: Result<&ChatResponse, &ChatError>,
        took: Duration,
        cx: &RunContext,
    ) {
        let _ = (request, outcome, took, cx);
    }
}

/// A node of a graph, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step<'a> {
    /// The graph.
    pub graph: &'static str,
    /// The node.
    pub node: &'a str,
}

/// The hooks of a run, called in order. Cheap to clone.
#[derive(Clone)]
pub struct Hooks {
    list: Arc<Vec<Box<dyn Hook>>>,
}

/// One log line per node and model call: names, times and sizes, never text.
#[derive(Debug, Clone, Copy)]
pub struct LogSteps;

/// Counters and histograms.
#[derive(Debug, Clone, Copy)]
pub struct CountSteps;

impl Hooks {
    /// The given ones, in this order.
    pub fn new(list: Vec<Box<dyn Hook>>) -> Self {
        Self { list: Arc::new(list) }
    }

    /// What every run has.
    pub fn standard() -> Self {
        Self::new(vec![Box::new(LogSteps), Box::new(CountSteps)])
    }

    /// The hooks in order.
    pub fn iter(&self) -> impl Iterator<Item = &dyn Hook> {
        self.list.iter().map(AsRef::as_ref)
    }
}

impl Hook for LogSteps {
    fn after_node(&self, step: &Step<'_>, outcome: Result<(), &RunError>, took: Duration, cx: &RunContext) {
        let took = took.as_millis();
        match outcome {
            Ok(()) => {
                tracing::debug!(run.id = cx.run_id, graph.node = step.node, took_ms = took, "{} visited", step.graph);
            }
            Err(RunError::Interrupted | RunError::Waiting(_)) => {
                tracing::debug!(run.id = cx.run_id, graph.node = step.node, took_ms = took, "{} paused", step.graph);
            }
            Err(error) => {
                tracing::warn!(run.id = cx.run_id, graph.node = step.node, took_ms = took, %error, "{} failed", step.graph);
            }
        }
    }

    fn after_model(
        &self,
        request: &ChatRequest,
        outcome: Result<&ChatResponse, &ChatError>,
        took: Duration,
        cx: &RunContext,
    ) {
        let (role, took) = (role(request), took.as_millis());
        match outcome {
            Ok(response) => tracing::debug!(
                run.id = cx.run_id,
                gen_ai.usage.input_tokens = response.usage.input,
                gen_ai.usage.output_tokens = response.usage.output,
                tool_calls = response.tool_calls.len(),
                took_ms = took,
                "the {role} model answered"
            ),
            Err(error) => tracing::warn!(run.id = cx.run_id, took_ms = took, %error, "the {role} model failed"),
        }
    }
}

impl Hook for CountSteps {
    fn after_node(&self, step: &Step<'_>, outcome: Result<(), &RunError>, took: Duration, _cx: &RunContext) {
        let labels = [("graph", step.graph.to_owned()), ("node", step.node.to_owned())];
        let outcome = if outcome.is_ok() { "ok" } else { "error" };
        metrics::counter!("secondlook_agent_iterations_total", "graph" => step.graph, "outcome" => outcome)
            .increment(1);
        metrics::histogram!("secondlook_agent_node_seconds", &labels).record(took.as_secs_f64());
    }

    fn after_model(
        &self,
        request: &ChatRequest,
        outcome: Result<&ChatResponse, &ChatError>,
        took: Duration,
        _cx: &RunContext,
    ) {
        let role = role(request);
        let word = if outcome.is_ok() { "ok" } else { "error" };
        metrics::counter!("secondlook_model_calls_total", "role" => role, "outcome" => word).increment(1);
        metrics::histogram!("secondlook_model_seconds", "role" => role).record(took.as_secs_f64());
        let Ok(response) = outcome else { return };
        let usage = response.usage;
        for (kind, amount) in [
            ("input", usage.input.saturating_sub(usage.cached_input)),
            ("cached_input", usage.cached_input),
            ("output", usage.output),
        ] {
            metrics::counter!("secondlook_tokens_total", "role" => role, "kind" => kind).increment(amount);
        }
        metrics::counter!("secondlook_cost_micro_usd_total", "role" => role).increment(usage.cost_micro_usd);
    }
}

/// Asks a model as part of a run: through the hooks, and within the run's budget of time, tokens and money. What the call
/// is thought to cost is set aside before it is made, in this process and on the accounts of the run.
///
/// # Errors
/// [`RunError::Limit`] when the budget does not hold the call, [`RunError::Model`] when it fails,
/// [`RunError::Interrupted`] when the run was asked to stop and is saved nowhere.
pub async fn chat(models: &Router, mut request: ChatRequest, cx: &RunContext) -> Result<ChatResponse, RunError> {
    for hook in cx.hooks.iter() {
        hook.before_model(&mut request, cx)?;
    }
    let left = cx.budget.time_left(cx.clock.now());
    if left.is_zero() {
        return Err(out_of_time());
    }
    let needed = request_tokens(&request);
    let estimate = Cost { tokens: needed, micro_usd: models.price(request.conversation.role, needed) };
    let held = cx.budget.hold(estimate).map_err(|left| {
        RunError::Limit(format!(
            "the token budget is used up: about {needed} tokens needed for the next call, {left} left"
        ))
    })?;
    // A model in this process costs nothing that a person could run out of.
    let booking = match models.is_local(request.conversation.role) {
        true => None,
        false => Some(cx.budget.purse().book(estimate, cx.clock.now()).await?),
    };
    let watch = Stopwatch::start();
    let answer = tokio::select! {
        answer = tokio::time::timeout(left, models.chat(&request)) => answer,
        () = given_up(cx) => return Err(RunError::Interrupted),
    };
    let overdue = answer.is_err();
    let outcome = answer.unwrap_or(Err(ChatError::TimedOut("the run's time is used up")));
    let took = watch.elapsed();
    let spent = paid(&outcome, estimate);
    cx.budget.spend(spent);
    drop(held);
    if let Some(booking) = booking {
        cx.budget.purse().settle(booking, Cost::of(&spent)).await;
    }
    for hook in cx.hooks.iter() {
        hook.after_model(&request, outcome.as_ref(), took, cx);
    }
    if overdue { Err(out_of_time()) } else { Ok(outcome?) }
}

/// Waits until nobody wants the answer any more. A run that is saved waits for its answer all the same, because it goes
/// on from there; one that is not has nothing to go on from.
async fn given_up(cx: &RunContext) {
    if cx.checkpoints.are_kept() {
        std::future::pending().await
    } else {
        cx.stop.cancelled().await;
    }
}

/// What a call cost. The router has estimated what a server did not count, and a model in this process costs nothing. A
/// call without an answer was most likely paid for when the model had begun to answer, and not when it was refused.
fn paid(outcome: &Result<ChatResponse, ChatError>, estimate: Cost) -> TokenUsage {
    match outcome {
        Ok(response) => TokenUsage { calls: response.usage.calls.max(1), ..response.usage },
        Err(ChatError::TimedOut(_) | ChatError::Unreadable(_)) => {
            TokenUsage { calls: 1, input: estimate.tokens, cost_micro_usd: estimate.micro_usd, ..TokenUsage::default() }
        }
        Err(_) => TokenUsage::default(),
    }
}

impl From<NotBooked> for RunError {
    fn from(error: NotBooked) -> Self {
        match error {
            NotBooked::Over(what) => Self::Limit(what),
            NotBooked::Store(error) => Self::Store(error),
        }
    }
}

/// An estimate of what a request costs before it is made.
pub fn request_tokens(request: &ChatRequest) -> u64 {
    let tools =
        request.tools.iter().map(|t| estimate_tokens(&t.description) + estimate_tokens(&t.parameters.to_string()));
    messages_tokens(&request.messages) + tools.sum::<u64>()
}

/// An estimate of the tokens of messages, tool calls included.
pub fn messages_tokens(messages: &[ChatMessage]) -> u64 {
    let tokens = |message: &ChatMessage| {
        let calls = match message {
            ChatMessage::Assistant { tool_calls, .. } => tool_calls.iter().map(|c| estimate_tokens(&c.arguments)).sum(),
            _ => 0,
        };
        estimate_tokens(message.text()) + calls
    };
    messages.iter().map(tokens).sum()
}

pub(super) fn out_of_time() -> RunError {
    RunError::Limit("the time of the agent run is used up".to_owned())
}

fn role(request: &ChatRequest) -> &'static str {
    match request.conversation.role {
        ModelRole::Reviewer => "reviewer",
        ModelRole::Critic => "critic",
        ModelRole::Planner => "planner",
        ModelRole::Answer => "answer",
        ModelRole::Summary => "summary",
    }
}
