//! The findings of one conversation while they are worked on, on one file or on several small ones: what is settled, what
//! was refuted, what was missed. Pure.

use serde::{Deserialize, Serialize};

use super::anchor::{self, Placed};
use super::change::ChangedFile;
use super::finding::{self, Evidence, Finding};
use crate::diff::{FileDiff, Side};
use crate::redact::redact;

/// Claims that are at least this alike are one.
pub const SAME_CLAIM: f64 = 0.85;

/// Most findings of one file that are worked on. A model that floods is cut here; ranking and the cap of comments come
/// later.
pub const MAX_CANDIDATES: usize = 50;

/// A file that a conversation is about.
#[derive(Clone, Copy)]
pub struct UnderReview<'a> {
    /// The file.
    pub file: &'a ChangedFile,
    /// Its text at the head commit, where it is at hand.
    pub head: Option<&'a str>,
}

impl<'a> UnderReview<'a> {
    /// Its change.
    pub fn diff(&self) -> &'a FileDiff {
        &self.file.file.diff
    }
}

/// The findings of one conversation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Draft {
    /// What is claimed.
    pub candidates: Vec<Candidate>,
    /// What a critic refuted: never claimed again in this review.
    pub refuted: Vec<Finding>,
    /// What a critic found missing: a draft that then claims it is confirmed by that.
    pub missed: Vec<Finding>,
    /// The model's word on what it was shown.
    pub summary: String,
}

/// A claim.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// The finding.
    pub finding: Finding,
    /// Whether the second look is over for it.
    pub settled: bool,
}

impl Draft {
    /// Claims that a critic has not decided about.
    pub fn open(&self) -> impl Iterator<Item = &Finding> {
        self.candidates.iter().filter(|c| !c.settled).map(|c| &c.finding)
    }

    /// Claims that are confirmed, or that nobody could decide about.
    pub fn settled(&self) -> impl Iterator<Item = &Finding> {
        self.candidates.iter().filter(|c| c.settled).map(|c| &c.finding)
    }

    /// Both answers to one question: the second with what only the first had.
    pub fn merge(first: Self, mut second: Self) -> Self {
        for candidate in first.candidates {
            let again = second
                .candidates
                .iter()
                .any(|c| same(&c.finding, &candidate.finding) || alike(&c.finding, &candidate.finding) >= SAME_CLAIM);
            if !again {
                second.candidates.push(candidate);
            }
        }
        second.refuted.extend(first.refuted);
        second.missed.extend(first.missed);
        if second.summary.is_empty() {
            second.summary = first.summary;
        }
        second
    }

    /// A new round's answer with what was settled before: confirmed claims stay, refuted ones do not come back, and one
    /// that a critic had missed is now said by two readers.
    pub fn carry(before: &Self, answer: Self) -> Self {
        let mut out = Self {
            candidates: before.candidates.iter().filter(|c| c.settled).cloned().collect(),
            refuted: before.refuted.clone(),
            missed: before.missed.clone(),
            summary: if answer.summary.is_empty() { before.summary.clone() } else { answer.summary },
        };
        for mut candidate in answer.candidates {
            let known = |list: &[Finding]| list.iter().any(|f| repeats(f, &candidate.finding));
            if known(&out.refuted) || out.settled().any(|f| repeats(f, &candidate.finding)) {
                continue;
            }
            if known(&out.missed) {
                candidate.settled = true;
                candidate
                    .finding
                    .evidence
                    .push(Evidence { source: "critic".to_owned(), text: "Found by two readers.".to_owned() });
            }
            out.candidates.push(candidate);
        }
        out
    }

    /// How alike two drafts are, 0 to 1: how much of both finds its like in the other.
    pub fn similarity(a: &Self, b: &Self) -> f64 {
        let total = a.candidates.len() + b.candidates.len();
        if total == 0 {
            return 1.0;
        }
        let best = |candidate: &Candidate, others: &Self| {
            let marks = others.candidates.iter().map(|other| alike(&candidate.finding, &other.finding));
            marks.fold(0.0, f64::max)
        };
        let found: f64 = a.candidates.iter().map(|c| best(c, b)).chain(b.candidates.iter().map(|c| best(c, a))).sum();
        // Far below where `f64` loses whole numbers.
        found / total as f64
    }
}

