//! Learns from GitHub what we wrote there and do not know of.
//!
//! The database can be older than GitHub: a backup was restored, a standby took over without the last commits, or all of
//! it is new. What stands on GitHub then says itself, by our markers, what it is: its findings go into the ledger and are
//! not said again, and a round that stands there in full counts as reviewed.

use std::collections::{BTreeMap, BTreeSet};

use super::store::{OpenRound, PostState};
use super::{PublishError, Publisher};
use crate::diff::Side;
use crate::github::{Review, ReviewComment, User};
use crate::review::anchor::{Anchor, Unplaced};
use crate::review::finding::{Category, DEFAULT_CONFIDENCE, Finding, Severity, fingerprint};
use crate::review::render::marker::{self, ReviewMarker};
use crate::review::render::{category_word, severity_word};
use crate::review::report::Reported;
use crate::review::store::{PullKey, PullStore};

/// Most lines of a comment's code that are tried to find the quote it was made for.
const MAX_QUOTE_LINES: usize = 30;

/// A review of ours that the database does not know.
#[derive(Debug, Clone, PartialEq)]
pub struct Stray {
    /// Its id on GitHub.
    pub id: u64,
    /// The plan it carried out.
    pub plan: String,
    /// The head it was made for.
    pub head: String,
    /// What it says on lines, as far as its comments tell.
    pub on_lines: Vec<Reported>,
    /// What it says in its body; only the identity of that is known.
    pub in_body: Vec<Reported>,
}

impl Publisher<'_> {
    /// Brings the books in step with what stands on GitHub, also those of an unsettled round. True when there was
    /// something that the database did not know.
    ///
    /// # Errors
    /// See [`PublishError`].
    pub async fn catch_up(
        &self,
        store: &PullStore,
        pull: PullKey,
        round: Option<&mut OpenRound>,
    ) -> Result<bool, PublishError> {
        let reviews = self.client.reviews(self.number).await?;
        let mut ours: Vec<(&Review, ReviewMarker<'_>)> = reviews
            .iter()
            .filter(|review| !review.pending)
            .filter_map(|review| Some((review, marker::read_review(&review.body)?)))
            .collect();
        if ours.is_empty() {
            return Ok(false);
        }
        let author = self.author().await?;
        ours.retain(|(review, _)| is_by(review.author.as_ref(), author));
        for open in round.into_iter().flat_map(|round| &mut round.reviews) {
            let standing = ours.iter().find(|(_, marker)| marker.plan == open.id);
            if let Some((review, _)) = standing.filter(|_| open.state != PostState::Posted) {
                store.review_posted(pull, &open.id, &open.review, review.id).await?;
                open.state = PostState::Posted;
            }
        }
        let known = store.planned_reviews(pull).await?;
        let unknown: Vec<_> = ours.into_iter().filter(|(_, marker)| !known.contains(marker.plan)).collect();
        if unknown.is_empty() {
            return Ok(false);
        }
        let comments = self.client.review_comments(self.number).await?;
        let comments: Vec<_> = comments.into_iter().filter(|c| is_by(c.author.as_ref(), author)).collect();
        let strays: Vec<Stray> = unknown.iter().map(|(review, marker)| stray(review.id, marker, &comments)).collect();
        tracing::warn!(
            pull.number = self.number,
            review.count = strays.len(),
            "Reviews of ours stand on GitHub that the database does not know; what they say is not said again"
        );
        let markers: Vec<_> = unknown.iter().map(|(_, marker)| marker).collect();
        store.adopt(pull, &strays, complete(&markers)).await?;
        Ok(true)
    }
}

fn is_by(user: Option<&User>, id: u64) -> bool {
    user.is_some_and(|user| user.id == id)
}

/// What an unknown review says.
fn stray(id: u64, marker: &ReviewMarker<'_>, comments: &[ReviewComment]) -> Stray {
    let on_lines = comments.iter().filter(|comment| comment.review_id == Some(id)).filter_map(reported).collect();
    let in_body = marker.said.iter().map(|fingerprint| Reported {
        finding: finding("", String::new(), "A finding in the summary of a review", ""),
        fingerprint: (*fingerprint).to_owned(),
        place: Err(Unplaced::NoQuote),
        suggestion: None,
    });
    Stray { id, plan: marker.plan.to_owned(), head: marker.head.to_owned(), on_lines, in_body: in_body.collect() }
}

/// The base and head of the last round that stands in full.
fn complete<'m>(markers: &[&ReviewMarker<'m>]) -> Option<(&'m str, &'m str)> {
    let mut rounds: BTreeMap<(&str, &str, usize), BTreeSet<usize>> = BTreeMap::new();
    let mut last = None;
    for marker in markers {
        let parts = rounds.entry((marker.base, marker.head, marker.of)).or_default();
        parts.insert(marker.part);
        if (1..=marker.of).all(|part| parts.contains(&part)) {
            last = Some((marker.base, marker.head));
        }
    }
    last
}

