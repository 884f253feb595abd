//! Answers in threads: the rule's rationale, and whether it still hits. Pure.
//!
//! What people write is only matched for a few English words; everything else gets the general answer, and every answer
//! says what gives it.

use serde_json::Value;

use super::block::{json_blocks, prose};
use super::hit::{Observed, observed, squeezed};
use super::{Turn, clip, has_called, offered, since_asked};
use crate::chat::{ChatMessage, ChatRequest};

/// Said in every answer.
const WHAT_I_AM: &str =
    "This answer comes from secondlook's embedded rules, not from a language model, so it cannot weigh an argument.";

/// What a reply seems to want.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Intent {
    /// It is intended, or will not be changed.
    Declined,
    /// It is said to be fixed.
    Fixed,
    /// The finding is said to be wrong.
    Disagreed,
    /// Thanks.
    Thanked,
    /// A question, or anything else.
    Asked,
}

/// Whether the code under discussion is still hit.
enum Standing {
    /// By a rule, at a line.
    Stands { rule: String, line: Option<u64>, quote: String },
    /// The rule that found it hits nothing of the kind any more.
    Gone { rule: String },
    /// Nobody looked, or the looking failed.
    Unknown,
}

/// What the thread is about.
#[derive(Debug, Default)]
struct Topic {
    path: String,
    title: String,
    body: String,
    source: String,
    quote: String,
    category: String,
}

/// The next turn of an answer.
pub(super) fn turn(request: &ChatRequest) -> Turn {
    let topic = topic(&request.messages);
    let since = since_asked(&request.messages);
    if let Some(topic) = &topic
        && !topic.path.is_empty()
        && !has_called(since)
    {
        let tools = checks_for(&topic.category, offered(request));
        if !tools.is_empty() {
            return Turn::Call { tools, path: topic.path.clone() };
        }
    }
    let said = request.messages.iter().rev().find_map(|m| match m {
        ChatMessage::User { text } => Some(prose(text)),
        _ => None,
    });
    let intent = intent(&said.unwrap_or_default());
    Turn::Say(match topic {
        Some(topic) => about(&topic, intent, &standing(&topic, &observed(since))),
        None => without_topic(intent),
    })
}

fn about(topic: &Topic, intent: Intent, standing: &Standing) -> String {
    let now = now(topic, standing);
    let rationale = rationale(topic);
    let paragraphs = match (intent, standing) {
        (Intent::Declined, _) => {
            vec![
                "Understood. It stays as it is, and this will not be raised again here.".to_owned(),
                WHAT_I_AM.to_owned(),
            ]
        }
        (Intent::Thanked, _) => vec![format!("You are welcome. {now}"), WHAT_I_AM.to_owned()],
        (Intent::Fixed, Standing::Unknown) => {
            vec!["Whether it is fixed could not be checked.".to_owned(), WHAT_I_AM.to_owned()]
        }
        (Intent::Fixed, _) => vec![now, WHAT_I_AM.to_owned()],
        (Intent::Disagreed, Standing::Gone { .. }) => vec![now, WHAT_I_AM.to_owned()],
        (Intent::Disagreed, _) => vec![
            now,
            rationale,
            format!(
                "{WHAT_I_AM} If the code is right as it is, reply \"won't fix\", and this will not be raised again."
            ),
        ],
        (Intent::Asked, _) => vec![rationale, now, WHAT_I_AM.to_owned()],
    };
    paragraphs.into_iter().filter(|p| !p.is_empty()).collect::<Vec<_>>().join("\n\n")
}

fn without_topic(intent: Intent) -> String {
    let first = match intent {
        Intent::Thanked => "You are welcome.",
        Intent::Declined => "Understood.",
        Intent::Fixed | Intent::Disagreed | Intent::Asked => {
            "This thread is not about one of the rules' findings, so there is nothing they can say about it. A language \
             model can be set with SECONDLOOK_MODEL."
        }
    };
    format!("{first}\n\n{WHAT_I_AM}")
}

/// What the code shows now.
fn now(topic: &Topic, standing: &Standing) -> String {
    match standing {
        Standing::Stands { rule, line, quote } => {
            let place = line.map_or_else(|| "in".to_owned(), |line| format!("at line {line} of"));
            format!("The rule `{rule}` still matches {place} {}:\n\n{}", inline(&topic.path), fenced(quote))
        }
        Standing::Gone { rule } => format!("The rule `{rule}` no longer matches in {}.", inline(&topic.path)),
        Standing::Unknown => String::new(),
    }
}

fn rationale(topic: &Topic) -> String {
    let title = clip(&topic.title, 200);
    let rule = if topic.source.is_empty() { String::new() } else { format!(" (rule {})", inline(&topic.source)) };
    match (title.is_empty(), topic.body.trim().is_empty()) {
        (true, true) => String::new(),
        (true, false) => topic.body.trim().to_owned(),
        (false, true) => format!("{title}{rule}."),
        (false, false) => format!("{title}{rule}: {}", topic.body.trim()),
    }
}

