//! A change under review, wherever it came from: a pull request, a git range, a diff file.
//!
//! Files are reviewed side by side, the riskiest first, so that a budget that runs out leaves the least behind; small ones
//! together, so that fifty of them do not cost fifty system prompts. What comes out is put on lines, merged, ranked and
//! capped; nothing of it depends on the order in which files finished.
//! Changes across files (a signature and its callers) are not looked at as such; the tools of a file's reviewer reach
//! the whole repository.

mod group;
mod plan;
mod risk;
pub mod turn;

use std::sync::Arc;

use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use crate::agent::checkpoint::Checkpoints;
use crate::agent::graph::RunError;
use crate::agent::limits::Most;
use crate::agent::spending::Purse;
use crate::analysis::language::detect;
use crate::analysis::syntax::error_count;
use crate::chat::router::Router;
use crate::chat::{ModelRole, TokenUsage, embedded};
use crate::clock::SharedClock;
use crate::diff::{FileDiff, LineKind};
use crate::event::store::EventLog;
use crate::github::{FileText, PullFile};
use crate::review::anchor::{Anchored, Placed, Unplaced, anchor};
use crate::review::budget::Budgets;
use crate::review::coverage::{Coverage, CoveredFile, FileCoverage};
use crate::review::finding::{Finding, fingerprint};
use crate::review::policy::Policy;
use crate::review::report::{Report, Reported};
use crate::review::suggestion::suggestion;
use crate::review::{merge, score};
use crate::tool::source::SourceTree;
use turn::{Scene, Turn};

/// One file of a change, and how much of it is to be reviewed.
#[derive(Debug, Clone)]
pub struct ChangedFile {
    /// The file and its hunks.
    pub file: PullFile,
    /// Indices of the hunks to review; the others were reviewed before and are context only.
    pub new_hunks: Vec<usize>,
    /// Findings of earlier rounds on this file, whatever became of them: not to be said again.
    pub known: Vec<Finding>,
}

impl ChangedFile {
    /// Which change of which file this is, as a text for ids: the same after a push or restart that leaves its diff as it
    /// is, so that the run of a file is gone on with exactly as long as its change is the same.
    pub fn key(&self) -> String {
        let mut hash = Sha256::new();
        for index in &self.new_hunks {
            hash.update(index.to_le_bytes());
        }
        for hunk in &self.file.diff.hunks {
            hash.update(hunk.old_start.to_le_bytes());
            hash.update(hunk.new_start.to_le_bytes());
            for line in &hunk.lines {
                hash.update([match line.kind {
                    LineKind::Context => b' ',
                    LineKind::Added => b'+',
                    LineKind::Removed => b'-',
                }]);
                hash.update(&line.text);
                hash.update(if line.no_newline { "\0" } else { "\n" });
            }
        }
        let digest = hex::encode(hash.finalize());
        format!("{}/{}", self.file.diff.path, digest.get(..16).unwrap_or(&digest))
    }
}

/// [`ChangedFile::key`] of files that are reviewed together, whatever order they come in.
pub fn group_key(files: &[&ChangedFile]) -> String {
    let mut keys: Vec<String> = files.iter().map(|file| file.key()).collect();
    keys.sort_unstable();
    let digest = hex::encode(Sha256::digest(keys.join("\0")));
    // Longer than the end of a file's key, so that no file's run can have the same id.
    format!("group/{}", digest.get(..32).unwrap_or(&digest))
}

/// A change.
#[derive(Clone)]
pub struct Change {
    /// Stable for this pull request: the run of each file is saved under it and [`ChangedFile::key`].
    pub id: String,
    /// Title; untrusted.
    pub title: String,
    /// Description; untrusted.
    pub description: String,
    /// Base commit, or what stands for it.
    pub base: String,
    /// Head commit, or what stands for it.
    pub head: String,
    /// Its files.
    pub files: Vec<ChangedFile>,
    /// Files that could not be listed.
    pub unlisted: u64,
    /// The repository at the head.
    pub source: Arc<dyn SourceTree>,
}

