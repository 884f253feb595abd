//! The rules: each takes a file and returns its faults, one line each.

use std::path::Path;

use clap::Parser;

use super::source::Source;

/// The modules in reading order. A module uses only what stands before it.
pub const ORDER: &[&str] = &[
    "ids",
    "clock",
    "retry",
    "redact",
    "room",
    "compute",
    "diff",
    "db",
    "queue",
    "event",
    "chat",
    "github",
    "memory",
    "analysis",
    "tool",
    "agent",
    "review",
    "conversation",
    "app",
    "job",
    "webhook",
    "dashboard",
    "config",
    "serve",
    "cli",
];

/// Names that say nothing about what is inside.
const DRAWERS: &[&str] = &["util", "utils", "common", "prelude", "helper", "helpers", "misc", "shared"];

pub fn import_order(source: &Source) -> Vec<String> {
    let Some(module) = source.module() else { return Vec::new() };
    let Some(own) = ORDER.iter().position(|name| *name == module) else {
        return vec![format!("{}: module `{module}` stands in no order", source.path)];
    };
    let mut used: Vec<String> = roots_after(&source.code, "crate::");
    // `super::` leaves the module when there are as many as the file is deep.
    let climb = "super::".repeat(source.depth());
    used.extend(roots_after(&source.code, &climb).into_iter().filter(|name| ORDER.contains(&name.as_str())));
    let later = |name: &String| ORDER.iter().position(|known| known == name).is_none_or(|place| place > own);
    used.sort();
    used.dedup();
    used.iter().filter(|name| later(name)).map(|name| format!("{}: `{module}` uses `{name}`", source.path)).collect()
}

/// The first names after `prefix`: one, or those of a braced list.
fn roots_after(code: &str, prefix: &str) -> Vec<String> {
    let word = |text: &str| -> String { text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect() };
    let mut found = Vec::new();
    for (at, _) in code.match_indices(prefix) {
        let before = code[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
            continue;
        }
        let rest = &code[at + prefix.len()..];
        if let Some(list) = rest.strip_prefix('{') {
            let mut depth = 0_usize;
            let mut item = String::new();
            for c in list.chars() {
                match c {
                    '{' => depth += 1,
                    '}' if depth == 0 => break,
                    '}' => depth -= 1,
                    ',' if depth == 0 => found.push(word(std::mem::take(&mut item).trim())),
                    c if depth == 0 => item.push(c),
                    _ => {}
                }
            }
            found.push(word(item.trim()));
        } else {
            found.push(word(rest));
        }
    }
    found.retain(|name| !name.is_empty() && name != "super" && name != "self");
    found
}

pub fn length(source: &Source) -> Vec<String> {
    let lines = source.raw.lines().count();
    if lines > 500 { vec![format!("{}: {lines} lines", source.path)] } else { Vec::new() }
}

pub fn time(source: &Source) -> Vec<String> {
    let calls = ["Timestamp::now", "Zoned::now", "Instant::now", "SystemTime::now", "Utc::now", "Local::now"];
    found(source, &calls, |path| path == "src/clock.rs")
}

pub fn environment(source: &Source) -> Vec<String> {
    let uses = ["std::env", " env::", "\tenv::", "(env::", "\nenv::"];
    found(source, &uses, |path| path == "src/main.rs" || path == "src/config.rs" || path.starts_with("src/config/"))
}

pub fn sql(source: &Source) -> Vec<String> {
    let path = source.path.as_str();
    let home = path.ends_with("/store.rs")
        || path.contains("/store/")
        || path == "src/agent/checkpoint.rs"
        || path == "src/db.rs"
        || path.starts_with("src/db/");
    if home || !path.starts_with("src/") {
        return Vec::new();
    }
    let mut faults = found(source, &["sqlx::"], |_| false);
    let end = source.tests_begin().unwrap_or(usize::MAX);
    for (index, line) in source.strings.lines().enumerate().take_while(|(index, _)| index + 1 < end) {
        let text = line.to_uppercase();
        let pair = |verb: &str, follows: &str| text.find(verb).is_some_and(|at| text[at..].contains(follows));
        let statement = pair("SELECT ", " FROM ")
            || pair("INSERT INTO ", "(")
            || pair("DELETE FROM ", "")
            || pair("UPDATE ", " SET ")
            || pair("CREATE TABLE ", "");
        if statement {
            faults.push(format!("{path}:{}: SQL outside of a store", index + 1));
        }
    }
    faults
}

