//! StateGraph: a run is a path through a graph, saved after every node.
//!
//! A node acts and changes the state; an edge looks at the state and decides. Between the two the run is saved, so that
//! a taken-over run goes on with the next node and pays for no finished one again. What a node did before it failed or
//! its process died is done again: nodes therefore ask a model at most once, or hand that to a child run.

use std::fmt;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::checkpoint::{Checkpoint, Checkpoints};
use super::hook::{Hooks, Step, out_of_time};
use super::limits::{Budget, DEFAULT_RUN_TIME, DEFAULT_RUN_TOKENS, MAX_NODES, Most};
use crate::chat::ChatError;
use crate::clock::{SharedClock, Stopwatch};
use crate::db::DbError;
use crate::event::store::EventLog;
use crate::event::{RunEvent, RunState};
use crate::retry::Retry;

/// Nodes that act and edges that decide.
pub trait StateGraph: Sync {
    /// The nodes: a field-less enum whose serde names are stable, because they are saved.
    type Node: Copy + fmt::Debug + Send + Sync + Serialize + DeserializeOwned;
    /// Everything the nodes know and the edges look at.
    type State: Serialize + DeserializeOwned + Send + Sync;
    /// The graph's name: a saved state is only read back by the graph of the same name.
    const NAME: &'static str;
    /// The first node.
    const START: Self::Node;

    /// Acts.
    fn visit(
        &self,
        node: Self::Node,
        state: &mut Self::State,
        cx: &RunContext,
    ) -> impl Future<Output = Result<(), RunError>> + Send;

    /// Decides where to go from `node`. Pure: the same state gives the same edge, also after a restart.
    fn edge(&self, node: Self::Node, state: &Self::State) -> Edge<Self::Node>;

    /// What a run is doing while it is in `node`, for people who watch.
    fn doing(&self, node: Self::Node) -> RunState {
        let _ = node;
        RunState::Thinking
    }

    /// A short text about the step for people who watch; never code, prompts or secrets.
    fn detail(&self, node: Self::Node, state: &Self::State) -> String {
        let _ = (node, state);
        String::new()
    }
}

/// Where a run goes after a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edge<N> {
    /// To this node.
    To(N),
    /// Nowhere until a person has decided; then the same edge is asked again with the amended state.
    Wait(ApprovalRequest),
    /// The run is done.
    End,
}

/// What a person is asked to approve.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalRequest {
    /// A short id people can type.
    pub id: String,
    /// The exact action, in a sentence.
    pub action: String,
}

/// What a run came to. The state is always there, also when the run did not end: what is good in it can be used.
#[derive(Debug)]
pub enum Outcome<S> {
    /// It ended.
    Done(S),
    /// It is saved and waits for a person.
    Waiting(S, ApprovalRequest),
    /// It stopped before its end; the last checkpoint stands.
    Stopped(S, RunError),
}

/// What a run works with besides its graph.
#[derive(Clone)]
pub struct RunContext {
    /// The run's stable id.
    pub run_id: String,
    /// Where it is saved.
    pub checkpoints: Checkpoints,
    /// Where its events go.
    pub events: EventLog,
    /// Time.
    pub clock: SharedClock,
    /// Asks it to stop at the next checkpoint.
    pub stop: CancellationToken,
    /// What it may spend.
    pub budget: Budget,
    /// Whether somebody goes on with it later: then a passing fault stops it where it is saved, instead of being made do
    /// with.
    pub patient: bool,
    /// What happens around its nodes and model calls.
    pub hooks: Hooks,
    /// Whether only its end is saved and told; see [`Self::coarse`].
    pub coarse: bool,
}

