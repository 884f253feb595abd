//! The OpenAI-compatible adapter against a strict stand-in over real connections.

pub(crate) mod server;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use secondlook::chat::openai::{OpenAiModel, Settings};
use secondlook::chat::router::{self, Router};
use secondlook::chat::{
    ChatError, ChatMessage, ChatModel, ChatRequest, ChatResponse, Conversation, FinishReason, ModelRole,
    ResponseSchema, ToolCall, ToolSpecification,
};
use secondlook::clock::Clock;
use secrecy::SecretString;
use serde_json::json;
use server::{End, Reply, Server, delta, finish, json_body, refuses, says, usage};
use url::Url;

const KEY: &str = "sk-test-0123456789abcdef0123456789";

struct At(&'static str);

impl Clock for At {
    fn now(&self) -> Timestamp {
        self.0.parse().unwrap()
    }
}

fn settings(base: &str) -> Settings {
    Settings::new("test", "tester-1", Url::parse(base).unwrap(), Some(SecretString::from(KEY.to_owned())))
}

fn model_with(server: &Server, change: impl FnOnce(&mut Settings)) -> OpenAiModel {
    let mut settings = settings(&server.base);
    change(&mut settings);
    OpenAiModel::new(settings, Arc::new(At("2015-10-21T07:28:00Z"))).unwrap()
}

fn model(server: &Server) -> OpenAiModel {
    model_with(server, |_| {})
}

fn request(text: &str) -> ChatRequest {
    ChatRequest {
        conversation: Conversation { role: ModelRole::Reviewer, subject: "src/a.rs".to_owned() },
        messages: vec![ChatMessage::system("Answer as JSON."), ChatMessage::user(text)],
        tools: Vec::new(),
        response_schema: None,
        max_output_tokens: Some(1_000),
    }
}

fn with_tools(text: &str) -> ChatRequest {
    let tool = |name: &str| ToolSpecification {
        name: name.to_owned(),
        description: "d".to_owned(),
        parameters: json!({"type": "object"}),
    };
    ChatRequest { tools: vec![tool("read_file"), tool("search_code")], ..request(text) }
}

fn with_schema(text: &str) -> ChatRequest {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]});
    ChatRequest { response_schema: Some(ResponseSchema { name: "answer".to_owned(), schema }), ..request(text) }
}

async fn ask(replies: impl IntoIterator<Item = Reply>) -> Result<ChatResponse, ChatError> {
    let server = Server::start(replies).await;
    model(&server).chat(&request("hello")).await
}