pub fn octocrab(source: &Source) -> Vec<String> {
    found(source, &["octocrab"], |path| path == "src/github/client.rs")
}

pub fn spawn(source: &Source) -> Vec<String> {
    let calls = ["tokio::spawn", "task::spawn(", "JoinSet", "TaskTracker", "thread::spawn"];
    let home = |path: &str| path == "src/serve.rs" || path.starts_with("src/serve/") || path == "src/queue/worker.rs";
    found(source, &calls, home)
}

pub fn reexport(source: &Source) -> Vec<String> {
    found(source, &["pub use ", "pub(crate) use ", "pub(super) use "], |_| false)
}

pub fn tests_apart(source: &Source) -> Vec<String> {
    if !source.path.starts_with("src/") {
        return Vec::new();
    }
    let begin = source.tests_begin();
    let mut faults = Vec::new();
    for (index, line) in source.code.lines().enumerate() {
        let number = index + 1;
        let squeezed: String = line.split_whitespace().collect();
        let asks = squeezed.contains("cfg!(test")
            || squeezed.contains("cfg(test")
            || squeezed.contains("cfg(any(test")
            || squeezed.contains("cfg(all(test")
            || squeezed.contains("cfg(not(test")
            || squeezed.contains("cfg_attr(test");
        if asks && Some(number) != begin {
            faults.push(format!("{}:{number}: asks whether it is tested", source.path));
        }
    }
    if let Some(begin) = begin.filter(|_| !source.path.ends_with("/tests.rs")) {
        // The module is a file of its own (`mod tests;`) or ends with the brace that stands first on its line.
        let ends = |line: &&str| **line == *"}" || (line.contains("mod tests") && line.trim_end().ends_with(';'));
        let mut after = source.code.lines().skip(begin - 1).skip_while(|line| !ends(line)).skip(1);
        if after.any(|line| !line.trim().is_empty()) {
            faults.push(format!("{}: `mod tests` is not the end of the file", source.path));
        }
    }
    faults
}

pub fn drawers(source: &Source) -> Vec<String> {
    let mut names: Vec<&str> = source.path.split('/').map(|part| part.strip_suffix(".rs").unwrap_or(part)).collect();
    names.extend(source.code.lines().filter_map(|line| {
        let line = line.trim().strip_prefix("pub ").unwrap_or(line.trim());
        line.strip_prefix("mod ")?.split(|c: char| !c.is_alphanumeric() && c != '_').next()
    }));
    let faulty = names.into_iter().filter(|name| DRAWERS.contains(name));
    faulty.map(|name| format!("{}: a module named `{name}`", source.path)).collect()
}

pub fn reasons(source: &Source) -> Vec<String> {
    let mut faults = Vec::new();
    for opening in ["#[allow(", "#![allow("] {
        faults.extend(source.code.match_indices(opening).map(|_| format!("{}: `{opening}…`: use expect", source.path)));
    }
    for opening in ["#[expect(", "#![expect("] {
        for (at, _) in source.code.match_indices(opening) {
            let attribute = source.code[at..].split(']').next().unwrap_or_default();
            if !attribute.contains("reason") {
                faults.push(format!("{}: `{}` gives no reason", source.path, attribute.trim()));
            }
        }
    }
    faults
}

pub fn unfinished(source: &Source) -> Vec<String> {
    let macros = ["todo!", "unimplemented!"];
    let mut faults: Vec<String> = lines_with(source, &source.code, &macros);
    faults.extend(lines_with(source, &source.comments, &["TODO", "FIXME", "XXX", "HACK", "not implemented"]));
    faults
}

