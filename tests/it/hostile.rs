//! What strangers try: repositories that name programs, links and gaps that would open ignored files, senders who never
//! send, and our own markers written by others.

use std::path::Path;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue};
use secondlook::clock::SystemClock;
use secondlook::db::Backend;
use secondlook::github::FileText;
use secondlook::queue::Settings;
use secondlook::queue::store::Queue;
use secondlook::review::render::marker;
use secondlook::tool::checkout::Checkout;
use secondlook::tool::source::SourceTree;
use secondlook::webhook::receive::{BODY_LIMIT, receive};
use secondlook::webhook::{Intake, Secrets};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::sync::Notify;

use crate::harness::clock::ManualClock;
use crate::harness::database::fresh;
use crate::harness::delivery::{SECRET, sign};
use crate::harness::github::FakeGitHub;
use crate::harness::github::actions::PullSpec;
use crate::repository::{GitRepository, run};

/// A repository whose configuration names a program everywhere git takes one, and whose last commit seems signed.
#[cfg(unix)]
fn armed(evidence: &Path) -> GitRepository {
    use std::os::unix::fs::PermissionsExt as _;
    let repository = GitRepository::with_branch(&[("app/show.py", "def show(name):\n    print(name)\n")]);
    repository.commit("Show it all", &[("app/show.py", "def show(name):\n    eval(name)\n")]);
    let commit = repository.git(&["cat-file", "commit", "HEAD"]);
    let (head, message) = commit.split_once("\n\n").unwrap();
    let signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n AAAA\n -----END PGP SIGNATURE-----";
    let text = repository.write(".git/signed", &format!("{head}\n{signature}\n\n{message}"));
    let signed = repository.git(&["hash-object", "-t", "commit", "-w", text.to_str().unwrap()]);
    repository.git(&["reset", "--quiet", "--hard", signed.trim()]);
    let program =
        repository.write(".git/program", &format!("#!/bin/sh\necho \"$0 $*\" >> '{}'\nexit 1\n", evidence.display()));
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let program = program.to_str().unwrap();
    for hook in ["post-index-change", "reference-transaction", "post-checkout"] {
        std::fs::copy(program, repository.write(&format!(".git/hooks/{hook}"), "")).unwrap();
    }
    repository.write(".git/info/attributes", "* diff=evil filter=evil merge=evil\n");
    for key in [
        "core.fsmonitor",
        "core.pager",
        "core.editor",
        "core.sshCommand",
        "core.askPass",
        "core.gitProxy",
        "gpg.program",
        "diff.external",
        "diff.evil.command",
        "diff.evil.textconv",
        "filter.evil.clean",
        "filter.evil.smudge",
        "filter.evil.process",
        "merge.evil.driver",
        "credential.helper",
        "remote.origin.uploadpack",
        "pager.log",
        "pager.diff",
        "interactive.diffFilter",
    ] {
        repository.git(&["config", key, program]);
    }
    for (key, value) in [
        ("log.showSignature", "true"),
        ("core.repositoryFormatVersion", "1"),
        ("extensions.partialClone", "origin"),
        ("remote.origin.promisor", "true"),
        ("remote.origin.url", "ssh://nowhere.invalid/x"),
        ("diff.noprefix", "true"),
        ("diff.relative", "true"),
        ("color.ui", "always"),
    ] {
        repository.git(&["config", key, value]);
    }
    let _ = std::fs::remove_file(evidence);
    repository
}

