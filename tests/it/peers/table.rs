//! One fault of a server for each file, on the wire.

use std::time::Duration;

use secondlook::chat::router::Router;
use secondlook::review::change::Limits;
use serde_json::json;

use super::wire::{bytes, calls, good, hasty, patient, reviewer, stream, times};
use super::{check, files, one_try, path, places};
use crate::harness::bot::run_test;
use crate::openai::server::{End, Reply, delta, finish, json_body, refuses, says, usage};

/// Two hundred megabytes of `a`, deflated by hand into one: a literal and then matches of the longest length, in fixed
/// codes (RFC 1951, 3.2.6).
fn bomb() -> Vec<u8> {
    let mut bits = Vec::new();
    let mut push = |value: u32, count: u32, from_high: bool| {
        for bit in 0..count {
            let shift = if from_high { count - 1 - bit } else { bit };
            bits.push(value >> shift & 1 == 1);
        }
    };
    push(0b011, 3, false);
    push(0x30 + u32::from(b'a'), 8, true);
    for _ in 0..800_000 {
        push(0b1100_0101, 8, true);
        push(0, 5, true);
    }
    let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    out.extend(bits.chunks(8).map(|byte| byte.iter().enumerate().fold(0, |all, (at, bit)| all | u8::from(*bit) << at)));
    out
}

/// What the server does, what the check says of the file (`None`: its finding is said), and how often it is asked.
type Case = (&'static str, fn(usize, usize) -> Reply, Option<&'static str>, usize);

