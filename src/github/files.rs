//! The files of a pull request, with the patches that GitHub leaves out made up for.
//!
//! GitHub leaves a patch out for many reasons and names none. Measured on recorded answers: a file with more than
//! 100 KiB of hunk text has none but keeps its counts; once a whole answer passes 1 MiB of hunk text, the file that
//! overflows has none and counts of zero, like a binary, an empty or a renamed file. So whatever is ambiguous is looked
//! up, and what is text is fetched from both sides and diffed here.

use std::collections::HashMap;
use std::sync::Arc;

use super::client::RepositoryClient;
use super::contents::{Fields, Found};
use super::error::GitHubError;
use super::repository::PER_PAGE;
use super::wire::{FileWire, ObjectWire};
use super::{FileText, NoPatch, PullFile, PullFiles, PullRequest};
use crate::compute::compute;
use crate::diff::make::make_hunks;
use crate::diff::parse::parse_patch;
use crate::diff::{FileDiff, FileStatus, Hunk, LineKind};

/// GitHub lists no more files of a pull request.
const MAX_FILES: usize = 3_000;

/// Hunk text in an answer below which GitHub cannot have dropped a patch for the whole answer's sake: 1 MiB less the
/// largest patch it would have sent (100 KiB), less a margin.
const SURELY_WHOLE: usize = (1 << 20) - (100 << 10) - (24 << 10);

/// Most text fetched to diff files ourselves, in bytes, both sides and all files together. Beyond it files are named as
/// too large.
const MAX_FETCHED: usize = 32 << 20;

/// Text asked for with one GraphQL request, in bytes.
const BATCH_BYTES: usize = 4 << 20;

/// GraphQL cuts larger texts, so they are read as blobs.
const GRAPHQL_TEXT: usize = 500_000;

impl RepositoryClient {
    /// Its files, all pages; patches that GitHub leaves out for size are diffed here from the two blobs.
    ///
    /// # Errors
    /// As any request.
    pub async fn pull_files(&self, pull: &PullRequest) -> Result<PullFiles, GitHubError> {
        let what = self.pull_name(pull.number);
        let route = format!("/pulls/{}/files", pull.number);
        let mut entries: Vec<FileWire> = self.pages(&route, MAX_FILES / PER_PAGE, &what).await?;
        entries.truncate(MAX_FILES);
        let listed = u64::try_from(entries.len()).unwrap_or(u64::MAX);
        let patches: usize = entries.iter().filter_map(|entry| entry.patch.as_ref()).map(String::len).sum();
        let whole = patches <= SURELY_WHOLE;
        // Megabytes of patches are read here.
        let planned = compute(move || {
            let plans: Vec<Plan> = entries.iter_mut().map(|entry| take_plan(entry, whole)).collect();
            (entries, plans)
        });
        let (entries, plans) = planned.await.map_err(|_| GitHubError::Unreadable(what))?;
        let files = self.carry_out(pull, entries, plans).await?;
        Ok(PullFiles { files, unlisted: pull.changed_files.saturating_sub(listed) })
    }

