//! What a model's server does on the wire, through the real client and the real router.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use secondlook::agent::react::{Ask, ReactLimits, ask_within};
use secondlook::chat::openai::{OpenAiModel, Settings};
use secondlook::chat::router::{self, Router, breaker};
use secondlook::chat::{ChatMessage, Conversation, ModelRole};
use secondlook::review::change::Limits;
use secondlook::tool::ToolContext;
use secondlook::tool::toolbox::Toolbox;
use serde_json::{Value, json};
use url::Url;

use super::{answer, check, fault, files, found, keeps, one_try, path, places};
use crate::agent::{Bench, NoSource};
use crate::harness::bot::{Setup, run_test};
use crate::openai::server::{Asked, End, Reply, Server, delta, finish, refuses, says, usage};
use crate::repository::{GitRepository, run};

/// The file a request is about.
fn about(asked: &Asked) -> String {
    let text = asked.body["messages"][1]["content"].as_str().unwrap_or_default();
    let file = text.split_once("# The file\n\n").map_or("", |(_, rest)| rest);
    file.split(',').next().unwrap_or_default().trim_matches('"').to_owned()
}

fn is_critic(asked: &Asked) -> bool {
    asked.body["messages"][0]["content"].as_str().unwrap_or_default().starts_with("You are given findings")
}

/// A server that answers a reviewer by file and by how often it was asked about that file, and a critic by keeping all.
pub(super) async fn reviewer(reply: impl Fn(usize, usize) -> Reply + Send + Sync + 'static) -> Server {
    let asked_before: Mutex<BTreeMap<String, usize>> = Mutex::default();
    Server::answering(move |asked| {
        if is_critic(asked) {
            return says(&keeps(1));
        }
        let file = about(asked);
        let n = file.trim_start_matches("src/f").trim_end_matches(".rs").parse().expect(&file);
        let mut all = asked_before.lock().unwrap();
        let times = all.entry(file).or_default();
        *times += 1;
        reply(n, *times - 1)
    })
    .await
}

/// How often the reviewer was asked about a file.
pub(super) fn times(server: &Server, n: usize) -> usize {
    server.asked().iter().filter(|asked| !is_critic(asked) && about(asked) == path(n)).count()
}

fn model(server: &Server, name: &str) -> Arc<OpenAiModel> {
    patient(server, name, Duration::from_secs(60))
}

/// A model that is waited for so long, for its first token and for each further one.
pub(super) fn patient(server: &Server, name: &str, wait: Duration) -> Arc<OpenAiModel> {
    let mut settings = Settings::new("test", name, Url::parse(&server.base).unwrap(), None);
    (settings.first_token_timeout, settings.idle_timeout) = (wait, wait);
    Arc::new(OpenAiModel::new(settings, Arc::new(secondlook::clock::SystemClock)).unwrap())
}

/// Tries again at once, and leaves no model alone.
pub(super) fn hasty() -> router::Settings {
    let breaker = breaker::Limits { failures: 10_000, pause: Duration::from_secs(60) };
    router::Settings { first_wait: Duration::ZERO, breaker, ..router::Settings::default() }
}

fn router(server: &Server) -> Router {
    Router::builder(model(server, "tester")).settings(hasty()).build()
}

pub(super) fn good(n: usize) -> String {
    answer(&[found(n)])
}

/// A stream of one delta with this reason to stop.
pub(super) fn stream(content: &Value, reason: &str) -> Reply {
    Reply::Stream(vec![delta(content), finish(reason), usage(100, 0, 7)], End::Done)
}

pub(super) fn bytes(body: impl Into<Vec<u8>>) -> Reply {
    Reply::Bytes(vec![("content-type", "text/event-stream")], body.into())
}