/// Why a run has no result.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Stopped at a checkpoint, to go on later.
    #[error("the run was interrupted")]
    Interrupted,
    /// A child run waits for a person, so this one does too.
    #[error("the run waits for a person to decide: {}", .0.action)]
    Waiting(ApprovalRequest),
    /// The model gave no usable answer.
    #[error(transparent)]
    Model(#[from] ChatError),
    /// A limit of time, tokens, rounds or calls was reached.
    #[error("{0}")]
    Limit(String),
    /// The run could not be saved.
    #[error(transparent)]
    Store(#[from] DbError),
}

impl RunError {
    /// Whether and when the run may come further if it is gone on with later.
    pub fn retry(&self) -> Retry {
        match self {
            Self::Model(error) => error.retry(),
            Self::Store(error) => error.retry(),
            Self::Interrupted => Retry::Backoff,
            Self::Waiting(_) | Self::Limit(_) => Retry::Never,
        }
    }

    /// Whether a model or the database failed for now.
    pub fn passes(&self) -> bool {
        !matches!(self, Self::Interrupted) && self.retry() != Retry::Never
    }
}

impl RunContext {
    /// A context with the standard hooks and a generous budget; see [`Self::with_budget`].
    pub fn new(
        run_id: impl Into<String>,
        checkpoints: Checkpoints,
        events: EventLog,
        clock: SharedClock,
        stop: CancellationToken,
    ) -> Self {
        let budget = Budget::new(Most::tokens(DEFAULT_RUN_TOKENS), DEFAULT_RUN_TIME, clock.now());
        Self {
            run_id: run_id.into(),
            checkpoints,
            events,
            clock,
            stop,
            budget,
            patient: false,
            hooks: Hooks::standard(),
            coarse: false,
        }
    }

    /// The same with another budget.
    pub fn with_budget(mut self, budget: Budget) -> Self {
        self.budget = budget;
        self
    }

    /// The same, which is gone on with later where it stops for a passing fault.
    #[must_use]
    pub fn patient(self, patient: bool) -> Self {
        Self { patient, ..self }
    }

    /// The same with at most `time` from now on.
    pub fn within(&self, time: Duration) -> Self {
        let budget = self.budget.narrowed(time, self.clock.now());
        Self { budget, ..self.clone() }
    }

    /// The same for a run whose steps cost nothing, as those of a model in this process: only how it ends is saved and
    /// told, not its nodes and the runs within it. Thousands of files would otherwise be mostly writing.
    pub fn coarse(self) -> Self {
        Self { coarse: true, ..self }
    }

    /// The context of a child run: a checkpoint of its own under `run_id/name`, the same budget, the same stop.
    pub fn child(&self, name: &str) -> Self {
        let mut child = Self { run_id: format!("{}/{name}", self.run_id), ..self.clone() };
        if self.coarse {
            (child.checkpoints, child.events) = (Checkpoints::default(), EventLog::default());
        }
        child
    }
}

impl<S> Outcome<S> {
    /// The final state, or why there is none.
    ///
    /// # Errors
    /// See [`RunError`].
    pub fn into_result(self) -> Result<S, RunError> {
        match self {
            Self::Done(state) => Ok(state),
            Self::Waiting(_, request) => Err(RunError::Waiting(request)),
            Self::Stopped(_, error) => Err(error),
        }
    }
}

/// Runs a graph to its end, from its checkpoint if it has one. A run that had ended returns its saved state at once.
pub async fn run<G: StateGraph>(graph: &G, initial: G::State, cx: &RunContext) -> Outcome<G::State> {
    let saved = match load::<G>(cx).await {
        Ok(saved) => saved,
        Err(error) => return stopped(cx, "", initial, error).await,
    };
    let (mut at, mut state) = match saved {
        None => (Position::Before(G::START), initial),
        Some((Position::Ended, state)) => return Outcome::Done(state),
        Some((position, state)) => (position, state),
    };
    let mut visited = 0;
    loop {
        let node = match at {
            Position::Ended => {
                tell(cx, RunState::Done, "", String::new()).await;
                return Outcome::Done(state);
            }
            Position::Before(node) => {
                let name = node_name(node);
                if let Err(error) = may_go_on(cx, visited) {
                    return stopped(cx, &name, state, error).await;
                }
                visited += 1;
                if !cx.coarse {
                    tell(cx, graph.doing(node), &name, graph.detail(node, &state)).await;
                }
                if let Err(error) = visit(graph, node, &name, &mut state, cx).await {
                    return stopped(cx, &name, state, error).await;
                }
                node
            }
            Position::After(node) => node,
        };
        let (next, request) = match graph.edge(node, &state) {
            Edge::To(next) => (Position::Before(next), None),
            Edge::End => (Position::Ended, None),
            Edge::Wait(request) => (Position::After(node), Some(request)),
        };
        let passes_by = cx.coarse && matches!(next, Position::Before(_));
        if !passes_by && let Err(error) = save::<G>(cx, &next, &state).await {
            return stopped(cx, &node_name(node), state, error).await;
        }
        if let Some(request) = request {
            tell(cx, RunState::WaitingApproval, &node_name(node), request.action.clone()).await;
            return Outcome::Waiting(state, request);
        }
        at = next;
    }
}

/// Runs a graph as a node of another, under the child run `name`: a finished child is not run again.
///
/// # Errors
/// See [`RunError`].
pub async fn as_node<G: StateGraph>(
    graph: &G,
    name: &str,
    initial: G::State,
    cx: &RunContext,
) -> Result<G::State, RunError> {
    run(graph, initial, &cx.child(name)).await.into_result()
}

/// Changes the saved state of a run that does not run now: this is how a person's decision reaches it. Returns whether
/// there was such a run, still open.
///
/// # Errors
/// When it cannot be read or saved.
pub async fn amend<G: StateGraph>(cx: &RunContext, change: impl FnOnce(&mut G::State)) -> Result<bool, RunError> {
    let Some((position, mut state)) = load::<G>(cx).await? else { return Ok(false) };
    if matches!(position, Position::Ended) {
        return Ok(false);
    }
    change(&mut state);
    save::<G>(cx, &position, &state).await?;
    Ok(true)
}

/// Where a run stands.
enum Position<N> {
    Before(N),
    /// Visited, and its edge said to wait.
    After(N),
    Ended,
}

/// Marks a saved node whose edge is to be asked again, in [`Checkpoint::next`].
const AFTER: &str = "after:";

async fn load<G: StateGraph>(cx: &RunContext) -> Result<Option<(Position<G::Node>, G::State)>, RunError> {
    let Some(saved) = cx.checkpoints.load(&cx.run_id).await? else { return Ok(None) };
    if saved.graph != G::NAME {
        tracing::warn!(run.id = cx.run_id, graph = saved.graph, "the saved run is of another graph: started over");
        return Ok(None);
    }
    let position = match &saved.next {
        None => Some(Position::Ended),
        Some(name) => match name.strip_prefix(AFTER) {
            Some(name) => node_named(name).map(Position::After),
            None => node_named(name).map(Position::Before),
        },
    };
    match (position, serde_json::from_str(&saved.state)) {
        (Some(position), Ok(state)) => Ok(Some((position, state))),
        (None, _) => {
            tracing::warn!(run.id = cx.run_id, "the saved run stands at an unknown node: started over");
            Ok(None)
        }
        (_, Err(error)) => {
            tracing::warn!(run.id = cx.run_id, %error, "the saved run cannot be read: started over");
            Ok(None)
        }
    }
}

async fn save<G: StateGraph>(cx: &RunContext, at: &Position<G::Node>, state: &G::State) -> Result<(), RunError> {
    let state = serde_json::to_string(state)
        .map_err(|error| DbError::Corrupt { what: "state of a run", reason: error.to_string() })?;
    let next = match at {
        Position::Before(node) => Some(node_name(*node)),
        Position::After(node) => Some(format!("{AFTER}{}", node_name(*node))),
        Position::Ended => None,
    };
    cx.checkpoints.save(&cx.run_id, &Checkpoint { graph: G::NAME.to_owned(), next, state }).await?;
    Ok(())
}

async fn visit<G: StateGraph>(
    graph: &G,
    node: G::Node,
    name: &str,
    state: &mut G::State,
    cx: &RunContext,
) -> Result<(), RunError> {
    let step = Step { graph: G::NAME, node: name };
    for hook in cx.hooks.iter() {
        hook.before_node(&step, cx);
    }
    let watch = Stopwatch::start();
    let span = tracing::info_span!("node", run.id = cx.run_id, graph.name = G::NAME, graph.node = name);
    let outcome = graph.visit(node, state, cx).instrument(span).await;
    let took = watch.elapsed();
    for hook in cx.hooks.iter() {
        hook.after_node(&step, outcome.as_ref().copied(), took, cx);
    }
    outcome
}

fn may_go_on(cx: &RunContext, visited: u32) -> Result<(), RunError> {
    if cx.stop.is_cancelled() {
        return Err(RunError::Interrupted);
    }
    if visited >= MAX_NODES {
        return Err(RunError::Limit(format!("the run visited {MAX_NODES} nodes without coming to an end")));
    }
    if cx.budget.time_left(cx.clock.now()).is_zero() {
        return Err(out_of_time());
    }
    Ok(())
}

async fn stopped<S>(cx: &RunContext, node: &str, state: S, error: RunError) -> Outcome<S> {
    match error {
        RunError::Waiting(request) => {
            tell(cx, RunState::WaitingApproval, node, request.action.clone()).await;
            Outcome::Waiting(state, request)
        }
        RunError::Interrupted => {
            tell(cx, RunState::Idle, node, RunError::Interrupted.to_string()).await;
            Outcome::Stopped(state, RunError::Interrupted)
        }
        error => {
            tell(cx, RunState::Error, node, error.to_string()).await;
            Outcome::Stopped(state, error)
        }
    }
}

/// A lost event is a pity, a run lost for it would be worse: so a failure is only logged.
async fn tell(cx: &RunContext, state: RunState, node: &str, detail: String) {
    let event = RunEvent { run_id: cx.run_id.clone(), at: cx.clock.now(), state, node: node.to_owned(), detail };
    if let Err(error) = cx.events.append(&event).await {
        tracing::warn!(run.id = cx.run_id, %error, "an event of the run could not be kept");
    }
}

fn node_name<N: Serialize + fmt::Debug>(node: N) -> String {
    match serde_json::to_value(&node) {
        Ok(serde_json::Value::String(name)) => name,
        // Not a field-less enum: still readable, and on resume it is simply unknown and started over.
        _ => format!("{node:?}"),
    }
}

fn node_named<N: DeserializeOwned>(name: &str) -> Option<N> {
    serde_json::from_value(serde_json::Value::String(name.to_owned())).ok()
}