impl Change {
    /// The changes of its files, shared with them.
    pub fn diffs(&self) -> Vec<Arc<FileDiff>> {
        self.files.iter().map(|file| Arc::clone(&file.file.diff)).collect()
    }
}

/// What a review works with. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    /// Models by role.
    pub models: Arc<Router>,
    /// Where runs are saved.
    pub checkpoints: Checkpoints,
    /// Where their events go.
    pub events: EventLog,
    /// Time.
    pub clock: SharedClock,
    /// Sizes and times.
    pub limits: Limits,
    /// The accounts on which model calls are booked besides the budget of the review.
    pub purse: Purse,
}

/// Sizes and times of a review.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Files reviewed at the same time.
    pub concurrent_files: usize,
    /// Most small files that are reviewed together, in one conversation; 1 is none.
    pub group_files: usize,
    /// Most rounds of draft and critique.
    pub max_rounds: u32,
    /// Whole time of a change.
    pub review_time: std::time::Duration,
    /// The most that the review of a change may cost.
    pub review: Most,
    /// The most that pull requests, repositories and days may cost.
    pub budgets: Budgets,
    /// Whether the review is gone on with later when a model or the database fails for now. Without, a file that met such
    /// a fault counts as not reviewed.
    pub patient: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            concurrent_files: 8,
            group_files: 8,
            max_rounds: 5,
            review_time: std::time::Duration::from_secs(20 * 60),
            review: Most::tokens(5_000_000),
            budgets: Budgets::default(),
            patient: false,
        }
    }
}

/// What a review tells while it works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// A file's review began.
    Started(String),
    /// A file's review ended.
    Finished(String),
}

/// Takes progress; called from many tasks.
pub type ProgressSink = Arc<dyn Fn(Progress) + Send + Sync>;

/// The review stopped at a checkpoint; it can go on from there. Holds what is finished so far.
#[derive(Debug)]
pub struct Interrupted {
    /// What failed for now; `None` when it was asked to stop.
    pub later: Option<RunError>,
    /// The part that was finished, for callers that want it (Ctrl-C on the command line).
    pub partial: Box<Report>,
}

/// Reviews a change: every file, or group of small ones, by the reflective reviewer with bounded concurrency, then merged,
/// ranked and capped.
/// A file that fails is named in the coverage; it never takes the others with it.
///
/// # Errors
/// [`Interrupted`] when `stop` was cancelled before every file had its turn, or when a patient review met a passing fault.
pub async fn review_change(
    change: &Change,
    policy: &Policy,
    engine: &Engine,
    stop: &CancellationToken,
    progress: &ProgressSink,
) -> Result<Report, Interrupted> {
    let plan = plan::plan(&change.files, policy);
    let paths: Vec<String> =
        plan.to_review.iter().filter_map(|at| change.files.get(*at)).map(|f| f.file.diff.path.clone()).collect();
    if !paths.is_empty() && !stop.is_cancelled() {
        // Reading one by one works too, so a failure here costs requests and nothing else.
        if let Err(error) = change.source.prefetch(&paths).await {
            tracing::warn!(review.id = %change.id, error = %error, "files could not be fetched together");
        }
    }
    let scene = Scene::new(change, policy, engine, stop);
    let groups = group::groups(&change.files, &plan.to_review, policy, most_together(engine));
    let mut turns = turn::take_turns(groups, &scene, progress).await;
    let stopped = turns.iter().any(|(_, turn)| matches!(turn, Turn::Stopped | Turn::Later(_)));
    let later = turns.extract_if(.., |(_, turn)| matches!(turn, Turn::Later(_))).find_map(|(_, turn)| match turn {
        Turn::Later(error) => Some(error),
        _ => None,
    });
    let report = assemble(change, policy, plan.coverage, turns).await;
    if stopped { Err(Interrupted { later, partial: Box::new(report) }) } else { Ok(report) }
}