/// Tool calls of one turn.
pub(super) fn calls(count: usize, name: &str, arguments: &str) -> Reply {
    let call = |n: usize| {
        let function = json!({"name": name, "arguments": arguments.replace('#', &n.to_string())});
        delta(&json!({"tool_calls": [{"index": n, "id": format!("c{n}"), "type": "function", "function": function}]}))
    };
    let mut events: Vec<String> = (0..count).map(call).collect();
    events.push(finish("tool_calls"));
    Reply::Stream(events, End::Done)
}

#[test]
fn a_rate_limit_is_waited_for_in_place_when_it_is_short_and_shown_when_it_is_long() {
    let limits = Limits { concurrent_files: 1, ..Limits::default() };
    run_test(one_try(limits), async |bot| {
        let server = reviewer(|n, nth| {
            let limited = |name, value: &str| Reply::Plain(429, vec![(name, value.to_owned())], String::new());
            match (n, nth) {
                (0, 0) => limited("retry-after-ms", "150"),
                (1, _) => limited("retry-after", "600"),
                _ => says(&good(n)),
            }
        })
        .await;
        bot.answer_by(router(&server));
        let began = Instant::now();
        let pr = bot.github.open_pull(files(3));
        bot.settle().await;
        assert!((Duration::from_millis(150)..Duration::from_secs(60)).contains(&began.elapsed()));
        assert_eq!((places(bot, &pr), times(&server, 0)), (vec!["src/f0.rs:2".to_owned()], 2));
        let (conclusion, title, summary) = check(bot, &pr);
        assert_eq!((conclusion.as_str(), title.as_str()), ("neutral", "2 files not reviewed; 1 problem (major)"));
        assert!(
            summary.contains("`src/f1.rs`: the model provider is limiting requests; it asks to wait 600 s"),
            "{summary}"
        );
        // The others do not ask a model that wants to be left alone.
        assert_eq!((times(&server, 1), times(&server, 2)), (1, 0));
    });
}

#[test]
fn when_a_model_is_down_the_next_one_answers_and_the_first_is_left_alone() {
    let limits = Limits { concurrent_files: 1, ..Limits::default() };
    run_test(Setup { limits, ..Setup::default() }, async |bot| {
        let down = Server::answering(|_| refuses(500, "boom", "")).await;
        let up = reviewer(|n, _| says(&good(n))).await;
        let settings = router::Settings { first_wait: Duration::ZERO, ..router::Settings::default() };
        let models = Router::builder(model(&down, "first")).fallback(model(&up, "second")).settings(settings);
        bot.answer_by(models.build());
        let pr = bot.github.open_pull(files(10));
        bot.settle().await;
        assert_eq!((check(bot, &pr).1.as_str(), places(bot, &pr).len()), ("10 problems: 10 major", 10));
        assert_eq!(down.asked().len(), 5, "five failures in a row, then it is left alone");
        assert_eq!(up.asked().len(), 20);
    });
}

#[test]
fn roles_are_answered_by_their_own_models() {
    run_test(Setup::default(), async |bot| {
        let first = reviewer(|n, _| says(&good(n))).await;
        let second = Server::answering(|_| says(&keeps(1))).await;
        let models = Router::builder(model(&first, "large")).role(ModelRole::Critic, model(&second, "small"));
        bot.answer_by(models.build());
        let pr = bot.github.open_pull(files(2));
        bot.settle().await;
        assert_eq!(places(bot, &pr).len(), 2);
        assert_eq!((first.asked().len(), second.asked().len()), (2, 2));
        assert!(second.asked().iter().all(|asked| is_critic(asked) && asked.body["model"] == "small"));
    });
}

