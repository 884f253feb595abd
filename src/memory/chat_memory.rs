//! The window of a conversation that a model is given. Pure.

use std::collections::HashSet;

use crate::chat::{ChatMessage, estimate_tokens};

/// Sizes of the window.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    /// Most messages kept, system messages not counted.
    pub messages: usize,
    /// Most tokens, by [`crate::chat::estimate_tokens`].
    pub tokens: u64,
}

impl Default for Window {
    fn default() -> Self {
        Self { messages: 20, tokens: 4_000 }
    }
}

/// The newest messages that fit, with all system messages kept in front and a tool call never separated from its results.
///
/// - The newest unit (a message, or a call with its results) is kept even when it is larger than the window: a model
///   that is asked nothing can answer nothing.
/// - System messages use up tokens but not messages.
/// - Providers refuse a result without its call and a call without its results: such leftovers of an interrupted run
///   are left out, and of a message with such calls its text stays.
pub fn fit(history: &[ChatMessage], window: Window) -> Vec<ChatMessage> {
    let (system, rest): (Vec<&ChatMessage>, Vec<&ChatMessage>) =
        history.iter().partition(|message| matches!(message, ChatMessage::System { .. }));
    let mut tokens = window.tokens.saturating_sub(system.iter().map(|message| tokens_of(message)).sum());
    let mut messages = window.messages;
    let units = units(&rest);
    let mut kept = 0;
    for unit in units.iter().rev() {
        let size = unit.iter().map(tokens_of).sum::<u64>();
        let fits = unit.len() <= messages && size <= tokens;
        if kept == 0 || fits {
            kept += 1;
        }
        if !fits {
            break;
        }
        messages -= unit.len();
        tokens -= size;
    }
    let newest = units.into_iter().rev().take(kept).collect::<Vec<_>>().into_iter().rev().flatten();
    system.into_iter().cloned().chain(newest).collect()
}

/// What cannot be taken apart, oldest first: a single message, or a call with all its results.
fn units(messages: &[&ChatMessage]) -> Vec<Vec<ChatMessage>> {
    let mut units = Vec::new();
    let mut at = 0;
    while let Some(message) = messages.get(at) {
        at += 1;
        match message {
            ChatMessage::Assistant { text, tool_calls } if !tool_calls.is_empty() => {
                let mut open: HashSet<&str> = tool_calls.iter().map(|call| call.id.as_str()).collect();
                let mut unit = vec![(*message).clone()];
                while let Some(result @ ChatMessage::Tool { call_id, .. }) = messages.get(at) {
                    at += 1;
                    // A second result of one call, or a result of another, has no place here.
                    if open.remove(call_id.as_str()) {
                        unit.push((*result).clone());
                    }
                }
                if open.is_empty() {
                    units.push(unit);
                } else if !text.is_empty() {
                    units.push(vec![ChatMessage::assistant(text.clone())]);
                }
            }
            ChatMessage::Tool { .. } => {}
            _ => units.push(vec![(*message).clone()]),
        }
    }
    units
}