const CASES: &[Case] = &[
    (
        "comments and CRLF",
        |n, _| {
            bytes(format!(
                ": hi\r\n\r\ndata: {}\r\n\r\n:\r\ndata: {}\r\n\r\ndata: [DONE]\r\n\r\n",
                delta(&json!({"content": good(n)})),
                finish("stop")
            ))
        },
        None,
        1,
    ),
    (
        "a line of a megabyte",
        |n, _| stream(&json!({"content": good(n), "padding": "x".repeat(1 << 20)}), "stop"),
        None,
        1,
    ),
    ("bytes that are no text", |_, _| bytes(b"data: {\"choices\":[\xff\xfe]}\n\n".to_vec()), Some("cannot be read"), 3),
    (
        "an error with status 200",
        |_, _| json_body(r#"{"error":{"message":"upstream died"}}"#),
        Some("upstream died"),
        3,
    ),
    (
        "only reasoning",
        |_, _| stream(&json!({"reasoning_content": "Hm, it could fail."}), "stop"),
        Some("the answer is empty"),
        2,
    ),
    ("an empty reply", |_, _| stream(&json!({"content": ""}), "stop"), Some("the answer is empty"), 2),
    ("a content filter", |_, _| stream(&json!({}), "content_filter"), Some("content filter"), 1),
    (
        "cut at the output limit",
        |n, _| stream(&json!({"content": &good(n)[..150]}), "length"),
        Some("cut off at the length limit"),
        2,
    ),
    ("no usage", |n, _| Reply::Stream(vec![delta(&json!({"content": good(n)})), finish("stop")], End::Done), None, 1),
    (
        "an absurd usage",
        |n, _| {
            Reply::Stream(
                vec![delta(&json!({"content": good(n)})), finish("stop"), usage(u64::MAX, u64::MAX, u64::MAX)],
                End::Done,
            )
        },
        None,
        1,
    ),
    (
        "cut in the stream",
        |n, _| Reply::Stream(vec![delta(&json!({"content": good(n)}))], End::Cut),
        Some("the stream was cut"),
        3,
    ),
    (
        "no end mark",
        |n, _| Reply::Stream(vec![delta(&json!({"content": good(n)})), finish("stop")], End::Silent),
        None,
        1,
    ),
    (
        "a call of an unknown tool beside the answer",
        |n, _| {
            stream(
                &json!({"content": good(n), "tool_calls": [{"index": 0, "id": "a", "function": {"name": "rm", "arguments": "{}"}}]}),
                "stop",
            )
        },
        None,
        4,
    ),
    (
        "arguments that are not JSON",
        |n, nth| if nth == 0 { calls(1, "read_file", "{\"path\": src") } else { says(&good(n)) },
        None,
        2,
    ),
    (
        "arguments of a megabyte",
        |n, nth| if nth == 0 { calls(1, "read_file", &"x".repeat(1 << 20)) } else { says(&good(n)) },
        None,
        2,
    ),
    (
        "five hundred calls",
        |n, nth| if nth == 0 { calls(500, "read_file", "{\"path\":\"src/f#.rs\"}") } else { says(&good(n)) },
        None,
        2,
    ),
    (
        "calls without end",
        |_, nth| calls(1, "read_file", &format!("{{\"path\":\"src/g{nth}.rs\"}}")),
        Some("unusable"),
        26,
    ),
    (
        "half a surrogate pair on the wire",
        |n, _| {
            bytes(format!(
                "data: {}\n\ndata: {}\n\n",
                delta(&json!({"content": good(n)})).replace("Fails", "Fails \\ud83d").replace("\\\\ud83d", "\\ud83d"),
                finish("stop")
            ))
        },
        None,
        1,
    ),
    (
        "a byte order mark",
        |n, _| {
            json_body(&format!(
                "\u{feff}{}",
                json!({"choices": [{"message": {"content": good(n)}, "finish_reason": "stop"}]})
            ))
        },
        None,
        1,
    ),
    (
        "a bomb",
        |_, _| Reply::Bytes(vec![("content-type", "application/json"), ("content-encoding", "gzip")], bomb()),
        Some("it is longer than"),
        3,
    ),
    (
        "two megabytes",
        |_, _| Reply::Stream((0..32).map(|_| delta(&json!({"content": "x".repeat(64 << 10)}))).collect(), End::Done),
        Some("cut off at the length limit"),
        2,
    ),
    (
        "JSON nested too deep for the client",
        |_, _| bytes(format!("data: {}\n\n", "[".repeat(500_000))),
        Some("not JSON"),
        3,
    ),
    ("a wrong key", |_, _| refuses(401, "no such key", "invalid_api_key"), Some("check the API key"), 1),
    ("no permission", |_, _| refuses(403, "not for you", ""), Some("check the API key"), 1),
    (
        "no such model",
        |_, _| refuses(404, "The model `tester` does not exist", "model_not_found"),
        Some("has no model"),
        1,
    ),
    (
        "too long a prompt",
        |_, _| refuses(400, "maximum context length is 10 tokens", "context_length_exceeded"),
        Some("the prompt is too long"),
        1,
    ),
    ("too large a body", |_, _| refuses(413, "too large", ""), Some("the prompt is too long"), 1),
    ("overloaded", |_, _| refuses(529, "overloaded", "overloaded_error"), Some("overloaded"), 3),
    ("overloaded once", |n, nth| if nth == 0 { refuses(529, "overloaded", "") } else { says(&good(n)) }, None, 2),
    (
        "a redirect",
        |_, _| Reply::Plain(307, vec![("location", "http://127.0.0.1:9/v1".into())], String::new()),
        Some("redirects elsewhere"),
        1,
    ),
    (
        "no quota",
        |_, _| refuses(429, "You exceeded your current quota", "insufficient_quota"),
        Some("quota is used up"),
        1,
    ),
];

/// The same for servers that are silent.
const SILENT: &[Case] = &[
    ("no answer", |_, _| Reply::Never, Some("gave no answer in time (first token)"), 3),
    ("no answer once", |n, nth| if nth == 0 { Reply::Never } else { says(&good(n)) }, None, 2),
    (
        "silence in the middle",
        |n, _| Reply::Stream(vec![delta(&json!({"content": &good(n)[..9]}))], End::Hang),
        Some("gave no answer in time (next token)"),
        3,
    ),
];

/// Reviews one file for each case, and holds what comes of it against what should.
fn holds(cases: &'static [Case], wait: Duration) {
    run_test(one_try(Limits::default()), async |bot| {
        bot.github.commit_main("acme/app", "//- .github/secondlook.yml\nreview:\n  max_comments: 100\n");
        let server = reviewer(|n, nth| cases[n].1(n, nth)).await;
        bot.answer_by(Router::builder(patient(&server, "tester", wait)).settings(hasty()).build());
        let pr = bot.github.open_pull(files(cases.len()));
        bot.settle().await;
        let (conclusion, _, summary) = check(bot, &pr);
        assert_eq!(conclusion, "neutral");
        let places = places(bot, &pr);
        for (n, (name, _, reason, expected)) in cases.iter().enumerate() {
            let gap = summary.lines().find(|line| line.starts_with(&format!("- `{}`: ", path(n))));
            match reason {
                None => {
                    assert_eq!(gap, None, "{name}");
                    assert!(places.contains(&format!("{}:2", path(n))), "{name}: {places:?}");
                }
                Some(reason) => assert!(gap.is_some_and(|gap| gap.contains(reason)), "{name}: {gap:?}"),
            }
            assert_eq!(times(&server, n), *expected, "{name}");
        }
        let largest = server.bodies().iter().map(|body| body.to_string().len()).max().unwrap();
        assert!(largest < 400 * 1024, "a request of {largest} bytes");
        let tokens =
            summary.split_once(" model calls, ").and_then(|(_, rest)| rest.split(' ').next()?.parse::<u64>().ok());
        assert!(tokens.is_some_and(|tokens| tokens < 2_000_000), "{tokens:?} in {summary}");
    });
}

#[test]
fn every_fault_of_a_server_has_its_outcome() {
    holds(CASES, Duration::from_secs(60));
}

#[test]
fn a_server_that_is_silent_is_given_up_asked_again_and_named() {
    holds(SILENT, Duration::from_millis(1_500));
}
