//! Graphs and the agent: where runs resume, how they stop, and what they never pay for twice.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use secondlook::agent::checkpoint::{Checkpoint, Checkpoints};
use secondlook::agent::graph::{ApprovalRequest, Edge, Outcome, RunContext, RunError, StateGraph, amend, as_node, run};
use secondlook::agent::limits::{Budget, Most};
use secondlook::agent::react::{ANSWER_NOW, Ask, ReactLimits, Said, ask_within};
use secondlook::chat::router::Router;
use secondlook::chat::{ChatError, ChatMessage, ChatModel, Conversation, ModelRole, TokenUsage, ToolSpecification};
use secondlook::clock::{Clock, SharedClock};
use secondlook::db::Backend;
use secondlook::event::store::EventLog;
use secondlook::github::FileText;
use secondlook::tool::source::SourceTree;
use secondlook::tool::toolbox::Toolbox;
use secondlook::tool::{Observation, Tool, ToolContext, ToolError};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::harness::clock::ManualClock;
use crate::harness::database::{TestDb, fresh};
use crate::scripted::{Reply, Scripted, calls, cut, says, tool_results};

/// A database that lives as long as the test, and contexts over it.
pub(crate) struct Bench {
    pub(crate) db: TestDb,
    pub(crate) stop: CancellationToken,
    pub(crate) clock: ManualClock,
}

impl Bench {
    pub(crate) async fn new() -> Self {
        let db = fresh(Backend::Sqlite).await.unwrap();
        Self { db, stop: CancellationToken::new(), clock: ManualClock::default() }
    }

    pub(crate) fn checkpoints(&self) -> Checkpoints {
        Checkpoints::new(self.db.clone(), self.shared_clock())
    }

    pub(crate) fn events(&self) -> EventLog {
        EventLog::new(self.db.clone())
    }

    pub(crate) fn shared_clock(&self) -> SharedClock {
        Arc::new(self.clock.clone())
    }

    pub(crate) fn context(&self, run_id: &str) -> RunContext {
        RunContext::new(run_id, self.checkpoints(), self.events(), self.shared_clock(), self.stop.clone())
    }

    /// `node:state` of every event of a run.
    pub(crate) async fn told(&self, run_id: &str) -> Vec<String> {
        let events = self.events().after(run_id, 0).await.unwrap();
        events.into_iter().map(|(_, e)| format!("{}:{:?}", e.node, e.state)).collect()
    }
}

/// Three nodes that count their visits; each can be made to stop the run, fail, hang or wait.
#[derive(Default)]
struct Steps {
    visits: Mutex<Vec<Node>>,
    at: Option<(Node, Trouble)>,
    endless: bool,
}

#[derive(Clone)]
enum Trouble {
    Stop(CancellationToken),
    Fail,
    Hang,
    Wait,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Node {
    One,
    Two,
    Three,
}

#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Path {
    been: Vec<Node>,
    approved: bool,
}

impl Steps {
    fn with(at: Node, trouble: Trouble) -> Self {
        Self { at: Some((at, trouble)), ..Self::default() }
    }

    fn visits(&self) -> Vec<Node> {
        self.visits.lock().unwrap().clone()
    }
}

impl StateGraph for Steps {
    type Node = Node;
    type State = Path;
    const NAME: &'static str = "steps";
    const START: Node = Node::One;

    async fn visit(&self, node: Node, state: &mut Path, _cx: &RunContext) -> Result<(), RunError> {
        self.visits.lock().unwrap().push(node);
        state.been.push(node);
        match &self.at {
            Some((at, Trouble::Fail)) if *at == node => Err(ChatError::Unavailable("503".to_owned()).into()),
            Some((at, Trouble::Stop(stop))) if *at == node => {
                stop.cancel();
                Ok(())
            }
            Some((at, Trouble::Hang)) if *at == node => std::future::pending().await,
            _ => Ok(()),
        }
    }

    fn edge(&self, node: Node, state: &Path) -> Edge<Node> {
        if let Some((at, Trouble::Wait)) = &self.at
            && *at == node
            && !state.approved
        {
            return Edge::Wait(ApprovalRequest { id: "a1".to_owned(), action: "Go on".to_owned() });
        }
        match node {
            Node::One => Edge::To(Node::Two),
            Node::Two => Edge::To(Node::Three),
            Node::Three if self.endless => Edge::To(Node::One),
            Node::Three => Edge::End,
        }
    }
}

