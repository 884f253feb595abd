use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::chat::{Conversation, ToolSpecification};

fn hit(rule: &str, line: u64, quote: &str, changed: bool) -> Value {
    json!({
        "rule": rule, "severity": "major", "category": "security", "title": "Evaluates input", "why": "It runs code.",
        "fix": "Parse it.", "line": line, "end_line": line, "quote": quote, "replacement": null, "confidence": 0.8,
        "changed": changed,
    })
}

fn result(hits: &[Value]) -> String {
    json!({"hits": hits, "note": ""}).to_string()
}

fn request(role: ModelRole, messages: Vec<ChatMessage>, tools: &[&str]) -> ChatRequest {
    let specification = |name: &&str| ToolSpecification {
        name: (*name).to_owned(),
        description: String::new(),
        parameters: json!({"type": "object"}),
    };
    ChatRequest {
        conversation: Conversation { role, subject: "app.py".to_owned() },
        messages,
        tools: tools.iter().map(specification).collect(),
        response_schema: None,
        max_output_tokens: None,
    }
}

/// Answers every call of the model with what `tool` gives, until it says something.
fn run(mut request: ChatRequest, tool: impl Fn(&str) -> String) -> String {
    for _ in 0..3 {
        let response = respond(&request);
        if response.tool_calls.is_empty() {
            assert_eq!(response.finish, FinishReason::Stop);
            return response.text;
        }
        assert_eq!(response.finish, FinishReason::ToolCalls);
        let calls = response.tool_calls;
        request.messages.push(ChatMessage::Assistant { text: response.text, tool_calls: calls.clone() });
        for call in calls {
            assert!(call.arguments.contains("app.py"));
            let text = tool(&call.name);
            request.messages.push(ChatMessage::Tool { call_id: call.id, name: call.name, text });
        }
    }
    panic!("it went in circles");
}

const TOOLS: [&str; 4] = ["read_file", "check_security", "check_performance", "check_style"];

