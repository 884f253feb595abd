//! What a round will write on GitHub, decided before anything is written. Pure.

use serde::{Deserialize, Serialize};

use crate::github::{CheckRun, NewComment, NewReview, ReviewEvent};
use crate::review::policy::Policy;
use crate::review::render::{self, ReviewSummary, marker};
use crate::review::report::{Report, Reported};
use crate::review::store::ReviewedHunks;

/// Line comments in one review. GitHub documents no limit; from about 70 on it has been seen to fail half-way.
pub const BATCH: usize = 30;

/// A line comment and the finding it says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedComment {
    /// The finding.
    pub reported: Reported,
    /// The comment.
    pub comment: NewComment,
}

/// One review of a round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedReview {
    /// The base it was made for.
    pub base: String,
    /// The head it was made for, and its comments refer to.
    pub head: String,
    /// Which part of the round, from 1.
    pub part: usize,
    /// How many parts the round has.
    pub of: usize,
    /// Its effect on the pull request.
    pub event: ReviewEvent,
    /// What it says besides its comments, without the marker.
    pub body: String,
    /// Its line comments.
    pub comments: Vec<PlannedComment>,
    /// Fingerprints of findings that the body says.
    pub summarised: Vec<String>,
    /// Findings whose comments GitHub refused; they are said in the body too.
    pub refused: Vec<Reported>,
}

impl PlannedReview {
    /// As GitHub is sent it, with the marker of the plan.
    pub fn to_review(&self, plan: &str) -> NewReview {
        let refused: Vec<&Reported> = self.refused.iter().collect();
        let said: Vec<&str> = self.in_body().collect();
        let marker = marker::review(&self.head, &self.base, self.part, self.of, plan, &said);
        NewReview {
            commit_id: self.head.clone(),
            body: format!("{}\n\n{marker}", render::with_refused(&self.body, &refused)),
            event: self.event,
            comments: self.comments.iter().map(|c| c.comment.clone()).collect(),
        }
    }

    /// Takes the comments that `bad` picks out of the lines and into the body.
    pub fn refuse(&mut self, mut bad: impl FnMut(usize, &PlannedComment) -> bool) {
        let comments = std::mem::take(&mut self.comments);
        for (index, comment) in comments.into_iter().enumerate() {
            if bad(index, &comment) { self.refused.push(comment.reported) } else { self.comments.push(comment) }
        }
    }

    /// Fingerprints of all findings it says.
    pub fn fingerprints(&self) -> impl Iterator<Item = &str> {
        self.comments.iter().map(|c| c.reported.fingerprint.as_str()).chain(self.in_body())
    }

    /// Fingerprints of those that its body says.
    pub fn in_body(&self) -> impl Iterator<Item = &str> {
        let refused = self.refused.iter().map(|r| r.fingerprint.as_str());
        self.summarised.iter().map(String::as_str).chain(refused)
    }
}

/// Everything a round writes, and what is remembered once it is written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoundPlan {
    /// The request that it answers: a job and its time.
    pub job: String,
    /// The base branch it was made for.
    pub base_ref: String,
    /// The base it was made for.
    pub base: String,
    /// The head it was made for.
    pub head: String,
    /// The check run to complete and how; `None` when we have none.
    pub check: Option<(u64, CheckRun)>,
    /// Hunks that count as reviewed afterwards.
    pub hunks: Vec<ReviewedHunks>,
}

/// The line comment of a finding that has a place. GitHub refuses a start that equals the end.
pub fn comment(reported: &Reported) -> Option<NewComment> {
    let anchor = reported.place.as_ref().ok()?;
    Some(NewComment {
        path: reported.finding.path.clone(),
        line: anchor.line,
        side: anchor.side,
        start_line: (anchor.start_line < anchor.line).then_some(anchor.start_line),
        body: render::comment_body(reported),
    })
}

