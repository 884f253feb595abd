//! The review of one file: reads what is needed, runs the reflective reviewer on it, and says what came of it.

pub mod together;

use std::sync::Arc;

use super::change::ChangedFile;
use super::change::turn::Scene;
use super::context::{FilePage, file_pages};
use super::critic;
use super::draft::{Draft, UnderReview};
use super::finding::Finding;
use super::reflective::FileTask;
use crate::agent::graph::{self, Outcome, RunContext, RunError};
use crate::agent::limits::Budget;
use crate::agent::strategy::reflexion::{ReflectiveReviewer, Rounds};
use crate::analysis::language;
use crate::analysis::outline::{self, Outline};
use crate::analysis::rules::place::is_generated;
use crate::analysis::syntax::Unparsed;
use crate::chat::{ModelRole, TokenUsage, embedded};
use crate::compute::compute;
use crate::github::FileText;
use crate::tool::ToolContext;
use crate::tool::toolbox::Toolbox;

/// What stands between the paths of a conversation about several files, in its name.
pub const SUBJECTS: &str = ", ";

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
    review_within(file, scene, scene.budget.part(tokens)).await
}

async fn review_within(file: &ChangedFile, scene: &Scene<'_>, budget: Budget) -> Result<FileReview, Stopped> {
    if file.new_hunks.is_empty() {
        return Ok(FileReview::default());
    }
    let Scene { change, policy, .. } = scene;
    let path = &file.file.diff.path;
    let text = Text::of(file, scene).await;
    let instructions = policy.instructions_for(path);
    let mut pages = file_pages(file, (&change.title, &change.description), &instructions, text.outline.as_ref());
    if is_read_by_rules(scene) {
        // The built-in rules read the file through tools alone, and all of it at once.
        pages.pages.truncate(1);
        pages.left_out = unseen_by_rules(path, text.head.as_deref(), text.unparsed);
    }
    let of = pages.pages.len();
    let mut whole = FileReview::default();
    for (index, page) in pages.pages.into_iter().enumerate() {
        let part = (of > 1).then_some((index + 1, of));
        let files = vec![UnderReview { file, head: text.head.as_deref() }];
        let mut run_id = format!("{}/{}", change.id, file.key());
        if let Some((part, of)) = part {
            run_id.push_str(&format!("/part-{part}-of-{of}"));
        }
        whole.add(converse(files, page, run_id, scene, &budget).await?, part);
    }
    whole.problem = whole.problem.or(pages.left_out);
    Ok(whole)
}

impl FileReview {
    /// Takes in the review of a part, which is named by its number and how many there are where there are several.
    fn add(&mut self, review: Self, part: Option<(usize, usize)>) {
        self.findings.extend(review.findings);
        if !self.summary.is_empty() && !review.summary.is_empty() {
            self.summary.push(' ');
        }
        self.summary.push_str(&review.summary);
        let problem = review.problem.map(|problem| match part {
            Some((part, of)) => format!("part {part} of {of}: {problem}"),
            None => problem,
        });
        self.problem = self.problem.take().or(problem);
        self.usage += review.usage;
        self.rounds = self.rounds.max(review.rounds);
    }
}

/// One conversation, which has a checkpoint of its own. What it comes to is of all its files.
async fn converse(
    files: Vec<UnderReview<'_>>,
    page: FilePage,
    run_id: String,
    scene: &Scene<'_>,
    budget: &Budget,
) -> Result<FileReview, Stopped> {
    let Scene { change, engine, stop, .. } = scene;
    let paths: Vec<&str> = files.iter().map(|under| under.diff().path.as_str()).collect();
    let tools = ToolContext {
        source: change.source.clone(),
        files: Arc::clone(&scene.diffs),
        path: paths.first().copied().unwrap_or_default().to_owned(),
    };
    let model = engine.models.name(ModelRole::Reviewer).to_owned();
    let task = FileTask { subject: paths.join(SUBJECTS), files, page, model };
    let toolbox = Toolbox::reviewing();
    let graph = ReflectiveReviewer {
        task: &task,
        models: &engine.models,
        toolbox: &toolbox,
        tools: &tools,
        max_rounds: engine.limits.max_rounds,
    };
    let (checkpoints, events, clock) = (engine.checkpoints.clone(), engine.events.clone(), engine.clock.clone());
    // A budget of its own, so that what it cost is told from what the conversations before it did.
    let budget = budget.part(budget.tokens_left());
    let mut cx = RunContext::new(run_id, checkpoints, events, clock, (*stop).clone())
        .with_budget(budget)
        .patient(engine.limits.patient);
    if is_read_by_rules(scene) {
        cx = cx.coarse();
    }
    let outcome = graph::run(&graph, Rounds::default(), &cx).await;
    let spent = cx.budget.spent();
    let review = came_to(outcome, spent, cx.patient)?;
    // What an earlier process has paid for this run counts too.
    cx.budget.spend(review.usage.beyond(&spent));
    Ok(review)
}

