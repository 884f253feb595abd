//! What of a Markdown text would have an effect on GitHub, as an independent CommonMark parser sees it.

use std::sync::LazyLock;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use regex::Regex;

static EFFECT: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r"(?i)(^|[^a-z0-9])@[a-z0-9]|#[0-9]|gh-[0-9]|(http|ftp)s?://|(^|[^a-z0-9])www\.";
    Regex::new(pattern).expect("the pattern is an expression")
});

/// Hosts that a link may lead to, as far as the seeds name them.
const KNOWN: [&str; 3] = ["https://docs.rs", "https://owasp.org", "https://cwe.mitre.org"];

/// HTML that our own comments consist of.
const OURS: [&str; 4] = ["<details>", "<summary>Evidence</summary>", "</details>", "<!-- secondlook:"];

/// Mentions, references, links to unknown hosts, images, suggestions and HTML outside of code.
pub fn of(markdown: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut code = false;
    let mut text = String::new();
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_FOOTNOTES;
    for event in Parser::new_ext(markdown, options) {
        match event {
            Event::Start(Tag::CodeBlock(kind)) => {
                code = true;
                if matches!(&kind, CodeBlockKind::Fenced(info) if info.trim_start().starts_with("suggestion")) {
                    found.push("suggestion".into());
                }
            }
            Event::End(TagEnd::CodeBlock) => code = false,
            Event::Html(html) | Event::InlineHtml(html) => found.push(format!("html {html}")),
            Event::Start(Tag::Image { dest_url, .. }) => found.push(format!("image {dest_url}")),
            Event::Start(Tag::Link { dest_url, .. }) if !KNOWN.iter().any(|known| dest_url.starts_with(known)) => {
                found.push(format!("link {dest_url}"));
            }
            Event::Text(part) if !code => text.push_str(&part),
            // Text after any other event is another text node.
            _ => text.push('\u{1}'),
        }
    }
    let linked = KNOWN.iter().fold(text, |text, known| text.replace(known, ""));
    found.extend(EFFECT.find_iter(&linked).map(|effect| effect.as_str().to_owned()));
    found
}

/// The same without the HTML that we write ourselves around a text.
pub fn beyond_ours(markdown: &str) -> Vec<String> {
    let ours = |line: &&str| !OURS.iter().any(|html| line.starts_with(html));
    let body: Vec<&str> = markdown.lines().filter(ours).collect();
    of(&body.join("\n"))
}

/// How often our hidden marker, or something that a hasty reader takes for it, stands in a text.
pub fn markers(markdown: &str) -> usize {
    let ours = |after: &&str| {
        let word = after.trim_start();
        word.get(..10).is_some_and(|word| word.eq_ignore_ascii_case("secondlook"))
    };
    markdown.split("<!--").skip(1).filter(ours).count()
}