#[tokio::test]
async fn a_streamed_answer_comes_with_its_usage_and_goes_out_as_it_should() {
    let server = Server::start([says("Hello, wörld")]).await;
    let model = model_with(&server, |s| s.headers.push(("x-team".to_owned(), SecretString::from("blue".to_owned()))));
    let answer = model.chat(&request("hello")).await.unwrap();
    insta::assert_snapshot!(serde_json::to_string(&answer).unwrap(), @r#"{"text":"Hello, wörld","tool_calls":[],"finish":"stop","usage":{"calls":1,"input":100,"cached_input":60,"output":7,"cost_micro_usd":0}}"#);
    let asked = &server.asked()[0];
    assert_eq!(asked.headers["authorization"], format!("Bearer {KEY}"));
    assert_eq!((asked.headers["x-team"].as_bytes(), asked.path.as_str()), (&b"blue"[..], "/v1/chat/completions"));
    insta::assert_snapshot!(asked.body, @r#"{"model":"tester-1","messages":[{"role":"system","content":"Answer as JSON."},{"role":"user","content":"hello"}],"max_tokens":1000,"stream":true,"stream_options":{"include_usage":true}}"#);
}

#[tokio::test]
async fn azure_gets_its_key_in_its_own_header() {
    let server = Server::start([says("x")]).await;
    let mut settings = Settings::new("azure", "d", Url::parse(&server.base).unwrap(), Some(SecretString::from(KEY)));
    settings.max_response_bytes = 10;
    OpenAiModel::new(settings, Arc::new(At("2015-10-21T07:28:00Z"))).unwrap().chat(&request("x")).await.unwrap();
    let headers = &server.asked()[0].headers;
    assert_eq!((headers["api-key"].as_bytes(), headers.get("authorization")), (KEY.as_bytes(), None));
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_read_too() {
    let body = json!({"choices": [{"message": {"role": "assistant", "content": "whole"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 2}});
    let answer = ask([json_body(&body.to_string())]).await.unwrap();
    assert_eq!((answer.text.as_str(), answer.finish, answer.usage.input), ("whole", FinishReason::Stop, 9));
    // A stream under a wrong content type.
    let body = format!("data: {}\n\ndata: {}\n\ndata: [DONE]\n\n", delta(&json!({"content": "odd"})), finish("stop"));
    assert_eq!(ask([json_body(&body)]).await.unwrap().text, "odd");
}

#[tokio::test]
async fn parallel_calls_make_a_round_trip() {
    let call = |index: u64, id: &str, name: &str, arguments: &str| {
        delta(
            &json!({"tool_calls": [{"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": arguments}}]}),
        )
    };
    let more = |index: u64, arguments: &str| {
        delta(&json!({"tool_calls": [{"index": index, "function": {"arguments": arguments}}]}))
    };
    let events = vec![
        call(0, "call_a", "read_file", ""),
        call(1, "", "search_code", "{\"query\":\"f"),
        more(0, "{\"path\":"),
        more(1, "oo\"}"),
        more(0, "\"src/a.rs\"}"),
        finish("tool_calls"),
        usage(50, 0, 20),
    ];
    let server = Server::start([Reply::Stream(events, End::Done), says("done")]).await;
    let model = model(&server);
    let mut request = with_tools("look");
    let answer = model.chat(&request).await.unwrap();
    assert_eq!(answer.finish, FinishReason::ToolCalls);
    let arguments: Vec<&str> = answer.tool_calls.iter().map(|c| c.arguments.as_str()).collect();
    assert_eq!(arguments, [r#"{"path":"src/a.rs"}"#, r#"{"query":"foo"}"#]);
    assert!(answer.tool_calls[1].id.starts_with("call"), "an id is made up");
    request.messages.push(ChatMessage::Assistant { text: answer.text, tool_calls: answer.tool_calls.clone() });
    for ToolCall { id, name, .. } in answer.tool_calls {
        request.messages.push(ChatMessage::Tool { call_id: id, name, text: "result".to_owned() });
    }
    // The stand-in checks that every call has its result.
    assert_eq!(model.chat(&request).await.unwrap().text, "done");
}

#[tokio::test]
async fn a_schema_falls_back_and_what_was_learned_is_kept() {
    let server = Server::start([
        refuses(400, "'response_format' of type 'json_schema' is not supported by this model", "unsupported_value"),
        says("{}"),
        says("{}"),
        refuses(400, "response_format is not supported", ""),
        says("{}"),
    ])
    .await;
    let model = model(&server);
    let forms = |server: &Server| -> Vec<String> {
        server.bodies().iter().map(|b| b["response_format"]["type"].as_str().unwrap_or("none").to_owned()).collect()
    };
    model.chat(&with_schema("a")).await.unwrap();
    assert_eq!(forms(&server), ["json_schema", "json_object"]);
    model.chat(&with_schema("b")).await.unwrap();
    assert_eq!(forms(&server)[2..], ["json_object"]);
    model.chat(&with_schema("c")).await.unwrap();
    assert_eq!(forms(&server)[3..], ["json_object", "none"]);
    assert_eq!(server.bodies()[0]["response_format"]["json_schema"]["schema"]["additionalProperties"], json!(false));
}

#[tokio::test]
async fn optional_fields_are_left_out_once_they_are_refused() {
    let server = Server::start([
        refuses(400, "Unrecognized request argument supplied: stream_options", ""),
        refuses(422, "parallel_tool_calls: Extra inputs are not permitted", ""),
        refuses(400, "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead.", ""),
        says("ok"),
        says("ok"),
    ])
    .await;
    let model = model(&server);
    model.chat(&with_tools("a")).await.unwrap();
    model.chat(&with_tools("b")).await.unwrap();
    let fields =
        |index: usize| server.bodies()[index].as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
    assert_eq!(fields(0), "model messages tools parallel_tool_calls max_tokens stream stream_options");
    assert_eq!(fields(3), "model messages tools max_completion_tokens stream");
    assert_eq!(fields(4), fields(3));
}

#[tokio::test]
async fn a_stream_that_stops_in_the_middle_is_an_error() {
    let cut = Err(ChatError::Unavailable("the stream was cut".to_owned()));
    for end in [End::Cut, End::Silent] {
        assert_eq!(ask([Reply::Stream(vec![delta(&json!({"content": "half an ans"}))], end)]).await, cut);
    }
    // After the reason to stop only the usage is missing.
    let ended = vec![delta(&json!({"content": "whole"})), finish("stop")];
    for end in [End::Cut, End::Silent] {
        assert_eq!(ask([Reply::Stream(ended.clone(), end)]).await.unwrap().text, "whole");
    }
}

#[tokio::test]
async fn every_wait_has_its_end() {
    let short = Duration::from_millis(60);
    let long = Duration::from_secs(600);
    let half = vec![delta(&json!({"content": "half"}))];
    let alive = vec![": keep-alive".to_owned()];
    let waits = |first: Duration, idle: Duration, whole: Duration| {
        move |s: &mut Settings| {
            (s.first_token_timeout, s.idle_timeout, s.whole_timeout) = (first, idle, whole);
        }
    };
    for (reply, waits, expected) in [
        (Reply::Never, waits(short, long, long), "first token"),
        (Reply::Stream(vec![], End::Hang), waits(short, long, long), "first token"),
        (Reply::Stream(half.clone(), End::Hang), waits(long, short, long), "next token"),
        (Reply::Stream(alive, End::Hang), waits(long, short, long), "next token"),
        (Reply::Never, waits(long, long, short), "whole answer"),
        (Reply::Stream(half, End::Hang), waits(long, long, short), "whole answer"),
    ] {
        let server = Server::start([reply]).await;
        let answer = model_with(&server, waits).chat(&request("hello")).await;
        assert_eq!(answer, Err(ChatError::TimedOut(expected)));
    }
    // A server that has said why it stopped need not be waited for.
    let server = Server::start([Reply::Stream(vec![delta(&json!({"content": "a"})), finish("stop")], End::Hang)]).await;
    assert_eq!(model_with(&server, waits(long, short, long)).chat(&request("x")).await.unwrap().text, "a");
}

#[tokio::test]
async fn refusals_become_errors_that_say_what_to_do_and_hold_no_secret() {
    let prompt = "fn private_algorithm() -> u32 { 4_815_162_342 % 23 }";
    for (reply, expected) in [
        (
            refuses(401, &format!("Incorrect API key provided: {KEY}"), "invalid_api_key"),
            "the model provider refused the credentials: check the API key for HOST (it says: Incorrect API key provided: [redacted:key])",
        ),
        (
            refuses(404, "The model `tester-1` does not exist", "model_not_found"),
            "the model provider refused the request: HOST has no model `tester-1`; set SECONDLOOK_MODEL to one it offers, or pull it there first (it says: The model `tester-1` does not exist)",
        ),
        (
            refuses(400, "This model's maximum context length is 8192 tokens.", "context_length_exceeded"),
            "the model provider refused the request: the prompt is too long for `tester-1` (it says: This model's maximum context length is 8192 tokens.)",
        ),
        (
            refuses(429, "You exceeded your current quota", "insufficient_quota"),
            "the model provider refused the request: the account's quota is used up; raise it or choose another model (it says: You exceeded your current quota)",
        ),
        (
            refuses(400, &format!("cannot parse {prompt}"), ""),
            "the model provider refused the request: status 400 for `tester-1` (it repeats the prompt in its reasons, which are left out here)",
        ),
        (refuses(500, "boom", ""), "the model provider failed: status 500 (it says: boom)"),
        (
            Reply::Plain(307, vec![("location", "https://elsewhere.example/v1".to_owned())], String::new()),
            "the model provider refused the request: HOST redirects elsewhere; set the base URL to the final address",
        ),
        (json_body("{\"choices\": [{\"mess"), "the model provider's answer cannot be read: it is not whole JSON"),
        (json_body("[]"), "the model provider's answer cannot be read: it holds no choices; check the base URL"),
        (
            Reply::Plain(200, vec![("content-type", "text/html".to_owned())], "<html>Sign in</html>".to_owned()),
            "the model provider's answer cannot be read: it is not JSON but `text/html`; check the base URL",
        ),
        (
            Reply::Stream(vec!["{\"choices\":[{".to_owned()], End::Done),
            "the model provider's answer cannot be read: a piece of the stream is not JSON",
        ),
        (
            Reply::Stream(vec![json!({"error": {"message": "overloaded", "code": 503}}).to_string()], End::Done),
            "the model provider failed: status 503 (it says: overloaded)",
        ),
        (
            json_body(r#"{"error":{"message":"upstream died"}}"#),
            "the model provider failed: status 502 (it says: upstream died)",
        ),
    ] {
        let server = Server::start([reply]).await;
        let error = model(&server).chat(&request(prompt)).await.unwrap_err();
        let text = error.to_string().replace(server.base.trim_start_matches("http://"), "HOST");
        assert_eq!(text, expected);
        assert!(!format!("{error:?}").contains(KEY));
    }
}

#[tokio::test]
async fn a_rate_limit_tells_when_to_come_back() {
    for (header, value, seconds) in [
        ("retry-after", "7", Some(7)),
        ("retry-after", "Wed, 21 Oct 2015 07:29:00 GMT", Some(60)),
        ("x-unrelated", "1", None),
    ] {
        let reply =
            Reply::Plain(429, vec![(header, value.to_owned())], "{\"error\":{\"message\":\"slow down\"}}".to_owned());
        let retry_after = seconds.map(Duration::from_secs);
        assert_eq!(ask([reply]).await, Err(ChatError::RateLimited { retry_after }));
    }
}

#[tokio::test]
async fn a_router_tries_again_within_its_bounds() {
    let limited = Reply::Plain(429, vec![("retry-after", "0".to_owned())], String::new());
    let server = Server::start([refuses(500, "boom", ""), limited, says("third time")]).await;
    let settings = router::Settings { first_wait: Duration::ZERO, ..router::Settings::default() };
    let router = Router::builder(Arc::new(model(&server))).settings(settings).build();
    assert_eq!(router.name(ModelRole::Reviewer), "test::tester-1");
    assert_eq!(router.chat(&request("x")).await.unwrap().text, "third time");
    assert_eq!(server.asked().len(), 3);
}

#[tokio::test]
async fn two_megabytes_are_cut_and_not_kept() {
    let piece = "x".repeat(64 * 1024);
    let events: Vec<String> = (0..32).map(|_| delta(&json!({"content": piece}))).collect();
    let whole =
        json!({"choices": [{"message": {"content": "y".repeat(2 << 20)}, "finish_reason": "stop"}]}).to_string();
    for reply in [Reply::Stream(events, End::Done), json_body(&whole)] {
        let answer = ask([reply]).await.unwrap();
        assert_eq!((answer.text.len(), answer.finish), (512 * 1024, FinishReason::Length));
    }
    // Without end and without an event: the wire has its own bound.
    let server = Server::start([Reply::Stream(vec![format!(":{}", "z".repeat(5 << 20))], End::Hang)]).await;
    let error = model(&server).chat(&request("x")).await.unwrap_err();
    assert!(matches!(&error, ChatError::Unreadable(text) if text.starts_with("it is longer than")), "{error}");
}

#[tokio::test]
async fn a_model_is_looked_for_before_it_is_used() {
    let list = json!({"data": [{"id": "tester-1"}, {"id": "tester-2"}]}).to_string();
    let server = Server::start([
        json_body(&list),
        json_body(&list.replace("tester-1", "other")),
        Reply::Plain(404, vec![], String::new()),
        refuses(401, "no", ""),
        Reply::Never,
    ])
    .await;
    let model = model_with(&server, |s| s.first_token_timeout = Duration::from_millis(60));
    assert_eq!(model.reachable().await, Ok(()));
    assert_eq!(
        model.reachable().await,
        Err(ChatError::Rejected(
            "it has no model `tester-1`; it offers tester-2, other: set SECONDLOOK_MODEL to one of them".to_owned()
        ))
    );
    assert_eq!(model.reachable().await, Ok(()), "a server without a list answers all the same");
    assert!(matches!(model.reachable().await, Err(ChatError::Unauthorized(_))));
    assert_eq!(model.reachable().await, Err(ChatError::TimedOut("the list of models")));
}

#[tokio::test]
async fn nobody_listening_is_told_plainly() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let model = OpenAiModel::new(settings(&format!("http://{address}")), Arc::new(At("2015-10-21T07:28:00Z"))).unwrap();
    for error in [model.chat(&request("x")).await.unwrap_err(), model.reachable().await.unwrap_err()] {
        let text = error.to_string();
        assert!(text.starts_with(&format!("the model provider failed: cannot connect to {address}: ")), "{text}");
    }
}

#[test]
fn settings_that_cannot_work_are_refused_at_once() {
    let new = |change: fn(&mut Settings)| {
        let mut settings = settings("http://127.0.0.1:1");
        change(&mut settings);
        OpenAiModel::new(settings, Arc::new(At("2015-10-21T07:28:00Z")))
            .map(|m| m.name().to_owned())
            .map_err(|e| e.to_string())
    };
    assert_eq!(new(|_| {}), Ok("test::tester-1".to_owned()));
    let refused = new(|s| s.api_key = Some(SecretString::from("broken\nkey"))).unwrap_err();
    assert!(refused.contains("the API key holds characters") && !refused.contains("broken"), "{refused}");
    assert!(new(|s| s.headers.push(("bad name".to_owned(), SecretString::from("x")))).is_err());
    assert!(new(|s| s.base_url = Url::parse("ftp://x").unwrap()).is_err());
    assert!(!format!("{:?}", settings("http://127.0.0.1:1")).contains(KEY));
}
