//! Markdown, for a job summary or a chat.

use super::{Reviewed, category_words, counts, coverage_line, gaps, printable, severity_word, usage_line};
use crate::diff::Side;
use crate::review::markdown::{code_span, sanitise, sanitise_line};
use crate::review::report::Reported;

/// Bytes of a line that is made of foreign text.
const MOST_TITLE: usize = 300;

/// A heading, the findings with their places, what was not reviewed, and the scores.
pub fn render(reviewed: &Reviewed<'_>) -> String {
    let report = reviewed.report;
    let what =
        reviewed.pull.map_or_else(|| format!("{}..{}", short(reviewed.base), short(reviewed.head)), str::to_owned);
    let mut text = format!("## Review of {what}: {}\n", counts(&report.findings));
    if !report.summary.trim().is_empty() {
        text.push_str(&format!("\n{}\n", sanitise(report.summary.trim())));
    }
    for reported in &report.findings {
        text.push_str(&finding(reported));
    }
    if !report.capped.is_empty() {
        text.push_str(&format!("\nNot shown: {}.\n", counts(&report.capped)));
    }
    let score = &report.score;
    text.push_str(&format!(
        "\n| total | security | performance | readability | best practice |\n| --- | --- | --- | --- | --- |\n\
         | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} |\n",
        score.total, score.security, score.performance, score.readability, score.best_practice
    ));
    text.push_str(&format!("\n{}.\n", coverage_line(&report.coverage)));
    let gaps: Vec<String> = gaps(&report.coverage)
        .map(|(path, reason)| format!("- {}: {}\n", code_span(path), sanitise_line(reason, MOST_TITLE)))
        .collect();
    if !gaps.is_empty() {
        text.push_str(&format!("\nNot reviewed:\n\n{}", gaps.concat()));
    }
    text.push_str(&format!("\n{}\n", usage_line(reviewed)));
    text
}

fn finding(reported: &Reported) -> String {
    let finding = &reported.finding;
    let place = match &reported.place {
        Ok(anchor) => {
            let lines = match anchor.start_line == anchor.line {
                true => anchor.line.to_string(),
                false => format!("{}-{}", anchor.start_line, anchor.line),
            };
            let side = if anchor.side == Side::Left { " (removed)" } else { "" };
            format!("{}{side}", code_span(&format!("{}:{lines}", finding.path)))
        }
        Err(_) => format!("{}, no certain line", code_span(&finding.path)),
    };
    let mut text = format!(
        "\n### {}\n\n{place} · {} · {}\n\n{}\n",
        sanitise_line(&finding.title, MOST_TITLE),
        severity_word(finding.severity),
        category_words(finding.category),
        sanitise(finding.body.trim())
    );
    if let Some(suggestion) = &reported.suggestion {
        text.push_str(&format!("\n{}\n", printable(suggestion.trim())));
    }
    text
}

/// The first characters of a commit; other words stay whole.
fn short(commit: &str) -> &str {
    let hexadecimal = commit.len() >= 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    if hexadecimal { commit.get(..10).unwrap_or(commit) } else { commit }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::super::json::tests::sample;
    use super::*;

    #[test]
    fn a_review_reads_as_a_page() {
        sample(|reviewed| {
            assert_snapshot!(render(reviewed), @r##"
        ## Review of b0..h0: 1 critical, 1 minor, 1 nit

        Reads a map.

        ### Panics when the key, or 100% of keys, are missing

        `src/a b.rs:11` · critical · security

        `get` returns `None`.
        Use `if let`.

        ```suggestion
            map.get(key)?;
        ```

        ### Panics when the key, or 100% of keys, are missing

        `src/a b.rs:11` (removed) · minor · security

        `get` returns `None`.
        Use `if let`.

        ```suggestion
            map.get(key)?;
        ```

        ### Panics when the key, or 100% of keys, are missing

        `src/a b.rs`, no certain line · nit · security

        `get` returns `None`.
        Use `if let`.

        ```suggestion
            map.get(key)?;
        ```

        Not shown: 1 nit.

        | total | security | performance | readability | best practice |
        | --- | --- | --- | --- | --- |
        | 70 | 40 | 100 | 90 | 60 |

        1 file reviewed, 1 excluded, 1 not reviewed.

        Not reviewed:

        - `b.rs`: the model failed

        openai::m: 4 calls, 1000 tokens in (100 cached), 50 out, $0.0124
        "##)
        });
    }

    #[test]
    fn a_commit_is_shortened_span() {
        assert_eq!(short(&"a1".repeat(20)), "a1a1a1a1a1");
        assert_eq!(short("index"), "index");
    }
}
