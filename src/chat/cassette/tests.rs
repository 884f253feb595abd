use serde_json::json;

use super::*;
use crate::chat::embedded::EmbeddedModel;
use crate::chat::router::Router;
use crate::chat::{ChatMessage, Conversation, ModelRole, ToolSpecification};

/// Made by [`a_recording_is_what_stands_in_the_fixtures`]; when the form of a cassette changes, so must this.
const RECORDED: &str = include_str!("../../../fixtures/cassette/review_of_one_file.jsonl");

fn request(messages: Vec<ChatMessage>) -> ChatRequest {
    let tool = ToolSpecification {
        name: "check_security".to_owned(),
        description: "Looks.".to_owned(),
        parameters: json!({"type": "object"}),
    };
    ChatRequest {
        conversation: Conversation { role: ModelRole::Reviewer, subject: "app.py".to_owned() },
        messages,
        tools: vec![tool],
        response_schema: None,
        max_output_tokens: None,
    }
}

fn hit() -> String {
    json!({"hits": [{"rule": "python-eval", "quote": "eval(x)", "line": 3, "changed": true}], "note": ""}).to_string()
}

/// Two turns of a review: the call of a check, and the answer.
async fn review(model: &dyn ChatModel) -> Result<Vec<ChatResponse>, ChatError> {
    let mut asked = request(vec![ChatMessage::user("Review app.py.")]);
    let first = model.chat(&asked).await?;
    asked.messages.push(ChatMessage::Assistant { text: first.text.clone(), tool_calls: first.tool_calls.clone() });
    for call in &first.tool_calls {
        asked.messages.push(ChatMessage::Tool { call_id: call.id.clone(), name: call.name.clone(), text: hit() });
    }
    Ok(vec![first, model.chat(&asked).await?])
}

async fn record() -> String {
    let recorder = Recorder::new(Arc::new(EmbeddedModel), Vec::new());
    review(&recorder).await.unwrap();
    String::from_utf8(recorder.into_tape()).unwrap()
}

#[tokio::test]
async fn a_recording_is_what_stands_in_the_fixtures() {
    assert_eq!(record().await, RECORDED);
}

#[tokio::test]
async fn a_replay_gives_what_was_recorded() {
    let replay = Replay::new(RECORDED).unwrap();
    assert_eq!((replay.name(), replay.unused()), ("embedded", 2));
    assert_eq!(review(&replay).await.unwrap(), review(&EmbeddedModel).await.unwrap());
    assert_eq!(replay.unused(), 0);
}

#[tokio::test]
async fn a_request_that_was_not_recorded_says_how_it_differs() {
    let replay = Replay::new(RECORDED).unwrap();
    let asked = || request(vec![ChatMessage::user("Review app.py.")]);
    let other_path = Conversation { subject: "b.py".to_owned(), ..asked().conversation };
    let cases = [
        (request(vec![ChatMessage::user("Other.")]), "message 1 differs (1 messages asked, "),
        (ChatRequest { tools: Vec::new(), ..asked() }, "the tools differ"),
        (ChatRequest { max_output_tokens: Some(1), ..asked() }, "the form or the length"),
        (ChatRequest { conversation: other_path, ..asked() }, "nothing of this conversation"),
    ];
    for (other, expected) in cases {
        let error = replay.chat(&other).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    replay.chat(&asked()).await.unwrap();
    let error = replay.chat(&asked()).await.unwrap_err().to_string();
    assert!(error.contains("more often than then"), "{error}");
    assert_eq!(replay.unused(), 1);
}

#[test]
fn a_damaged_cassette_is_refused_with_its_line() {
    let cut = RECORDED.get(..RECORDED.len() - 20).unwrap();
    assert_eq!(Replay::new(cut).err().map(|e| e.line), Some(2));
    assert_eq!(Replay::new("\n \n").err().map(|e| e.line), Some(0));
}

#[tokio::test]
async fn secrets_are_not_recorded() {
    let recorder = Arc::new(Recorder::new(Arc::new(EmbeddedModel), Vec::new()));
    let asked = request(vec![ChatMessage::user("password = \"S3cr3t!pw\"")]);
    Router::single(recorder.clone()).chat(&asked).await.unwrap();
    let tape = Arc::into_inner(recorder).unwrap().into_tape();
    let text = String::from_utf8(tape).unwrap();
    assert!(text.contains("[redacted:secret]") && !text.contains("S3cr3t"), "{text}");
}

struct Full;

impl Write for Full {
    fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
        Err(std::io::Error::other("no space left"))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_call_that_cannot_be_written_down_fails() {
    let error = review(&Recorder::new(Arc::new(EmbeddedModel), Full)).await.unwrap_err();
    assert_eq!(error, ChatError::Rejected("the call cannot be recorded: no space left".to_owned()));
}
