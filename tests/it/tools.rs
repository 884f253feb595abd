//! The tools of a review over real trees: a directory, a commit, an index; and what the toolbox does with bad calls.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt as _;
use secondlook::chat::{ToolCall, ToolSpecification};
use secondlook::diff::{DiffLine, FileDiff, FileStatus, Hunk, LineKind};
use secondlook::github::FileText;
use secondlook::tool::check::CheckResult;
use secondlook::tool::checkout::{Checkout, CheckoutError, GitTree, MAX_FILE_BYTES};
use secondlook::tool::source::SourceTree;
use secondlook::tool::toolbox::{Limits, MAX_RESULT_BYTES, ToolResult, Toolbox};
use secondlook::tool::{Observation, Risk, Tool, ToolContext, ToolError};
use serde_json::{Value, json};
use tempfile::TempDir;

const APP: &str = "import os\n\n\ndef clean(path):\n    os.system(\"rm -r \" + path)\n\n\ndef old(path):\n    os.system(\"ls \" + path)\n";

fn write(root: &Path, path: &str, bytes: impl AsRef<[u8]>) {
    let path = root.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
}

/// A project with things that must not be read.
fn project() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "src/app.py", APP);
    write(dir.path(), "src/util.py", "def helper():\n    return 1\n");
    write(dir.path(), "README.md", "# Hello\n");
    write(dir.path(), ".gitignore", ".env\nbuild/\n");
    write(dir.path(), ".env", "PASSWORD=hunter2\n");
    write(dir.path(), "build/out.py", "x = 1\n");
    write(dir.path(), "logo.bin", [0_u8, 159, 146, 150]);
    dir
}

fn added(line: u32, text: &str) -> FileDiff {
    let line = DiffLine { kind: LineKind::Added, old: None, new: Some(line), text: text.into(), no_newline: false };
    let hunk = Hunk { old_start: 4, old_count: 0, new_start: 5, new_count: 1, lines: vec![line] };
    FileDiff { path: "src/app.py".into(), old_path: None, status: FileStatus::Modified, hunks: vec![hunk] }
}

fn context(source: impl SourceTree + 'static) -> ToolContext {
    let files = Arc::new(vec![Arc::new(added(5, "    os.system(\"rm -r \" + path)"))]);
    ToolContext { source: Arc::new(source), files, path: "src/app.py".into() }
}

async fn call(name: &str, arguments: Value, cx: &ToolContext) -> ToolResult {
    let call = ToolCall { id: "1".into(), name: name.into(), arguments: arguments.to_string() };
    Toolbox::reviewing().call(&call, cx).await
}

async fn ok(name: &str, arguments: Value, cx: &ToolContext) -> String {
    let result = call(name, arguments, cx).await;
    assert_eq!(result.outcome, "ok", "{}", result.text);
    result.text
}