/// Makes a draft of findings as a model gave them, with their paths as it wrote them: without those on files it was not
/// asked about, without what was said before or stands in hunks that are not under review, and each claim once.
pub fn tidy(findings: Vec<Finding>, summary: String, files: &[UnderReview<'_>], model: &str) -> Draft {
    let mut draft = Draft { summary, ..Draft::default() };
    // A flood is cut twice: before anything is compared with everything, and after.
    for mut finding in findings.into_iter().take(MAX_CANDIDATES * 4) {
        let Some(file) = owner(&finding, files).map(|under| under.file) else { continue };
        let diff = &file.file.diff;
        finding.path.clone_from(&diff.path);
        if finding.source.is_empty() {
            model.clone_into(&mut finding.source);
        }
        unmask(&mut finding, diff);
        let of_file = draft.candidates.iter().filter(|c| c.finding.path == finding.path);
        let full = of_file.clone().count() >= MAX_CANDIDATES;
        let again = of_file.clone().any(|c| same_claim(&c.finding, &finding));
        let said = file.known.iter().any(|known| same_claim(known, &finding));
        if !said && !again && !full && !reviewed_before(&finding, file) {
            draft.candidates.push(Candidate { finding, settled: false });
        }
    }
    draft
}

/// The file that a finding is about: the one it names, or, where it names none, the only one there is, or the only one
/// in which its quote stands.
fn owner<'f, 'a>(finding: &Finding, files: &'f [UnderReview<'a>]) -> Option<&'f UnderReview<'a>> {
    if let [only] = files
        && finding.path.is_empty()
    {
        return Some(only);
    }
    if finding.path.is_empty() {
        let mut holding = files.iter().filter(|under| stands_in(finding, under.diff()));
        return holding.next().filter(|_| holding.next().is_none());
    }
    // A file may bear the name that another one had before.
    let exactly = files.iter().find(|under| under.diff().path == finding.path);
    let before = || files.iter().find(|under| is_of(&finding.path, under.diff()));
    // Below an absolute path may stand `b/a.rs` and `a.rs` alike: the longer one says more.
    let spelt = || {
        let named = files.iter().filter(|under| finding::names(&finding.path, &under.diff().path));
        named.max_by_key(|under| under.diff().path.len())
    };
    exactly.or_else(before).or_else(spelt)
}

/// Whether the quote of a finding stands in a change, be it once or several times.
fn stands_in(finding: &Finding, diff: &FileDiff) -> bool {
    let finding = Finding { path: diff.path.clone(), ..finding.clone() };
    matches!(place(&finding, diff), Ok(_) | Err(anchor::Unplaced::Ambiguous))
}

/// Whether two findings are about the same code and of one kind: the identity that also holds over pushes.
pub fn same(a: &Finding, b: &Finding) -> bool {
    !a.quote.trim().is_empty() && finding::fingerprint(a) == finding::fingerprint(b)
}

/// [`same`], or the same words about the same line, or about no particular one.
pub fn same_claim(a: &Finding, b: &Finding) -> bool {
    let one_place = a.line == b.line || a.quote.trim().is_empty() || b.quote.trim().is_empty() || a.quote == b.quote;
    same(a, b) || (one_place && finding::similarity(a, b) >= SAME_CLAIM)
}

/// [`same_claim`] about the same file: the same code in two files is two matters.
pub fn repeats(a: &Finding, b: &Finding) -> bool {
    a.path == b.path && same_claim(a, b)
}

/// How alike two claims about the same file are, 0 to 1.
fn alike(a: &Finding, b: &Finding) -> f64 {
    if a.path == b.path { finding::similarity(a, b) } else { 0.0 }
}

/// Where a finding stands on the diff, if it has a place.
pub fn place(finding: &Finding, diff: &FileDiff) -> Result<Placed, anchor::Unplaced> {
    let mut anchored = anchor::anchor(vec![finding.clone()], diff);
    match (anchored.comments.pop(), anchored.unanchored.pop()) {
        (Some(placed), _) => Ok(placed),
        (None, Some((_, why))) => Err(why),
        (None, None) => Err(anchor::Unplaced::NoDiff),
    }
}

/// Whether a path is this file, also as it was called before.
pub fn is_of(path: &str, diff: &FileDiff) -> bool {
    path == diff.path || diff.old_path.as_deref() == Some(path)
}

