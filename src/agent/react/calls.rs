//! Which of the called tools are run, and what the model is told about the others. Pure.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::Talk;
use crate::chat::{ChatMessage, ToolCall};
use crate::tool::toolbox::{ToolResult, canonical};

/// A call that was made before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// How often it was called.
    pub times: u32,
    /// Its result; `None` while there is none worth repeating.
    pub result: Option<String>,
}

/// What becomes of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Plan {
    /// It is run.
    Run,
    /// It is answered with the result of the same call before.
    Again,
    /// It is answered with this text.
    Refuse(String),
}

const AGAIN: &str = "[The same call was made before; this is its result again. Do not repeat it.]\n";
const THIRD_TIME: &str = "This call was made twice before. It is not repeated, and no more tools are available.";
const NOT_OFFERED: &str = "No tools are available any more. Give your final answer now.";

/// Bytes of a call's arguments beyond which it is not looked at.
const ARGUMENT_BYTES: usize = 64 * 1024;

/// Decides about every call of a turn, counts them, and withdraws the tools from a model that repeats itself.
pub(super) fn plan(pending: &[ToolCall], talk: &mut Talk, most: usize) -> Vec<Plan> {
    let offered = !talk.withdrawn;
    let mut running = BTreeSet::new();
    let mut plans = Vec::with_capacity(pending.len());
    for (position, call) in pending.iter().enumerate() {
        if !offered {
            plans.push(Plan::Refuse(NOT_OFFERED.to_owned()));
            continue;
        }
        if position >= most {
            plans.push(Plan::Refuse(format!(
                "Not run: at most {most} calls are run in one turn. Call it again if needed."
            )));
            continue;
        }
        if call.arguments.len() > ARGUMENT_BYTES {
            plans.push(Plan::Refuse(format!("Not run: the arguments are longer than {ARGUMENT_BYTES} bytes.")));
            continue;
        }
        let key = canonical(call);
        let seen = talk.seen.entry(key.clone()).or_insert(Seen { times: 0, result: None });
        seen.times += 1;
        let known = seen.result.is_some() || running.contains(&key);
        plans.push(match seen.times {
            0..=2 if !known => Plan::Run,
            0..=2 => Plan::Again,
            _ => {
                talk.withdrawn = true;
                Plan::Refuse(THIRD_TIME.to_owned())
            }
        });
        running.insert(key);
    }
    plans
}

/// Writes the results into the conversation, in the order of the calls.
pub(super) fn settle(pending: Vec<ToolCall>, plans: Vec<Plan>, results: Vec<Option<ToolResult>>, talk: &mut Talk) {
    for ((call, plan), result) in pending.into_iter().zip(plans).zip(results) {
        let text = match (plan, result) {
            (Plan::Refuse(text), _) => text,
            (_, Some(result)) => {
                // A passing fault may be tried again; any other result stays what it is.
                if !matches!(result.outcome, "failed" | "timed_out")
                    && let Some(seen) = talk.seen.get_mut(&canonical(&call))
                {
                    seen.result = Some(result.text.clone());
                }
                result.text
            }
            (_, None) => {
                let before = talk.seen.get(&canonical(&call)).and_then(|seen| seen.result.as_deref());
                format!("{AGAIN}{}", before.unwrap_or("(it failed)"))
            }
        };
        talk.messages.push(ChatMessage::Tool { call_id: call.id, name: call.name, text });
    }
}

/// Gives every call an id that no other call of its turn has; providers refuse a history without.
pub(super) fn number_ids(calls: &mut [ToolCall], turn: u32) {
    let mut taken = BTreeSet::new();
    for (position, call) in calls.iter_mut().enumerate() {
        if call.id.is_empty() || !taken.insert(call.id.clone()) {
            call.id = format!("call-{turn}-{position}");
            taken.insert(call.id.clone());
        }
        if call.arguments.len() > ARGUMENT_BYTES {
            // It is refused anyway, and must not be stored or sent back in full; still longer than what is looked at.
            call.arguments = clip(std::mem::take(&mut call.arguments), ARGUMENT_BYTES + 4).0;
        }
    }
}