/// The embedded rules read one file at a time, and cost nothing: where they may be asked, nothing is put together.
fn most_together(engine: &Engine) -> usize {
    let rules =
        [ModelRole::Reviewer, ModelRole::Critic].iter().any(|role| engine.models.may_ask(*role, embedded::NAME));
    if rules { 1 } else { engine.limits.group_files }
}

async fn assemble(
    change: &Change,
    policy: &Policy,
    planned: Vec<Option<FileCoverage>>,
    mut turns: Vec<(usize, Turn)>,
) -> Report {
    turns.sort_by_key(|(at, _)| *at);
    let mut coverage: Vec<FileCoverage> = planned
        .into_iter()
        .map(|c| c.unwrap_or_else(|| FileCoverage::NotReviewed { reason: "the review was stopped".into() }))
        .collect();
    let mut usage = TokenUsage::default();
    let mut found = Vec::new();
    let mut summaries = Vec::new();
    for (at, turn) in turns {
        let (Some(file), Some(covered)) = (change.files.get(at), coverage.get_mut(at)) else { continue };
        match turn {
            Turn::Reviewed(review) => {
                usage += review.usage;
                if !review.summary.trim().is_empty() {
                    summaries.push(plan::summary_line(&file.file.diff.path, &review.summary));
                }
                *covered = match review.problem {
                    None => FileCoverage::Reviewed,
                    Some(reason) => FileCoverage::NotReviewed { reason },
                };
                found.extend(place(file, review.findings));
            }
            Turn::OutOf(what) => *covered = FileCoverage::NotReviewed { reason: what.into() },
            Turn::Stopped | Turn::Later(_) => {}
        }
    }
    let mut findings = merge::merge(found);
    findings.retain(|f| f.finding.severity >= policy.review.severity_floor);
    merge::rank(&mut findings);
    let score = score::score(findings.iter().map(|f| &f.finding));
    let capped = findings.split_off(findings.len().min(policy.review.max_comments));
    offer_suggestions(change, &mut findings).await;
    let files = change.files.iter().zip(coverage);
    Report {
        findings,
        capped,
        coverage: Coverage {
            files: files.map(|(f, coverage)| CoveredFile { path: f.file.diff.path.clone(), coverage }).collect(),
            unlisted: change.unlisted,
        },
        score,
        usage,
        summary: plan::join_summaries(&summaries),
        trace_id: change.id.clone(),
    }
}

/// Findings of one file on their lines. What is about another file was found without looking at that file's change, and
/// what was said before is not said again.
fn place(file: &ChangedFile, findings: Vec<Finding>) -> Vec<Reported> {
    let diff = &file.file.diff;
    let fresh: Vec<Finding> = findings
        .into_iter()
        .filter(|finding| finding.path == diff.path && !merge::already_said(finding, &file.known))
        .collect();
    let anchored = if file.file.self_made || diff.hunks.is_empty() {
        Anchored { comments: vec![], unanchored: fresh.into_iter().map(|f| (f, Unplaced::NoDiff)).collect() }
    } else {
        anchor(fresh, diff)
    };
    let placed = anchored.comments.into_iter().map(|placed| (placed.finding, Ok(placed.anchor)));
    let unplaced = anchored.unanchored.into_iter().map(|(finding, why)| (finding, Err(why)));
    placed
        .chain(unplaced)
        .map(|(finding, place)| Reported { fingerprint: fingerprint(&finding), finding, place, suggestion: None })
        .collect()
}

/// Makes suggestions for what will be said, from the files at the head. A file that cannot be read gives none.
async fn offer_suggestions(change: &Change, findings: &mut [Reported]) {
    for reported in findings {
        let Ok(anchor) = &reported.place else { continue };
        if reported.finding.replacement.is_none() {
            continue;
        }
        let path = &reported.finding.path;
        if let Ok(FileText::Text(head)) = change.source.read(path).await {
            let placed = Placed { finding: reported.finding.clone(), anchor: anchor.clone() };
            reported.suggestion = suggestion(&placed, &head, |before, after| parses_as_well(path, before, after));
        }
    }
}

