//! Real pull requests, exactly as GitHub lists their files, and an independent judge of what GitHub accepts.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use secondlook::diff::parse::{parse_patch, parse_unified};
use secondlook::diff::{FileDiff, FileStatus};
use secondlook::review::anchor::anchor;
use serde_json::{Value, json};

use crate::adversary::{check, comment, findings, lines_of};
use crate::harness::material::material;

/// Lines of a file that findings are made about.
const SAMPLE: usize = 10;

/// Reads one JSON object per line (`files` and `comments`), and prints for each the verdicts that are not `accept`.
/// Patches are parsed once each, not once per comment.
const JUDGE: &str = "
import functools, json, sys
sys.path.insert(0, sys.argv[1])
sys.dont_write_bytecode = True
import oracle
oracle.parse = functools.lru_cache(maxsize=None)(oracle.parse)
for line in sys.stdin:
    document = json.loads(line)
    judged = [(oracle.verdict(document['files'], c), c) for c in document['comments']]
    print(json.dumps({'judged': len(judged), 'bad': [[v, c] for v, c in judged if v[0] != 'accept'][:5]}))
";

fn documents(corpus: &Path) -> Vec<(String, Vec<Value>)> {
    let mut documents: Vec<_> = std::fs::read_dir(corpus)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .filter_map(|path| {
            let document: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
            let files = document.get("files")?.as_array()?.clone();
            Some((path.file_stem().unwrap().to_string_lossy().into_owned(), files))
        })
        .collect();
    documents.sort_by(|one, other| one.0.cmp(&other.0));
    documents
}

fn diff_of(file: &Value) -> FileDiff {
    let patch = file["patch"].as_str().unwrap_or_default();
    let (hunks, complaints) = parse_patch(patch);
    assert_eq!(complaints, [], "{}", file["filename"]);
    FileDiff {
        path: file["filename"].as_str().unwrap().to_owned(),
        old_path: file["previous_filename"].as_str().map(str::to_owned),
        status: serde_json::from_value(file["status"].clone()).unwrap(),
        hunks,
    }
}

#[test]
fn every_comment_on_a_real_pull_request_is_accepted_and_stands_on_its_quote() {
    let Some(corpus) = material("github/corpus") else { return };
    let mut judged = Vec::new();
    let (mut files_read, mut made, mut placed, mut distinct) = (0, 0, 0, 0);
    for (name, files) in documents(&corpus) {
        let mut comments = BTreeMap::new();
        for (index, file) in files.iter().enumerate() {
            let diff = diff_of(file);
            let lines = lines_of(file["patch"].as_str().unwrap_or_default());
            let counts = (file["additions"].as_u64(), file["deletions"].as_u64());
            if file.get("patch").is_some() {
                let (added, removed) = diff.counts();
                assert_eq!(counts, (Some(added as u64), Some(removed as u64)), "{name}: {}", diff.path);
            }
            let other = files[(index + 1) % files.len()]["filename"].as_str().filter(|other| *other != diff.path);
            let given = findings(&diff.path, other.unwrap_or("another/file.rs"), &lines, SAMPLE);
            let anchored = anchor(given.clone(), &diff);
            if let Err(why) = check(&diff.path, &lines, &given, &anchored) {
                panic!("{name}: {}: {why}", diff.path);
            }
            placed += anchored.comments.len();
            comments.extend(anchored.comments.iter().map(comment).map(|comment| (comment.to_string(), comment)));
            files_read += 1;
            made += given.len();
        }
        distinct += comments.len();
        judged.push(json!({"files": files, "comments": comments.into_values().collect::<Vec<_>>()}));
    }
    eprintln!(
        "{} documents, {files_read} files, {made} findings, {placed} comments, {distinct} of them distinct",
        judged.len()
    );
    assert_eq!(judged.len(), 120);
    assert!(placed > made / 4 && placed < made, "neither all nor hardly any are placed");

    let Some(verdicts) = verdicts(corpus.parent().unwrap(), &judged) else { return };
    let bad: Vec<&Value> = verdicts.iter().flat_map(|verdict| verdict["bad"].as_array().unwrap()).collect();
    assert_eq!(bad, Vec::<&Value>::new());
    let sum: u64 = verdicts.iter().map(|verdict| verdict["judged"].as_u64().unwrap()).sum();
    assert_eq!(sum, distinct as u64);
}