/// The reviews of a round: none when there is nothing to say, one for up to [`BATCH`] comments, else as many as it
/// takes, the summary with the first.
pub fn reviews(report: &Report, policy: &Policy, base: &str, head: &str) -> Vec<PlannedReview> {
    if report.findings.is_empty() {
        return Vec::new();
    }
    let comments: Vec<PlannedComment> = report
        .findings
        .iter()
        .filter_map(|reported| Some(PlannedComment { comment: comment(reported)?, reported: reported.clone() }))
        .collect();
    let unplaced = report.findings.iter().filter(|f| f.place.is_err());
    let summarised: Vec<String> = unplaced.map(|f| f.fingerprint.clone()).collect();
    let blocks = |limit| report.findings.iter().chain(&report.capped).any(|f| f.finding.severity >= limit);
    let event = match policy.review.request_changes {
        Some(limit) if blocks(limit) => ReviewEvent::RequestChanges,
        _ => ReviewEvent::Comment,
    };
    let of = comments.len().div_ceil(BATCH).max(1);
    (1..=of)
        .map(|part| PlannedReview {
            base: base.to_owned(),
            head: head.to_owned(),
            part,
            of,
            // One review that blocks is enough.
            event: if part == 1 { event } else { ReviewEvent::Comment },
            body: if part == 1 {
                let capped = report.capped.len();
                render::review_body(&ReviewSummary { findings: &report.findings, capped, coverage: &report.coverage })
            } else {
                render::later_review_body(part, of)
            },
            comments: comments.iter().skip((part - 1) * BATCH).take(BATCH).cloned().collect(),
            summarised: if part == 1 { summarised.clone() } else { Vec::new() },
            refused: Vec::new(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::TokenUsage;
    use crate::diff::Side;
    use crate::review::anchor::{Anchor, Unplaced};
    use crate::review::coverage::Coverage;
    use crate::review::finding::{Category, Finding, Severity};
    use crate::review::score::score;

    fn reported(n: u32, place: Result<Anchor, Unplaced>) -> Reported {
        let finding = Finding {
            path: "a.rs".into(),
            quote: "x".into(),
            line: None,
            end_line: None,
            side: None,
            severity: Severity::Major,
            category: Category::Correctness,
            title: format!("T{n}"),
            body: "B".into(),
            replacement: None,
            confidence: 1.0,
            source: String::new(),
            evidence: vec![],
        };
        Reported { finding, fingerprint: format!("f{n}"), place, suggestion: None }
    }

    fn on_lines(count: u32) -> Vec<Reported> {
        (1..=count).map(|n| reported(n, Ok(Anchor { side: Side::Right, start_line: n, line: n }))).collect()
    }

    fn report(findings: Vec<Reported>) -> Report {
        Report {
            score: score([]),
            findings,
            capped: vec![],
            coverage: Coverage::default(),
            usage: TokenUsage::default(),
            summary: String::new(),
            trace_id: String::new(),
        }
    }

    #[test]
    fn nothing_to_say_is_no_review() {
        assert_eq!(reviews(&report(vec![]), &Policy::default(), "b", "h"), []);
    }

    #[test]
    fn batches_hold_thirty_and_the_first_has_the_summary() {
        let mut findings = on_lines(61);
        findings.push(reported(99, Err(Unplaced::NoQuote)));
        let mut policy = Policy::default();
        policy.review.request_changes = Some(Severity::Major);
        let reviews = reviews(&report(findings), &policy, "b", "h");
        let sizes: Vec<usize> = reviews.iter().map(|r| r.comments.len()).collect();
        assert_eq!(sizes, [30, 30, 1]);
        assert_eq!(reviews[0].summarised, ["f99"]);
        assert!(reviews[1].summarised.is_empty());
        assert_eq!(reviews[0].event, ReviewEvent::RequestChanges);
        assert_eq!(reviews[2].event, ReviewEvent::Comment);
        assert_eq!(reviews[2].body, "Part 3 of 3 of this review.");
        let all: usize = reviews.iter().map(|r| r.fingerprints().count()).sum();
        assert_eq!(all, 62);
    }

    #[test]
    fn a_review_without_any_line_is_still_said() {
        let reviews = reviews(&report(vec![reported(1, Err(Unplaced::NoDiff))]), &Policy::default(), "b", "h");
        assert_eq!(reviews.len(), 1);
        let sent = reviews[0].to_review("p1");
        assert!(sent.comments.is_empty());
        assert!(
            sent.body.ends_with("<!-- secondlook:review head=h base=b part=1/1 plan=p1 said=f1 -->"),
            "{}",
            sent.body
        );
    }

    #[test]
    fn a_range_has_a_start_and_a_line_has_none() {
        let range = reported(1, Ok(Anchor { side: Side::Left, start_line: 2, line: 4 }));
        let sent = comment(&range).unwrap();
        assert_eq!((sent.start_line, sent.line, sent.side), (Some(2), 4, Side::Left));
        assert_eq!(comment(&on_lines(1)[0]).unwrap().start_line, None);
    }

    #[test]
    fn what_is_refused_moves_into_the_body() {
        let mut review = reviews(&report(on_lines(3)), &Policy::default(), "b", "h").remove(0);
        review.refuse(|index, _| index == 1);
        assert_eq!(review.comments.len(), 2);
        let sent = review.to_review("p");
        assert!(sent.body.contains("**T2**"), "{}", sent.body);
        assert_eq!(review.fingerprints().collect::<Vec<_>>(), ["f1", "f3", "f2"]);
    }
}