    async fn carry_out(
        &self,
        pull: &PullRequest,
        entries: Vec<FileWire>,
        plans: Vec<Plan>,
    ) -> Result<Vec<PullFile>, GitHubError> {
        let parted = entries.iter().zip(&plans).any(|(entry, plan)| needs_merge_base(entry, plan));
        let merge_base = if parted { Some(self.merge_base(&pull.base_sha, &pull.head_sha).await?) } else { None };
        // Which objects to look up: at most an old and a new one of each file that is not clear.
        let mut expressions: Vec<String> = Vec::new();
        let mut wanted: Vec<(Option<usize>, Option<usize>)> = Vec::with_capacity(entries.len());
        for (entry, plan) in entries.iter().zip(&plans) {
            let (old, new) = sides(entry, plan, merge_base.as_deref(), &pull.head_sha);
            let mut place = |expression: Option<String>| {
                expression.map(|expression| {
                    expressions.push(expression);
                    expressions.len() - 1
                })
            };
            wanted.push((place(old), place(new)));
        }
        let found = self.objects(&pull.head_sha, &expressions, Fields::Facts).await?;
        let mut fetched = 0;
        let mut verdicts: Vec<Verdict> = Vec::with_capacity(entries.len());
        for ((entry, plan), (old, new)) in entries.iter().zip(plans).zip(wanted) {
            let side = |index: Option<usize>| index.and_then(|index| found.get(index));
            let verdict = match plan {
                Plan::Clear(hunks, no_patch) => Verdict::Clear(hunks, no_patch),
                Plan::LookUp { diff } => judge(entry, diff, side(old), side(new), self.settings().max_file_bytes),
            };
            verdicts.push(within_budget(verdict, &mut fetched));
        }
        let texts = self.texts(&pull.head_sha, &verdicts).await?;
        // Comparing two large texts takes up to a second.
        let finished = compute(move || {
            entries.iter().zip(verdicts).map(|(entry, verdict)| finish(entry, verdict, &texts)).collect()
        });
        finished.await.map_err(|_| GitHubError::Unreadable(self.pull_name(pull.number)))
    }

    /// The texts of the blobs that are to be diffed, by blob.
    async fn texts(&self, commit: &str, verdicts: &[Verdict]) -> Result<HashMap<String, FileText>, GitHubError> {
        let mut texts = HashMap::new();
        let (mut batch, mut bytes): (Vec<String>, usize) = (Vec::new(), 0);
        let blobs = verdicts.iter().flat_map(|verdict| match verdict {
            Verdict::Diff { old, new } => [old.as_ref(), new.as_ref()],
            Verdict::Clear(..) => [None, None],
        });
        // Collected first: an iterator that holds a closure over an await keeps the future from being `Send`.
        let blobs: Vec<&Blob> = blobs.flatten().collect();
        for blob in blobs {
            if blob.size > GRAPHQL_TEXT {
                texts.insert(blob.oid.clone(), self.blob_text(&blob.oid).await?);
                continue;
            }
            if bytes + blob.size > BATCH_BYTES {
                self.text_batch(commit, &std::mem::take(&mut batch), &mut texts).await?;
                bytes = 0;
            }
            bytes += blob.size;
            batch.push(blob.oid.clone());
        }
        self.text_batch(commit, &batch, &mut texts).await?;
        Ok(texts)
    }

    async fn text_batch(
        &self,
        commit: &str,
        oids: &[String],
        texts: &mut HashMap<String, FileText>,
    ) -> Result<(), GitHubError> {
        let found = self.objects(commit, oids, Fields::Text).await?;
        for (oid, found) in oids.iter().zip(found) {
            let text = match found {
                Found::Object(ObjectWire { text: Some(text), is_truncated: Some(false) | None, .. }) => {
                    FileText::Text(text)
                }
                Found::Object(ObjectWire { is_binary: Some(true), .. }) => FileText::NotText,
                Found::Object(_) | Found::Failed => self.blob_text(oid).await?,
                Found::Nothing => FileText::Missing,
            };
            texts.insert(oid.clone(), text);
        }
        Ok(())
    }
}

/// What is to be done for an entry.
#[derive(Debug, PartialEq)]
enum Plan {
    /// Nothing: it is clear.
    Clear(Vec<Hunk>, Option<NoPatch>),
    /// Its objects are looked up. `diff` when there may be text to diff, which takes both sides.
    LookUp { diff: bool },
}

/// What is known of an entry after its objects were looked up.
#[derive(Debug, PartialEq)]
enum Verdict {
    /// Everything.
    Clear(Vec<Hunk>, Option<NoPatch>),
    /// The two texts are to be diffed; a side that does not exist is `None`.
    Diff { old: Option<Blob>, new: Option<Blob> },
}

/// A text to be fetched.
#[derive(Debug, Clone, PartialEq)]
struct Blob {
    oid: String,
    size: usize,
}

