//! What GitHub would do with the result is asked of an independent CommonMark parser.

use proptest::prelude::*;
use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use rstest::rstest;

use super::*;

#[rstest]
#[case("ask @alice and @acme/core", "ask @&#8203;alice and @&#8203;acme/core")]
#[case("mail a@b.example, not `@Override`", "mail a@b.example, not `@Override`")]
#[case("Fixes #12, owner/repo#3 and GH-7", "Fixes #&#8203;12, owner/repo#&#8203;3 and GH-&#8203;7")]
#[case("![x](https://evil.example/a.png)", r"\![x\](https:&#8203;//evil.example/a.png)")]
#[case("[doc](https://docs.rs/serde) is", "[doc](https://docs.rs/serde) is")]
#[case("[doc](https://docs.rs@evil.example/)", r"[doc\](https:&#8203;//docs.rs@evil.example/)")]
#[case("see https://github.com/o/r/issues/1", "see https:&#8203;//github.com/o/r/issues/1")]
#[case("www.evil.example", "www&#8203;.evil.example")]
#[case("[a]: https://evil.example", r"[a\]: https:&#8203;//evil.example")]
#[case("a <!-- secondlook:finding 1 --> b", "a   b")]
#[case("<img src=x> Vec<u8>", "&lt;img src=x> Vec&lt;u8>")]
#[case("&#64;bob &commat;bob a && b &lt;", "&amp;#&#8203;64;bob &amp;commat;bob a && b &lt;")]
#[case(r"\@bob \#1", r"\@&#8203;bob \#&#8203;1")]
#[case("@\u{200b}bob \u{202e}abc", "@&#8203;bob abc")]
#[case("a\r\nb\rc", "a\nb\nc")]
#[case("lone ` tick @bob`", "lone ` tick @bob`")]
#[case("lone ` tick\n@bob`", "lone \\` tick\n@&#8203;bob\\`")]
#[case("| `a | @bob` |", r"| \`a | @&#8203;bob\` |")]
#[case("| `a || b` |", "| `a || b` |")]
fn prose_keeps_its_looks_and_loses_its_effect(#[case] text: &str, #[case] safe: &str) {
    assert_eq!(sanitise(text), safe);
}

#[rstest]
#[case("```suggestion\nx\n```", "```text\nx\n```")]
#[case("```rust ignore\n@bob #1 <b>\n```\n@bob", "```rust\n@bob #1 <b>\n```\n@&#8203;bob")]
#[case("- x\n  ```\n  code\n@bob", "- x\n```\ncode\n@bob\n```")]
#[case("~~~~\n```\n~~~\n~~~~ \nx", "~~~~\n```\n~~~\n~~~~\nx")]
#[case("```\n<!-- secondlook:finding 1 -->\n<!-- mine -->", "```\n<! -- secondlook:finding 1 -->\n<!-- mine -->\n```")]
#[case("<!--\n-->~~~\n@bob", " \\~~~\n@&#8203;bob")]
#[case("a ```b``` c", "a ```b``` c")]
fn code_stays_code_and_is_closed(#[case] text: &str, #[case] safe: &str) {
    assert_eq!(sanitise(text), safe);
}

#[test]
fn scripts_and_emoji_keep_their_joiners() {
    for text in ["می‌خواهم", "👩‍💻 ❤️", "क्‍ष"] {
        assert_eq!(sanitise(text), text);
    }
    assert_eq!(sanitise("a\u{200d}b\u{fe0f}"), "ab");
}

#[test]
fn a_title_stays_on_its_line() {
    assert_eq!(sanitise_line("a\n\n# b   @bob", 80), "a # b @&#8203;bob");
    assert_eq!(sanitise_line("aé", 1), "a…");
}

#[test]
fn clipping_closes_the_fence_it_cuts() {
    let text = format!("Look, ``` here.\n```rust\n{}```\nend", "line\n".repeat(50));
    let cut = clip(&text, 120, "*Cut.*");
    assert!(cut.len() <= 120, "{}", cut.len());
    assert!(cut.ends_with("line\n```\n\n*Cut.*"), "{cut}");
    assert_eq!(clip("short", 10, "*Cut.*"), "short");
    let prose = clip(&"ü".repeat(100), 51, "*Cut.*");
    assert!(prose.len() <= 51 && prose.starts_with("üü"), "{prose}");
}

#[test]
fn code_of_any_content_stays_within_its_fence() {
    assert_eq!(code_block("a\n````\nb\n", "rust"), "`````rust\na\n````\nb\n`````");
    assert_eq!(code_span("a`b"), "``a`b``");
    assert_eq!(code_span("`a"), "`` `a ``");
    assert_eq!(code_span(""), "`  `");
}

