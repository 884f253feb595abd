use std::collections::VecDeque;

use async_trait::async_trait;
use jiff::Timestamp;

use super::*;
use crate::chat::{ChatMessage, Conversation, FinishReason, TokenUsage, ToolCall};
use crate::clock::Clock;

/// Answers what it was told to, and then always successfully.
struct Told {
    name: &'static str,
    answers: Mutex<VecDeque<ChatError>>,
    asked: Mutex<u32>,
}

impl Told {
    fn new(name: &'static str, errors: impl IntoIterator<Item = ChatError>) -> Arc<Self> {
        Arc::new(Self { name, answers: Mutex::new(errors.into_iter().collect()), asked: Mutex::new(0) })
    }

    fn asked(&self) -> u32 {
        *self.asked.lock().unwrap()
    }
}

#[async_trait]
impl ChatModel for Told {
    fn name(&self) -> &str {
        self.name
    }

    async fn chat(&self, _: &ChatRequest) -> Result<ChatResponse, ChatError> {
        *self.asked.lock().unwrap() += 1;
        match self.answers.lock().unwrap().pop_front() {
            Some(error) => Err(error),
            None => Ok(ChatResponse {
                text: self.name.to_owned(),
                tool_calls: Vec::new(),
                finish: FinishReason::Stop,
                usage: TokenUsage { calls: 1, input: 1_000_000, ..TokenUsage::default() },
            }),
        }
    }
}

struct At(Mutex<Timestamp>);

impl At {
    fn start() -> Arc<Self> {
        Arc::new(Self(Mutex::new(Timestamp::UNIX_EPOCH)))
    }

    fn advance(&self, seconds: u64) {
        let mut now = self.0.lock().unwrap();
        *now = now.checked_add(Duration::from_secs(seconds)).unwrap();
    }
}

impl Clock for At {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }
}

/// Settings without a wait after a failure.
fn hasty() -> Settings {
    Settings { first_wait: Duration::ZERO, ..Settings::default() }
}

fn request(role: ModelRole) -> ChatRequest {
    ChatRequest {
        conversation: Conversation { role, subject: "a.rs".to_owned() },
        messages: vec![ChatMessage::user("look")],
        tools: Vec::new(),
        response_schema: None,
        max_output_tokens: None,
    }
}

fn down() -> ChatError {
    ChatError::Unavailable("status 500".to_owned())
}

fn limited(seconds: u64) -> ChatError {
    ChatError::RateLimited { retry_after: Some(Duration::from_secs(seconds)) }
}

async fn answer(router: &Router) -> Result<String, ChatError> {
    router.chat(&request(ModelRole::Reviewer)).await.map(|r| r.text)
}

#[test]
fn every_role_has_its_model_or_the_default() {
    let router = Router::builder(Told::new("a::x", [])).role(ModelRole::Critic, Told::new("b::y", [])).build();
    assert_eq!((router.name(ModelRole::Critic), router.name(ModelRole::Answer)), ("b::y", "a::x"));
    assert_eq!(Router::single(Told::new("embedded", [])).name(ModelRole::Planner), "embedded");
}

#[tokio::test]
async fn passing_faults_are_tried_again_and_priced() {
    let model = Told::new("openai::gpt-5-mini", [down(), ChatError::TimedOut("first token")]);
    let router = Router::builder(model.clone()).settings(hasty()).build();
    let response = router.chat(&request(ModelRole::Reviewer)).await.unwrap();
    assert_eq!((model.asked(), response.usage.cost_micro_usd), (3, 250_000));
}

#[tokio::test]
async fn attempts_are_bounded_and_the_next_model_is_asked() {
    let (first, second) = (Told::new("a::x", [down(), down(), down(), down()]), Told::new("b::y", []));
    let builder = Router::builder(first.clone()).fallback(first.clone()).fallback(second.clone());
    let router = builder.settings(hasty()).build();
    assert_eq!(answer(&router).await.unwrap(), "b::y");
    assert_eq!((first.asked(), second.asked()), (3, 1));
}

#[tokio::test]
async fn a_short_rate_limit_is_waited_for_and_a_long_one_returned() {
    let short = ChatError::RateLimited { retry_after: Some(Duration::from_millis(20)) };
    let model = Told::new("a::x", [short, limited(31)]);
    let router = Router::builder(model.clone()).clock(At::start()).build();
    let took = Stopwatch::start();
    assert_eq!(answer(&router).await, Err(limited(31)));
    assert_eq!(model.asked(), 2);
    assert!(took.elapsed() >= Duration::from_millis(20));
}

#[tokio::test]
async fn a_model_that_asked_for_a_pause_is_not_asked_until_it_is_over() {
    let (model, clock) = (Told::new("a::x", [limited(100)]), At::start());
    let router = Router::builder(model.clone()).clock(clock.clone()).build();
    assert_eq!(answer(&router).await, Err(limited(100)));
    clock.advance(60);
    assert_eq!(answer(&router).await, Err(limited(40)));
    assert_eq!(model.asked(), 1);
    clock.advance(40);
    assert_eq!(answer(&router).await.unwrap(), "a::x");
}

