//! Brings the findings of all files together: what says the same is said once, the best comes first, and a cap holds.
//! Pure.

use std::cmp::Ordering;
use std::collections::HashMap;

use super::anchor::Anchor;
use super::finding::{Category, Evidence, Finding, similarity};
use super::report::Reported;

/// Claims about one place that are at least this alike are one claim.
const SAME_CLAIM: f64 = 0.5;
/// Claims about the same code in different files must be nearly the same text to be one.
const SAME_CLAIM_ELSEWHERE: f64 = 0.85;
/// Shorter code, without white space, says too little to be "the same code" in two files.
const TELLING_QUOTE: usize = 12;

/// Whether an earlier finding already said this: the same identity, or a similar claim about overlapping code of the
/// same file.
pub fn already_said(finding: &Finding, known: &[Finding]) -> bool {
    let identity = super::finding::fingerprint(finding);
    known.iter().any(|earlier| {
        super::finding::fingerprint(earlier) == identity
            || (earlier.path == finding.path
                && quotes_overlap(&earlier.quote, &finding.quote)
                && similarity(earlier, finding) >= SAME_CLAIM)
    })
}

/// Merges findings that say the same. What the kept one lacks (a replacement, evidence, the other places) it takes over.
/// Different claims about the same code of the same kind share an identity, so they become one comment with both; the
/// same code at several places gets a numbered identity for each, so that no two findings ever have the same one.
pub fn merge(mut findings: Vec<Reported>) -> Vec<Reported> {
    findings.sort_by(best_first);
    let mut kept: Vec<Reported> = Vec::with_capacity(findings.len());
    // Only findings of the same file or about the same code can be one, so only those are compared.
    let mut near: HashMap<String, Vec<usize>> = HashMap::new();
    for finding in findings {
        let keys = [format!("path {}", finding.finding.path), format!("code {}", squeeze(&finding.finding.quote))];
        let candidates = keys.iter().filter_map(|key| near.get(key)).flatten();
        let found = candidates.filter_map(|at| Some((*at, relation(kept.get(*at)?, &finding)?))).min_by_key(|f| f.0);
        match found.and_then(|(at, relation)| Some((kept.get_mut(at)?, relation))) {
            Some((other, relation)) => absorb(other, finding, relation),
            None => {
                for key in keys {
                    near.entry(key).or_default().push(kept.len());
                }
                kept.push(finding);
            }
        }
    }
    number_identities(&mut kept);
    kept
}

/// The best first: severity, then confidence, then how much the category weighs; then by place, so that the order is
/// always the same.
pub fn rank(findings: &mut [Reported]) {
    findings.sort_by(best_first);
}

#[derive(Clone, Copy)]
enum Relation {
    /// The same claim about the same place.
    Same,
    /// Another claim, but the same identity and place.
    Beside,
    /// The same claim about the same code of another file.
    Elsewhere,
}

fn relation(a: &Reported, b: &Reported) -> Option<Relation> {
    let quotes_equal = squeeze(&a.finding.quote) == squeeze(&b.finding.quote);
    if a.finding.path != b.finding.path {
        let telling = squeeze(&a.finding.quote).len() >= TELLING_QUOTE;
        let same = quotes_equal && telling && similarity(&a.finding, &b.finding) >= SAME_CLAIM_ELSEWHERE;
        return same.then_some(Relation::Elsewhere);
    }
    let same_place = match (&a.place, &b.place) {
        (Ok(a), Ok(b)) => ranges_overlap(a, b),
        _ => quotes_overlap(&a.finding.quote, &b.finding.quote),
    };
    if !same_place {
        return None;
    }
    if similarity(&a.finding, &b.finding) >= SAME_CLAIM {
        return Some(Relation::Same);
    }
    (a.fingerprint == b.fingerprint).then_some(Relation::Beside)
}