fn tokens_of(message: &ChatMessage) -> u64 {
    let calls = match message {
        ChatMessage::Assistant { tool_calls, .. } => tool_calls.as_slice(),
        _ => &[],
    };
    estimate_tokens(message.text())
        + calls.iter().map(|call| estimate_tokens(&call.name) + estimate_tokens(&call.arguments)).sum::<u64>()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::chat::ToolCall;

    fn call(id: &str) -> ToolCall {
        ToolCall { id: id.to_owned(), name: "read_file".to_owned(), arguments: "{}".to_owned() }
    }

    fn calls(text: &str, ids: &[&str]) -> ChatMessage {
        ChatMessage::Assistant { text: text.to_owned(), tool_calls: ids.iter().map(|id| call(id)).collect() }
    }

    fn result(id: &str) -> ChatMessage {
        ChatMessage::Tool { call_id: id.to_owned(), name: "read_file".to_owned(), text: format!("result {id}") }
    }

    #[test]
    fn the_newest_stay_and_system_messages_stay_in_front() {
        let mut history = vec![ChatMessage::user("old")];
        history.push(ChatMessage::system("rules"));
        history.extend((0..30).map(|n| ChatMessage::user(format!("{n}"))));
        history.push(ChatMessage::system("summary"));
        let fitted = fit(&history, Window::default());
        assert_eq!(fitted.len(), 22);
        assert_eq!(fitted[0].text(), "rules");
        assert_eq!(fitted[1].text(), "summary");
        assert_eq!(fitted[2].text(), "10");
        assert_eq!(fitted[21].text(), "29");
    }

    #[test]
    fn a_call_goes_together_with_its_results() {
        let history = vec![
            ChatMessage::user("why?"),
            calls("", &["a", "b"]),
            result("a"),
            result("b"),
            ChatMessage::assistant("because"),
        ];
        let window = |messages| Window { messages, tokens: 1_000 };
        assert_eq!(fit(&history, window(4)), history[1..]);
        assert_eq!(fit(&history, window(3)), history[4..]);
    }

    #[test]
    fn leftovers_of_an_interrupted_run_are_left_out() {
        let history = vec![
            result("gone"),
            calls("let me look", &["a", "b"]),
            result("a"),
            ChatMessage::user("and now?"),
            calls("", &["c"]),
        ];
        let expected = vec![ChatMessage::assistant("let me look"), ChatMessage::user("and now?")];
        assert_eq!(fit(&history, Window::default()), expected);
    }

    #[test]
    fn the_newest_message_stays_even_when_it_is_larger_than_the_window() {
        let history = vec![ChatMessage::user("small"), ChatMessage::user("x".repeat(100_000))];
        assert_eq!(fit(&history, Window::default()), history[1..]);
        assert_eq!(fit(&[], Window::default()), Vec::<ChatMessage>::new());
    }

    fn any_message() -> impl Strategy<Value = ChatMessage> {
        let id = "[abc]";
        prop_oneof![
            1 => "[a-z]{0,12}".prop_map(ChatMessage::system),
            3 => ".{0,40}".prop_map(ChatMessage::user),
            2 => ".{0,40}".prop_map(ChatMessage::assistant),
            2 => ("[a-z]{0,4}", prop::collection::hash_set(id, 1..4)).prop_map(|(text, ids)| {
                ChatMessage::Assistant { text, tool_calls: ids.iter().map(|id| call(id)).collect() }
            }),
            4 => id.prop_map(|id| result(&id)),
        ]
    }

    #[test]
    fn nothing_stands_beside_a_message_that_is_too_large_alone() {
        let history = [ChatMessage::user(""), ChatMessage::user("𐀀")];
        assert_eq!(fit(&history, Window { messages: 2, tokens: 1 }), [ChatMessage::user("𐀀")]);
    }

    proptest! {
        #[test]
        fn a_window_keeps_its_promises(
            history in prop::collection::vec(any_message(), 0..60),
            messages in 1_usize..25,
            tokens in 1_u64..200,
        ) {
            let window = Window { messages, tokens };
            let fitted = fit(&history, window);
            let is_system = |message: &&ChatMessage| matches!(message, ChatMessage::System { .. });

            let system: Vec<_> = history.iter().filter(is_system).collect();
            prop_assert_eq!(fitted.iter().take(system.len()).collect::<Vec<_>>(), system.clone());
            let rest = &fitted[system.len()..];
            prop_assert!(!rest.iter().any(|message| is_system(&message)));

            // Calls and results stand together, each once.
            let mut open = HashSet::new();
            for message in rest {
                match message {
                    ChatMessage::Tool { call_id, .. } => prop_assert!(open.remove(call_id.as_str())),
                    other => {
                        prop_assert!(open.is_empty());
                        if let ChatMessage::Assistant { tool_calls, .. } = other {
                            open.extend(tool_calls.iter().map(|call| call.id.as_str()));
                        }
                    }
                }
            }
            prop_assert!(open.is_empty());

            // It is the end of what is whole, as long as the window allows and not longer.
            let others: Vec<_> = history.iter().filter(|message| !is_system(message)).collect();
            let whole = units(&others);
            let flat: Vec<ChatMessage> = whole.iter().flatten().cloned().collect();
            prop_assert!(flat.ends_with(rest));
            prop_assert_eq!(rest.is_empty(), whole.is_empty());
            let budget = tokens.saturating_sub(system.iter().map(|message| tokens_of(message)).sum());
            let kept = (0..=whole.len()).find(|n| whole[whole.len() - n..].iter().flatten().count() == rest.len());
            let kept = kept.unwrap();
            let fits = |n: usize| {
                let part: Vec<_> = whole[whole.len() - n..].iter().flatten().collect();
                part.len() <= messages && part.iter().map(|message| tokens_of(message)).sum::<u64>() <= budget
            };
            prop_assert!(kept <= 1 || fits(kept));
            prop_assert!(kept == whole.len() || kept == 0 || !fits(kept + 1));

            prop_assert_eq!(fit(&fitted, window), fitted);
        }
    }
}
