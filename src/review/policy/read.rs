//! Reads the policy file part by part: what is wrong is complained about at its line, the rest holds. Pure.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Location, Spanned};

use super::exclude::check_glob;
use super::{Automatic, LoadedPolicy, PathInstruction, PathPolicy, Policy, ReviewPolicy};
use crate::review::budget::BudgetPolicy;
use crate::review::finding::Severity;

/// Largest policy file that is read.
const MAX_BYTES: usize = 64 * 1024;
/// Complaints shown; after that many, nobody reads on.
const MAX_COMPLAINTS: usize = 20;
/// Globs or instructions in one list.
const MAX_ITEMS: usize = 200;
/// Characters of one text.
const MAX_TEXT_CHARS: usize = 4_000;
/// Most findings of one round that may be configured.
const MAX_COMMENTS: u64 = 100;

/// Something wrong in the policy file. The default holds for that part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyComplaint {
    /// 1-based line.
    pub line: u64,
    /// 1-based column.
    pub column: u64,
    /// What is wrong and what is allowed, in a sentence.
    pub message: String,
}

/// Reads a policy file. Total: text that is not YAML gives the defaults and one complaint.
pub fn parse_policy(text: &str) -> LoadedPolicy {
    let mut reader = Reader { complaints: Vec::new() };
    if text.len() > MAX_BYTES {
        let message = format!("The file is larger than {} KiB; the defaults apply.", MAX_BYTES / 1024);
        return LoadedPolicy {
            policy: Policy::default(),
            complaints: vec![PolicyComplaint { line: 1, column: 1, message }],
        };
    }
    let policy = match serde_saphyr::from_str::<Spanned<Node>>(text) {
        Ok(root) => reader.policy(&root),
        Err(error) => {
            let (line, column) = error.location().map_or((1, 1), |at| (at.line(), at.column()));
            let reason = error.without_snippet().to_string();
            let reason = reason.lines().next().unwrap_or_default();
            let message = format!("This is not YAML that can be read ({reason}); the defaults apply.");
            reader.complaints.push(PolicyComplaint { line: line.max(1), column: column.max(1), message });
            Policy::default()
        }
    };
    LoadedPolicy { policy, complaints: reader.complaints }
}

/// YAML with the place of every value.
#[derive(Debug)]
enum Node {
    Null,
    Bool(bool),
    Number(Option<u64>),
    Text(String),
    List(Vec<Spanned<Node>>),
    Map(Vec<(Spanned<String>, Spanned<Node>)>),
}

struct Reader {
    complaints: Vec<PolicyComplaint>,
}

impl Reader {
    fn complain(&mut self, at: Location, message: String) {
        if self.complaints.len() < MAX_COMPLAINTS {
            self.complaints.push(PolicyComplaint { line: at.line().max(1), column: at.column().max(1), message });
        }
    }

    fn policy(&mut self, root: &Spanned<Node>) -> Policy {
        let mut policy = Policy::default();
        for (key, value) in self.entries("The file", root) {
            match key.value.as_str() {
                "review" => policy.review = self.review(value),
                "paths" => policy.paths = self.paths(value),
                "budget" => policy.budget = self.budget(value),
                "language" => policy.language = self.text("language", value, 60),
                "tone" => policy.tone = self.text("tone", value, 200),
                _ => self.unknown(key, "", &["review", "paths", "budget", "language", "tone"]),
            }
        }
        policy
    }

    fn review(&mut self, node: &Spanned<Node>) -> ReviewPolicy {
        const KEYS: [&str; 6] = ["trigger", "drafts", "severity_floor", "max_comments", "request_changes", "fail_on"];
        let mut review = ReviewPolicy::default();
        for (key, value) in self.entries("`review`", node) {
            match key.value.as_str() {
                "trigger" => review.trigger = self.trigger(value).unwrap_or_default(),
                "drafts" => review.drafts = self.flag("review.drafts", value).unwrap_or(review.drafts),
                "severity_floor" => {
                    let floor = self.severity("review.severity_floor", value);
                    review.severity_floor = floor.unwrap_or(review.severity_floor);
                }
                "max_comments" => review.max_comments = self.count(value).unwrap_or(review.max_comments),
                "request_changes" => {
                    review.request_changes = self.optional_severity("review.request_changes", value);
                }
                "fail_on" => review.fail_on = self.optional_severity("review.fail_on", value),
                _ => self.unknown(key, "review.", &KEYS),
            }
        }
        review
    }

