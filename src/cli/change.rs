//! Makes a change out of a git range, the index, or a patch file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::io::AsyncReadExt as _;

use super::Failure;
use super::git::{Git, MOST_DIFF_BYTES};
use crate::diff::parse::{Complaint, Notice, UnifiedFile, parse_unified_files};
use crate::diff::{DiffLine, FileDiff, FileStatus, Hunk};
use crate::github::{FileText, NoPatch, PullFile};
use crate::review::change::{Change, ChangedFile};
use crate::review::policy::{self, LoadedPolicy};
use crate::tool::checkout::{Checkout, CheckoutError, GitTree};
use crate::tool::source::SourceTree;

/// Where a change comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The commits of `head` since it parted from `base`; the default branch when no base is given.
    Range {
        /// What to compare with.
        base: Option<String>,
        /// The newest commit.
        head: String,
    },
    /// What would be committed now.
    Staged {
        /// What to compare with.
        base: Option<String>,
    },
    /// A patch, over the code in a directory.
    Patch {
        /// The patch file; `-` is standard input.
        file: PathBuf,
        /// The code with the patch applied.
        root: PathBuf,
    },
}

/// A change with the rules it is reviewed by.
pub struct Prepared {
    /// The change.
    pub change: Change,
    /// The repository's own rules at the base.
    pub policy: LoadedPolicy,
    /// What of the patch could not be read.
    pub complaints: Vec<Complaint>,
}

/// Reads the change. One without files is not an error.
///
/// # Errors
/// One sentence that says what to do: no repository, no such commit, no common ancestor, no patch.
pub async fn prepare(origin: &Origin, directory: &Path) -> Result<Prepared, Failure> {
    match origin {
        Origin::Range { base, head } => {
            let git = Git::open(directory).await?;
            let head_commit = git.commit(head).await?;
            let base = match base {
                Some(base) => base.clone(),
                None => git.default_branch().await?,
            };
            let base_commit = git.merge_base((&base, &git.commit(&base).await?), (head, &head_commit)).await?;
            let diff = git.diff(&[&base_commit, &head_commit]).await?;
            let subjects = git.subjects(&base_commit, &head_commit).await?;
            let source = GitTree::at(git.root(), &head_commit).await?;
            let rules = rules(&GitTree::at(git.root(), &base_commit).await?).await?;
            let (files, complaints) = parse_unified_files(&diff);
            let change = change(files, subjects, base_commit, head_commit, Arc::new(source));
            Ok(Prepared { change, policy: rules, complaints })
        }
        Origin::Staged { base } => {
            let git = Git::open(directory).await?;
            let base = base.clone().unwrap_or_else(|| "HEAD".into());
            let commit = match git.find(&base).await? {
                Some(commit) => commit,
                // Before the first commit the index is compared with nothing.
                None if base == "HEAD" => String::new(),
                None => git.commit(&base).await?,
            };
            let mut what = vec!["--cached"];
            what.extend(Some(commit.as_str()).filter(|commit| !commit.is_empty()));
            let diff = git.diff(&what).await?;
            let source = GitTree::index(git.root()).await?;
            let policy = match commit.is_empty() {
                true => LoadedPolicy::default(),
                false => rules(&GitTree::at(git.root(), &commit).await?).await?,
            };
            let base = if commit.is_empty() { "nothing".into() } else { commit };
            let (files, complaints) = parse_unified_files(&diff);
            let change = change(files, Vec::new(), base, "index".into(), Arc::new(source));
            Ok(Prepared { change, policy, complaints })
        }
        Origin::Patch { file, root } => {
            let tree = Checkout::new(root)?;
            let diff = read_patch(file).await?;
            let (files, complaints) = parse_unified_files(&diff);
            if files.is_empty() && !diff.trim_ascii().is_empty() {
                let name = if file == Path::new("-") { "standard input".into() } else { file.display().to_string() };
                let why = complaints.first().map_or(String::new(), |complaint| {
                    format!(" (line {}: {})", complaint.line, super::output::one_line(&complaint.message))
                });
                return Err(Failure(format!("{name} holds no patch{why}: make one with `git diff BASE...HEAD`")));
            }
            let source = tree.including(files.iter().map(|file| file.diff.path.clone()));
            refuse_other_code(&files, &source, root).await?;
            // The directory holds the code after the change, and a change cannot change its own rules: none are read.
            let made = change(files, Vec::new(), "before".into(), "after".into(), Arc::new(source));
            Ok(Prepared { change: made, policy: LoadedPolicy::default(), complaints })
        }
    }
}

impl From<CheckoutError> for Failure {
    fn from(error: CheckoutError) -> Self {
        Self(error.to_string())
    }
}