/// Whether a finding stands in a hunk that is not under review.
fn reviewed_before(finding: &Finding, file: &ChangedFile) -> bool {
    let diff = &file.file.diff;
    let Ok(placed) = place(finding, diff) else { return false };
    let hunk =
        diff.commentable().find(|c| c.side == placed.anchor.side && c.line == placed.anchor.line).map(|c| c.hunk);
    hunk.is_some_and(|hunk| !file.new_hunks.contains(&hunk))
}

/// Puts the code back where a model quoted it with its secrets masked, as it was shown to it.
fn unmask(finding: &mut Finding, diff: &FileDiff) {
    if !finding.quote.contains("[redacted:") {
        return;
    }
    let lines = finding.quote.split('\n').map(|line| {
        if !line.contains("[redacted:") {
            return line.to_owned();
        }
        let shown = diff.commentable().find(|c| c.side == Side::Right && redact(c.text).trim() == line.trim());
        shown.map_or_else(|| line.to_owned(), |c| c.text.to_owned())
    });
    finding.quote = lines.collect::<Vec<_>>().join("\n");
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::diff::FileStatus;
    use crate::diff::parse::parse_patch;
    use crate::github::PullFile;
    use crate::review::finding::parse_findings;

    const PATCH: &str = "@@ -1,2 +1,3 @@\n a\n+let key = load();\n b\n@@ -20,2 +21,3 @@\n c\n+let old = load();\n d";

    fn file(new_hunks: Vec<usize>, known: Vec<Finding>) -> ChangedFile {
        let hunks = parse_patch(PATCH).0;
        let diff = FileDiff {
            path: "src/a.rs".to_owned(),
            old_path: Some("src/old.rs".to_owned()),
            status: FileStatus::Renamed,
            hunks,
        };
        let file = PullFile { diff: Arc::new(diff), blob_sha: None, no_patch: None, self_made: false };
        ChangedFile { file, new_hunks, known }
    }

    fn finding(path: &str, quote: &str, title: &str) -> Finding {
        let answer = serde_json::json!({"findings": [{"path": path, "quote": quote, "title": title, "body": ""}]});
        parse_findings(&answer.to_string(), "").findings.remove(0)
    }

    fn tidy_one(findings: Vec<Finding>, file: &ChangedFile) -> Draft {
        tidy(findings, String::new(), &[UnderReview { file, head: None }], "m")
    }

    fn titles(draft: &Draft) -> Vec<&str> {
        draft.candidates.iter().map(|c| c.finding.title.as_str()).collect()
    }

    fn draft(findings: &[(&str, &str, bool)]) -> Draft {
        let candidate = |(quote, title, settled): &(&str, &str, bool)| Candidate {
            finding: finding("src/a.rs", quote, title),
            settled: *settled,
        };
        Draft { candidates: findings.iter().map(candidate).collect(), ..Draft::default() }
    }

    #[test]
    fn only_this_file_counts_however_it_is_spelt() {
        let spelt = ["src/a.rs", "./src/a.rs", "b/src/a.rs", "src/old.rs", "", "src/b.rs", "a.rs"];
        let findings = spelt.iter().enumerate().map(|(n, path)| finding(path, &format!("q{n}"), &format!("title {n}")));
        let draft = tidy_one(findings.collect(), &file(vec![0, 1], Vec::new()));
        assert_eq!(titles(&draft), ["title 0", "title 1", "title 2", "title 3", "title 4"]);
        assert!(draft.candidates.iter().all(|c| c.finding.path == "src/a.rs" && c.finding.source == "m"));
    }

    #[test]
    fn of_several_files_each_gets_what_is_its_own() {
        let (mut a, mut b) = (file(vec![0, 1], Vec::new()), file(vec![0, 1], Vec::new()));
        let known = finding("src/a.rs", "let key = load();", "It leaks");
        a.known = vec![known];
        let (deep, other) = ("b/src/a.rs", "@@ -1 +1,2 @@\n a\n+let only = here();");
        Arc::make_mut(&mut b.file.diff).path = deep.to_owned();
        Arc::make_mut(&mut b.file.diff).old_path = None;
        Arc::make_mut(&mut b.file.diff).hunks.extend(parse_patch(other).0);
        b.new_hunks.push(2);
        let findings = vec![
            finding("src/a.rs", "let key = load();", "It leaks"),
            finding("b/src/a.rs", "let key = load();", "It leaks"),
            finding("./src/a.rs", "b", "Two"),
            finding("/home/x/b/src/a.rs", "b", "Two"),
            finding("", "let only = here();", "Found by its code"),
            finding("", "let old = load();", "In both"),
            finding("src/c.rs", "b", "In neither"),
        ];
        let files = [UnderReview { file: &a, head: None }, UnderReview { file: &b, head: None }];
        let draft = tidy(findings, String::new(), &files, "m");
        let told: Vec<_> =
            draft.candidates.iter().map(|c| (c.finding.path.as_str(), c.finding.title.as_str())).collect();
        assert_eq!(told, [(deep, "It leaks"), ("src/a.rs", "Two"), (deep, "Two"), (deep, "Found by its code")]);
        let both = Draft::carry(&draft, draft.clone());
        assert_eq!(both.candidates.len(), 4, "the same claim about two files stays two");
        assert_eq!(Draft::merge(draft.clone(), draft).candidates.len(), 4);
    }

    #[test]
    fn what_was_said_or_reviewed_before_and_repetitions_are_left_out() {
        let known = finding("src/a.rs", "let key = load();", "It leaks");
        let findings = vec![
            known.clone(),
            finding("src/a.rs", "let old = load();", "Old trouble"),
            finding("src/a.rs", "b", "Two"),
            finding("src/a.rs", "b", "Two, in other words"),
        ];
        let tidied = tidy_one(findings.clone(), &file(vec![0], vec![known]));
        assert_eq!(titles(&tidied), ["Two"]);
        assert_eq!(tidy_one(findings, &file(vec![0, 1], Vec::new())).candidates.len(), 3);
    }

    #[test]
    fn a_flood_is_bounded() {
        let findings = (0..5_000).map(|n| finding("src/a.rs", &format!("q{n}"), &format!("number {n}")));
        let draft = tidy_one(findings.collect(), &file(vec![0], Vec::new()));
        assert_eq!(draft.candidates.len(), MAX_CANDIDATES);
    }

    #[test]
    fn merging_keeps_what_only_the_first_answer_had() {
        let first = draft(&[("a", "The key leaks here", false), ("b", "Blocks the loop", false)]);
        let second = draft(&[("a ", "The key leaks here", false), ("c", "Wrong unit of time", false)]);
        assert_eq!(
            titles(&Draft::merge(first, second)),
            ["The key leaks here", "Wrong unit of time", "Blocks the loop"]
        );
    }

    #[test]
    fn a_new_round_keeps_what_is_settled_and_does_not_bring_back_what_was_refuted() {
        let mut before = draft(&[("a", "Confirmed claim", true), ("x", "Open claim", false)]);
        before.refuted = vec![finding("src/a.rs", "r", "Refuted claim")];
        before.missed = vec![finding("src/a.rs", "m", "Missed claim")];
        let answer =
            draft(&[("a", "Confirmed claim", false), ("r", "Refuted claim", false), ("m", "Missed claim", false)]);
        let carried = Draft::carry(&before, answer);
        assert_eq!(titles(&carried), ["Confirmed claim", "Missed claim"]);
        assert!(carried.candidates.iter().all(|c| c.settled), "the critic and the reviewer both saw the missed one");
    }

    #[test]
    fn similarity_is_of_what_finds_its_like() {
        let one = draft(&[("a", "The key leaks", false), ("b", "Blocks the event loop", false)]);
        let half = draft(&[("a", "The key leaks", false), ("c", "Wrong unit of time", false)]);
        assert!((Draft::similarity(&one, &one) - 1.0).abs() < 1e-9);
        assert!((Draft::similarity(&one, &half) - 0.5).abs() < 0.1);
        assert!((Draft::similarity(&Draft::default(), &Draft::default()) - 1.0).abs() < 1e-9);
        assert!(Draft::similarity(&one, &Draft::default()) < 1e-9);
    }

    #[test]
    fn a_masked_quote_gets_its_code_back() {
        let patch = "@@ -1 +1,2 @@\n a\n+let mail = \"jane.doe@example.org\";";
        let mut file = file(vec![0], Vec::new());
        Arc::make_mut(&mut file.file.diff).hunks = parse_patch(patch).0;
        let shown = redact("let mail = \"jane.doe@example.org\";").into_owned();
        assert!(shown.contains("[redacted:"), "{shown}");
        let draft = tidy_one(vec![finding("src/a.rs", &shown, "Personal data")], &file);
        assert_eq!(draft.candidates[0].finding.quote, "let mail = \"jane.doe@example.org\";");
    }
}