    fn budget(&mut self, node: &Spanned<Node>) -> BudgetPolicy {
        const KEYS: [&str; 6] =
            ["review_tokens", "review_cents", "pull_request_tokens", "pull_request_cents", "day_tokens", "day_cents"];
        let mut budget = BudgetPolicy::default();
        for (key, value) in self.entries("`budget`", node) {
            let field = match key.value.as_str() {
                "review_tokens" => &mut budget.review_tokens,
                "review_cents" => &mut budget.review_cents,
                "pull_request_tokens" => &mut budget.pull_request_tokens,
                "pull_request_cents" => &mut budget.pull_request_cents,
                "day_tokens" => &mut budget.day_tokens,
                "day_cents" => &mut budget.day_cents,
                _ => {
                    self.unknown(key, "budget.", &KEYS);
                    continue;
                }
            };
            *field = self.amount(&key.value, value);
        }
        budget
    }

    fn amount(&mut self, key: &str, node: &Spanned<Node>) -> Option<u64> {
        match node.value {
            Node::Number(Some(amount)) => Some(amount),
            Node::Null => None,
            _ => {
                self.complain(node.referenced, format!("`budget.{key}` should be a whole number."));
                None
            }
        }
    }

    fn paths(&mut self, node: &Spanned<Node>) -> PathPolicy {
        let mut paths = PathPolicy::default();
        for (key, value) in self.entries("`paths`", node) {
            match key.value.as_str() {
                "ignore" => {
                    for item in self.items("paths.ignore", value) {
                        paths.ignore.extend(self.glob("paths.ignore", item));
                    }
                }
                "instructions" => {
                    for item in self.items("paths.instructions", value) {
                        paths.instructions.extend(self.instruction(item));
                    }
                }
                _ => self.unknown(key, "paths.", &["ignore", "instructions"]),
            }
        }
        paths
    }

    fn instruction(&mut self, node: &Spanned<Node>) -> Option<PathInstruction> {
        let (mut path, mut text) = (None, None);
        for (key, value) in self.entries("An item of `paths.instructions`", node) {
            match key.value.as_str() {
                "path" => path = self.glob("paths.instructions.path", value),
                "text" => text = self.text("paths.instructions.text", value, MAX_TEXT_CHARS),
                _ => self.unknown(key, "paths.instructions.", &["path", "text"]),
            }
        }
        match (path, text) {
            (Some(path), Some(text)) => Some(PathInstruction { path, text }),
            _ => {
                self.complain(node.referenced, "An item of `paths.instructions` needs a `path` and a `text`.".into());
                None
            }
        }
    }