#[tokio::test]
async fn runs_within_a_coarse_one_are_not_saved() {
    let bench = Bench::new().await;
    let fine = bench.context("r");
    assert!(fine.child("c").checkpoints.are_kept());
    let coarse = fine.coarse();
    assert!(coarse.checkpoints.are_kept() && !coarse.child("c").checkpoints.are_kept());
    assert!(!coarse.child("c").child("d").checkpoints.are_kept());
}

#[tokio::test]
async fn of_a_coarse_run_only_the_end_is_saved_and_told() {
    let bench = Bench::new().await;
    let interrupted = Steps::with(Node::Two, Trouble::Stop(bench.stop.clone()));
    let outcome = run(&interrupted, Path::default(), &bench.context("r").coarse()).await;
    assert!(matches!(outcome, Outcome::Stopped(_, RunError::Interrupted)), "{outcome:?}");

    let graph = Steps::default();
    let cx = RunContext { stop: CancellationToken::new(), ..bench.context("r").coarse() };
    let state = run(&graph, Path::default(), &cx).await.into_result().unwrap();
    assert_eq!(graph.visits(), [Node::One, Node::Two, Node::Three]);
    assert_eq!(run(&graph, Path::default(), &cx).await.into_result().unwrap(), state);
    assert_eq!(graph.visits().len(), 3);
    assert_eq!(bench.told("r").await, ["three:Idle", ":Done"]);
}

#[tokio::test]
async fn a_run_visits_its_nodes_tells_so_and_is_not_run_again() {
    let bench = Bench::new().await;
    let graph = Steps::default();
    let cx = bench.context("r");
    let Outcome::Done(state) = run(&graph, Path::default(), &cx).await else { panic!("not done") };
    assert_eq!(state.been, [Node::One, Node::Two, Node::Three]);
    let again = run(&graph, Path::default(), &cx).await.into_result().unwrap();
    assert_eq!(again, state);
    assert_eq!(graph.visits().len(), 3);
    assert_eq!(bench.told("r").await, ["one:Thinking", "two:Thinking", "three:Thinking", ":Done"]);
}

#[tokio::test]
async fn a_run_stopped_after_any_node_goes_on_with_the_next() {
    for (at, rest) in [(Node::One, vec![Node::Two, Node::Three]), (Node::Two, vec![Node::Three])] {
        let bench = Bench::new().await;
        let first = Steps::with(at, Trouble::Stop(bench.stop.clone()));
        let outcome = run(&first, Path::default(), &bench.context("r")).await;
        assert!(matches!(outcome, Outcome::Stopped(_, RunError::Interrupted)), "{outcome:?}");

        let second = Steps::default();
        let cx = RunContext { stop: CancellationToken::new(), ..bench.context("r") };
        let state = run(&second, Path::default(), &cx).await.into_result().unwrap();
        assert_eq!(second.visits(), rest);
        assert_eq!(state.been, [Node::One, Node::Two, Node::Three]);
    }
}

#[tokio::test]
async fn a_run_whose_process_dies_in_a_node_visits_that_node_again_and_no_other() {
    let bench = Bench::new().await;
    let dying = Steps::with(Node::Two, Trouble::Hang);
    let cx = bench.context("r");
    tokio::select! {
        biased;
        _ = run(&dying, Path::default(), &cx) => panic!("it hangs"),
        () = async { while dying.visits().len() < 2 { tokio::task::yield_now().await } } => {}
    }
    let graph = Steps::default();
    let state = run(&graph, Path::default(), &cx).await.into_result().unwrap();
    assert_eq!(graph.visits(), [Node::Two, Node::Three]);
    assert_eq!(state.been, [Node::One, Node::Two, Node::Three]);
}

#[tokio::test]
async fn a_failed_node_leaves_the_last_checkpoint_and_the_state_at_hand() {
    let bench = Bench::new().await;
    let cx = bench.context("r");
    let failing = Steps::with(Node::Three, Trouble::Fail);
    let Outcome::Stopped(state, RunError::Model(_)) = run(&failing, Path::default(), &cx).await else {
        panic!("not stopped")
    };
    assert_eq!(state.been.len(), 3);
    assert_eq!(bench.told("r").await.last().unwrap(), "three:Error");
    let mended = Steps::default();
    let state = run(&mended, Path::default(), &cx).await.into_result().unwrap();
    assert_eq!((mended.visits(), state.been.len()), (vec![Node::Three], 3));
}

