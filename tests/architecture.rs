//! The rules of the code base, as tests. Each rule is a function from a file to its faults, and is itself tried on a
//! sample that breaks it, so that it can fail.

#![expect(clippy::unwrap_used, clippy::print_stdout, unreachable_pub, reason = "a test that reads the source tree")]

#[path = "architecture/rules.rs"]
mod rules;
#[path = "architecture/source.rs"]
mod source;

use rules::ORDER;
use source::{Source, root, tree};

/// Applies a rule to the whole tree.
fn holds(rule: fn(&Source) -> Vec<String>) {
    let faults: Vec<String> = tree().iter().flat_map(rule).collect();
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

/// The faults a rule finds in a sample.
fn faults(rule: fn(&Source) -> Vec<String>, path: &str, text: &str) -> usize {
    rule(&Source::new(path, text)).len()
}

#[test]
fn a_module_uses_only_what_stands_before_it() {
    let rule = rules::import_order;
    assert_eq!(faults(rule, "src/diff/mod.rs", "use crate::{clock, github::client::{self, X}};"), 1);
    assert_eq!(faults(rule, "src/diff/parse.rs", "fn a() -> super::super::cli::B {}"), 1);
    assert_eq!(faults(rule, "src/db.rs", "use super::serve;"), 1);
    assert_eq!(faults(rule, "src/cli/mod.rs", "use crate::serve; // crate::nothing"), 0);
    assert_eq!(faults(rule, "src/diff/parse.rs", "use super::super::ids; use super::Hunk; use crate::diff::Side;"), 0);
    holds(rule);
}

#[test]
fn the_map_names_the_modules_in_reading_order() {
    let map = std::fs::read_to_string(root().join("src/lib.rs")).unwrap();
    let map = Source::new("src/lib.rs", &map);
    let listed: Vec<&str> =
        map.code.lines().filter_map(|line| line.trim().strip_prefix("pub mod ")?.strip_suffix(';')).collect();
    assert_eq!(listed, ORDER);
}

#[test]
fn a_file_has_at_most_500_lines() {
    assert_eq!(faults(rules::length, "src/x.rs", &"\n".repeat(501)), 1);
    assert_eq!(faults(rules::length, "src/x.rs", &"\n".repeat(500)), 0);
    holds(rules::length);
}

#[test]
fn only_the_clock_tells_the_time() {
    assert_eq!(
        faults(rules::time, "src/job/mod.rs", "let now = Timestamp::now();\nlet then = std::time::Instant::now();"),
        2
    );
    assert_eq!(faults(rules::time, "src/clock.rs", "Timestamp::now()"), 0);
    holds(rules::time);
}

#[test]
fn only_the_configuration_reads_the_environment() {
    assert_eq!(faults(rules::environment, "src/chat/openai.rs", "std::env::var(\"KEY\")"), 1);
    assert_eq!(faults(rules::environment, "src/chat/openai.rs", "use std::env;\nenv::args();"), 2);
    assert_eq!(faults(rules::environment, "src/chat/openai.rs", "env!(\"CARGO_PKG_VERSION\")"), 0);
    assert_eq!(faults(rules::environment, "src/config/layers.rs", "std::env::vars_os()"), 0);
    holds(rules::environment);
}

#[test]
fn sql_stands_with_its_owner() {
    assert_eq!(faults(rules::sql, "src/job/mod.rs", "query(\"select id from jobs\")"), 1);
    assert_eq!(faults(rules::sql, "src/job/mod.rs", "use sqlx::Row;"), 1);
    assert_eq!(faults(rules::sql, "src/job/mod.rs", "let text = \"update the branch\"; // SELECT a FROM b"), 0);
    assert_eq!(faults(rules::sql, "src/queue/store.rs", "sqlx::query(\"DELETE FROM jobs\")"), 0);
    holds(rules::sql);
}

#[test]
fn only_the_client_knows_octocrab() {
    assert_eq!(faults(rules::octocrab, "src/github/auth.rs", "use octocrab::Octocrab;"), 1);
    assert_eq!(faults(rules::octocrab, "src/github/client.rs", "use octocrab::Octocrab;"), 0);
    holds(rules::octocrab);
}

#[test]
fn only_the_server_and_the_worker_spawn() {
    assert_eq!(faults(rules::spawn, "src/review/change.rs", "tokio::spawn(x);\ntask::spawn(y);\nJoinSet::new();"), 3);
    assert_eq!(faults(rules::spawn, "src/review/change.rs", "Command::new(\"git\").spawn()"), 0);
    assert_eq!(faults(rules::spawn, "src/serve.rs", "tokio::spawn(x)"), 0);
    holds(rules::spawn);
}

#[test]
fn nothing_is_exported_twice() {
    assert_eq!(faults(rules::reexport, "src/chat/mod.rs", "pub use openai::OpenAi;\npub(crate) use price::Price;"), 2);
    holds(rules::reexport);
}

#[test]
fn the_product_does_not_know_that_it_is_tested() {
    let rule = rules::tests_apart;
    assert_eq!(faults(rule, "src/x.rs", "#[cfg(test)]\nfn helper() {}"), 1);
    assert_eq!(faults(rule, "src/x.rs", "if cfg!(test) {}\n#[cfg(any(test, unix))]\nfn a() {}"), 2);
    assert_eq!(faults(rule, "src/x.rs", "#[cfg(test)]\nmod tests {\n}\nfn after() {}"), 1);
    assert_eq!(faults(rule, "src/x.rs", "#[cfg(test)]\nmod tests;\nfn after() {}"), 1);
    assert_eq!(faults(rule, "src/x.rs", "fn a() {}\n#[cfg(test)]\npub(super) mod tests;\n"), 0);
    assert_eq!(faults(rule, "src/x.rs", "fn a() {}\n#[cfg(test)]\n#[expect(x, reason = \"y\")]\nmod tests {\n}\n"), 0);
    holds(rule);
}

#[test]
fn no_module_is_a_drawer() {
    assert_eq!(faults(rules::drawers, "src/review/utils.rs", ""), 1);
    assert_eq!(faults(rules::drawers, "src/common/mod.rs", ""), 1);
    assert_eq!(faults(rules::drawers, "src/x.rs", "mod prelude {}"), 1);
    assert_eq!(faults(rules::drawers, "src/review/merge.rs", "mod tests {}"), 0);
    holds(rules::drawers);
}

#[test]
fn a_lint_is_set_aside_with_a_reason() {
    assert_eq!(faults(rules::reasons, "src/x.rs", "#[allow(dead_code)]\n#![expect(clippy::x)]"), 2);
    assert_eq!(faults(rules::reasons, "src/x.rs", "#[allow(dead_code, reason = \"x\")]"), 1);
    assert_eq!(faults(rules::reasons, "src/x.rs", "#[expect(\n  clippy::x,\n  reason = \"y\"\n)]"), 0);
    holds(rules::reasons);
}

#[test]
fn nothing_is_left_for_later() {
    let sample = format!("{}!();\n// {}: mend\n{}!()\n// {} this", "todo", "TODO", "unimplemented", "FIXME");
    assert_eq!(faults(rules::unfinished, "src/x.rs", &sample), 4);
    assert_eq!(faults(rules::unfinished, "src/x.rs", "let rule = \"TODO\"; // a note"), 0);
    holds(rules::unfinished);
}

#[test]
fn a_test_neither_sleeps_nor_is_set_aside() {
    assert_eq!(faults(rules::idle_tests, "tests/it/x.rs", "tokio::time::sleep(d).await;\n#[ignore]"), 2);
    assert_eq!(faults(rules::idle_tests, "src/x.rs", "sleep(a);\n#[cfg(test)]\nmod tests {\n sleep(b);\n}\n"), 1);
    holds(rules::idle_tests);
}

#[test]
fn unwrap_is_for_tests() {
    assert_eq!(faults(rules::unwraps, "src/x.rs", "a.unwrap();\nb.expect(\"c\");\npanic!(\"d\");"), 3);
    assert_eq!(faults(rules::unwraps, "src/x.rs", "#[expect(clippy::x, reason = \"y\")]\na.unwrap_or(b)"), 0);
    assert_eq!(faults(rules::unwraps, "src/x.rs", "#[cfg(test)]\nmod tests {\n a.unwrap();\n}\n"), 0);
    holds(rules::unwraps);
}

#[test]
fn main_is_short() {
    let main = std::fs::read_to_string(root().join("src/main.rs")).unwrap();
    assert!(main.lines().count() <= 40);
}

#[test]
fn the_readme_names_commands_that_exist() {
    let check = |text: &str| rules::readme(text, &root());
    assert_eq!(check("```sh\ntests/nothing\nsecondlook review --never-heard\ncargo run --example nobody\n```"), 3);
    assert_eq!(check("```sh\nsecondlook review --staged --format json\n```\nsecondlook dance"), 0);
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    assert!(readme.contains("```sh\n"), "the README shows commands");
    assert_eq!(check(&readme), 0);
}