#[tokio::test]
async fn what_cannot_be_mended_is_not_tried_again() {
    let refused = || ChatError::Rejected("no such model".to_owned());
    let (first, second) = (Told::new("a::x", [refused()]), Told::new("b::y", [down(), down(), down()]));
    let router = Router::builder(first.clone()).fallback(second.clone()).settings(hasty()).build();
    // The second model's error leaves more hope than the first's.
    assert_eq!(answer(&router).await, Err(down()));
    assert_eq!((first.asked(), second.asked()), (1, 3));
    let spent = Told::new("a::x", [ChatError::OverBudget("day".to_owned())]);
    let other = Told::new("b::y", []);
    let router = Router::builder(spent).fallback(other.clone()).build();
    assert!(matches!(answer(&router).await, Err(ChatError::OverBudget(_))));
    assert_eq!(other.asked(), 0);
}

#[tokio::test]
async fn no_attempt_begins_after_the_deadline() {
    let model = Told::new("a::x", [limited(7_200), limited(0)]);
    let longest_wait = Duration::from_secs(10_000);
    let settings = Settings { deadline: Duration::from_secs(3_600), longest_wait, ..hasty() };
    let router = Router::builder(model.clone()).settings(settings).build();
    assert_eq!(answer(&router).await, Err(limited(7_200)));
    assert_eq!(model.asked(), 1);
    assert_eq!(answer(&router).await.unwrap(), "a::x");
    assert_eq!(model.asked(), 3);
}

#[tokio::test]
async fn a_model_that_keeps_failing_is_left_alone_for_a_while() {
    let (model, clock) = (Told::new("a::x", std::iter::repeat_n(down(), 6)), At::start());
    let router = Router::builder(model.clone()).clock(clock.clone()).settings(hasty()).build();
    assert!(answer(&router).await.is_err());
    let left_alone = answer(&router).await.unwrap_err().to_string();
    assert_eq!(left_alone, "the model provider failed: a::x failed 5 times in a row; it is asked again in 60 s");
    assert_eq!(model.asked(), 5);
    clock.advance(60);
    // The trial fails, and the pause begins again.
    assert!(answer(&router).await.is_err());
    assert_eq!(model.asked(), 6);
    clock.advance(60);
    assert_eq!(answer(&router).await.unwrap(), "a::x");
    assert_eq!(answer(&router).await.unwrap(), "a::x");
}

/// Notes how many are in it at once, and lets all go once `expected` have come.
struct Crowd {
    inside: Mutex<(usize, usize)>,
}

#[async_trait]
impl ChatModel for Crowd {
    fn name(&self) -> &str {
        "a::crowd"
    }

    async fn chat(&self, _: &ChatRequest) -> Result<ChatResponse, ChatError> {
        {
            let mut inside = self.inside.lock().unwrap();
            inside.0 += 1;
            inside.1 = inside.1.max(inside.0);
        }
        tokio::task::yield_now().await;
        self.inside.lock().unwrap().0 -= 1;
        Err(ChatError::Rejected("done".to_owned()))
    }
}

/// Gives back what it was sent, and counts nothing.
struct Echo {
    local: bool,
}

#[async_trait]
impl ChatModel for Echo {
    fn name(&self) -> &str {
        "a::echo"
    }

    fn is_local(&self) -> bool {
        self.local
    }

    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, ChatError> {
        Ok(ChatResponse {
            text: serde_json::to_string(&request.messages).unwrap(),
            tool_calls: Vec::new(),
            finish: FinishReason::Stop,
            usage: TokenUsage::default(),
        })
    }
}

#[tokio::test]
async fn secrets_stay_in_the_process_and_what_leaves_is_counted() {
    let mut request = request(ModelRole::Reviewer);
    let arguments = r#"{"query":"jane@mail.example.com"}"#.to_owned();
    request.messages = vec![
        ChatMessage::user("password = \"S3cr3t!pw\""),
        ChatMessage::Assistant {
            text: "call +49 30 1234567".to_owned(),
            tool_calls: vec![ToolCall { id: "1".to_owned(), name: "search_code".to_owned(), arguments }],
        },
    ];
    let untouched = request.clone();
    let remote = Router::single(Arc::new(Echo { local: false })).chat(&request).await.unwrap();
    insta::assert_snapshot!(remote.text, @r#"[{"role":"user","text":"password = \"[redacted:secret]\""},{"role":"assistant","text":"call [redacted:phone]","tool_calls":[{"id":"1","name":"search_code","arguments":"{\"query\":\"[redacted:email]\"}"}]}]"#);
    assert_eq!((remote.usage.calls, remote.usage.input > 5, remote.usage.output > 5), (1, true, true));
    let local = Router::single(Arc::new(Echo { local: true })).chat(&request).await.unwrap();
    assert_eq!(local.text, serde_json::to_string(&request.messages).unwrap());
    assert_eq!(local.usage, TokenUsage::default());
    assert_eq!(request, untouched);
}

#[tokio::test]
async fn calls_to_one_provider_are_limited() {
    let crowd = Arc::new(Crowd { inside: Mutex::default() });
    let settings = Settings { concurrent_calls: 3, ..Settings::default() };
    let router = Router::builder(crowd.clone()).settings(settings).build();
    futures_util::future::join_all((0..20).map(|_| answer(&router))).await;
    assert_eq!(*crowd.inside.lock().unwrap(), (0, 3));
}