#[tokio::test]
async fn two_megabytes_are_neither_stored_nor_sent_again() {
    let huge = "x".repeat(1 << 20);
    let server = Server::start([
        // A text and arguments of a megabyte each.
        Reply::Stream(vec![delta(&json!({"content": "y".repeat(300 << 10)})), finish("stop")], End::Done),
        calls(1, "read_file", &huge[..400 << 10]),
        says("done"),
    ])
    .await;
    let bench = Bench::new().await;
    let models = router(&server);
    let tools = ToolContext { source: Arc::new(NoSource), files: Arc::default(), path: String::new() };
    let mut sizes = Vec::new();
    for run in ["text", "arguments"] {
        let question = Ask {
            conversation: Conversation { role: ModelRole::Reviewer, subject: "a.rs".to_owned() },
            messages: vec![ChatMessage::system("Be brief."), ChatMessage::user("What is there?")],
            response_schema: None,
        };
        let cx = bench.context(run);
        ask_within(question, &models, &Toolbox::reviewing(), &tools, &cx, ReactLimits::default()).await.unwrap();
        sizes.push(bench.checkpoints().load(run).await.unwrap().unwrap().state.len());
    }
    // The text stands twice, as the answer and as the last message; arguments are refused and cut.
    assert!(sizes[0] < 2 * 257 * 1024 && sizes[1] < 70 * 1024, "{sizes:?}");
    let sent = server.bodies().iter().map(|body| body.to_string().len()).max().unwrap();
    assert!(sent < 70 * 1024, "{sent}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_line_tells_by_its_exit_code_that_a_file_was_not_reviewed() {
    for (reply, expected) in [("It looks fine to me.".to_owned(), 2), (answer(&[]), 0)] {
        let server = Server::answering(move |_| says(&reply)).await;
        let base = server.base.clone();
        let ran = tokio::task::spawn_blocking(move || {
            let repository = GitRepository::with_branch(&[("src/f0.rs", "fn f0() -> u32 {\n    0\n}\n")]);
            repository.commit("Change", &[("src/f0.rs", &format!("fn f0() -> u32 {{\n{}\n}}\n", fault(0)))]);
            let variables = [("OPENAI_BASE_URL", base.as_str()), ("SECONDLOOK_MODEL", "openai::tester")];
            run(repository.path(), &["review"], &variables, "")
        })
        .await
        .unwrap();
        assert_eq!(ran.code, expected, "{} {}", ran.out, ran.err);
        assert_eq!(ran.out.contains("unusable"), expected == 2, "{}", ran.out);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_settings_choose_models_for_roles_and_models_that_stand_in() {
    let refusing = Server::answering(|_| refuses(401, "no such key", "invalid_api_key")).await;
    let lab = Server::answering(|asked| says(&if is_critic(asked) { keeps(1) } else { good(0) })).await;
    let file = format!(
        "model = 'openai::first'\n[openai]\nbase_url = '{}'\napi_key = 'sk-of-openai'\n[models]\ncritic = 'lab::small'\n\
         fallbacks = ['lab::large']\n[endpoints.lab]\nbase_url = '{}'\n",
        refusing.base, lab.base
    );
    let ran = tokio::task::spawn_blocking(move || {
        let repository = GitRepository::with_branch(&[("src/f0.rs", "fn f0() -> u32 {\n    0\n}\n")]);
        repository.commit("Change", &[("src/f0.rs", &format!("fn f0() -> u32 {{\n{}\n}}\n", fault(0)))]);
        let settings = repository.write(".settings/secondlook.toml", &file);
        run(repository.path(), &["review", "--settings", settings.to_str().unwrap(), "--format", "json"], &[], "")
    })
    .await
    .unwrap();
    let output: Value = serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{} {}", ran.out, ran.err));
    assert_eq!((ran.code, output["findings"][0]["line"].as_u64()), (0, Some(2)), "{output}");
    let asked: Vec<_> = lab.asked().iter().map(|asked| asked.body["model"].as_str().unwrap().to_owned()).collect();
    assert_eq!((refusing.asked().len(), asked), (1, vec!["large".to_owned(), "small".to_owned()]));
    // A key goes to its own provider only.
    assert_eq!(refusing.asked()[0].headers["authorization"], "Bearer sk-of-openai");
    assert!(lab.asked().iter().all(|asked| asked.headers.get("authorization").is_none()));
}