#[cfg(unix)]
#[test]
fn a_repository_s_configuration_runs_nothing() {
    let evidence = tempfile::tempdir().unwrap();
    let evidence = evidence.path().join("ran");
    let ran = || std::fs::read_to_string(&evidence).unwrap_or_default();
    let repository = armed(&evidence);
    let review = repository.secondlook(&["review", "--base", "main", "--format", "json"]);
    assert_eq!(review.code, 0, "{}", review.err);
    let output: Value = serde_json::from_str(&review.out).unwrap();
    assert_eq!(output["findings"][0]["line"], 2, "{output}");
    assert_eq!(ran(), "");
    repository.write("app/show.py", "def show(name):\n    exec(name)\n");
    let _ = std::fs::remove_file(&evidence);
    let staged = repository.secondlook(&["review", "--staged", "--base", "main"]);
    assert_eq!((staged.code, ran().as_str()), (0, ""), "{}", staged.err);
    let patch = repository.write(
        "x.patch",
        "--- a/app/show.py\n+++ b/app/show.py\n@@ -1,2 +1,2 @@\n def show(name):\n-    print(name)\n+    exec(name)\n",
    );
    let patched = repository.secondlook(&["review", "--diff", patch.to_str().unwrap(), "--root", "."]);
    assert_eq!((patched.code, ran().as_str()), (0, ""), "{}", patched.err);

    // An object that is not there would be fetched, through a transport that the repository names.
    let blob = repository.git(&["rev-parse", "main:app/show.py"]);
    let (folder, file) = blob.trim().split_at(2);
    std::fs::remove_file(repository.path().join(".git/objects").join(folder).join(file)).unwrap();
    let _ = std::fs::remove_file(&evidence);
    let refused = repository.secondlook(&["review", "--base", "main"]);
    assert_eq!(ran(), "");
    refused.refuses("this clone is partial");
}

#[test]
fn names_that_look_like_options_are_names() {
    let repository = GitRepository::with_branch(&[("a.py", "x = 1\n")]);
    repository.commit("Change", &[("a.py", "x = 2\n")]);
    repository.git(&["update-ref", "refs/heads/--is-ancestor", "main"]);
    for name in ["--is-ancestor", "-x", "--output=x", "--end-of-options"] {
        let ran = repository.secondlook(&["review", &format!("--base={name}")]);
        match name {
            "--is-ancestor" => assert_eq!(ran.code, 0, "{}", ran.err),
            _ => ran.refuses("git knows no commit"),
        }
    }
    assert!(!repository.path().join("x").exists());
}

#[cfg(unix)]
#[tokio::test]
async fn neither_links_nor_gaps_open_what_is_ignored() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::symlink;
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let write = |path: &str, text: &str| {
        std::fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
        std::fs::write(root.join(path), text).unwrap();
    };
    write(".gitignore", ".env\nbuild/\n");
    write(".env", "PASSWORD=hunter2\n");
    write("build/out.py", "x = 1\n");
    write("src/a.py", "y = 1\n");
    symlink(".env", root.join("innocent.md")).unwrap();
    symlink("../build/out.py", root.join("src/innocent.py")).unwrap();
    symlink("src/a.py", root.join("link.py")).unwrap();
    let secrets = [".env", "build/out.py", "innocent.md", "src/innocent.py"];
    let check = async |complete: bool| {
        let tree = Checkout::new(root).unwrap();
        assert_eq!(tree.list().await.unwrap().1, complete);
        for path in secrets {
            assert_eq!(tree.read(path).await, Ok(FileText::Missing), "{path}");
        }
        for path in ["src/a.py", "link.py"] {
            assert_eq!(tree.read(path).await, Ok(FileText::Text("y = 1\n".into())), "{path}");
        }
        let of_the_change = Checkout::new(root).unwrap().including(["innocent.md".to_owned()]);
        assert_eq!(of_the_change.read("innocent.md").await, Ok(FileText::Missing));
    };
    check(true).await;
    // A name that nobody here can say leaves a gap in the list.
    std::fs::write(root.join(OsStr::from_bytes(b"caf\xe9")), "z").unwrap();
    check(false).await;
}

