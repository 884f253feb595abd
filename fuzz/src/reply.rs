//! What a model answered, and the patch it was asked about.

use secondlook::chat::embedded::respond;
use secondlook::chat::{ChatMessage, ChatRequest, Conversation, ModelRole, TokenUsage};
use secondlook::diff::parse::parse_patch;
use secondlook::diff::{FileDiff, FileStatus};
use secondlook::github::PullFile;
use secondlook::review::anchor::Placed;
use secondlook::review::change::ChangedFile;
use secondlook::review::coverage::{Coverage, CoveredFile, FileCoverage};
use secondlook::review::critic::judge;
use secondlook::review::draft::{Candidate, Draft, MAX_CANDIDATES, UnderReview, place, tidy};
use secondlook::review::finding::{
    Finding, MAX_BODY, MAX_FINDINGS, MAX_PATH, MAX_QUOTE, MAX_QUOTE_LINES, MAX_REJECTED, MAX_REPLACEMENT, MAX_SUMMARY,
    MAX_TITLE, ParsedFindings, fingerprint, parse_findings,
};
use secondlook::review::gate::evaluate;
use secondlook::review::markdown::{code_block, code_span, sanitise, sanitise_line};
use secondlook::review::merge::merge;
use secondlook::review::policy::Policy;
use secondlook::review::publish::plan;
use secondlook::review::render::check::{Round, summary, title};
use secondlook::review::render::{MAX_BODY_BYTES, ReviewSummary, comment_body, marker, review_body, with_refused};
use secondlook::review::report::{Report, Reported};
use secondlook::review::score::score;
use secondlook::review::suggestion::suggestion;
use serde_json::json;

use super::effects;
use super::parts::texts;
use super::patch::commentable;

/// Reads the answer as findings and as verdicts, and writes down what came of it.
pub fn check(data: &[u8]) {
    let Some([answer, verdicts, patch]) = texts(data) else { return };
    let file = changed(&patch);
    let parsed = parse_findings(&answer, "a.rs");
    bounded(&parsed);
    read_again(&parsed);
    let draft =
        tidy(parsed.findings.clone(), parsed.summary.clone(), &[UnderReview { file: &file, head: None }], "model");
    assert!(draft.candidates.len() <= MAX_CANDIDATES.min(parsed.findings.len()));
    evaluate(&draft, &[UnderReview { file: &file, head: None }]);
    judged(&draft, &answer, &file);
    judged(&draft, &verdicts, &file);
    written(&parsed.findings, &file, &parsed.summary);
    markdown(&answer);
    embedded(&answer, &verdicts);
}

fn changed(patch: &str) -> ChangedFile {
    let diff =
        FileDiff { path: "a.rs".into(), old_path: None, status: FileStatus::Modified, hunks: parse_patch(patch).0 };
    let new_hunks = (0..diff.hunks.len()).collect();
    let file = PullFile { diff: diff.into(), blob_sha: None, no_patch: None, self_made: false };
    ChangedFile { file, new_hunks, known: Vec::new() }
}

fn bounded(parsed: &ParsedFindings) {
    let chars = |text: &str| text.chars().count();
    assert!(parsed.findings.len() <= MAX_FINDINGS && parsed.rejected.len() <= MAX_REJECTED + 1);
    assert!(chars(&parsed.summary) <= MAX_SUMMARY + 1);
    assert!(parsed.rejected.is_empty() || !parsed.complete, "an answer with rejected items is not complete");
    for finding in &parsed.findings {
        assert!(!finding.title.trim().is_empty() && !finding.title.contains('\n'), "{:?}", finding.title);
        assert!(chars(&finding.title) <= MAX_TITLE + 1 && chars(&finding.body) <= MAX_BODY + 1);
        assert!(chars(&finding.path) <= MAX_PATH && !finding.path.is_empty());
        assert!(chars(&finding.quote) <= MAX_QUOTE && finding.quote.split('\n').count() <= MAX_QUOTE_LINES);
        assert!(finding.replacement.as_deref().is_none_or(|text| chars(text) <= MAX_REPLACEMENT));
        assert!((0.0..=1.0).contains(&finding.confidence), "{}", finding.confidence);
    }
}

/// What was read, written as the JSON that was asked for, is read as the same.
fn read_again(parsed: &ParsedFindings) {
    let text = json!({ "findings": parsed.findings, "summary": parsed.summary }).to_string();
    let again = parse_findings(&text, "a.rs");
    assert!(again.complete, "{:?}", again.rejected);
    let bare = |findings: &[Finding]| -> Vec<Finding> {
        findings.iter().map(|finding| Finding { evidence: Vec::new(), ..finding.clone() }).collect()
    };
    assert_eq!(bare(&again.findings), bare(&parsed.findings));
}

/// Every claim is kept or refuted, none gets lost and none is doubled.
fn judged(draft: &Draft, text: &str, file: &ChangedFile) {
    let judged = judge(draft.clone(), text, 1, &[UnderReview { file, head: None }], "critic").answer;
    assert_eq!(judged.candidates.len() + judged.refuted.len(), draft.candidates.len(), "no claim is lost");
    assert!(judged.missed.len() <= 5);
    for Candidate { finding, .. } in &judged.candidates {
        assert!((0.0..=1.0).contains(&finding.confidence), "{}", finding.confidence);
        assert!(finding.title.chars().count() <= MAX_TITLE + 1 && finding.body.chars().count() <= MAX_BODY + 1);
        if let Ok(placed) = place(finding, &file.file.diff) {
            commentable(&file.file.diff, &placed);
        }
    }
}