/// [`plan`], which leaves the entry without its patch: of a large change there is no room for both.
fn take_plan(entry: &mut FileWire, whole: bool) -> Plan {
    let plan = plan(entry, whole);
    entry.patch = None;
    plan
}

/// Decides from the entry alone. `whole` when GitHub cannot have dropped patches for the whole answer's sake.
fn plan(entry: &FileWire, whole: bool) -> Plan {
    if let Some(patch) = entry.patch.as_deref().filter(|patch| !patch.is_empty()) {
        let (hunks, complaints) = parse_patch(patch);
        for complaint in &complaints {
            tracing::debug!(file.path = entry.filename, patch.line = complaint.line, "{}", complaint.message);
        }
        if is_submodule(&hunks) {
            return Plan::Clear(Vec::new(), Some(NoPatch::Submodule));
        }
        if !hunks.is_empty() {
            return Plan::Clear(hunks, None);
        }
    }
    if entry.additions + entry.deletions > 0 || !whole {
        return Plan::LookUp { diff: true };
    }
    match entry.status() {
        FileStatus::Renamed | FileStatus::Copied | FileStatus::Unchanged => {
            Plan::Clear(Vec::new(), Some(NoPatch::NoTextChange))
        }
        _ => Plan::LookUp { diff: false },
    }
}

/// Git shows a submodule as a file of one line.
fn is_submodule(hunks: &[Hunk]) -> bool {
    let mut changed =
        hunks.iter().flat_map(|hunk| &hunk.lines).filter(|line| line.kind != LineKind::Context).peekable();
    changed.peek().is_some()
        && changed.all(|line| {
            let commit = line.text.strip_prefix("Subproject commit ");
            commit.is_some_and(|commit| commit.len() >= 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit()))
        })
}

/// The old side of a diff is what the branches parted from, not the present base.
fn needs_merge_base(entry: &FileWire, plan: &Plan) -> bool {
    matches!(plan, Plan::LookUp { diff: true }) && !matches!(entry.status(), FileStatus::Added | FileStatus::Removed)
}

/// The expressions of the old and the new object to look up.
fn sides(entry: &FileWire, plan: &Plan, merge_base: Option<&str>, head: &str) -> (Option<String>, Option<String>) {
    let Plan::LookUp { diff } = plan else { return (None, None) };
    let own = entry.sha.clone().filter(|sha| !sha.is_empty());
    match entry.status() {
        // The sha of a removed file is that of its old blob.
        FileStatus::Removed => (own, None),
        status => {
            let new = own.unwrap_or_else(|| format!("{head}:{}", entry.filename));
            let old = merge_base.filter(|_| *diff && status != FileStatus::Added);
            let old = old.map(|base| format!("{base}:{}", entry.previous_filename.as_ref().unwrap_or(&entry.filename)));
            (old, Some(new))
        }
    }
}

/// Decides from the looked-up objects.
fn judge(entry: &FileWire, diff: bool, old: Option<&Found>, new: Option<&Found>, max_bytes: usize) -> Verdict {
    let no_patch = |why| Verdict::Clear(Vec::new(), Some(why));
    let removed = entry.status() == FileStatus::Removed;
    let present = if removed { old } else { new };
    let subject = match present {
        Some(Found::Object(object)) if object.kind == "Blob" => object,
        // The commit of a submodule is none of this repository's objects.
        Some(Found::Object(_) | Found::Nothing) => return no_patch(NoPatch::Submodule),
        Some(Found::Failed) | None => return no_patch(NoPatch::TooLarge),
    };
    if subject.is_binary != Some(false) {
        return no_patch(NoPatch::Binary);
    }
    if !diff {
        return no_patch(NoPatch::NoTextChange);
    }
    let other = if removed { None } else { old };
    let other = match other {
        None => None,
        Some(Found::Object(object)) if object.kind == "Blob" => Some(object),
        // The type changed, from a submodule say: all of it is new.
        Some(Found::Object(_) | Found::Nothing) if entry.status() == FileStatus::Changed => None,
        // An old side that cannot be found must not make the whole file look added.
        Some(_) => return no_patch(NoPatch::TooLarge),
    };
    if let Some(other) = other {
        if other.oid == subject.oid {
            return no_patch(NoPatch::NoTextChange);
        }
        if other.is_binary != Some(false) {
            return no_patch(NoPatch::Binary);
        }
    }
    let blob = |object: &ObjectWire| Blob { oid: object.oid.clone(), size: object.byte_size.unwrap_or(usize::MAX) };
    let (subject, other) = (blob(subject), other.map(blob));
    if subject.size > max_bytes || other.as_ref().is_some_and(|other| other.size > max_bytes) {
        return no_patch(NoPatch::TooLarge);
    }
    if removed {
        Verdict::Diff { old: Some(subject), new: None }
    } else {
        Verdict::Diff { old: other, new: Some(subject) }
    }
}

