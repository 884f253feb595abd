//! The review of one file: reads what is needed, runs the reflective reviewer on it, and says what came of it.

use std::sync::Arc;

use super::change::ChangedFile;
use super::change::turn::Scene;
use super::context::file_page;
use super::critic;
use super::draft::Draft;
use super::finding::Finding;
use super::reflective::FileTask;
use crate::agent::graph::{self, Outcome, RunContext, RunError};
use crate::agent::strategy::reflexion::{ReflectiveReviewer, Rounds};
use crate::analysis::language;
use crate::analysis::outline::{self, Outline};
use crate::chat::{ModelRole, TokenUsage, embedded};
use crate::github::FileText;
use crate::tool::ToolContext;
use crate::tool::toolbox::Toolbox;

/// What the review of one file came to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FileReview {
    /// What survived the second look.
    pub findings: Vec<Finding>,
    /// The model's word on the file.
    pub summary: String,
    /// Why the file does not count as reviewed, if it does not: the model failed, its answer was unusable or cut, a
    /// limit was reached. Findings beside it are good all the same.
    pub problem: Option<String>,
    /// What it cost.
    pub usage: TokenUsage,
    /// Rounds of draft and critique.
    pub rounds: u32,
}

/// Reviews one file, from its checkpoint if it has one. `tokens` is what it may spend of the change's budget.
///
/// # Errors
/// When the scene's `stop` was cancelled; the run goes on from its checkpoint next time.
pub async fn review_file(file: &ChangedFile, scene: &Scene<'_>, tokens: u64) -> Result<FileReview, Stopped> {
    if file.new_hunks.is_empty() {
        return Ok(FileReview::default());
    }
    let Scene { change, policy, engine, .. } = scene;
    let path = &file.file.diff.path;
    let head = match change.source.read(path).await {
        Ok(FileText::Text(text)) => Some(text),
        // Without the text there is less context, and the review goes on: the hunks are at hand.
        Ok(FileText::Missing | FileText::NotText | FileText::TooLarge) => None,
        Err(error) => {
            tracing::warn!(path, %error, "the file at the head commit cannot be read");
            None
        }
    };
    let outline = outline_of(path, head.as_deref()).await;
    let page = file_page(file, (&change.title, &change.description), &policy.instructions_for(path), outline.as_ref());
    let model = engine.models.name(ModelRole::Reviewer).to_owned();
    // The built-in rules read the file through tools alone: without its text they have looked at nothing.
    let unseen = (head.is_none() && model == embedded::NAME)
        .then(|| "the embedded rules cannot read it: it is missing, not text, or too large".to_owned());
    let problem = page.too_large.clone().or(unseen);
    let task = FileTask { file, page, head: head.as_deref(), model };
    let tools = ToolContext { source: change.source.clone(), files: Arc::clone(&scene.diffs), path: path.clone() };
    let toolbox = Toolbox::reviewing();
    let graph = ReflectiveReviewer {
        task: &task,
        models: &engine.models,
        toolbox: &toolbox,
        tools: &tools,
        max_rounds: engine.limits.max_rounds,
    };
    let run_id = format!("{}/{}", change.id, file.key());
    let (checkpoints, events, clock) = (engine.checkpoints.clone(), engine.events.clone(), engine.clock.clone());
    let cx =
        RunContext::new(run_id, checkpoints, events, clock, scene.stop.clone()).with_budget(scene.budget.part(tokens));
    let outcome = graph::run(&graph, Rounds::default(), &cx).await;
    came_to(outcome, problem, cx.budget.spent())
}

/// The review was interrupted at a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped;

/// Parsing a large file takes up to a second: not on a thread that serves others.
async fn outline_of(path: &str, head: Option<&str>) -> Option<Outline> {
    let text = head?.to_owned();
    let language = language::detect(path, text.lines().next().unwrap_or_default())?;
    tokio::task::spawn_blocking(move || outline::outline(language, &text).ok()).await.ok().flatten()
}

/// `spent` is what this process paid; a state's own sum lacks what a failed agent had spent.
fn came_to(outcome: Outcome<Rounds<Draft>>, problem: Option<String>, spent: TokenUsage) -> Result<FileReview, Stopped> {
    let (mut rounds, error) = match outcome {
        Outcome::Stopped(_, RunError::Interrupted) => return Err(Stopped),
        Outcome::Done(rounds) => (rounds, None),
        Outcome::Stopped(rounds, error) => (rounds, Some(error)),
        Outcome::Waiting(rounds, request) => (rounds, Some(RunError::Waiting(request))),
    };
    let problem = error.map(|error| error.to_string()).or(rounds.problem.take()).or(problem);
    let usage = if spent.calls > rounds.usage.calls { spent } else { rounds.usage };
    let (round, judged) = (rounds.round, rounds.best.as_ref().is_some_and(|best| best.judged));
    let mut draft = rounds.into_answer().unwrap_or_default();
    if !judged {
        draft = critic::unconfirmed(draft);
    }
    let findings = draft.candidates.into_iter().map(|candidate| candidate.finding).collect();
    Ok(FileReview { findings, summary: draft.summary, problem, usage, rounds: round })
}