pub fn idle_tests(source: &Source) -> Vec<String> {
    let begin = if source.path.starts_with("src/") { source.tests_begin().unwrap_or(usize::MAX) } else { 0 };
    let mut faults = Vec::new();
    for (index, line) in source.code.lines().enumerate().skip(begin.saturating_sub(1)) {
        if line.contains("sleep(") || line.contains("#[ignore") {
            faults.push(format!("{}:{}: {}", source.path, index + 1, line.trim()));
        }
    }
    faults
}

pub fn unwraps(source: &Source) -> Vec<String> {
    if !source.path.starts_with("src/") {
        return Vec::new();
    }
    let calls = [".unwrap()", ".expect(", "panic!(", "unreachable!("];
    let lines: Vec<(usize, &str)> = source.product_lines().collect();
    let excused =
        |index: usize| lines[index.saturating_sub(4)..index].iter().any(|(_, line)| line.contains("#[expect("));
    let faulty = |index: &usize| calls.iter().any(|call| lines[*index].1.contains(call)) && !excused(*index);
    (0..lines.len())
        .filter(faulty)
        .map(|index| format!("{}:{}: {}", source.path, lines[index].0, lines[index].1.trim()))
        .collect()
}

/// The number of commands in ```` ```sh ```` blocks of a text that do not exist; each is printed.
pub fn readme(text: &str, root: &Path) -> usize {
    let mut wrong = 0;
    let mut inside = false;
    for line in text.lines() {
        if line.starts_with("```") {
            inside = line == "```sh";
        } else if inside && !exists(line, root) {
            println!("no such command: {line}");
            wrong += 1;
        }
    }
    wrong
}

fn exists(line: &str, root: &Path) -> bool {
    let line = line.split(" #").next().unwrap_or_default();
    let words = line.split_whitespace().skip_while(|word| word.contains('=') && !word.starts_with('-'));
    let words: Vec<&str> = words.take_while(|word| !matches!(*word, "|" | ">" | "&&" | "<")).collect();
    let parses = |arguments: &[&str]| {
        let arguments = std::iter::once("secondlook").chain(arguments.iter().copied());
        secondlook::cli::Arguments::try_parse_from(arguments).is_ok()
    };
    match words.as_slice() {
        [] => true,
        ["secondlook", rest @ ..] => parses(rest),
        ["cargo", "run", rest @ ..] => {
            let example = rest.iter().position(|word| *word == "--example").and_then(|at| rest.get(at + 1));
            let arguments = rest.iter().position(|word| *word == "--").map(|at| &rest[at + 1..]);
            match (example, arguments) {
                (Some(name), _) => {
                    root.join("examples").join(format!("{name}.rs")).is_file()
                        || root.join("examples").join(name).is_dir()
                }
                (None, Some(arguments)) => parses(arguments),
                (None, None) => false,
            }
        }
        [path, ..] if path.contains('/') => root.join(path).is_file(),
        // Programs of others are taken at their word.
        [_, ..] => true,
    }
}

/// Product lines that hold one of `texts`, unless the file is one of those that may.
fn found(source: &Source, texts: &[&str], may: impl Fn(&str) -> bool) -> Vec<String> {
    if may(&source.path) || !source.path.starts_with("src/") {
        return Vec::new();
    }
    let lines = source.product_lines().map(|(number, line)| (number, format!("\n{line}")));
    lines
        .filter(|(_, line)| texts.iter().any(|text| line.contains(text)))
        .map(|(number, line)| format!("{}:{number}: {}", source.path, line.trim()))
        .collect()
}

fn lines_with(source: &Source, layer: &str, texts: &[&str]) -> Vec<String> {
    let lines = layer.lines().enumerate().filter(|(_, line)| texts.iter().any(|text| line.contains(text)));
    lines.map(|(index, line)| format!("{}:{}: {}", source.path, index + 1, line.trim())).collect()
}
