use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::*;

fn streamed(chunks: &[Value]) -> Result<ChatResponse, ChatError> {
    let mut answer = Accumulator::new(10_000);
    for chunk in chunks {
        answer.push_value(chunk).unwrap();
    }
    answer.finish("seed", 70)
}

fn delta(delta: Value) -> Value {
    json!({"choices": [{"index": 0, "delta": delta}]})
}

fn stop(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

fn fragments(list: &[Value]) -> Vec<(String, String, String)> {
    let mut chunks: Vec<Value> = list.iter().map(|f| delta(json!({"tool_calls": [f]}))).collect();
    chunks.push(stop("tool_calls"));
    let answer = streamed(&chunks).unwrap();
    assert_eq!(answer.finish, FinishReason::ToolCalls);
    answer.tool_calls.into_iter().map(|c| (c.id, c.name, c.arguments)).collect()
}

fn call(id: &str, name: &str, arguments: &str) -> (String, String, String) {
    (id.to_owned(), name.to_owned(), arguments.to_owned())
}

#[test]
fn text_usage_and_reason_come_from_a_stream() {
    let answer = streamed(&[
        delta(json!({"role": "assistant", "content": ""})),
        delta(json!({"content": "Hel"})),
        delta(json!({"content": "lo"})),
        stop("stop"),
        json!({"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 64}}}),
    ])
    .unwrap();
    insta::assert_snapshot!(serde_json::to_string(&answer).unwrap(), @r#"{"text":"Hello","tool_calls":[],"finish":"stop","usage":{"calls":1,"input":100,"cached_input":64,"output":5,"cost_micro_usd":0}}"#);
}

#[test]
fn parallel_calls_are_put_together_by_index() {
    let calls = fragments(&[
        json!({"index": 0, "id": "a", "function": {"name": "read_file", "arguments": ""}}),
        json!({"index": 1, "id": "b", "function": {"name": "search_code", "arguments": "{\"q\""}}),
        json!({"index": 0, "function": {"arguments": "{\"path\":"}}),
        json!({"index": 1, "function": {"arguments": ":1}"}}),
        json!({"index": 0, "function": {"arguments": "\"x\"}"}}),
    ]);
    assert_eq!(calls, [call("a", "read_file", r#"{"path":"x"}"#), call("b", "search_code", r#"{"q":1}"#)]);
}

#[test]
fn calls_without_an_index_are_put_together_by_id_or_order() {
    let calls = fragments(&[
        json!({"id": "a", "function": {"name": "f", "arguments": "{\"p\":"}}),
        json!({"function": {"arguments": "1}"}}),
        json!({"id": "b", "function": {"name": "f", "arguments": "{}"}}),
    ]);
    assert_eq!(calls, [call("a", "f", r#"{"p":1}"#), call("b", "f", "{}")]);
}

#[test]
fn whole_calls_under_one_index_without_ids_stay_apart() {
    let calls = fragments(&[
        json!({"index": 0, "id": "", "function": {"name": "f", "arguments": "{\"p\":1}"}}),
        json!({"index": 0, "id": "", "function": {"name": "f", "arguments": "{\"p\":2}"}}),
    ]);
    assert_eq!(calls.iter().map(|c| c.2.as_str()).collect::<Vec<_>>(), [r#"{"p":1}"#, r#"{"p":2}"#]);
    assert_ne!(calls[0].0, calls[1].0);
    assert!(calls.iter().all(|c| c.0.starts_with("call") && c.0.len() == 20), "{calls:?}");
}

#[test]
fn a_name_repeated_in_every_fragment_is_one_call() {
    let calls = fragments(&[
        json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": "{\"p\""}}),
        json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": ":1}"}}),
    ]);
    assert_eq!(calls, [call("a", "f", r#"{"p":1}"#)]);
}

#[test]
fn arguments_may_be_an_object_or_missing_and_ids_may_repeat() {
    let calls = fragments(&[
        json!({"index": 0, "id": "same", "function": {"name": "f", "arguments": {"p": 1}}}),
        json!({"index": 1, "id": "same", "function": {"name": "g"}}),
    ]);
    assert_eq!((calls[0].clone(), calls[1].2.as_str()), (call("same", "f", r#"{"p":1}"#), "{}"));
    assert_ne!(calls[1].0, "same");
}

#[test]
fn a_whole_answer_is_read_like_a_stream() {
    let message = json!({
        "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
        "tool_calls": [{"id": "x", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
    });
    let answer = streamed(&[json!({"choices": [{"message": message, "finish_reason": "stop"}]})]).unwrap();
    assert_eq!((answer.text.as_str(), answer.tool_calls.len(), answer.finish), ("ab", 1, FinishReason::ToolCalls));
}

#[test]
fn a_stream_without_an_end_is_cut() {
    let cut = streamed(&[delta(json!({"content": "half"}))]);
    assert_eq!(cut, Err(ChatError::Unavailable("the stream was cut".to_owned())));
    let mut done = Accumulator::new(10);
    done.push("[DONE]").unwrap();
    assert!(matches!(done.finish("", 0), Err(ChatError::Unreadable(_))));
}

#[test]
fn text_beyond_the_limit_is_cut_at_a_character() {
    let mut answer = Accumulator::new(5);
    answer.push(&delta(json!({"content": "ääää"})).to_string()).unwrap();
    assert!(answer.is_over());
    let answer = answer.finish("", 0).unwrap();
    assert_eq!((answer.text.as_str(), answer.finish), ("ää", FinishReason::Length));
}

#[test]
fn a_call_cut_by_the_limit_is_left_out() {
    let answer = streamed(&[
        delta(json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}]})),
        delta(json!({"tool_calls": [{"index": 1, "id": "b", "function": {"name": "f", "arguments": "{\"p"}}]})),
        stop("length"),
    ])
    .unwrap();
    assert_eq!((answer.tool_calls.len(), answer.finish), (1, FinishReason::Length));
}

#[rstest]
#[case(json!({"prompt_tokens": 10, "completion_tokens": 2, "prompt_cache_hit_tokens": 8}), (10, 8, 2))]
#[case(json!({"prompt_tokens": 10.0, "completion_tokens": 2, "prompt_tokens_details": null}), (10, 0, 2))]
#[case(json!({"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 99}}), (10, 10, 0))]
#[case(json!({"prompt_tokens": -1, "completion_tokens": "x"}), (20, 0, 1))]
fn usage_is_read_in_every_form_or_estimated(#[case] usage: Value, #[case] expected: (u64, u64, u64)) {
    let mut end = stop("stop");
    end["usage"] = usage;
    let usage = streamed(&[delta(json!({"content": "abc"})), end]).unwrap().usage;
    assert_eq!((usage.input, usage.cached_input, usage.output), expected);
    assert_eq!(usage.calls, 1);
}

#[rstest]
#[case("length", FinishReason::Length)]
#[case("content_filter", FinishReason::ContentFilter)]
#[case("tool_calls", FinishReason::Stop)]
#[case("eos_token", FinishReason::Stop)]
fn reasons_are_normalised(#[case] reason: &str, #[case] expected: FinishReason) {
    assert_eq!(streamed(&[delta(json!({"content": "x"})), stop(reason)]).unwrap().finish, expected);
}

#[test]
fn refusals_and_thoughts_are_told_from_answers() {
    let refused = streamed(&[delta(json!({"refusal": "I cannot."})), stop("stop")]).unwrap();
    assert_eq!((refused.text.as_str(), refused.finish), ("I cannot.", FinishReason::ContentFilter));
    let thought = streamed(&[delta(json!({"content": "<think>{\"a\":1}</think>\n\n{}"})), stop("stop")]).unwrap();
    assert_eq!(thought.text, "{}");
}

#[test]
fn an_error_within_the_stream_is_a_problem() {
    let mut answer = Accumulator::new(10);
    let problem = answer.push(r#"{"error":{"code":429,"message":"busy"}}"#).unwrap_err();
    assert!(matches!(problem, Problem::InBand(429, said) if said.names("busy")));
    assert!(matches!(answer.push("{\"choices\":"), Err(Problem::Unreadable(_))));
    assert!(matches!(answer.push("[1]"), Err(Problem::Unreadable(_))));
}

#[test]
fn odd_shapes_are_ignored() {
    for chunk in [
        json!({"choices": null}),
        json!({"choices": {}}),
        json!({"choices": [null, {"delta": null}, {"index": 1, "delta": {"content": "other"}}]}),
        delta(json!({"tool_calls": null, "content": 5})),
        delta(json!({"tool_calls": [null, 3, {"function": null}, {"index": -1}]})),
    ] {
        let answer = streamed(&[chunk, delta(json!({"content": "x"})), stop("stop")]).unwrap();
        assert_eq!((answer.text.as_str(), answer.tool_calls.len()), ("x", 0));
    }
}

#[test]
fn lists_of_models_are_read_in_three_forms() {
    for body in [r#"{"data":[{"id":"a"}]}"#, r#"{"models":[{"name":"a"}]}"#, r#"[{"id":"a"}]"#] {
        assert_eq!(model_names(body), ["a"], "{body}");
    }
    assert!(model_names("<html>").is_empty());
}

/// JSON of about the right shape, with anything anywhere.
fn any_chunk() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z{}\"é:]{0,8}".prop_map(Value::from),
        Just(json!("{\"p\":1}")),
    ];
    let name = prop::sample::select(vec![
        "choices",
        "delta",
        "message",
        "content",
        "tool_calls",
        "function",
        "name",
        "arguments",
        "id",
        "index",
        "finish_reason",
        "usage",
        "prompt_tokens",
        "completion_tokens",
        "error",
        "refusal",
        "text",
    ]);
    leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((name.clone(), inner), 0..5)
                .prop_map(|fields| Value::Object(fields.into_iter().map(|(n, v)| (n.to_owned(), v)).collect())),
        ]
    })
}

proptest! {
    #[test]
    fn whatever_comes_is_an_answer_or_an_error(chunks in prop::collection::vec(any_chunk(), 0..6), max in 0..40_usize) {
        let mut answer = Accumulator::new(max);
        for chunk in &chunks {
            let framed = json!({"choices": [{"delta": chunk}]});
            if answer.push_value(chunk).is_err() || answer.push_value(&framed).is_err() {
                return Ok(());
            }
        }
        let _ = answer.push("[DONE]");
        let Ok(answer) = answer.finish("seed", 100) else { return Ok(()) };
        let kept: usize = answer.tool_calls.iter().map(|c| c.arguments.len()).sum();
        // A call without arguments gets `{}`.
        prop_assert!(answer.text.len() + kept <= max + 2 * answer.tool_calls.len());
        let ids: HashSet<&str> = answer.tool_calls.iter().map(|c| c.id.as_str()).collect();
        prop_assert_eq!(ids.len(), answer.tool_calls.len());
        prop_assert!(answer.tool_calls.iter().all(|c| !c.id.is_empty() && !c.name.is_empty()));
    }
}