fn change(
    files: Vec<UnifiedFile>,
    subjects: Vec<String>,
    base: String,
    head: String,
    source: Arc<dyn SourceTree>,
) -> Change {
    Change {
        id: format!("local:{base}:{head}"),
        title: subjects.first().cloned().unwrap_or_default(),
        description: subjects.get(1..).unwrap_or_default().join("\n"),
        base,
        head,
        files: files.into_iter().map(changed_file).collect(),
        unlisted: 0,
        source,
    }
}

fn changed_file(file: UnifiedFile) -> ChangedFile {
    let no_patch = match file.notice {
        Some(Notice::Binary) => Some(NoPatch::Binary),
        Some(Notice::NotUtf8) => Some(NoPatch::NotUtf8),
        Some(Notice::Submodule) => Some(NoPatch::Submodule),
        None if file.diff.hunks.is_empty() => Some(NoPatch::NoTextChange),
        None => None,
    };
    let new_hunks = if no_patch.is_none() { (0..file.diff.hunks.len()).collect() } else { Vec::new() };
    let file = PullFile { diff: Arc::new(file.diff), blob_sha: None, no_patch, self_made: false };
    ChangedFile { file, new_hunks, known: Vec::new() }
}

/// Refuses code that is not what the patch leads to: the checks would look at other lines, find nothing, and say so.
async fn refuse_other_code(files: &[UnifiedFile], tree: &Checkout, root: &Path) -> Result<(), Failure> {
    let place = if root == Path::new(".") { "the working directory".into() } else { root.display().to_string() };
    let advice = "give the root of the code with the patch applied as --root (`git apply` applies one)";
    for file in files.iter().filter(|file| file.notice.is_none() && !file.diff.hunks.is_empty()) {
        let FileDiff { path, status, hunks, .. } = &file.diff;
        if *status == FileStatus::Removed {
            continue;
        }
        match tree.read(path).await {
            Ok(FileText::Missing) => {
                return Err(Failure(format!("the patch changes {path}, which is not in {place}: {advice}")));
            }
            Ok(FileText::Text(text)) => {
                if let Some(line) = first_other_line(hunks, &text) {
                    return Err(Failure(format!(
                        "line {line} of {path} in {place} is not as the patch leaves it: {advice}"
                    )));
                }
            }
            // What cannot be read as text cannot be compared; the review itself says what it could not look at.
            Ok(FileText::NotText | FileText::TooLarge) | Err(_) => {}
        }
    }
    Ok(())
}

/// The first line of the new side that reads otherwise in `text`. Line ends do not count: mail and editors change them.
fn first_other_line(hunks: &[Hunk], text: &str) -> Option<u32> {
    let bare = |line: &str| line.trim_start_matches('\u{feff}').trim_end_matches('\r').to_owned();
    let lines: Vec<&str> = text.split('\n').collect();
    let differs = |line: &DiffLine| {
        let number = line.new?;
        let at = usize::try_from(number).ok()?.checked_sub(1)?;
        let same = lines.get(at).is_some_and(|found| bare(found) == bare(&line.text));
        (!same).then_some(number)
    };
    hunks.iter().flat_map(|hunk| &hunk.lines).find_map(differs)
}

/// The rules that a tree holds.
async fn rules(tree: &GitTree) -> Result<LoadedPolicy, Failure> {
    let mut texts = Vec::new();
    for path in policy::policy_files() {
        texts.push(tree.read(&path).await.map_err(|error| Failure(format!("cannot read {path}: {error}; try again")))?);
    }
    Ok(policy::load(&texts))
}

async fn read_patch(file: &Path) -> Result<Vec<u8>, Failure> {
    let mut text = Vec::new();
    let read = if file == Path::new("-") {
        tokio::io::stdin().take(MOST_DIFF_BYTES + 1).read_to_end(&mut text).await
    } else {
        match tokio::fs::File::open(file).await {
            Ok(file) => file.take(MOST_DIFF_BYTES + 1).read_to_end(&mut text).await,
            Err(error) => Err(error),
        }
    };
    read.map_err(|error| Failure(format!("cannot read the patch {}: {error}; check the path", file.display())))?;
    if text.len() as u64 > MOST_DIFF_BYTES {
        let most = MOST_DIFF_BYTES >> 20;
        return Err(Failure(format!("the patch {} is larger than {most} MiB: review it in parts", file.display())));
    }
    Ok(text)
}

/// Files of a change that a review can say something about.
pub fn reviewable(change: &Change) -> usize {
    let worth = |file: &&ChangedFile| !file.new_hunks.is_empty() && file.file.diff.status != FileStatus::Removed;
    change.files.iter().filter(worth).count()
}