#[tokio::test]
async fn another_graphs_or_an_unreadable_state_is_started_over() {
    let bench = Bench::new().await;
    for (graph, next, state) in [
        ("other", Some("two"), r#"{"been":[],"approved":false}"#),
        ("steps", Some("no_such_node"), r#"{"been":[],"approved":false}"#),
        ("steps", Some("two"), "{"),
        ("steps", None, "[]"),
    ] {
        let saved = Checkpoint { graph: graph.to_owned(), next: next.map(str::to_owned), state: state.to_owned() };
        bench.checkpoints().save("r", &saved).await.unwrap();
        let steps = Steps::default();
        run(&steps, Path::default(), &bench.context("r")).await.into_result().unwrap();
        assert_eq!(steps.visits().len(), 3, "{saved:?}");
    }
}

#[tokio::test]
async fn a_waiting_run_goes_on_once_a_person_decided() {
    let bench = Bench::new().await;
    let graph = Steps::with(Node::Two, Trouble::Wait);
    let cx = bench.context("r");
    for _ in 0..2 {
        let Outcome::Waiting(_, request) = run(&graph, Path::default(), &cx).await else { panic!("not waiting") };
        assert_eq!(request.id, "a1");
    }
    assert_eq!(graph.visits(), [Node::One, Node::Two], "waiting costs nothing");
    assert!(bench.told("r").await.contains(&"two:WaitingApproval".to_owned()));
    assert!(amend::<Steps>(&cx, |state| state.approved = true).await.unwrap());
    run(&graph, Path::default(), &cx).await.into_result().unwrap();
    assert_eq!(graph.visits(), [Node::One, Node::Two, Node::Three]);
    assert!(!amend::<Steps>(&cx, |_| ()).await.unwrap(), "an ended run is not changed");
    assert!(!amend::<Steps>(&bench.context("none"), |_| ()).await.unwrap());
}

/// A graph whose only node runs [`Steps`] as a child.
struct Parent<'a>(&'a Steps, &'a AtomicU32);

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
enum Only {
    Child,
}

impl StateGraph for Parent<'_> {
    type Node = Only;
    type State = usize;
    const NAME: &'static str = "parent";
    const START: Only = Only::Child;

    async fn visit(&self, _node: Only, state: &mut usize, cx: &RunContext) -> Result<(), RunError> {
        let child = as_node(self.0, "child", Path::default(), cx).await?;
        *state = child.been.len();
        if self.1.fetch_add(1, Ordering::Relaxed) == 0 {
            return Err(RunError::Limit("only the first time".to_owned()));
        }
        Ok(())
    }

    fn edge(&self, _node: Only, _state: &usize) -> Edge<Only> {
        Edge::End
    }
}

#[tokio::test]
async fn a_finished_child_is_not_run_again_and_a_waiting_one_makes_its_parent_wait() {
    let bench = Bench::new().await;
    let (steps, tries) = (Steps::default(), AtomicU32::new(0));
    let cx = bench.context("p");
    assert!(matches!(run(&Parent(&steps, &tries), 0, &cx).await, Outcome::Stopped(3, RunError::Limit(_))));
    assert_eq!(run(&Parent(&steps, &tries), 0, &cx).await.into_result().unwrap(), 3);
    assert_eq!(steps.visits().len(), 3);

    let waiting = Steps::with(Node::One, Trouble::Wait);
    let outcome = run(&Parent(&waiting, &tries), 0, &bench.context("q")).await;
    assert!(matches!(outcome, Outcome::Waiting(_, request) if request.id == "a1"));
}

#[tokio::test]
async fn a_run_without_an_end_and_a_run_without_time_stop_at_a_checkpoint() {
    let bench = Bench::new().await;
    let endless = Steps { endless: true, ..Steps::default() };
    let outcome = run(&endless, Path::default(), &bench.context("e")).await;
    assert!(matches!(&outcome, Outcome::Stopped(_, RunError::Limit(why)) if why.contains("200 nodes")), "{outcome:?}");

    let cx =
        bench.context("t").with_budget(Budget::new(Most::tokens(1000), Duration::from_secs(10), bench.clock.now()));
    bench.clock.advance(Duration::from_secs(10));
    let late = Steps::default();
    assert!(matches!(run(&late, Path::default(), &cx).await, Outcome::Stopped(_, RunError::Limit(_))));
    assert!(late.visits().is_empty());
}

/// A repository of nothing.
pub(crate) struct NoSource;

#[async_trait]
impl SourceTree for NoSource {
    async fn read(&self, _path: &str) -> Result<FileText, ToolError> {
        Ok(FileText::Missing)
    }

    async fn list(&self) -> Result<(Vec<String>, bool), ToolError> {
        Ok((Vec::new(), true))
    }
}

/// A tool that answers with its name and argument, once all its neighbours have been called too.
struct Echo {
    specification: ToolSpecification,
    together: tokio::sync::Barrier,
    runs: AtomicU32,
}

impl Echo {
    fn new(together: usize) -> Arc<Self> {
        let parameters = serde_json::json!({
            "type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"], "additionalProperties": false
        });
        let specification =
            ToolSpecification { name: "echo".to_owned(), description: "Says a word again.".to_owned(), parameters };
        Arc::new(Self { specification, together: tokio::sync::Barrier::new(together), runs: AtomicU32::new(0) })
    }
}