fn written(findings: &[Finding], file: &ChangedFile, said: &str) {
    let reported = |finding: &Finding| {
        let placed = place(finding, &file.file.diff);
        let head = "let a = 1;\n".repeat(50);
        let suggestion = placed.as_ref().ok().and_then(|placed: &Placed| suggestion(placed, &head, |_, _| true));
        let finding = placed.as_ref().map_or_else(|_| finding.clone(), |placed| placed.finding.clone());
        let fingerprint = fingerprint(&finding);
        Reported { finding, fingerprint, place: placed.map(|placed| placed.anchor), suggestion }
    };
    let reported = merge(findings.iter().map(reported).collect());
    assert!(reported.len() <= findings.len());
    for one in &reported {
        let body = comment_body(one);
        assert!(body.len() <= MAX_BODY_BYTES, "{} bytes", body.len());
        assert_eq!(marker::read_finding(&body), Some(one.fingerprint.as_str()), "our own marker is read back");
        assert_eq!(effects::markers(&body), 1, "{body}");
        let plain = comment_body(&Reported { suggestion: None, ..one.clone() });
        assert_eq!(effects::beyond_ours(&plain), Vec::<String>::new(), "{plain}");
        if let Some(comment) = plan::comment(one) {
            assert!(comment.start_line.is_none_or(|start| start < comment.line));
        }
    }
    let not_reviewed = CoveredFile {
        path: said.lines().next().unwrap_or_default().to_owned(),
        coverage: FileCoverage::NotReviewed { reason: said.to_owned() },
    };
    let coverage = Coverage { files: vec![not_reviewed], unlisted: 0 };
    let body = review_body(&ReviewSummary { findings: &reported, capped: 1, coverage: &coverage });
    let every: Vec<&Reported> = reported.iter().collect();
    let report = Report {
        score: score(findings),
        findings: reported.clone(),
        capped: Vec::new(),
        coverage: coverage.clone(),
        usage: TokenUsage::default(),
        summary: said.to_owned(),
        trace_id: String::new(),
    };
    let complaints = [];
    let policy = Policy::default();
    let round = Round {
        report: &report,
        standing: &reported,
        policy: &policy,
        complaints: &complaints,
        edits_policy: false,
        posts: true,
    };
    assert!(title(&round).chars().count() <= 255 && !title(&round).contains('\n'));
    for text in [with_refused(&body, &every), body, summary(&round)] {
        assert!(text.len() <= MAX_BODY_BYTES, "{} bytes", text.len());
        assert_eq!(effects::of(&text), Vec::<String>::new(), "{text}");
        assert_eq!(effects::markers(&text), 0, "{text}");
    }
    for review in plan::reviews(&report, &policy, "base", "head") {
        let sent = review.to_review("plan");
        assert!(sent.body.len() <= MAX_BODY_BYTES);
        assert_eq!(marker::read_plan(&sent.body), Some("plan"));
        assert_eq!(effects::markers(&sent.body), 1);
    }
}

/// A model's or a stranger's Markdown made harmless.
pub fn markdown(text: &str) {
    let safe = sanitise(text);
    assert_eq!(effects::of(&safe), Vec::<String>::new(), "{text:?} became {safe:?}");
    assert_eq!(effects::markers(&safe), 0, "{safe:?}");
    assert_eq!(sanitise(&safe), safe, "harmless text stays as it is");
    let line = sanitise_line(text, 200);
    assert!(!line.contains('\n'));
    assert_eq!(effects::of(&format!("**{line}** x")), Vec::<String>::new(), "{text:?} became {line:?}");
    let first = text.lines().next().unwrap_or_default();
    for code in [code_block(text, ""), code_span(first)] {
        assert_eq!(effects::of(&format!("x {code}").replace("x ```", "```")), Vec::<String>::new(), "{code:?}");
        assert_eq!(effects::markers(&code), 0, "{code:?}");
    }
}

/// The embedded model is total, and always keeps to the form.
fn embedded(observed: &str, asked: &str) {
    for role in [ModelRole::Reviewer, ModelRole::Critic, ModelRole::Answer, ModelRole::Summary, ModelRole::Planner] {
        let tool = |name: &str| ChatMessage::Tool { call_id: "1".into(), name: name.into(), text: observed.into() };
        let request = ChatRequest {
            conversation: Conversation { role, subject: "a.rs".into() },
            messages: vec![
                ChatMessage::system(observed),
                ChatMessage::user(asked),
                tool("check_security"),
                tool("check_style"),
            ],
            tools: Vec::new(),
            response_schema: None,
            max_output_tokens: None,
        };
        let response = respond(&request);
        assert!(response.tool_calls.is_empty(), "it has no tools here");
        if role == ModelRole::Reviewer {
            let parsed = parse_findings(&response.text, "a.rs");
            bounded(&parsed);
        }
    }
}