/// At most `bytes` of a text, cut at a character, and whether it was longer.
pub(super) fn clip(mut text: String, bytes: usize) -> (String, bool) {
    if text.len() <= bytes {
        return (text, false);
    }
    text.truncate(text.floor_char_boundary(bytes));
    (text, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str, arguments: &str) -> ToolCall {
        ToolCall { id: String::new(), name: name.to_owned(), arguments: arguments.to_owned() }
    }

    fn ok(text: &str) -> Option<ToolResult> {
        Some(ToolResult { text: text.to_owned(), outcome: "ok" })
    }

    #[test]
    fn a_call_runs_once_is_repeated_once_and_then_tools_are_taken_away() {
        let mut talk = Talk::new(Vec::new());
        let mut outcomes = Vec::new();
        for _ in 0..3 {
            let pending = vec![call("a", "{}")];
            let plans = plan(&pending, &mut talk, 9);
            outcomes.push((plans[0].clone(), talk.withdrawn));
            let results = plans.iter().map(|p| matches!(p, Plan::Run).then(|| ok("found")).flatten()).collect();
            settle(pending, plans, results, &mut talk);
        }
        let third = Plan::Refuse(THIRD_TIME.to_owned());
        assert_eq!(outcomes, [(Plan::Run, false), (Plan::Again, false), (third, true)]);
        let texts: Vec<_> = talk.messages.iter().map(ChatMessage::text).collect();
        assert_eq!(texts, ["found", &format!("{AGAIN}found"), THIRD_TIME]);
    }

    #[test]
    fn a_call_that_failed_for_now_may_be_made_again() {
        let mut talk = Talk::new(Vec::new());
        let pending = vec![call("a", "{}")];
        let plans = plan(&pending, &mut talk, 9);
        let failed = ToolResult { text: "timed out".to_owned(), outcome: "timed_out" };
        settle(pending.clone(), plans, vec![Some(failed)], &mut talk);
        assert_eq!(plan(&pending, &mut talk, 9), [Plan::Run]);
    }

    #[test]
    fn twins_in_one_turn_run_once_and_a_flood_is_bounded() {
        let mut talk = Talk::new(Vec::new());
        let pending = vec![call("a", "{}"), call("a", "{ }"), call("b", "{}"), call("c", "{}")];
        let plans = plan(&pending, &mut talk, 3);
        assert_eq!(plans[..3], [Plan::Run, Plan::Again, Plan::Run]);
        assert!(matches!(&plans[3], Plan::Refuse(text) if text.contains("at most 3")));
        settle(pending, plans, vec![ok("A"), None, ok("B"), None], &mut talk);
        assert_eq!(talk.messages[1].text(), format!("{AGAIN}A"));
    }

    #[test]
    fn every_call_has_an_id_of_its_own() {
        let mut calls = vec![call("a", "{}"), call("b", "{}"), call("c", "{}")];
        calls[1].id = "x".to_owned();
        calls[2].id = "x".to_owned();
        number_ids(&mut calls, 4);
        let ids: Vec<_> = calls.iter().map(|c| c.id.as_str()).collect();
        assert_eq!(ids, ["call-4-0", "x", "call-4-2"]);
    }

    #[test]
    fn clipping_never_cuts_a_character() {
        assert_eq!(clip("äöü".to_owned(), 3), ("ä".to_owned(), true));
        assert_eq!(clip("äöü".to_owned(), 6), ("äöü".to_owned(), false));
    }

    #[test]
    fn huge_arguments_are_neither_run_nor_kept() {
        let mut talk = Talk::new(Vec::new());
        let mut calls = vec![call("a", &"x".repeat(1_000_000))];
        number_ids(&mut calls, 1);
        assert!(calls[0].arguments.len() < 70_000);
        assert!(matches!(&plan(&calls, &mut talk, 9)[0], Plan::Refuse(text) if text.contains("longer")));
    }
}