fn absorb(kept: &mut Reported, other: Reported, relation: Relation) {
    match relation {
        Relation::Same => {
            if kept.finding.replacement.is_none() && squeeze(&kept.finding.quote) == squeeze(&other.finding.quote) {
                kept.finding.replacement = other.finding.replacement;
            }
            for evidence in other.finding.evidence {
                if !kept.finding.evidence.contains(&evidence) {
                    kept.finding.evidence.push(evidence);
                }
            }
        }
        Relation::Beside => {
            let also = format!("\n\n{}\n\n{}", other.finding.title.trim(), other.finding.body.trim());
            kept.finding.body = format!("{}{also}", kept.finding.body.trim_end());
        }
        Relation::Elsewhere => {
            let text = format!("The same code stands in {}.", other.finding.path);
            kept.finding.evidence.push(Evidence { source: "merge".into(), text });
        }
    }
}

fn number_identities(findings: &mut [Reported]) {
    let mut seen: HashMap<String, usize> = HashMap::new();
    for finding in findings {
        let count = seen.entry(finding.fingerprint.clone()).or_default();
        *count += 1;
        if *count > 1 {
            finding.fingerprint = format!("{}-{count}", finding.fingerprint);
        }
    }
}

fn best_first(a: &Reported, b: &Reported) -> Ordering {
    let line = |r: &Reported| r.place.as_ref().map_or(u32::MAX, |anchor| anchor.line);
    let (x, y) = (&a.finding, &b.finding);
    y.severity
        .cmp(&x.severity)
        .then(y.confidence.total_cmp(&x.confidence))
        .then(weight(y.category).cmp(&weight(x.category)))
        .then_with(|| x.path.cmp(&y.path))
        .then_with(|| line(a).cmp(&line(b)))
        .then_with(|| x.title.cmp(&y.title))
}

fn weight(category: Category) -> u8 {
    match category {
        Category::Security => 5,
        Category::Correctness => 4,
        Category::Performance => 3,
        Category::BestPractice => 2,
        Category::Readability => 1,
    }
}

fn ranges_overlap(a: &Anchor, b: &Anchor) -> bool {
    a.side == b.side && a.start_line <= b.line && b.start_line <= a.line
}

/// Whether two quotes share code. Findings without any quote are about the file as a whole, and so about the same.
fn quotes_overlap(a: &str, b: &str) -> bool {
    let (a, b) = (squeeze(a), squeeze(b));
    match (a.is_empty(), b.is_empty()) {
        (true, true) => true,
        (false, false) => a.contains(&b) || b.contains(&a),
        _ => false,
    }
}

