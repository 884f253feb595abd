//! Marks out of 100, from what was found. Pure.
//!
//! They start at 100 and lose points by severity and confidence, each category for itself, so that ten matters of taste
//! in one place cannot hide behind a clean record in another.

use super::finding::{Category, Finding, Severity};
use super::report::Score;

/// Weights of the categories in the total, in percent.
const SECURITY: f64 = 30.0;
const PERFORMANCE: f64 = 25.0;
const READABILITY: f64 = 25.0;
const BEST_PRACTICE: f64 = 20.0;

/// The marks for what a review found. Correctness counts against best practice and readability alike: it has no mark of
/// its own, and code that does the wrong thing is neither.
pub fn score<'f>(findings: impl IntoIterator<Item = &'f Finding>) -> Score {
    let mut score =
        Score { total: 100.0, security: 100.0, performance: 100.0, readability: 100.0, best_practice: 100.0 };
    for finding in findings {
        let points = points(finding.severity) * confidence(finding.confidence);
        match finding.category {
            Category::Security => score.security -= points,
            Category::Performance => score.performance -= points,
            Category::Readability => score.readability -= points,
            Category::BestPractice => score.best_practice -= points,
            Category::Correctness => {
                score.best_practice -= points;
                score.readability -= points;
            }
        }
    }
    for mark in [&mut score.security, &mut score.performance, &mut score.readability, &mut score.best_practice] {
        *mark = round(mark.max(0.0));
    }
    score.total = round(
        (SECURITY * score.security
            + PERFORMANCE * score.performance
            + READABILITY * score.readability
            + BEST_PRACTICE * score.best_practice)
            / 100.0,
    );
    score
}

/// Two certain critical findings leave little of a category, five major ones nothing.
fn points(severity: Severity) -> f64 {
    match severity {
        Severity::Critical => 40.0,
        Severity::Major => 20.0,
        Severity::Minor => 7.0,
        Severity::Nit => 2.0,
    }
}

/// A confidence that is no number counts as none given, which is taken as certain.
fn confidence(given: f64) -> f64 {
    if given.is_nan() { 1.0 } else { given.clamp(0.0, 1.0) }
}

fn round(mark: f64) -> f64 {
    (mark * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn finding(severity: Severity, category: Category, confidence: f64) -> Finding {
        Finding {
            path: "a.rs".into(),
            quote: String::new(),
            line: None,
            end_line: None,
            side: None,
            severity,
            category,
            title: String::new(),
            body: String::new(),
            replacement: None,
            confidence,
            source: String::new(),
            evidence: vec![],
        }
    }

    #[test]
    fn nothing_found_is_a_hundred() {
        let score = score([]);
        assert_eq!((score.total, score.security), (100.0, 100.0));
    }

    #[test]
    fn weights_are_those_of_the_categories() {
        let total = |category| score(&[finding(Severity::Critical, category, 1.0)]).total;
        assert_eq!(total(Category::Security), 88.0);
        assert_eq!(total(Category::Performance), 90.0);
        assert_eq!(total(Category::Readability), 90.0);
        assert_eq!(total(Category::BestPractice), 92.0);
        assert_eq!(total(Category::Correctness), 82.0);
    }

    #[test]
    fn doubt_costs_less() {
        assert_eq!(score(&[finding(Severity::Major, Category::Security, 0.5)]).security, 90.0);
    }

    proptest! {
        #[test]
        fn marks_stay_within_bounds(given in prop::collection::vec((0..4_usize, 0..5_usize, any::<f64>()), 0..40)) {
            let severities = [Severity::Nit, Severity::Minor, Severity::Major, Severity::Critical];
            let categories = [Category::Security, Category::Performance, Category::Readability, Category::BestPractice,
                Category::Correctness];
            let findings: Vec<Finding> =
                given.into_iter().map(|(s, c, confidence)| finding(severities[s], categories[c], confidence)).collect();
            let score = score(&findings);
            for mark in [score.total, score.security, score.performance, score.readability, score.best_practice] {
                prop_assert!((0.0..=100.0).contains(&mark));
            }
        }
    }
}
