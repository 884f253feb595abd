//! The embedded model in threads, through the real agent, toolbox and rules. How it reviews is in `file_review`.

use std::sync::Arc;

use secondlook::agent::graph::RunContext;
use secondlook::agent::react::{Ask, ask};
use secondlook::chat::embedded::EmbeddedModel;
use secondlook::chat::router::Router;
use secondlook::chat::{ChatMessage, Conversation, ModelRole};
use secondlook::diff::make::make_hunks;
use secondlook::diff::{FileDiff, FileStatus};
use secondlook::tool::ToolContext;
use secondlook::tool::checkout::Checkout;
use secondlook::tool::toolbox::Toolbox;
use serde_json::json;

use crate::agent::Bench;

const OLD: &str = "def run(text):\n    return None\n";
const BAD: &str = "def run(text):\n    return eval(text)\n";
const GOOD: &str = "import json\n\n\ndef run(text):\n    return json.loads(text)\n";

/// What it answers in a thread about `eval(text)`, while the file is `now`.
async fn answer(now: &str, said: &str, toolbox: &Toolbox) -> (String, usize) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("app.py"), now).unwrap();
    let diff = FileDiff {
        path: "app.py".to_owned(),
        old_path: None,
        status: FileStatus::Modified,
        hunks: make_hunks(OLD, now),
    };
    let tools = ToolContext {
        source: Arc::new(Checkout::new(dir.path()).unwrap()),
        files: Arc::new(vec![Arc::new(diff)]),
        path: "app.py".to_owned(),
    };
    let finding = json!({
        "path": "app.py", "quote": "    return eval(text)", "title": "Evaluating text that is not a constant",
        "body": "Whoever influences this text runs code of their own.\n\nParse the value instead.",
        "category": "security", "severity": "critical", "source": "python-eval", "evidence": [],
    });
    let question = Ask {
        conversation: Conversation { role: ModelRole::Answer, subject: "7/42".to_owned() },
        messages: vec![
            ChatMessage::system(format!("You answer in a thread about this finding.\n\n```json\n{finding}\n```")),
            ChatMessage::assistant("Evaluating text that is not a constant"),
            ChatMessage::user(said),
        ],
        response_schema: None,
    };
    let bench = Bench::new().await;
    let run = RunContext::new("thread", bench.checkpoints(), bench.events(), bench.shared_clock(), bench.stop.clone());
    let said = ask(question, &Router::single(Arc::new(EmbeddedModel)), toolbox, &tools, &run).await.unwrap();
    assert_eq!((said.usage.input, said.usage.output, said.cut), (0, 0, false), "rules cost no tokens");
    (said.text, said.transcript.len())
}

#[tokio::test]
async fn a_question_is_answered_from_the_rule_and_the_code_as_it_is() {
    let (text, said) = answer(BAD, "Why is that a problem?", &Toolbox::reviewing()).await;
    assert_eq!(said, 3, "a call, its result, the answer");
    insta::assert_snapshot!(text, @"
    Evaluating text that is not a constant (rule `python-eval`): Whoever influences this text runs code of their own.

    Parse the value instead.

    The rule `python-eval` still matches at line 2 of `app.py`:

    ```
        return eval(text)
    ```

    This answer comes from secondlook's embedded rules, not from a language model, so it cannot weigh an argument.
    ");
}

#[tokio::test]
async fn a_claim_of_a_fix_is_held_against_the_code() {
    let (text, _) = answer(GOOD, "Fixed, thanks.", &Toolbox::reviewing()).await;
    insta::assert_snapshot!(text, @"
    The rule `python-eval` no longer matches in `app.py`.

    This answer comes from secondlook's embedded rules, not from a language model, so it cannot weigh an argument.
    ");
    let (text, _) = answer(BAD, "Fixed, thanks.", &Toolbox::reviewing()).await;
    insta::assert_snapshot!(text, @"
    The rule `python-eval` still matches at line 2 of `app.py`:

    ```
        return eval(text)
    ```

    This answer comes from secondlook's embedded rules, not from a language model, so it cannot weigh an argument.
    ");
}

#[tokio::test]
async fn a_decision_is_accepted_and_without_tools_nothing_is_claimed_of_the_code() {
    let (text, _) = answer(BAD, "Won't fix: the text comes from our own build.", &Toolbox::reviewing()).await;
    insta::assert_snapshot!(text, @"
    Understood. It stays as it is, and this will not be raised again here.

    This answer comes from secondlook's embedded rules, not from a language model, so it cannot weigh an argument.
    ");
    let (text, said) = answer(BAD, "I disagree", &Toolbox::new(Vec::new())).await;
    assert_eq!(said, 1);
    insta::assert_snapshot!(text, @r#"
    Evaluating text that is not a constant (rule `python-eval`): Whoever influences this text runs code of their own.

    Parse the value instead.

    This answer comes from secondlook's embedded rules, not from a language model, so it cannot weigh an argument. If the code is right as it is, reply "won't fix", and this will not be raised again.
    "#);
}