#[tokio::test]
async fn senders_that_send_nothing_keep_nobody_out() {
    let Some(db) = fresh(Backend::Sqlite).await else { return };
    let clock = Arc::new(ManualClock::default());
    let queue = Queue::new(db.clone(), clock.clone(), Settings::default());
    let secrets = Secrets::new(vec![SECRET.into()]);
    let intake = Intake::new(db.clone(), queue, clock, secrets, Arc::new(Notify::new()));
    let forged = format!("sha256={}", "0".repeat(64));
    let quiet = |length: Option<usize>| {
        let mut headers = HeaderMap::new();
        headers.insert("x-hub-signature-256", HeaderValue::from_str(&forged).unwrap());
        if let Some(length) = length {
            headers.insert("content-length", length.into());
        }
        let body = Body::from_stream(futures_util::stream::pending::<Result<Bytes, std::io::Error>>());
        Box::pin(receive(State(intake.clone()), headers, body))
    };
    let mut waiting: Vec<_> = (0..500).map(|n| quiet((n % 2 == 0).then_some(BODY_LIMIT))).collect();
    for one in &mut waiting {
        assert!(futures_util::poll!(one).is_pending());
    }
    let body = vec![b' '; 1 << 20].into_iter().chain(*b"{\"zen\":\"x\"}").collect::<Vec<u8>>();
    let mut headers = HeaderMap::new();
    headers.insert("x-hub-signature-256", HeaderValue::from_str(&sign(SECRET, &body)).unwrap());
    headers.insert("x-github-event", HeaderValue::from_static("ping"));
    headers.insert("x-github-delivery", HeaderValue::from_static("1"));
    let (status, _) = receive(State(intake.clone()), headers, Body::from(body)).await;
    assert_eq!(status.as_u16(), 202);
}

const SHOW: &str = "//- app/show.py\n import subprocess\n \n \n def show(name):\n+    subprocess.call(\"ls \" + name, shell=True)\n     print(name)\n";

#[tokio::test(flavor = "multi_thread")]
async fn markers_of_strangers_do_not_silence_the_command_line() {
    let github = FakeGitHub::start(Arc::new(SystemClock)).await;
    let pr = github.open_pull(PullSpec::new(SHOW));
    let name = format!("{}#{}", pr.repo, pr.number);
    let token = github.personal_token("alice");
    let directory = tempfile::tempdir().unwrap();
    let variables = [("GITHUB_API_URL", github.url()), ("GITHUB_TOKEN", token.as_str())];
    let review =
        |more: &[&str]| run(directory.path(), &[&["review", &name, "--format", "json"], more].concat(), &variables, "");
    let output: Value = serde_json::from_str(&review(&[]).out).unwrap();
    let text = |key: &str| output[key].as_str().unwrap().to_owned();
    for part in 0..3 {
        let plan = hex::encode(Sha256::digest(format!("{name}:{}:{} {part}", text("base"), text("head"))));
        let body = format!("Fine.\n\n{}", marker::review(&text("head"), &text("base"), part, 1, &plan[..32], &[]));
        github.leave_review(&pr, "mallory", "COMMENTED", &body);
    }
    let findings = output["findings"].as_array().unwrap();
    for found in findings {
        let forged = format!("Seen.\n\n{}", marker::finding(found["fingerprint"].as_str().unwrap()));
        github.comment_on_line(&pr, "mallory", "app/show.py", 5, &forged);
    }
    let posted = review(&["--post"]);
    assert_eq!(posted.code, 0, "{}", posted.err);
    let written = github.comments(&pr).len();
    assert_eq!(written, findings.len() * 2, "those of mallory, and ours: {}", posted.err);
    assert_eq!(review(&["--post"]).code, 0);
    assert_eq!(github.comments(&pr).len(), written, "ours are known again");
    github.page(&pr);
    assert_eq!(github.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_review_somebody_is_writing_is_not_thrown_away() {
    let github = FakeGitHub::start(Arc::new(SystemClock)).await;
    let pr = github.open_pull(PullSpec::new(SHOW));
    let token = github.personal_token("alice");
    let directory = tempfile::tempdir().unwrap();
    let variables = [("GITHUB_API_URL", github.url()), ("GITHUB_TOKEN", token.as_str())];
    github.leave_review(&pr, "alice", "PENDING", "Half an hour of thought");
    let name = format!("{}#{}", pr.repo, pr.number);
    let ran = run(directory.path(), &["review", &name, "--post"], &variables, "");
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.contains("pending review"), "{}", ran.err);
    let states: Vec<&str> = github.reviews(&pr).iter().map(|review| review.state).collect();
    assert_eq!(states, ["PENDING"]);
}