#[async_trait]
impl Tool for Echo {
    fn specification(&self) -> &ToolSpecification {
        &self.specification
    }

    async fn call(&self, arguments: &Value, _cx: &ToolContext) -> Result<Observation, ToolError> {
        self.runs.fetch_add(1, Ordering::Relaxed);
        self.together.wait().await;
        Ok(Observation { text: format!("heard {}", arguments["word"].as_str().unwrap_or_default()) })
    }
}

async fn ask(
    model: &Arc<Scripted>,
    tool: Option<Arc<Echo>>,
    cx: &RunContext,
    limits: ReactLimits,
) -> Result<Said, RunError> {
    let models = Router::single(Arc::clone(model) as Arc<dyn ChatModel>);
    let toolbox = Toolbox::new(tool.into_iter().map(|t| t as Arc<dyn Tool>).collect());
    let tools = ToolContext { source: Arc::new(NoSource), files: Arc::default(), path: String::new() };
    let question = Ask {
        conversation: Conversation { role: ModelRole::Reviewer, subject: "a.rs".to_owned() },
        messages: vec![ChatMessage::system("Be brief."), ChatMessage::user("What is there?")],
        response_schema: None,
    };
    ask_within(question, &models, &toolbox, &tools, cx, limits).await
}

fn scripted(replies: Vec<Reply>) -> Arc<Scripted> {
    Arc::new(Scripted::reviewer(replies))
}