#[test]
fn hostile_lengths_come_to_an_end() {
    let runs: String = (1..350).map(|n| format!("{} ", "`".repeat(n))).collect();
    let nested: String = (1..250).chain((1..250).rev()).map(|n| format!("{}|@b", "`".repeat(n))).collect();
    for text in [runs, nested, "<!--".repeat(16_000), "`<!--".repeat(13_000), "![".repeat(30_000)] {
        assert!(sanitise(&text).len() < 16 * text.len());
    }
}

/// What of a Markdown text would have an effect on GitHub.
fn effects(markdown: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut code = false;
    let mut text = String::new();
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_FOOTNOTES;
    for event in Parser::new_ext(markdown, options) {
        match event {
            Event::Start(Tag::CodeBlock(kind)) => {
                code = true;
                if matches!(&kind, CodeBlockKind::Fenced(info) if info.starts_with("suggestion")) {
                    found.push("suggestion".into());
                }
            }
            Event::End(TagEnd::CodeBlock) => code = false,
            Event::Html(html) | Event::InlineHtml(html) => found.push(format!("html {html}")),
            Event::Start(Tag::Image { dest_url, .. }) => found.push(format!("image {dest_url}")),
            Event::Start(Tag::Link { dest_url, .. }) if !dest_url.starts_with("https://docs.rs") => {
                found.push(format!("link {dest_url}"));
            }
            Event::Text(part) if !code => text.push_str(&part),
            // Text after any other event is another text node.
            _ => text.push('\u{1}'),
        }
    }
    let effect =
        regex::Regex::new(r"(?i)(^|[^a-z0-9])@[a-z0-9]|#[0-9]|gh-[0-9]|(http|ftp)s?://|(^|[^a-z0-9])www\.").unwrap();
    let linked = text.replace("https://docs.rs", "");
    found.extend(effect.find_iter(&linked).map(|m| m.as_str().to_owned()));
    found
}

#[test]
fn the_oracle_sees_effects() {
    assert_eq!(effects("@bob `@x` #1 ![a](b) <b>").len(), 4);
    assert_eq!(effects("[a](https://evil.example) &#64;bob"), ["link https://evil.example", " @b"]);
    assert_eq!(effects("```suggestion\nx\n```"), ["suggestion"]);
}

fn hostile() -> impl Strategy<Value = String> {
    let token = prop::sample::select(vec![
        "@bob",
        "@",
        "bob",
        "a",
        " ",
        "  ",
        "\n",
        "\n\n",
        "`",
        "``",
        "```",
        "~~~",
        "\n```\n",
        "\n~~~\n",
        "\n  ```\n",
        "\n    ",
        "- ",
        "> ",
        "1. ",
        "|",
        "\n|-|-|\n",
        "\\",
        "<!--",
        "-->",
        "<b>",
        "<",
        ">",
        "![",
        "[",
        "]",
        "](",
        "]:",
        ")",
        "https://",
        "evil.example",
        "docs.rs/x",
        "www.",
        "#1",
        "#",
        "1",
        "GH-",
        "&#64;",
        "&",
        "&#8203;",
        ";",
        "*",
        "_",
        "secondlook:finding",
        "\u{200b}",
        "\u{200d}",
        "\u{202e}",
        "é",
        "👩",
        "\r",
        "\t",
        "suggestion",
        ":",
        "/",
        "!",
        "\u{a0}",
    ]);
    prop::collection::vec(token, 0..40).prop_map(|tokens| tokens.concat())
}

#[test]
fn a_joiner_before_white_space_joins_nothing() {
    assert_eq!(sanitise("é\u{200d}\u{a0}"), "é");
    assert_eq!(sanitise("é\u{200d}\u{a0}é"), "é\u{a0}é");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn nothing_has_an_effect(text in hostile()) {
        let safe = sanitise(&text);
        prop_assert_eq!(effects(&safe), Vec::<String>::new(), "{:?} became {:?}", text, safe);
        prop_assert!(!safe.contains("<!-- secondlook") && !safe.contains("<!--secondlook"), "{safe:?}");
    }

    #[test]
    fn sanitising_twice_is_sanitising_once(text in hostile()) {
        let safe = sanitise(&text);
        prop_assert_eq!(sanitise(&safe), safe);
    }

    #[test]
    fn clipped_text_is_short_and_still_has_no_effect(text in hostile(), most in 20_usize..200) {
        let cut = clip(&sanitise(&text), most, "*Cut.*");
        prop_assert!(cut.len() <= most);
        prop_assert_eq!(effects(&cut), Vec::<String>::new());
    }
}