    fn entries<'n>(&mut self, name: &str, node: &'n Spanned<Node>) -> &'n [(Spanned<String>, Spanned<Node>)] {
        match &node.value {
            Node::Map(entries) => entries,
            Node::Null => &[],
            _ => {
                self.complain(node.referenced, format!("{name} should hold `key: value` lines."));
                &[]
            }
        }
    }

    fn items<'n>(&mut self, name: &str, node: &'n Spanned<Node>) -> &'n [Spanned<Node>] {
        match &node.value {
            Node::List(items) if items.len() > MAX_ITEMS => {
                self.complain(
                    node.referenced,
                    format!("`{name}` has more than {MAX_ITEMS} items; the rest is left out."),
                );
                items.get(..MAX_ITEMS).unwrap_or_default()
            }
            Node::List(items) => items,
            Node::Null => &[],
            _ => {
                self.complain(node.referenced, format!("`{name}` should be a list."));
                &[]
            }
        }
    }

    fn text(&mut self, name: &str, node: &Spanned<Node>, most: usize) -> Option<String> {
        match &node.value {
            Node::Text(text) if text.chars().count() <= most => Some(text.clone()),
            Node::Text(_) => {
                self.complain(node.referenced, format!("`{name}` is longer than {most} characters."));
                None
            }
            Node::Null => None,
            _ => {
                self.complain(node.referenced, format!("`{name}` should be a text."));
                None
            }
        }
    }

    fn glob(&mut self, name: &str, node: &Spanned<Node>) -> Option<String> {
        let text = self.text(name, node, 500)?;
        let glob = text.strip_prefix('!').unwrap_or(&text);
        if glob.trim().is_empty() {
            self.complain(node.referenced, format!("`{name}` has an empty glob."));
            return None;
        }
        match check_glob(glob) {
            Ok(()) => Some(text),
            Err(reason) => {
                self.complain(node.referenced, format!("`{name}` has a glob that cannot be read: {reason}."));
                None
            }
        }
    }

    fn flag(&mut self, name: &str, node: &Spanned<Node>) -> Option<bool> {
        match node.value {
            Node::Bool(flag) => Some(flag),
            _ => {
                self.complain(node.referenced, format!("`{name}` should be `true` or `false`."));
                None
            }
        }
    }

    fn count(&mut self, node: &Spanned<Node>) -> Option<usize> {
        match node.value {
            Node::Number(Some(count)) if count <= MAX_COMMENTS => usize::try_from(count).ok(),
            _ => {
                let message = format!("`review.max_comments` should be a whole number from 0 to {MAX_COMMENTS}.");
                self.complain(node.referenced, message);
                None
            }
        }
    }

    fn trigger(&mut self, node: &Spanned<Node>) -> Option<Automatic> {
        match &node.value {
            Node::Text(word) if word == "push" => Some(Automatic::Push),
            Node::Text(word) if word == "opened" => Some(Automatic::Opened),
            Node::Text(word) if word == "asked" => Some(Automatic::Asked),
            _ => {
                self.complain(node.referenced, "`review.trigger` should be `push`, `opened` or `asked`.".into());
                None
            }
        }
    }

    fn severity(&mut self, name: &str, node: &Spanned<Node>) -> Option<Severity> {
        let found = match &node.value {
            Node::Text(word) => severity_word(word),
            _ => None,
        };
        if found.is_none() {
            let message = format!("`{name}` should be `nit`, `minor`, `major` or `critical`.");
            self.complain(node.referenced, message);
        }
        found
    }

    fn optional_severity(&mut self, name: &str, node: &Spanned<Node>) -> Option<Severity> {
        match &node.value {
            Node::Null | Node::Bool(false) => None,
            Node::Text(word) if word == "none" => None,
            Node::Text(word) if severity_word(word).is_some() => severity_word(word),
            _ => {
                let message = format!("`{name}` should be `none`, `nit`, `minor`, `major` or `critical`.");
                self.complain(node.referenced, message);
                None
            }
        }
    }

    fn unknown(&mut self, key: &Spanned<String>, within: &str, known: &[&str]) {
        let name: String = key.value.chars().take(60).collect();
        let message = format!("There is no key `{within}{name}`; there are `{}`.", known.join("`, `"));
        self.complain(key.referenced, message);
    }
}