fn standing(topic: &Topic, observed: &Observed) -> Standing {
    let quote = squeezed(&topic.quote);
    let of_rule = |hit: &&super::hit::Hit| hit.rule == topic.source;
    let same_code = |hit: &&super::hit::Hit| !quote.is_empty() && squeezed(&hit.quote) == quote;
    let hits = &observed.hits;
    let same = hits
        .iter()
        .find(|h| of_rule(h) && same_code(h))
        .or_else(|| hits.iter().find(|h| h.category == topic.category && same_code(h)));
    if let Some(hit) = same {
        return Standing::Stands { rule: hit.rule.clone(), line: hit.line, quote: hit.quote.clone() };
    }
    // A finding of a language model has no rule that could stop matching.
    let is_rule = !topic.source.is_empty() && !topic.source.contains("::");
    match hits.iter().find(of_rule) {
        _ if !observed.complete || !is_rule => Standing::Unknown,
        // The line was changed and the rule hits it, or its like, all the same.
        Some(hit) => Standing::Stands { rule: hit.rule.clone(), line: hit.line, quote: hit.quote.clone() },
        None => Standing::Gone { rule: topic.source.clone() },
    }
}

fn checks_for(category: &str, offered: Vec<String>) -> Vec<String> {
    let check = match category {
        "security" => "check_security",
        "performance" => "check_performance",
        "correctness" | "readability" | "best_practice" => "check_style",
        _ => return offered,
    };
    offered.into_iter().filter(|tool| tool == check).collect()
}

/// The finding that our own code put into the prompt, as a fenced block: the first one, because what people write
/// comes after it and may hold blocks too.
fn topic(messages: &[ChatMessage]) -> Option<Topic> {
    let ours = messages.iter().filter(|m| matches!(m, ChatMessage::System { .. } | ChatMessage::User { .. }));
    ours.flat_map(|m| json_blocks(m.text())).find_map(|block| {
        let finding = block.get("finding").filter(|f| f.is_object()).unwrap_or(&block);
        let text = |name: &str| finding.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let topic = Topic {
            path: text("path"),
            title: text("title"),
            body: text("body"),
            source: text("source"),
            quote: text("quote"),
            category: text("category"),
        };
        if topic.title.is_empty() && topic.quote.is_empty() { None } else { Some(topic) }
    })
}

fn intent(said: &str) -> Intent {
    let words: Vec<String> = said
        .to_lowercase()
        .replace('’', "'")
        .split(|c: char| !(c.is_alphanumeric() || c == '\''))
        .filter(|w| !w.is_empty())
        .map(str::to_owned)
        .collect();
    let text = format!(" {} ", words.join(" "));
    let says = |phrases: &[&str]| phrases.iter().any(|p| text.contains(&format!(" {p} ")));
    let negated = says(&["not fixed", "isn't fixed", "not done", "not resolved", "can't be fixed"]);
    if says(&[
        "won't fix",
        "wont fix",
        "wontfix",
        "will not fix",
        "by design",
        "intended",
        "intentional",
        "intentionally",
        "on purpose",
        "false positive",
        "as intended",
        "won't change",
        "leave it as it is",
        "not going to fix",
    ]) {
        Intent::Declined
    } else if said.contains('?') || says(&["why", "how", "what", "explain", "can you", "could you"]) {
        Intent::Asked
    } else if !negated && says(&["fixed", "done", "addressed", "resolved", "updated", "pushed", "changed it"]) {
        Intent::Fixed
    } else if says(&[
        "disagree",
        "wrong",
        "not true",
        "incorrect",
        "not a bug",
        "not a problem",
        "not an issue",
        "don't think",
        "doesn't apply",
        "does not apply",
        "nonsense",
        "isn't true",
        "not correct",
    ]) {
        Intent::Disagreed
    } else if says(&["thanks", "thank you", "thx", "good catch", "nice catch", "great catch", "cheers"]) {
        Intent::Thanked
    } else {
        Intent::Asked
    }
}

fn inline(text: &str) -> String {
    let flat = clip(&text.replace('`', "'"), 300);
    if flat.is_empty() { "the file".to_owned() } else { format!("`{flat}`") }
}

/// A block whose fence is longer than any run of backticks inside.
fn fenced(code: &str) -> String {
    let longest = code.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}\n{}\n{fence}", code.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_read_by_a_few_words() {
        for (said, expected) in [
            ("Won’t fix, this is by design.", Intent::Declined),
            ("this is intentional", Intent::Declined),
            ("Why is this a problem?", Intent::Asked),
            ("Isn't that already fixed?", Intent::Asked),
            ("Fixed in abc123.", Intent::Fixed),
            ("This is not fixed", Intent::Asked),
            ("I disagree, the input is trusted.", Intent::Disagreed),
            ("Good catch, thanks!", Intent::Thanked),
            ("thanks, fixed", Intent::Fixed),
            ("Das verstehe ich nicht.", Intent::Asked),
            ("", Intent::Asked),
            ("unintended prefixed", Intent::Asked),
        ] {
            assert_eq!(intent(said), expected, "{said}");
        }
    }

    #[test]
    fn a_fence_is_longer_than_what_it_holds() {
        assert_eq!(fenced("a ``` b\n"), "````\na ``` b\n````");
        assert_eq!(fenced("x"), "```\nx\n```");
    }
}