/// Whether a file makes at least as much sense to its grammar after a change as before. One of no known language has no
/// grammar to offend; of one that is not parsed at all nothing is known, and a suggestion has to be sure.
fn parses_as_well(path: &str, before: &str, after: &str) -> bool {
    let first_line = before.lines().next().unwrap_or_default();
    let Some(language) = detect(path, first_line) else { return true };
    let before = error_count(language, before);
    before < usize::MAX && error_count(language, after) <= before
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diff::FileStatus;
    use crate::diff::parse::parse_patch;
    use crate::review::finding::{Category, Severity};

    fn file(patch: &str, new_hunks: Vec<usize>) -> ChangedFile {
        let diff = FileDiff {
            path: "src/a.rs".into(),
            old_path: None,
            status: FileStatus::Modified,
            hunks: parse_patch(patch).0,
        };
        ChangedFile {
            file: PullFile { diff: Arc::new(diff), blob_sha: None, no_patch: None, self_made: false },
            new_hunks,
            known: vec![],
        }
    }

    #[test]
    fn a_key_holds_as_long_as_the_change_of_the_file() {
        let key = file("@@ -1 +1 @@\n-a\n+b", vec![0]).key();
        assert!(key.starts_with("src/a.rs/"));
        assert_eq!(key, file("@@ -1 +1 @@\n-a\n+b", vec![0]).key());
        for other in [
            file("@@ -1 +1 @@\n-a\n+c", vec![0]),
            file("@@ -2 +2 @@\n-a\n+b", vec![0]),
            file("@@ -1 +1 @@\n-a\n+b", vec![]),
        ] {
            assert_ne!(key, other.key());
        }
    }

    #[test]
    fn what_was_said_or_is_about_another_file_is_not_placed() {
        let finding = |path: &str, quote: &str| Finding {
            path: path.into(),
            quote: quote.into(),
            line: None,
            end_line: None,
            side: None,
            severity: Severity::Major,
            category: Category::Correctness,
            title: "Panics when the key is missing".into(),
            body: "The map may lack the key.".into(),
            replacement: None,
            confidence: 0.9,
            source: "model".into(),
            evidence: vec![],
        };
        let mut changed = file("@@ -1 +1,2 @@\n-a\n+let b = map.get(k).unwrap();\n+let c = 1;", vec![0]);
        let found = vec![
            finding("src/a.rs", "let b = map.get(k).unwrap();"),
            finding("src/other.rs", "let b = map.get(k).unwrap();"),
            finding("src/a.rs", "nowhere()"),
        ];
        let places: Vec<bool> = place(&changed, found.clone()).iter().map(|r| r.place.is_ok()).collect();
        assert_eq!(places, [true, false]);
        changed.known = vec![finding("src/a.rs", "map.get(k).unwrap()")];
        let quotes: Vec<String> = place(&changed, found.clone()).into_iter().map(|r| r.finding.quote).collect();
        assert_eq!(quotes, ["nowhere()"]);
        changed.known.clear();
        changed.file.self_made = true;
        assert!(place(&changed, found).iter().all(|r| r.place == Err(Unplaced::NoDiff)));
    }

    #[test]
    fn a_suggestion_must_parse_no_worse() {
        assert!(parses_as_well("a.rs", "fn a() {}\n", "fn b() {}\n"));
        assert!(!parses_as_well("a.rs", "fn a() {}\n", "fn b( {}\n"));
        assert!(parses_as_well("a.rs", "fn a( {}\n", "fn b( {}\n"));
        assert!(parses_as_well("notes.xyz", "a", "((("));
        let long = format!("// {}\n", "x".repeat(200_000));
        assert!(!parses_as_well("a.rs", &format!("{long}fn a() {{}}\n"), &format!("{long}fn b( {{}}\n")));
    }
}