fn severity_word(word: &str) -> Option<Severity> {
    match word {
        "nit" => Some(Severity::Nit),
        "minor" => Some(Severity::Minor),
        "major" => Some(Severity::Major),
        "critical" => Some(Severity::Critical),
        _ => None,
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("YAML")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        Node::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Number(Some(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Number(u64::try_from(value).ok()))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Node, E> {
        Ok(Node::Number(None))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Node::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Node::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use insta::assert_snapshot;
    use proptest::prelude::*;

    fn complaints(text: &str) -> String {
        let lines = parse_policy(text).complaints;
        lines.iter().map(|c| format!("{}:{} {}", c.line, c.column, c.message)).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn every_key_is_read() {
        let loaded = parse_policy(
            "review:\n  trigger: opened\n  drafts: true\n  severity_floor: major\n  max_comments: 5\n  \
             request_changes: critical\n  fail_on: major\npaths:\n  ignore: ['docs/**', '!Cargo.lock']\n  \
             instructions:\n    - path: src/**\n      text: |\n        No panics.\nbudget:\n  review_tokens: 5\n  review_cents: 6\n  \
             pull_request_tokens: 7\n  pull_request_cents: 8\n  day_tokens: 9\n  day_cents: 0\n\
             language: German\ntone: friendly\n",
        );
        assert_eq!(loaded.complaints, []);
        let policy = loaded.policy;
        assert_eq!(
            policy.review,
            ReviewPolicy {
                trigger: Automatic::Opened,
                drafts: true,
                severity_floor: Severity::Major,
                max_comments: 5,
                request_changes: Some(Severity::Critical),
                fail_on: Some(Severity::Major),
            }
        );
        assert_eq!(policy.paths.ignore, ["docs/**", "!Cargo.lock"]);
        assert_eq!(policy.paths.instructions, [PathInstruction { path: "src/**".into(), text: "No panics.\n".into() }]);
        assert_eq!(
            policy.budget,
            BudgetPolicy {
                review_tokens: Some(5),
                review_cents: Some(6),
                pull_request_tokens: Some(7),
                pull_request_cents: Some(8),
                day_tokens: Some(9),
                day_cents: Some(0),
            }
        );
        assert_eq!(policy.language.as_deref(), Some("German"));
        assert_eq!(policy.tone.as_deref(), Some("friendly"));
    }

    #[test]
    fn what_is_wrong_is_named_and_the_rest_holds() {
        let text = "reviews: {}\nreview:\n  drafts: yes please\n  max_comments: 1000\n  severity_floor: huge\n  \
                    fail_on: major\n  color: red\npaths:\n  ignore: src\n  instructions:\n    - path: 'a['\n      text: x\n\
                    budget:\n  day_tokens: 1.5\n  month: 3\n";
        assert_snapshot!(complaints(text), @"
        1:1 There is no key `reviews`; there are `review`, `paths`, `budget`, `language`, `tone`.
        3:11 `review.drafts` should be `true` or `false`.
        4:17 `review.max_comments` should be a whole number from 0 to 100.
        5:19 `review.severity_floor` should be `nit`, `minor`, `major` or `critical`.
        7:3 There is no key `review.color`; there are `trigger`, `drafts`, `severity_floor`, `max_comments`, `request_changes`, `fail_on`.
        9:11 `paths.ignore` should be a list.
        11:13 `paths.instructions.path` has a glob that cannot be read: unclosed character class; missing ']'.
        11:7 An item of `paths.instructions` needs a `path` and a `text`.
        14:15 `budget.day_tokens` should be a whole number.
        15:3 There is no key `budget.month`; there are `review_tokens`, `review_cents`, `pull_request_tokens`, `pull_request_cents`, `day_tokens`, `day_cents`.
        ");
        let policy = parse_policy(text).policy;
        assert_eq!(policy.review.fail_on, Some(Severity::Major));
        assert_eq!(policy.review.max_comments, 12);
        assert_eq!(policy.review.severity_floor, Severity::Minor);
    }

    #[test]
    fn text_that_is_not_yaml_gives_the_defaults() {
        let loaded = parse_policy("review:\n  drafts: [true\n");
        assert_eq!(loaded.policy, Policy::default());
        assert_eq!(loaded.complaints.len(), 1);
        assert!(loaded.complaints[0].line >= 2, "{:?}", loaded.complaints);
    }

    #[test]
    fn an_empty_file_is_silent() {
        for text in ["", "\n", "# only a comment\n", "review:\npaths:\n", "---\n"] {
            assert_eq!(parse_policy(text), LoadedPolicy::default(), "{text:?}");
        }
    }

    #[test]
    fn size_and_complaints_are_bounded() {
        assert_eq!(parse_policy(&"a".repeat(70_000)).complaints.len(), 1);
        let many: String = (0..100).map(|n| format!("k{n}: 1\n")).collect();
        assert_eq!(parse_policy(&many).complaints.len(), 20);
        let bomb = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n\
                    d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e,*e,*e]\n";
        assert_eq!(parse_policy(bomb).policy, Policy::default());
    }

    proptest! {
        #[test]
        fn reading_never_panics(text in "[ a-z:\\[\\]{}&*!|>'\"#\\-\n\u{e9}]{0,200}") {
            let loaded = parse_policy(&text);
            prop_assert!(loaded.complaints.iter().all(|c| c.line >= 1 && c.column >= 1 && c.message.len() < 500));
        }
    }
}