fn git(root: &Path, arguments: &[&str]) {
    let output = Command::new("git")
        .arg("-C")
        .arg(root)
        .args(["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main"])
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test]
async fn every_tool_answers_over_a_directory() {
    let dir = project();
    let cx = context(Checkout::new(dir.path()).unwrap());
    insta::assert_snapshot!(ok("read_file", json!({"start_line": 4, "end_line": 5}), &cx).await, @r##"
    src/app.py, lines 4-5 of 9
    4: def clean(path):
    5:     os.system("rm -r " + path)
    "##);
    insta::assert_snapshot!(ok("list_files", json!({"glob": "*.py"}), &cx).await, @r##"
    2 files
    src/app.py
    src/util.py
    "##);
    insta::assert_snapshot!(ok("search_code", json!({"query": "os\\.system\\(.*path", "regex": true}), &cx).await, @r##"
    2 hits in 1 files (of 4 searched)
    src/app.py:5:     os.system("rm -r " + path)
    src/app.py:9:     os.system("ls " + path)
    "##);
    insta::assert_snapshot!(ok("read_diff", json!({"path": "src/app.py"}), &cx).await, @r##"
    src/app.py (modified, +1 -0)
    @@ -4,0 +5,1 @@
            5 +     os.system("rm -r " + path)
    "##);
    insta::assert_snapshot!(ok("read_diff", json!({}), &cx).await, @r##"
    1 changed files
    src/app.py (modified, +1 -0)
    "##);
    insta::assert_snapshot!(ok("parse_code", json!({"line": 9}), &cx).await, @r##"
    src/app.py (python), 9 lines
    line 9 is in function old, lines 8-9
    1: import os

    4-5: def clean(path)
    8-9: def old(path)
    "##);
    assert_eq!(ok("check_performance", json!({}), &cx).await, r#"{"hits":[],"note":""}"#);
    assert_eq!(
        ok("check_style", json!({"path": "README.md"}), &cx).await,
        r#"{"hits":[],"note":"No rules for this language; only secrets are looked for."}"#
    );
}

#[tokio::test]
async fn a_check_tells_what_the_change_brought_from_what_was_there() {
    let dir = project();
    let cx = context(Checkout::new(dir.path()).unwrap());
    let text = ok("check_security", json!({}), &cx).await;
    let result: CheckResult = serde_json::from_str(&text).unwrap();
    let hits: Vec<_> = result.hits.iter().map(|hit| (hit.hit.line, hit.changed, hit.hit.quote.as_str())).collect();
    let expected = [(5, true, "    os.system(\"rm -r \" + path)"), (9, false, "    os.system(\"ls \" + path)")];
    assert_eq!(hits, expected);
    let raw: Value = serde_json::from_str(&text).unwrap();
    let keys: Vec<&String> = raw["hits"][0].as_object().unwrap().keys().collect();
    let form = [
        "rule",
        "severity",
        "category",
        "title",
        "why",
        "fix",
        "line",
        "end_line",
        "quote",
        "replacement",
        "confidence",
        "cwe",
        "changed",
    ];
    assert_eq!(keys, form);
}

#[tokio::test]
async fn a_directory_is_never_left_and_secrets_stay_unread() {
    let dir = project();
    let outside = tempfile::tempdir().unwrap();
    write(outside.path(), "secret", "secret\n");
    git(dir.path(), &["init", "-q"]);
    #[cfg(unix)]
    {
        use std::os::unix::fs::symlink;
        symlink(outside.path().join("secret"), dir.path().join("out")).unwrap();
        symlink(outside.path(), dir.path().join("outdir")).unwrap();
        symlink(".git/config", dir.path().join("config")).unwrap();
        symlink("src/util.py", dir.path().join("inside")).unwrap();
        symlink("loop", dir.path().join("loop")).unwrap();
    }
    let tree = Checkout::new(dir.path()).unwrap();
    let absolute = outside.path().join("secret").display().to_string();
    for path in [
        "../secret",
        "src/../../x",
        "/etc/passwd",
        absolute.as_str(),
        "out",
        "outdir/secret",
        "config",
        ".git/config",
        ".GIT/config",
        "src/../.git/config",
        ".env",
        "build/out.py",
        "loop",
        "",
        ".",
        "src",
        "src/",
        "a\0b",
        "missing",
    ] {
        assert_eq!(tree.read(path).await, Ok(FileText::Missing), "{path:?}");
    }
    assert_eq!(tree.read("inside").await, Ok(FileText::Text("def helper():\n    return 1\n".into())));
    assert_eq!(tree.read("logo.bin").await, Ok(FileText::NotText));
    let (paths, complete) = tree.list().await.unwrap();
    assert!(complete && paths.is_sorted());
    assert!(
        !paths.iter().any(|path| path.starts_with(".git/") || path == ".env" || path.starts_with("build/")),
        "{paths:?}"
    );
    let committed = Checkout::new(dir.path()).unwrap().including(["build/out.py".to_owned(), "../secret".to_owned()]);
    assert_eq!(committed.read("build/out.py").await, Ok(FileText::Text("x = 1\n".into())));
    assert_eq!(committed.read("../secret").await, Ok(FileText::Missing));
    assert!(matches!(Checkout::new(&dir.path().join("missing")), Err(CheckoutError::NotADirectory(_))));
}

#[tokio::test]
async fn large_files_are_not_read() {
    let dir = project();
    write(dir.path(), "large.txt", "x".repeat(MAX_FILE_BYTES + 1));
    write(dir.path(), "fits.txt", "x".repeat(MAX_FILE_BYTES));
    git(dir.path(), &["init", "-q"]);
    git(dir.path(), &["add", "."]);
    let directory = Checkout::new(dir.path()).unwrap();
    let index = GitTree::index(dir.path()).await.unwrap();
    for tree in [&directory as &dyn SourceTree, &index] {
        assert_eq!(tree.read("large.txt").await, Ok(FileText::TooLarge));
        assert!(matches!(tree.read("fits.txt").await, Ok(FileText::Text(_))));
    }
}

#[tokio::test]
async fn a_commit_and_the_index_are_read_whatever_the_working_tree_holds() {
    let dir = project();
    let root = dir.path();
    write(root, "sub/ü \n.txt", "odd\n");
    #[cfg(unix)]
    std::os::unix::fs::symlink("../src/util.py", root.join("sub/link")).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink("../../etc/passwd", root.join("sub/out")).unwrap();
    git(root, &["init", "-q"]);
    git(root, &["add", "."]);
    git(root, &["commit", "-q", "-m", "one"]);
    write(root, "src/util.py", "staged = 1\n");
    git(root, &["add", "src/util.py"]);
    write(root, "src/util.py", "unstaged = 1\n");

    let commit = GitTree::at(root, "main").await.unwrap();
    assert_eq!(commit.commit().map(str::len), Some(40));
    let index = GitTree::index(&root.join("sub")).await.unwrap();
    let text = |text: &str| Ok(FileText::Text(text.into()));
    assert_eq!(commit.read("src/util.py").await, text("def helper():\n    return 1\n"));
    assert_eq!(index.read("src/util.py").await, text("staged = 1\n"));
    assert_eq!(commit.read("sub/ü \n.txt").await, text("odd\n"));
    assert_eq!(commit.read("sub/link").await, text("def helper():\n    return 1\n"));
    assert_eq!(commit.read("logo.bin").await, Ok(FileText::NotText));
    for path in ["sub/out", ".env", "../x", "/etc/passwd", "", "src", ".git/config", "HEAD", "main:src/util.py"] {
        assert_eq!(commit.read(path).await, Ok(FileText::Missing), "{path}");
    }
    assert!(commit.list().await.unwrap().0.contains(&"sub/ü \n.txt".to_owned()));
    // A read that is given up half way leaves nothing behind that another one could take for its own answer.
    for _ in 0..5 {
        assert_eq!(commit.read("src/app.py").now_or_never(), None);
        assert_eq!(commit.read("README.md").await, text("# Hello\n"));
    }
    let reads = futures_util::future::join_all((0..20).map(|_| commit.read("README.md")));
    assert!(reads.await.into_iter().all(|read| read == text("# Hello\n")));
}

#[tokio::test]
async fn names_that_are_no_commits_are_refused_with_what_to_do() {
    let dir = project();
    git(dir.path(), &["init", "-q"]);
    for reference in ["main", "-h", "--output=x", "", "a b", "HEAD\n", "nothing..here"] {
        let error = GitTree::at(dir.path(), reference).await.err().unwrap();
        assert_eq!(error, CheckoutError::NoCommit(reference.into()), "{reference}");
    }
    let bare = tempfile::tempdir().unwrap();
    let error = GitTree::at(bare.path(), "main").await.err().unwrap();
    assert!(
        matches!(&error, CheckoutError::Git { message, .. } if message.contains("not a git repository")),
        "{error}"
    );
    assert!(matches!(GitTree::at(&bare.path().join("x"), "main").await.err(), Some(CheckoutError::NotADirectory(_))));
}

#[tokio::test]
async fn bad_calls_are_answered_with_what_is_expected() {
    let dir = project();
    let cx = context(Checkout::new(dir.path()).unwrap());
    let toolbox = Toolbox::reviewing();
    for (name, arguments, outcome, says) in [
        (
            "reed_file",
            "{}",
            "unknown_tool",
            "the tools are: read_file, list_files, search_code, read_diff, parse_code, check_security, check_performance, check_style",
        ),
        ("search_code", "", "bad_arguments", "\"query\" is a required property"),
        ("search_code", "[1]", "bad_arguments", "not a JSON object but a list"),
        ("search_code", "{query: x}", "bad_arguments", "expected by search_code: {\"type\":\"object\""),
        ("search_code", "{\"query\":3}", "bad_arguments", "3 is not of type \"string\""),
        ("search_code", "{\"query\":\"(\",\"regex\":true}", "bad_arguments", "not a regular expression"),
        ("read_file", "{\"file\":\"a\"}", "bad_arguments", "'file' was unexpected"),
        ("read_file", "{\"start_line\":0}", "bad_arguments", "0 is less than the minimum of 1"),
        ("read_file", "{\"start_line\":5,\"end_line\":2}", "bad_arguments", "end_line is before start_line"),
        ("read_file", "{\"start_line\":500}", "bad_arguments", "has 9 lines"),
        ("read_file", "{\"path\":\"../x\"}", "refused", "there is no file"),
        ("read_file", "{\"path\":\"logo.bin\"}", "refused", "is not text"),
        ("read_diff", "{\"path\":\"README.md\"}", "refused", "not part of this change"),
        ("parse_code", "{\"path\":\"README.md\"}", "refused", "none of the languages"),
        ("list_files", "{\"glob\":\"[\"}", "bad_arguments", "error parsing glob"),
    ] {
        let call = ToolCall { id: "1".into(), name: name.into(), arguments: arguments.into() };
        let result = toolbox.call(&call, &cx).await;
        assert_eq!(result.outcome, outcome, "{name} {arguments}: {}", result.text);
        assert!(result.text.contains(says), "{name} {arguments}: {}", result.text);
    }
    for arguments in
        ["{\"start_line\":\"2\",\"path\":null,}", "```json\n{\"start_line\": 2}\n```", "\"{\\\"start_line\\\":2}\""]
    {
        let call = ToolCall { id: "1".into(), name: "read_file".into(), arguments: arguments.into() };
        let result = toolbox.call(&call, &cx).await;
        assert!(result.text.starts_with("src/app.py, lines 2-9 of 9\n"), "{arguments}: {}", result.text);
    }
}

#[test]
fn specifications_are_plain_and_show_an_example() {
    for specification in Toolbox::reviewing().specifications() {
        let text = specification.parameters.to_string();
        assert!(specification.description.contains("Example: {") && specification.description.contains("Result:\n"));
        assert!(!text.contains("$schema") && !text.contains("$ref") && !text.contains("\"format\""), "{text}");
        assert_eq!(specification.parameters["type"], "object", "{text}");
        assert_eq!(specification.parameters["additionalProperties"], false, "{text}");
        for (name, property) in specification.parameters["properties"].as_object().unwrap() {
            assert!(property["description"].is_string(), "{}: {name}", specification.name);
        }
    }
}

/// Fails some times before it works, or never ends.
struct Shaky {
    specification: ToolSpecification,
    failures: u32,
    calls: AtomicU32,
    risk: Risk,
}

#[async_trait]
impl Tool for Shaky {
    fn specification(&self) -> &ToolSpecification {
        &self.specification
    }

    fn risk(&self) -> Risk {
        self.risk
    }

    async fn call(&self, arguments: &Value, _: &ToolContext) -> Result<Observation, ToolError> {
        if arguments["hang"] == true {
            std::future::pending::<()>().await;
        }
        if self.calls.fetch_add(1, Ordering::Relaxed) < self.failures {
            return Err(ToolError::Transient("not now".into()));
        }
        Ok(Observation { text: "é".repeat(arguments["length"].as_u64().unwrap_or(1) as usize) })
    }
}

async fn shaky(failures: u32, risk: Risk, arguments: Value) -> (ToolResult, u32) {
    let parameters = json!({"type": "object"});
    let specification = ToolSpecification { name: "shaky".into(), description: String::new(), parameters };
    let tool = Arc::new(Shaky { specification, failures, calls: AtomicU32::new(0), risk });
    let limits = Limits { time: Duration::from_millis(200), attempts: 3, backoff: Duration::ZERO };
    let toolbox = Toolbox::new(vec![tool.clone()]).with_limits(limits);
    let dir = project();
    let cx = context(Checkout::new(dir.path()).unwrap());
    let call = ToolCall { id: "1".into(), name: "shaky".into(), arguments: arguments.to_string() };
    (toolbox.call(&call, &cx).await, tool.calls.load(Ordering::Relaxed))
}

#[tokio::test]
async fn passing_faults_are_tried_three_times_but_never_for_writes() {
    let (result, calls) = shaky(2, Risk::ReadOnly, json!({})).await;
    assert_eq!((result.outcome, result.text.as_str(), calls), ("ok", "é", 3));
    let (result, calls) = shaky(3, Risk::ReadOnly, json!({})).await;
    assert_eq!((result.outcome, result.text.as_str(), calls), ("failed", "failed for now: not now", 3));
    let (result, calls) = shaky(1, Risk::Write, json!({})).await;
    assert_eq!((result.outcome, calls), ("failed", 1));
}

#[tokio::test]
async fn calls_end_in_time_and_results_are_clipped() {
    let (result, _) = shaky(0, Risk::ReadOnly, json!({"hang": true})).await;
    assert_eq!(result.outcome, "timed_out");
    let (result, _) = shaky(0, Risk::ReadOnly, json!({"length": 100_000})).await;
    assert!(result.text.len() < MAX_RESULT_BYTES + 100 && result.text.contains("bytes left out"));
}

#[tokio::test]
async fn searches_are_bounded_in_files_and_say_so() {
    struct Many(AtomicU32);
    #[async_trait]
    impl SourceTree for Many {
        async fn read(&self, _: &str) -> Result<FileText, ToolError> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(FileText::Text("needle\n".into()))
        }
        async fn list(&self) -> Result<(Vec<String>, bool), ToolError> {
            Ok(((0..5_000).map(|n| format!("f{n:04}.py")).collect(), false))
        }
    }
    let tree = Arc::new(Many(AtomicU32::new(0)));
    let cx = ToolContext { source: tree.clone(), files: Arc::new(Vec::new()), path: String::new() };
    let text = ok("search_code", json!({"query": "needle"}), &cx).await;
    assert_eq!(tree.0.load(Ordering::Relaxed), 300);
    assert!(text.starts_with("300 hits in 300 files (of 300 searched)\n(not searched: 4700 files"), "{text}");
    assert!(text.len() <= MAX_RESULT_BYTES);
    let result = call("read_file", json!({}), &cx).await;
    assert!(result.text.contains("no path is given"), "{}", result.text);
}