/// Asks `oracle.py`; `None`, said aloud, where Python is not there.
fn verdicts(oracle: &Path, documents: &[Value]) -> Option<Vec<Value>> {
    let child =
        Command::new("python3").args(["-c", JUDGE]).arg(oracle).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let Ok(mut child) = child else {
        eprintln!("skipped: python3 cannot be run, so oracle.py was not asked");
        return None;
    };
    let mut input = child.stdin.take().unwrap();
    let output = std::thread::scope(|scope| {
        scope.spawn(move || {
            for document in documents {
                writeln!(input, "{document}").unwrap();
            }
        });
        child.wait_with_output().unwrap()
    });
    assert!(output.status.success(), "the judge failed");
    let verdicts = String::from_utf8(output.stdout).unwrap();
    Some(verdicts.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

#[test]
fn the_judge_refuses_what_is_wrong() {
    let Some(github) = material("github") else { return };
    let files = json!([{"filename": "x", "status": "modified", "patch": "@@ -1 +1 @@\n-a\n+b"}]);
    let comments = json!([
        {"path": "x", "line": 1, "body": "b"}, {"path": "x", "line": 2, "body": "b"},
        {"path": "x", "line": 1, "start_line": 1, "body": "b"},
    ]);
    let Some(verdicts) = verdicts(&github, &[json!({"files": files, "comments": comments})]) else { return };
    assert_eq!(verdicts[0]["judged"], 3);
    assert_eq!(verdicts[0]["bad"].as_array().unwrap().len(), 2, "{verdicts:?}");
}

#[test]
fn the_same_hunks_are_read_from_a_unified_diff() {
    let Some(corpus) = material("github/corpus") else { return };
    let mut read = 0;
    for (name, files) in documents(&corpus) {
        let mut text = String::new();
        let mut expected = Vec::new();
        for file in &files {
            let diff = diff_of(file);
            let plain = |path: &str| !path.chars().any(|c| c.is_control() || c == '"' || c == '\\');
            if diff.hunks.is_empty() || !plain(&diff.path) || !diff.old_path.as_deref().is_none_or(plain) {
                continue;
            }
            let (path, patch) = (&diff.path, file["patch"].as_str().unwrap());
            let old = diff.old_path.as_ref().unwrap_or(path);
            text += &format!("diff --git a/{old} b/{path}\n");
            let (mut minus, mut plus) = (format!("a/{old}"), format!("b/{path}"));
            match diff.status {
                FileStatus::Added => {
                    text += "new file mode 100644\n";
                    minus = "/dev/null".into();
                }
                FileStatus::Removed => {
                    text += "deleted file mode 100644\n";
                    plus = "/dev/null".into();
                }
                FileStatus::Renamed => text += &format!("rename from {old}\nrename to {path}\n"),
                FileStatus::Copied => text += &format!("copy from {old}\ncopy to {path}\n"),
                FileStatus::Modified | FileStatus::Changed | FileStatus::Unchanged => {}
            }
            let tab = |name: &str| if name.contains(' ') { "\t" } else { "" };
            text += &format!("--- {minus}{}\n+++ {plus}{}\n{patch}\n", tab(&minus), tab(&plus));
            let modified = matches!(diff.status, FileStatus::Changed | FileStatus::Unchanged);
            let status = if modified { FileStatus::Modified } else { diff.status };
            expected.push(FileDiff { status, ..diff });
        }
        let (got, complaints) = parse_unified(text.as_bytes());
        assert_eq!(complaints, [], "{name}");
        assert_eq!(got, expected, "{name}");
        read += got.len();
    }
    assert!(read > 700, "{read}");
}
