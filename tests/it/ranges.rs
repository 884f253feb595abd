//! `secondlook review` over whole ranges of history, in all five formats: the exit code is right, every output is valid,
//! and every finding stands on the lines it quotes.
//!
//! A generated repository is always reviewed. `SECONDLOOK_RANGES` names more, separated by spaces, as
//! `GIT_DIRECTORY:BASE..HEAD`: real ones of public repositories.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

const FORMATS: [&str; 5] = ["json", "sarif", "github", "markdown", "pretty"];

#[test]
fn a_generated_range_is_reviewed_in_every_format() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    git(root, &["init", "--quiet", "--initial-branch=main"]);
    commit(
        root,
        &[("app/run.py", "import os\n\n\ndef run(name):\n    return name\n"), ("src/lib.rs", "pub fn id() {}\n")],
    );
    let python = "import os\n\n\ndef run(name, seen=[]):\n    os.system(f\"ls {name}\")\n    return eval(name)\n";
    commit(root, &[("app/run.py", python), ("web/été #1.js", "element.innerHTML = name + \"!\";\r\n")]);
    let findings = review_in_every_format(root, "HEAD~1", "HEAD");
    assert!(findings > 0, "the planted faults were not found");
}

#[test]
fn real_ranges_are_reviewed_in_every_format() {
    let Ok(ranges) = std::env::var("SECONDLOOK_RANGES") else {
        eprintln!("skipped: SECONDLOOK_RANGES names no real ranges (GIT_DIRECTORY:BASE..HEAD, separated by spaces)");
        return;
    };
    for range in ranges.split_whitespace() {
        let (directory, commits) = range.rsplit_once(':').expect("GIT_DIRECTORY:BASE..HEAD");
        let (base, head) = commits.split_once("..").expect("BASE..HEAD");
        let findings = review_in_every_format(Path::new(directory), base, head);
        eprintln!("{range}: {findings} findings");
    }
}

/// Reviews `base..head` five times, checks each output, and returns the number of findings.
fn review_in_every_format(root: &Path, base: &str, head: &str) -> usize {
    let mut count = 0;
    let mut expected = 0;
    for format in FORMATS {
        let output = secondlook(root, &["review", "--base", base, "--head", head, "--format", format]);
        let errors = String::from_utf8_lossy(&output.stderr);
        let text = String::from_utf8(output.stdout).expect("the result is UTF-8");
        match format {
            "json" => (count, expected) = check_json(root, &text),
            "sarif" => assert_eq!(check_sarif(root, head, &text), count, "SARIF and JSON disagree"),
            // Beside the findings stand the files that were not reviewed.
            "github" => assert!(check_annotations(&text) >= count, "annotations and JSON disagree"),
            _ => assert!(!text.contains('\u{1b}'), "colour where there is no terminal"),
        }
        assert_eq!(output.status.code(), Some(expected), "{} {base}..{head} as {format}: {errors}", root.display());
    }
    count
}

/// The number of findings, and the exit code that goes with the coverage.
fn check_json(root: &Path, text: &str) -> (usize, i32) {
    let schema = secondlook(root, &["schema", "output"]);
    let schema: Value = serde_json::from_slice(&schema.stdout).expect("the schema is JSON");
    let report: Value = serde_json::from_str(text).expect("the report is JSON");
    let complaints = complaints(&schema, &report);
    assert!(complaints.is_empty(), "the report does not fit its schema: {complaints:?}");
    let files = report["coverage"]["files"].as_array().unwrap();
    let complete = files.iter().all(|file| file["status"] != "not_reviewed");
    (report["findings"].as_array().unwrap().len(), if complete { 0 } else { 2 })
}

fn check_sarif(root: &Path, head: &str, text: &str) -> usize {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/sarif/sarif-schema-2.1.0.json");
    // The standard's own pattern for languages is no regular expression, and nothing here writes one.
    let standard =
        std::fs::read_to_string(path).unwrap().replace(r#""^[a-zA-Z]{2}|^[a-zA-Z]{2}-[a-zA-Z]{2}]?$""#, r#""""#);
    let schema: Value = serde_json::from_str(&standard).unwrap();
    let log: Value = serde_json::from_str(text).expect("the log is JSON");
    let complaints = complaints(&schema, &log);
    assert!(complaints.is_empty(), "the log does not fit SARIF's schema: {complaints:?}");
    let results = log["runs"][0]["results"].as_array().unwrap();
    for result in results {
        let place = &result["locations"][0]["physicalLocation"];
        // A finding without a line of the new version has no region.
        let Some(region) = place["region"].as_object() else { continue };
        let quote = region["snippet"]["text"].as_str().expect("a region shows its code");
        let uri = place["artifactLocation"]["uri"].as_str().unwrap();
        let path = percent_encoding::percent_decode_str(uri).decode_utf8().unwrap();
        let file = git(root, &["show", &format!("{head}:{path}")]);
        let first = region["startLine"].as_u64().unwrap() as usize;
        let shown: Vec<&str> = file.split('\n').skip(first - 1).take(quote.split('\n').count()).collect();
        for (line, quoted) in shown.iter().zip(quote.split('\n')) {
            assert!(line.contains(quoted.trim()), "{path}:{first} is {line:?}, but {quoted:?} is quoted");
        }
    }
    results.len()
}

fn check_annotations(text: &str) -> usize {
    // Beside the findings stands a notice about the whole, which names no file.
    let annotations = text.lines().filter(|line| line.contains(" file="));
    annotations
        .inspect(|line| {
            let command = line.strip_prefix("::").and_then(|rest| rest.split_once("::")).map(|(command, _)| command);
            let command = command.unwrap_or_else(|| panic!("not an annotation: {line:?}"));
            let kind = command.split(' ').next().unwrap();
            assert!(["error", "warning", "notice"].contains(&kind), "unknown annotation {kind:?}");
        })
        .count()
}

fn complaints(schema: &Value, instance: &Value) -> Vec<String> {
    let validator = jsonschema::validator_for(schema).expect("the schema is one");
    validator.iter_errors(instance).map(|error| format!("{} at {}", error, error.instance_path())).collect()
}

fn secondlook(root: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_secondlook"))
        .args(arguments)
        .current_dir(root)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .output()
        .expect("the binary runs")
}

fn commit(root: &Path, files: &[(&str, &str)]) {
    for (path, text) in files {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    git(root, &["add", "--all"]);
    git(root, &["commit", "--quiet", "--message=change"]);
}

fn git(root: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "commit.gpgsign=false"])
        .args(arguments)
        .current_dir(root)
        .output()
        .expect("git runs");
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