/// Whether the built-in rules read the files, which cost nothing.
fn is_read_by_rules(scene: &Scene<'_>) -> bool {
    scene.engine.models.name(ModelRole::Reviewer) == embedded::NAME
}

/// A file as it stands at the head commit.
struct Text {
    head: Option<String>,
    outline: Option<Outline>,
    unparsed: Option<Unparsed>,
}

impl Text {
    async fn of(file: &ChangedFile, scene: &Scene<'_>) -> Self {
        let path = &file.file.diff.path;
        let head = match scene.change.source.read(path).await {
            Ok(FileText::Text(text)) => Some(text),
            // Without the text there is less context, and the review goes on: the hunks are at hand.
            Ok(FileText::Missing | FileText::NotText | FileText::TooLarge) => None,
            Err(error) => {
                tracing::warn!(path, %error, "the file at the head commit cannot be read");
                None
            }
        };
        match outline_of(path, head.as_deref()).await {
            Ok(outline) => Self { head, outline, unparsed: None },
            Err(unparsed) => Self { head, outline: None, unparsed: Some(unparsed) },
        }
    }
}

/// Why the review of a file stopped at a checkpoint.
#[derive(Debug)]
pub enum Stopped {
    /// It was asked to.
    Asked,
    /// A model or the database failed for now, and it is gone on with later.
    Later(RunError),
}

/// `None` in no known language.
async fn outline_of(path: &str, head: Option<&str>) -> Result<Option<Outline>, Unparsed> {
    let Some(text) = head.map(str::to_owned) else { return Ok(None) };
    let Some(language) = language::detect(path, text.lines().next().unwrap_or_default()) else { return Ok(None) };
    let outlined = compute(move || outline::outline(language, &text)).await;
    outlined.map_or(Ok(None), |outlined| outlined.map(Some))
}

/// Why a file does not count as reviewed by the built-in rules, whatever they found: they have not seen it, or not all.
fn unseen_by_rules(path: &str, head: Option<&str>, unparsed: Option<Unparsed>) -> Option<String> {
    let Some(text) = head else {
        return Some("the embedded rules cannot read it: it is missing, not text, or too large".into());
    };
    if is_generated(path, text) {
        let why = "it looks generated, vendored or minified, and the embedded rules leave that alone: say so in `paths.ignore`";
        return Some(why.into());
    }
    unparsed.map(|why| format!("the embedded rules looked at its lines one by one only: {why}"))
}

/// `spent` is what this process paid; a state's own sum lacks what a failed agent had spent.
fn came_to(outcome: Outcome<Rounds<Draft>>, spent: TokenUsage, patient: bool) -> Result<FileReview, Stopped> {
    let (mut rounds, error) = match outcome {
        Outcome::Stopped(_, RunError::Interrupted) => return Err(Stopped::Asked),
        Outcome::Stopped(_, error) if patient && error.passes() => return Err(Stopped::Later(error)),
        Outcome::Done(rounds) => (rounds, None),
        Outcome::Stopped(rounds, error) => (rounds, Some(error)),
        Outcome::Waiting(rounds, request) => (rounds, Some(RunError::Waiting(request))),
    };
    let problem = error.map(|error| error.to_string()).or(rounds.problem.take());
    let usage = if spent.calls > rounds.usage.calls { spent } else { rounds.usage };
    let (round, judged) = (rounds.round, rounds.best.as_ref().is_some_and(|best| best.judged));
    let mut draft = rounds.into_answer().unwrap_or_default();
    if !judged {
        draft = critic::unconfirmed(draft);
    }
    let findings = draft.candidates.into_iter().map(|candidate| candidate.finding).collect();
    Ok(FileReview { findings, summary: draft.summary, problem, usage, rounds: round })
}