#[tokio::test]
async fn calls_of_one_turn_run_together_and_answer_in_their_order() {
    let bench = Bench::new().await;
    let model = scripted(vec![
        calls(&[("a", "echo", r#"{"word":"one"}"#), ("b", "echo", r#"{"word":"two"}"#)]),
        says("Two words."),
    ]);
    // The barrier opens only when both are called: one after the other would hang, and time out.
    let said = ask(&model, Some(Echo::new(2)), &bench.context("r"), ReactLimits::default()).await.unwrap();
    assert_eq!((said.text.as_str(), said.cut, said.usage.calls), ("Two words.", false, 2));
    assert_eq!(tool_results(&model.requests()[1]), ["a: heard one", "b: heard two"]);
    assert_eq!(said.transcript.len(), 4, "the calls, two results, the answer");
    assert_eq!(bench.told("r").await, ["model:Thinking", "tools:ToolCalling", "model:Thinking", ":Done"]);
}

#[tokio::test]
async fn unknown_tools_and_bad_arguments_are_answered_so_that_the_model_can_mend_them() {
    let bench = Bench::new().await;
    let model = scripted(vec![
        calls(&[("a", "no_such_tool", "{}"), ("b", "echo", r#"{"wrod":"x"}"#), ("c", "echo", "{not json")]),
        calls(&[("d", "echo", r#"{"word":"x"}"#)]),
        says("Mended."),
    ]);
    let said = ask(&model, Some(Echo::new(1)), &bench.context("r"), ReactLimits::default()).await.unwrap();
    assert_eq!(said.text, "Mended.");
    let results = tool_results(&model.requests()[2]);
    assert!(results[0].contains("echo"), "names the tools there are: {results:?}");
    assert!(results[1].contains("word"), "names the argument: {results:?}");
    assert_eq!(results[3], "d: heard x");
}

#[tokio::test]
async fn a_model_that_repeats_itself_loses_its_tools_and_is_asked_for_its_answer() {
    let bench = Bench::new().await;
    let same = || calls(&[("", "echo", r#"{"word":"again"}"#)]);
    let model = scripted(vec![same(), same(), same(), says("Fine.")]);
    let tool = Echo::new(1);
    let said = ask(&model, Some(tool.clone()), &bench.context("r"), ReactLimits::default()).await.unwrap();
    assert_eq!(said.text, "Fine.");
    assert_eq!(tool.runs.load(Ordering::Relaxed), 1);
    let last = model.requests().pop().unwrap();
    assert!(last.tools.is_empty());
    assert_eq!(last.messages.last().unwrap().text(), ANSWER_NOW);
}

#[tokio::test]
async fn an_endless_caller_gets_a_last_turn_without_tools() {
    let bench = Bench::new().await;
    let turns = (0..3).map(|n| calls(&[("", "echo", &format!(r#"{{"word":"{n}"}}"#))]));
    let model = scripted(turns.chain([says("Enough.")]).collect());
    let limits = ReactLimits { turns: 4, ..ReactLimits::default() };
    let said = ask(&model, Some(Echo::new(1)), &bench.context("r"), limits).await.unwrap();
    assert_eq!((said.text.as_str(), model.calls(ModelRole::Reviewer)), ("Enough.", 4));
}

#[tokio::test]
async fn calls_that_nobody_offered_are_refused_once_and_then_the_run_ends() {
    let bench = Bench::new().await;
    let call = || calls(&[("a", "echo", r#"{"word":"x"}"#)]);
    let model = scripted(vec![call(), call(), says("not reached")]);
    let said = ask(&model, None, &bench.context("r"), ReactLimits::default()).await.unwrap();
    assert_eq!((said.text.as_str(), model.unused()), ("", 1));
    assert_eq!(tool_results(&model.requests()[1]).len(), 1);
}

#[tokio::test]
async fn an_answer_at_the_output_limit_or_far_too_long_is_cut() {
    let bench = Bench::new().await;
    let model = scripted(vec![cut(r#"{"findings":["#), says("x".repeat(2_000_000))]);
    let said = ask(&model, None, &bench.context("r"), ReactLimits::default()).await.unwrap();
    assert!(said.cut);
    let said = ask(&model, None, &bench.context("s"), ReactLimits::default()).await.unwrap();
    assert!(said.cut && said.text.len() == 256 * 1024);
}

#[tokio::test]
async fn a_call_over_the_budget_is_not_made_and_children_share_the_budget() {
    let bench = Bench::new().await;
    let model = scripted(vec![says("One."), says("not reached")]);
    let cx = bench.context("r").with_budget(Budget::new(Most::tokens(115), Duration::from_secs(60), bench.clock.now()));
    ask(&model, None, &cx.child("first"), ReactLimits::default()).await.unwrap();
    assert_eq!(cx.budget.spent(), TokenUsage { calls: 1, input: 100, output: 10, ..TokenUsage::default() });
    let refused = ask(&model, None, &cx.child("second"), ReactLimits::default()).await;
    assert!(matches!(&refused, Err(RunError::Limit(why)) if why.contains("budget")), "{refused:?}");
    assert_eq!(model.unused(), 1);
}

#[tokio::test]
async fn a_model_error_ends_the_run_and_the_next_one_goes_on_behind_what_was_paid() {
    let bench = Bench::new().await;
    let down = Err(ChatError::Rejected("no such model".to_owned()));
    let model = scripted(vec![calls(&[("a", "echo", r#"{"word":"x"}"#)]), down, says("Up again.")]);
    let tool = Echo::new(1);
    let failed = ask(&model, Some(tool.clone()), &bench.context("r"), ReactLimits::default()).await;
    assert!(matches!(failed, Err(RunError::Model(ChatError::Rejected(_)))));
    let said = ask(&model, Some(tool.clone()), &bench.context("r"), ReactLimits::default()).await.unwrap();
    assert_eq!((said.text.as_str(), said.usage.calls), ("Up again.", 2));
    assert_eq!(tool.runs.load(Ordering::Relaxed), 1);
}
