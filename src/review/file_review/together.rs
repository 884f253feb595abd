//! The review of several small files in one conversation.
//!
//! It comes to the same as reviewing each alone: every file has findings and a coverage of its own. Where the conversation
//! fails, each is reviewed alone, so that one bad answer never costs all of them.

use super::{FileReview, Stopped, Text, converse, review_within};
use crate::agent::limits::Budget;
use crate::chat::TokenUsage;
use crate::review::change::turn::Scene;
use crate::review::change::{ChangedFile, group_key};
use crate::review::context::group_page;
use crate::review::draft::UnderReview;

/// Reviews files together, from their checkpoint if they have one; `tokens` is what they may spend of the change's budget.
/// Gives a result for each, in their order.
pub async fn review_together(
    files: &[&ChangedFile],
    scene: &Scene<'_>,
    tokens: u64,
) -> Vec<Result<FileReview, Stopped>> {
    let budget = scene.budget.part(tokens);
    let mut reviews: Vec<Result<FileReview, Stopped>> = Vec::with_capacity(files.len());
    match talk_about_all(files, scene, &budget).await {
        Ok(review) if review.problem.is_none() => reviews.extend(divide(review, files).into_iter().map(Ok)),
        Ok(review) => {
            let why = review.problem.as_deref().unwrap_or_default();
            tracing::warn!(review.id = %scene.change.id, why, "files that failed together are reviewed one by one");
            for (file, together) in files.iter().zip(divide(review, files)) {
                let alone = review_within(file, scene, budget.part(budget.tokens_left())).await;
                let stopped = alone.is_err();
                reviews.push(alone.map(|alone| after_all(together, alone)));
                if stopped {
                    break;
                }
            }
        }
        Err(stopped) => reviews.push(Err(stopped)),
    }
    // Where one stopped, those behind it have not begun.
    reviews.resize_with(files.len(), || Err(Stopped::Asked));
    reviews
}

/// The conversation about all of them.
async fn talk_about_all(files: &[&ChangedFile], scene: &Scene<'_>, budget: &Budget) -> Result<FileReview, Stopped> {
    let mut texts = Vec::with_capacity(files.len());
    for file in files {
        texts.push(Text::of(file, scene).await);
    }
    let change = scene.change;
    // The same for all of a group.
    let instructions =
        files.first().map(|file| scene.policy.instructions_for(&file.file.diff.path)).unwrap_or_default();
    let outlined: Vec<_> = files.iter().copied().zip(texts.iter().map(|text| text.outline.as_ref())).collect();
    let page = group_page(&outlined, (&change.title, &change.description), &instructions);
    let under = files.iter().zip(&texts).map(|(file, text)| UnderReview { file, head: text.head.as_deref() });
    converse(under.collect(), page, format!("{}/{}", change.id, group_key(files)), scene, budget).await
}

/// What is each file's own. The cost and the word on all of them stand with the first, so that they are counted once.
fn divide(mut review: FileReview, files: &[&ChangedFile]) -> Vec<FileReview> {
    let summary = match review.summary.trim() {
        "" => String::new(),
        summary => format!("(with {} more small files) {summary}", files.len().saturating_sub(1)),
    };
    let own = |(index, file): (usize, &&ChangedFile)| {
        let first = index == 0;
        FileReview {
            findings: review.findings.extract_if(.., |finding| finding.path == file.file.diff.path).collect(),
            summary: if first { summary.clone() } else { String::new() },
            problem: review.problem.clone(),
            usage: if first { review.usage } else { TokenUsage::default() },
            rounds: review.rounds,
        }
    };
    files.iter().enumerate().map(own).collect()
}

/// The review of a file that was reviewed with others first, in vain.
fn after_all(together: FileReview, mut alone: FileReview) -> FileReview {
    if alone.problem.is_some() {
        // What was whole in the first answer is not lost; what both say is said once in the end.
        alone.findings.extend(together.findings);
    }
    alone.usage += together.usage;
    alone
}