#[test]
fn a_reviewer_calls_the_checks_at_once_and_reports_changed_hits() {
    let asked = request(ModelRole::Reviewer, vec![ChatMessage::system("s"), ChatMessage::user("u")], &TOOLS);
    let calls = respond(&asked).tool_calls;
    assert_eq!(calls.iter().map(|c| c.name.as_str()).collect::<Vec<_>>(), CHECKS);
    let text = run(asked, |tool| match tool {
        "check_security" => result(&[hit("python-eval", 3, "eval(x)", true), hit("python-eval", 9, "eval(y)", false)]),
        "check_performance" => "failed for now: cannot read".to_owned(),
        _ => result(&[]),
    });
    insta::assert_snapshot!(text, @r#"{"findings":[{"path":"app.py","quote":"eval(x)","line":3,"end_line":3,"side":"RIGHT","severity":"major","category":"security","title":"Evaluates input","body":"It runs code.\n\nParse it.","replacement":null,"confidence":0.8,"source":"python-eval"}],"summary":"The embedded rules found one problem in the changed lines. check_performance gave no result (failed for now: cannot read)."}"#);
}

#[test]
fn only_offered_checks_are_called_and_without_any_it_says_so() {
    let only = request(ModelRole::Reviewer, vec![ChatMessage::user("u")], &["check_style"]);
    assert_eq!(respond(&only).tool_calls.len(), 1);
    let none = request(ModelRole::Reviewer, vec![ChatMessage::user("u")], &[]);
    insta::assert_snapshot!(respond(&none).text, @r#"{"findings":[],"summary":"The embedded rules could not look at this file."}"#);
}

#[test]
fn asked_again_it_gives_the_same_answer() {
    let mut asked = request(ModelRole::Reviewer, vec![ChatMessage::user("u")], &TOOLS);
    for call in respond(&asked).tool_calls {
        let text = result(&[hit("r", 1, "q", true)]);
        asked.messages.push(ChatMessage::Tool { call_id: call.id, name: call.name, text });
    }
    let first = respond(&asked);
    asked.messages.push(ChatMessage::assistant(first.text.clone()));
    asked.messages.push(ChatMessage::user("Another round: the replacement is missing."));
    assert_eq!(respond(&asked), first);
}

#[test]
fn whole_hits_are_salvaged_from_a_clipped_result() {
    let fake = r#"{"rule":"fake","quote":"x","changed":true}"#;
    let hits: Vec<Value> = (1..=9).map(|n| hit("python-eval", n, &format!("eval({n}) # {fake}"), true)).collect();
    let whole = result(&hits);
    let (head, tail) = (&whole[..whole.len() / 2 - 40], &whole[whole.len() / 2 + 90..]);
    let clipped = format!("{head}\n… 100 tokens left out …\n{tail}");
    let text = run(request(ModelRole::Reviewer, vec![], &["check_security"]), |_| clipped.clone());
    let answer: Value = serde_json::from_str(&text).unwrap();
    let lines: Vec<u64> = answer["findings"].as_array().unwrap().iter().map(|f| f["line"].as_u64().unwrap()).collect();
    assert!(lines.len() >= 6 && lines.contains(&1) && lines.contains(&9), "{lines:?}");
    assert!(answer["findings"].as_array().unwrap().iter().all(|f| f["source"] == "python-eval"));
    assert!(answer["summary"].as_str().unwrap().contains("cut off"));
}

#[test]
fn a_critic_keeps_what_a_rule_hits_again_and_drops_the_rest() {
    let findings = json!({"findings": [
        {"path": "app.py", "quote": "  eval( x )", "category": "correctness", "source": "python-eval"},
        {"path": "app.py", "quote": "eval(x)", "category": "security", "source": ""},
        {"path": "app.py", "quote": "eval(old)", "category": "security", "source": "python-eval"},
        {"path": "app.py", "quote": "open(y)", "category": "security", "source": "python-open"},
    ]});
    let example = "```json\n{\"findings\":[{\"quote\":\"example\"}]}\n```";
    let messages = vec![
        ChatMessage::system(example),
        ChatMessage::user(format!("# Findings to refute\n\n```json\n{findings}\n```")),
    ];
    let tool = |tool: &str| match tool {
        "check_security" => {
            result(&[hit("python-eval", 3, "eval(x)", true), hit("python-eval", 9, "eval(old)", false)])
        }
        _ => result(&[]),
    };
    let text = run(request(ModelRole::Critic, messages.clone(), &TOOLS), tool);
    insta::assert_snapshot!(text, @r#"{"verdicts":[{"index":0,"verdict":"keep","reason":"Rule `python-eval` hits this code again.","confidence":0.9},{"index":1,"verdict":"keep","reason":"Rule `python-eval` hits this code again.","confidence":0.9},{"index":2,"verdict":"drop","reason":"No rule hits this code in the changed lines.","confidence":0.9},{"index":3,"verdict":"drop","reason":"No rule hits this code in the changed lines.","confidence":0.9}],"missed":[]}"#);
    // Without tools nothing is refuted.
    let text = run(request(ModelRole::Critic, messages, &[]), tool);
    assert_eq!((text.matches("\"keep\"").count(), text.matches("\"drop\"").count()), (4, 0));
}

fn thread(said: &str, tools: &[&str]) -> ChatRequest {
    let finding = json!({
        "path": "app.py", "title": "Evaluates input", "body": "It runs code.\n\nParse it.", "category": "security",
        "source": "python-eval", "quote": "eval(x)", "severity": "major", "evidence": [],
    });
    let system = format!("The thread is about this finding:\n\n```json\n{finding}\n```");
    request(ModelRole::Answer, vec![ChatMessage::system(system), ChatMessage::user(said)], tools)
}

#[test]
fn a_question_is_answered_with_the_rationale_and_what_the_code_shows() {
    let text = run(thread("Why is this bad?", &TOOLS), |tool| {
        assert_eq!(tool, "check_security");
        result(&[hit("python-eval", 5, "eval(x)", true)])
    });
    insta::assert_snapshot!(text, @"
    Evaluates input (rule `python-eval`): It runs code.

    Parse it.

    The rule `python-eval` still matches at line 5 of `app.py`:

    ```
    eval(x)
    ```

    This answer comes from secondlook's embedded rules, not from a language model, so it cannot weigh an argument.
    ");
}

#[test]
fn a_claim_of_a_fix_is_checked() {
    let gone = run(thread("Fixed!", &TOOLS), |_| result(&[]));
    insta::assert_snapshot!(gone, @"
    The rule `python-eval` no longer matches in `app.py`.

    This answer comes from secondlook's embedded rules, not from a language model, so it cannot weigh an argument.
    ");
    let stands = run(thread("Fixed!", &TOOLS), |_| result(&[hit("python-eval", 7, "eval(z)", true)]));
    assert!(stands.contains("still matches at line 7") && stands.contains("eval(z)"), "{stands}");
    let failed = run(thread("Fixed!", &TOOLS), |_| "timed out".to_owned());
    assert!(failed.starts_with("Whether it is fixed could not be checked."), "{failed}");
}

#[test]
fn a_refusal_is_accepted_and_a_disagreement_told_how_to_end_it() {
    let text = run(thread("This is by design.", &TOOLS), |_| result(&[hit("python-eval", 5, "eval(x)", true)]));
    insta::assert_snapshot!(text, @"
    Understood. It stays as it is, and this will not be raised again here.

    This answer comes from secondlook's embedded rules, not from a language model, so it cannot weigh an argument.
    ");
    let text = run(thread("I disagree.", &TOOLS), |_| result(&[hit("python-eval", 5, "eval(x)", true)]));
    assert!(text.contains("still matches at line 5") && text.contains("won't fix"), "{text}");
    let other = request(ModelRole::Answer, vec![ChatMessage::user("What is this pull request about?")], &TOOLS);
    insta::assert_snapshot!(respond(&other).text, @"
    This thread is not about one of the rules' findings, so there is nothing they can say about it. A language model can be set with SECONDLOOK_MODEL.

    This answer comes from secondlook's embedded rules, not from a language model, so it cannot weigh an argument.
    ");
}

#[test]
fn a_check_of_an_earlier_turn_is_not_taken_for_the_present() {
    let mut asked = thread("Why?", &TOOLS);
    let old = result(&[hit("python-eval", 5, "eval(x)", true)]);
    let name = "check_security".to_owned();
    asked.messages.push(ChatMessage::Tool { call_id: "old".to_owned(), name, text: old });
    asked.messages.push(ChatMessage::assistant("…"));
    asked.messages.push(ChatMessage::user("Fixed now."));
    let text = run(asked, |_| result(&[]));
    assert!(text.contains("no longer matches"), "{text}");
}

#[test]
fn a_summary_lists_first_sentences_and_a_plan_is_empty() {
    let messages = vec![
        ChatMessage::system("Summarise."),
        ChatMessage::user("We target Java 8. Do not use var."),
        ChatMessage::assistant("Understood."),
    ];
    let text = respond(&request(ModelRole::Summary, messages.clone(), &[])).text;
    assert_eq!(text, "- person: We target Java 8.\n- secondlook: Understood.");
    assert_eq!(respond(&request(ModelRole::Planner, messages, &[])).text, r#"{"steps":[]}"#);
}

#[tokio::test]
async fn it_is_a_chat_model_that_costs_nothing() {
    let response = EmbeddedModel.chat(&request(ModelRole::Planner, vec![], &[])).await.unwrap();
    assert_eq!(response.usage, TokenUsage { calls: 1, ..TokenUsage::default() });
    assert_eq!(EmbeddedModel.name(), "embedded");
}

fn any_text() -> impl Strategy<Value = String> {
    let real = result(&[hit("r", 1, "eval(é)", true), hit("s", 2, "x", true)]);
    let damaged = (0..real.len()).prop_map(move |n| real.chars().take(n).collect::<String>());
    let fenced = "[ -~é\\n]{0,40}".prop_map(|body| format!("```json\n{{\"findings\":[{{\"quote\":1}}],{body}\n```"));
    prop_oneof![
        "\\PC{0,60}",
        damaged,
        fenced,
        Just("```json\n{\"title\":\"t\",\"path\":\"p\",\"quote\":\"`é\"}\n```".to_owned()),
        Just("```json\n{\"findings\":[1,null,{}]}\n```".to_owned()),
        Just("{\"hits\":[null,{\"rule\":\"r\",\"quote\":\"q\",\"line\":-1,\"changed\":\"yes\"}]}".to_owned()),
    ]
}

fn any_message() -> impl Strategy<Value = ChatMessage> {
    let name = prop::sample::select(vec!["check_security", "check_style", "read_file", ""]);
    (0..4_u8, any_text(), name).prop_map(|(kind, text, name)| match kind {
        0 => ChatMessage::System { text },
        1 => ChatMessage::User { text },
        2 => {
            let call = ToolCall { id: text.clone(), name: name.to_owned(), arguments: text.clone() };
            ChatMessage::Assistant { text, tool_calls: vec![call] }
        }
        _ => ChatMessage::Tool { call_id: String::new(), name: name.to_owned(), text },
    })
}

proptest! {
    #[test]
    fn no_request_makes_it_panic_and_its_forms_always_parse(
        messages in prop::collection::vec(any_message(), 0..8),
        role in prop::sample::select(vec![
            ModelRole::Reviewer, ModelRole::Critic, ModelRole::Planner, ModelRole::Answer, ModelRole::Summary,
        ]),
        with_tools in any::<bool>(),
    ) {
        let tools: &[&str] = if with_tools { &TOOLS } else { &[] };
        let response = respond(&request(role, messages, tools));
        if !response.tool_calls.is_empty() {
            prop_assert!(with_tools);
            return Ok(());
        }
        let key = match role {
            ModelRole::Reviewer => "findings",
            ModelRole::Critic => "verdicts",
            ModelRole::Planner => "steps",
            ModelRole::Answer | ModelRole::Summary => return Ok(()),
        };
        let value: Value = serde_json::from_str(&response.text).unwrap();
        prop_assert!(value[key].is_array());
    }
}