/// The finding that a line comment of ours says.
fn reported(comment: &ReviewComment) -> Option<Reported> {
    let identity = marker::read_finding(&comment.body)?;
    let side = comment.side.unwrap_or(Side::Right);
    let (title, body) = comment.body.split_once('\n').unwrap_or((&comment.body, ""));
    let body = body.split("\n<details>").next().unwrap_or_default().trim();
    let code = code(&comment.diff_hunk, side);
    let of_lines = |count: usize| {
        let quote = code.get(code.len().checked_sub(count)?..)?.join("\n");
        Some(finding(&comment.path, quote, title, body))
    };
    // Of several lines, the quote is the one that has the identity; the same code at another place has a number behind it.
    let plain = identity.split('-').next().unwrap_or_default();
    let quoted = (1..=MAX_QUOTE_LINES).filter_map(of_lines).find(|finding| fingerprint(finding) == plain);
    let finding = quoted.or_else(|| of_lines(1)).unwrap_or_else(|| finding(&comment.path, String::new(), title, body));
    let place = match comment.line.or(comment.original_line) {
        Some(line) => Ok(Anchor { side, start_line: line, line }),
        None => Err(Unplaced::NoQuote),
    };
    Some(Reported { finding, fingerprint: identity.to_owned(), place, suggestion: None })
}

/// A finding out of the words of a comment, whose headline is `**title** · severity · category`.
fn finding(path: &str, quote: String, headline: &str, body: &str) -> Finding {
    let mut words = headline.rsplit(" · ");
    let category = words.next().unwrap_or_default().trim();
    let severity = words.next().unwrap_or_default().trim();
    let title = headline.trim().trim_start_matches("**").split("** · ").next().unwrap_or_default();
    let severities = [Severity::Nit, Severity::Minor, Severity::Major, Severity::Critical];
    let categories = [
        Category::Correctness,
        Category::Security,
        Category::Performance,
        Category::Readability,
        Category::BestPractice,
    ];
    Finding {
        path: path.to_owned(),
        quote,
        line: None,
        end_line: None,
        side: None,
        severity: severities.into_iter().find(|s| severity_word(*s) == severity).unwrap_or(Severity::Minor),
        category: categories.into_iter().find(|c| category_word(*c) == category).unwrap_or(Category::Correctness),
        title: title.to_owned(),
        body: body.to_owned(),
        replacement: None,
        confidence: DEFAULT_CONFIDENCE,
        source: String::new(),
        evidence: Vec::new(),
    }
}

/// The lines of one side in a comment's hunk, which ends with the line the comment stands on.
fn code(hunk: &str, side: Side) -> Vec<&str> {
    let (ours, other) = match side {
        Side::Right => ('+', '-'),
        Side::Left => ('-', '+'),
    };
    let of_side = |line: &'_ &str| !line.starts_with([other, '\\', '@']);
    let lines = hunk.split('\n').filter(of_side);
    lines.map(|line| line.strip_prefix([ours, ' ']).unwrap_or(line)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::review::render::comment_body;

    fn said(quote: &str, line: u32) -> Reported {
        let text = "**Panics when the key is missing** · major · security";
        let finding = finding("src/a.rs", quote.to_owned(), text, "Return the option.");
        let place = Ok(Anchor { side: Side::Right, start_line: line, line });
        Reported { fingerprint: fingerprint(&finding), finding, place, suggestion: None }
    }

    fn comment(reported: &Reported, hunk: &str) -> ReviewComment {
        ReviewComment {
            id: 1,
            in_reply_to: None,
            review_id: Some(7),
            author: None,
            body: comment_body(reported),
            path: "src/a.rs".into(),
            line: Some(4),
            original_line: Some(4),
            side: Some(Side::Right),
            diff_hunk: hunk.into(),
            created_at: String::new(),
            updated_at: String::new(),
        }
    }

    #[test]
    fn a_comment_tells_its_finding() {
        let hunk = "@@ -1,9 +1,9 @@ fn f()\n a\n-b\n+let x = map.get(key);\n+let y = x.unwrap();";
        for quote in ["let y = x.unwrap();", "let x = map.get(key);\nlet y = x.unwrap();"] {
            let told = reported(&comment(&said(quote, 4), hunk)).unwrap();
            assert_eq!((told.finding.quote.as_str(), told.fingerprint.clone()), (quote, said(quote, 4).fingerprint));
            assert_eq!(told.finding.title, "Panics when the key is missing");
            assert_eq!((told.finding.severity, told.finding.category), (Severity::Major, Category::Security));
            assert_eq!(told.finding.body, "Return the option.");
        }
        let fragment = reported(&comment(&said("x.unwrap()", 4), hunk)).unwrap();
        assert_eq!(fragment.finding.quote, "let y = x.unwrap();", "the whole line holds it");
        assert_eq!(fragment.fingerprint, said("x.unwrap()", 4).fingerprint);
        assert_eq!(reported(&ReviewComment { body: "Mine.".into(), ..comment(&said("x", 4), hunk) }), None);
    }

    #[test]
    fn a_round_is_complete_with_all_its_parts() {
        let part = |head: &'static str, part, of| ReviewMarker { head, base: "b", part, of, plan: "p", said: vec![] };
        let (one, two, other) = (part("h", 1, 2), part("h", 2, 2), part("g", 1, 1));
        assert_eq!(complete(&[&one]), None);
        assert_eq!(complete(&[&other, &one, &two]), Some(("b", "h")));
        assert_eq!(complete(&[&one, &two, &other]), Some(("b", "g")));
    }

    #[test]
    fn a_body_tells_what_it_says_by_identity_alone() {
        let marker = marker::review("h", "b", 1, 1, "p", &["aa", "bb-2"]);
        let read = marker::read_review(&marker).unwrap();
        let stray = stray(7, &read, &[]);
        assert_eq!(stray.in_body.iter().map(|r| r.fingerprint.as_str()).collect::<Vec<_>>(), ["aa", "bb-2"]);
        assert!(stray.on_lines.is_empty());
    }
}
