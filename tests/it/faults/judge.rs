//! Holds a bad day against the calm one.

use std::collections::{BTreeMap, BTreeSet};

use super::expected::EXCEPTIONS;
use super::stage::Played;
use super::table::{Case, Strike};
use super::trace::Point;
use crate::harness::github::fault::Gate;
use crate::harness::knowing::ModelFault;

/// How a combination ended.
pub(super) enum Verdict {
    /// In the calm page. Exceptions that were made for it and would not have been needed here.
    Calm { spare: Vec<usize> },
    /// As this exception says.
    AsSaid(usize),
    /// There is no such database here.
    NotPlayed,
    /// Neither.
    Wrong(String),
}

pub(super) fn judge(strikes: &[(&'static Case, Point)], calm: &Played, played: &Played) -> Verdict {
    let mut wrong = played.wrong.clone();
    if let Some(twice) = asked_twice(strikes, &calm.answered, &played.answered) {
        wrong.push(twice);
    }
    let exceptions: Vec<usize> = EXCEPTIONS
        .iter()
        .enumerate()
        .filter(|(_, e)| strikes.iter().any(|(case, point)| e.is_for(case.name, &point.place())))
        .map(|(at, _)| at)
        .collect();
    let places: String = strikes.iter().map(|(_, point)| point.place()).collect();
    let only_substance = strikes.iter().any(|(case, _)| case.reorders);
    let same = if only_substance {
        substance(&played.page) == substance(&calm.page)
    } else {
        in_one_word(&played.page) == in_one_word(&calm.page)
    };
    if wrong.is_empty() && same && played.dead.is_empty() && played.unfinished.is_empty() {
        return Verdict::Calm { spare: exceptions };
    }
    if wrong.is_empty()
        && let Some(at) = exceptions.into_iter().find(|at| EXCEPTIONS[*at].came_true(calm, played, &places))
    {
        return Verdict::AsSaid(at);
    }
    let mut why = wrong;
    why.extend(played.unfinished.iter().cloned());
    why.extend(played.dead.iter().map(|dead| format!("dead letter of {dead}")));
    if !same {
        why.push(format!("the page:\n{}", difference(&calm.page, &played.page)));
    }
    Verdict::Wrong(why.join("\n"))
}

/// A question that was answered is not asked again: after an accident the answer is at hand, unless it was lost with the
/// row that should have kept it.
fn asked_twice(
    strikes: &[(&'static Case, Point)],
    calm: &BTreeMap<String, usize>,
    played: &BTreeMap<String, usize>,
) -> Option<String> {
    let files: BTreeSet<&str> = calm.keys().filter_map(|question| question.split_whitespace().nth(1)).collect();
    // What is answered for other files in the moment in which a process ends is not written down yet.
    let beside = files.len().saturating_sub(1);
    let mut may_be_lost = 0;
    for (case, _) in strikes {
        match &case.strike {
            Strike::Database(_) => may_be_lost += 1,
            Strike::Crash(_) => may_be_lost += beside,
            Strike::Model(_, fault) => match fault(&Gate::new()) {
                ModelFault::Error(_) => {}
                ModelFault::Hangs(_) => may_be_lost += beside,
                // Another answer makes another conversation.
                _ => return None,
            },
            Strike::Mail(_) => return None,
            _ => {}
        }
    }
    let calls = |all: &BTreeMap<String, usize>| all.values().sum::<usize>();
    let more: Vec<String> = played
        .iter()
        .filter(|(question, times)| calm.get(*question).is_some_and(|calm| **times > calm + may_be_lost))
        .map(|(question, _)| question.chars().take(80).collect())
        .collect();
    (!more.is_empty() || calls(played) > calls(calm) + may_be_lost)
        .then(|| format!("the model answered {} questions instead of {}, again: {more:?}", calls(played), calls(calm)))
}

/// A review that its pull request's closing stopped is given up by whichever job sees it first; both say so.
fn in_one_word(page: &str) -> String {
    page.replace("cancelled: Closed", "cancelled: Overtaken")
}

/// What is said on a page, in no order, without the check runs and the headings of reviews.
fn substance(page: &str) -> Vec<&str> {
    let heading =
        |line: &str| line.starts_with("check ") || line.contains(" reviewed ") || line.starts_with("  Found ");
    let mut lines: Vec<&str> = page.lines().filter(|line| !line.is_empty() && !heading(line)).collect();
    lines.sort_unstable();
    lines
}

fn difference(calm: &str, played: &str) -> String {
    let diff = similar::TextDiff::from_lines(calm, played);
    let changed = diff.iter_all_changes().filter(|change| change.tag() != similar::ChangeTag::Equal);
    changed.map(|change| format!("    {}{}", change.tag(), change.value())).collect()
}