/// Keeps what is fetched within [`MAX_FETCHED`].
fn within_budget(verdict: Verdict, fetched: &mut usize) -> Verdict {
    let Verdict::Diff { old, new } = &verdict else { return verdict };
    let size = [old, new].into_iter().flatten().map(|blob| blob.size).sum::<usize>();
    if fetched.saturating_add(size) > MAX_FETCHED {
        return Verdict::Clear(Vec::new(), Some(NoPatch::TooLarge));
    }
    *fetched += size;
    verdict
}

fn finish(entry: &FileWire, verdict: Verdict, texts: &HashMap<String, FileText>) -> PullFile {
    let (hunks, no_patch, self_made) = match verdict {
        Verdict::Clear(hunks, no_patch) => (hunks, no_patch, false),
        Verdict::Diff { old, new } => {
            let text = |blob: &Option<Blob>| match blob {
                None => Some(""),
                Some(blob) => match texts.get(&blob.oid) {
                    Some(FileText::Text(text)) => Some(text.as_str()),
                    _ => None,
                },
            };
            match (text(&old), text(&new)) {
                (Some(old), Some(new)) => match make_hunks(old, new) {
                    hunks if hunks.is_empty() => (hunks, Some(NoPatch::NoTextChange), false),
                    hunks => (hunks, None, true),
                },
                _ => (Vec::new(), Some(NoPatch::Binary), false),
            }
        }
    };
    let diff = FileDiff {
        path: entry.filename.clone(),
        old_path: entry.previous_filename.clone(),
        status: entry.status(),
        hunks,
    };
    let blob_sha = entry.sha.clone().filter(|_| diff.status != FileStatus::Removed);
    PullFile { diff: Arc::new(diff), blob_sha, no_patch, self_made }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn entry(json: Value) -> FileWire {
        serde_json::from_value(json).unwrap()
    }

    fn object(oid: &str, size: usize, binary: Option<bool>) -> Found {
        let json =
            json!({"__typename": "Blob", "oid": oid, "byteSize": size, "isBinary": binary, "isTruncated": false});
        Found::Object(serde_json::from_value(json).unwrap())
    }

    #[test]
    fn only_what_is_ambiguous_is_looked_up() {
        let clear = |why| Plan::Clear(Vec::new(), Some(why));
        let submodule =
            format!("@@ -1 +1 @@\n-Subproject commit {}\n+Subproject commit {}", "a".repeat(40), "b".repeat(40));
        for (json, whole, wanted) in [
            (
                json!({"status": "renamed", "filename": "b", "previous_filename": "a"}),
                true,
                clear(NoPatch::NoTextChange),
            ),
            (
                json!({"status": "renamed", "filename": "b", "previous_filename": "a"}),
                false,
                Plan::LookUp { diff: true },
            ),
            (json!({"status": "modified", "filename": "a"}), true, Plan::LookUp { diff: false }),
            (json!({"status": "modified", "filename": "a", "patch": ""}), true, Plan::LookUp { diff: false }),
            (json!({"status": "modified", "filename": "a", "additions": 9}), true, Plan::LookUp { diff: true }),
            (json!({"status": "modified", "filename": "a", "patch": "no patch"}), false, Plan::LookUp { diff: true }),
            (json!({"status": "modified", "filename": "lib", "patch": submodule}), true, clear(NoPatch::Submodule)),
        ] {
            assert_eq!(plan(&entry(json.clone()), whole), wanted, "{json}");
        }
        let text = "@@ -1 +1 @@\n-Subproject commit of ours\n+Subproject commit of theirs";
        let kept = plan(&entry(json!({"filename": "a.txt", "patch": text})), true);
        assert!(matches!(kept, Plan::Clear(hunks, None) if hunks.len() == 1));
    }

    #[test]
    fn the_old_side_is_where_the_branches_parted() {
        let look_up = Plan::LookUp { diff: true };
        let renamed = entry(json!({"status": "renamed", "filename": "b", "previous_filename": "a", "sha": "new"}));
        assert_eq!(sides(&renamed, &look_up, Some("base"), "head"), (Some("base:a".into()), Some("new".into())));
        let unnamed = entry(json!({"status": "modified", "filename": "b", "sha": null}));
        assert_eq!(sides(&unnamed, &look_up, Some("base"), "head"), (Some("base:b".into()), Some("head:b".into())));
        let removed = entry(json!({"status": "removed", "filename": "b", "sha": "old"}));
        assert_eq!(sides(&removed, &look_up, Some("base"), "head"), (Some("old".into()), None));
        let added = entry(json!({"status": "added", "filename": "b", "sha": "new"}));
        assert_eq!(sides(&added, &look_up, Some("base"), "head"), (None, Some("new".into())));
        assert!(!needs_merge_base(&added, &look_up) && !needs_merge_base(&removed, &look_up));
        assert!(needs_merge_base(&renamed, &look_up) && !needs_merge_base(&renamed, &Plan::LookUp { diff: false }));
    }

    #[test]
    fn objects_say_why_there_is_no_patch() {
        let modified = entry(json!({"status": "modified", "filename": "a"}));
        let verdict = |old: Found, new: Found| match judge(&modified, true, Some(&old), Some(&new), 100) {
            Verdict::Clear(_, why) => why,
            Verdict::Diff { .. } => None,
        };
        let text = |oid| object(oid, 10, Some(false));
        assert_eq!(verdict(text("a"), text("b")), None);
        assert_eq!(verdict(text("a"), text("a")), Some(NoPatch::NoTextChange));
        assert_eq!(verdict(text("a"), object("b", 10, Some(true))), Some(NoPatch::Binary));
        assert_eq!(verdict(text("a"), object("b", 10, None)), Some(NoPatch::Binary));
        assert_eq!(verdict(object("a", 10, Some(true)), text("b")), Some(NoPatch::Binary));
        assert_eq!(verdict(text("a"), object("b", 101, Some(false))), Some(NoPatch::TooLarge));
        assert_eq!(verdict(object("a", 101, Some(false)), text("b")), Some(NoPatch::TooLarge));
        assert_eq!(verdict(text("a"), Found::Nothing), Some(NoPatch::Submodule));
        assert_eq!(verdict(Found::Nothing, text("b")), Some(NoPatch::TooLarge), "never shown as all new");
        assert_eq!(verdict(text("a"), Found::Failed), Some(NoPatch::TooLarge));
    }

    #[test]
    fn what_is_fetched_is_bounded() {
        let blob = |size| Some(Blob { oid: "x".into(), size });
        let mut fetched = 0;
        let large = || Verdict::Diff { old: blob(MAX_FETCHED / 4), new: blob(MAX_FETCHED / 4) };
        assert_eq!(within_budget(large(), &mut fetched), large());
        assert_eq!(within_budget(large(), &mut fetched), large());
        assert_eq!(within_budget(large(), &mut fetched), Verdict::Clear(Vec::new(), Some(NoPatch::TooLarge)));
        assert_eq!(fetched, MAX_FETCHED);
    }
}