fn squeeze(code: &str) -> String {
    code.chars().filter(|c| !c.is_whitespace()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diff::Side;
    use crate::review::anchor::Unplaced;
    use crate::review::finding::{Severity, fingerprint};

    const CLAIM: (&str, &str) = ("Panics on a missing key", "The map may lack the key, and unwrap then panics.");

    fn finding(path: &str, quote: &str, (title, body): (&str, &str), severity: Severity) -> Finding {
        Finding {
            path: path.into(),
            quote: quote.into(),
            line: None,
            end_line: None,
            side: None,
            severity,
            category: Category::Correctness,
            title: title.into(),
            body: body.into(),
            replacement: None,
            confidence: 0.8,
            source: "model".into(),
            evidence: vec![],
        }
    }

    fn placed(finding: Finding, line: u32) -> Reported {
        let place = Ok(Anchor { side: Side::Right, start_line: line, line });
        Reported { fingerprint: fingerprint(&finding), finding, place, suggestion: None }
    }

    #[test]
    fn the_same_claim_about_one_place_is_said_once_with_what_both_knew() {
        let mut weak = finding("a.rs", "map.get(k).unwrap()", CLAIM, Severity::Major);
        weak.replacement = Some("map.get(k)?".into());
        weak.evidence = vec![Evidence { source: "parse_code".into(), text: "in fn f".into() }];
        let strong = finding("a.rs", "map.get(k).unwrap()", CLAIM, Severity::Critical);
        let merged = merge(vec![placed(weak, 3), placed(strong, 3)]);
        assert_eq!(merged.len(), 1);
        assert_eq!(merged[0].finding.severity, Severity::Critical);
        assert_eq!(merged[0].finding.replacement.as_deref(), Some("map.get(k)?"));
        assert_eq!(merged[0].finding.evidence.len(), 1);
    }

    #[test]
    fn the_same_code_at_two_places_is_two_findings_of_different_identity() {
        let one = finding("a.rs", "x.unwrap()", CLAIM, Severity::Major);
        let merged = merge(vec![placed(one.clone(), 3), placed(one, 30)]);
        assert_eq!(merged.len(), 2);
        assert_eq!(merged[1].fingerprint, format!("{}-2", merged[0].fingerprint));
    }

    #[test]
    fn different_claims_with_one_identity_become_one_comment() {
        let a = finding("a.rs", "read(path)", CLAIM, Severity::Major);
        let b = finding("a.rs", "read(path)", ("Wrong unit of time", "Seconds are taken for hours."), Severity::Minor);
        let merged = merge(vec![placed(a, 3), placed(b, 3)]);
        assert_eq!(merged.len(), 1);
        assert!(merged[0].finding.body.ends_with("Wrong unit of time\n\nSeconds are taken for hours."));
    }

    #[test]
    fn other_files_merge_only_when_code_and_claim_are_the_same() {
        let copy = |path| placed(finding(path, "let id = ids.pop().unwrap();", CLAIM, Severity::Major), 3);
        let merged = merge(vec![copy("a.rs"), copy("b.rs")]);
        assert_eq!(merged.len(), 1);
        assert_eq!(merged[0].finding.evidence[0].text, "The same code stands in b.rs.");
        let short = |path| placed(finding(path, "x.pop()", CLAIM, Severity::Major), 3);
        assert_eq!(merge(vec![short("a.rs"), short("b.rs")]).len(), 2);
    }

    #[test]
    fn findings_without_a_place_merge_by_their_code() {
        let lost = |quote| {
            let finding = finding("a.rs", quote, CLAIM, Severity::Major);
            Reported {
                fingerprint: fingerprint(&finding),
                finding,
                place: Err(Unplaced::QuoteNotFound),
                suggestion: None,
            }
        };
        assert_eq!(merge(vec![lost("a.b()"), lost("x = a.b()")]).len(), 1);
        assert_eq!(merge(vec![lost("a.b()"), lost("c.d()")]).len(), 2);
    }

    #[test]
    fn rank_is_severity_then_confidence_then_category() {
        let mut a = finding("a.rs", "a", CLAIM, Severity::Minor);
        a.category = Category::Security;
        let mut b = finding("b.rs", "b", CLAIM, Severity::Minor);
        b.confidence = 0.9;
        let c = finding("c.rs", "c", CLAIM, Severity::Major);
        let d = finding("d.rs", "d", CLAIM, Severity::Minor);
        let mut all = vec![placed(d, 1), placed(a, 1), placed(b, 1), placed(c, 1)];
        rank(&mut all);
        let paths: Vec<&str> = all.iter().map(|r| r.finding.path.as_str()).collect();
        assert_eq!(paths, ["c.rs", "b.rs", "a.rs", "d.rs"]);
    }

    #[test]
    fn what_was_said_is_recognised() {
        let earlier = finding("a.rs", "let x = map.get(k).unwrap();", CLAIM, Severity::Major);
        let again = finding("a.rs", "map.get(k).unwrap()", CLAIM, Severity::Critical);
        assert!(already_said(&again, std::slice::from_ref(&earlier)));
        let mut elsewhere = again.clone();
        elsewhere.path = "b.rs".into();
        assert!(!already_said(&elsewhere, std::slice::from_ref(&earlier)));
        let other = finding("a.rs", "map.get(k).unwrap()", ("Slow", "Hashes each key twice."), Severity::Minor);
        assert!(!already_said(&other, &[earlier]));
    }
}
