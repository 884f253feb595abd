//! The command line, as somebody types it: the real binary in generated repositories.

use std::io::Read as _;
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use secondlook::clock::SystemClock;
use serde_json::Value;

use crate::harness::github::FakeGitHub;
use crate::harness::github::actions::PullSpec;
use crate::repository::{GitRepository, Ran, binary, run};

const BEFORE: &str = "import subprocess\n\n\ndef show(name):\n    print(name)\n";
const AFTER: &str =
    "import subprocess\n\n\ndef show(name):\n    subprocess.call(\"ls \" + name, shell=True)\n    print(name)\n";

/// A repository whose branch adds a shell command made of an argument, on line 5.
fn faulty() -> GitRepository {
    let repository = GitRepository::with_branch(&[("app/show.py", BEFORE), ("README.md", "# A\n")]);
    repository.commit("Show with ls", &[("app/show.py", AFTER)]);
    repository
}

fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {} {}", ran.out, ran.err))
}

#[test]
fn a_branch_is_reviewed_against_its_merge_base() {
    let repository = faulty();
    // What happened on main since is no part of the change.
    repository.git(&["switch", "--quiet", "main"]);
    repository.commit("Elsewhere", &[("app/other.py", "import os\nos.system(input())\n")]);
    repository.git(&["switch", "--quiet", "feature"]);
    let ran = repository.secondlook(&["review", "--format", "json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let output = json(&ran);
    let paths: Vec<&str> =
        output["coverage"]["files"].as_array().unwrap().iter().map(|f| f["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["app/show.py"]);
    let findings = output["findings"].as_array().unwrap();
    assert!(
        findings.iter().any(|f| f["line"] == 5 && f["path"] == "app/show.py" && f["category"] == "security"),
        "{output}"
    );
    assert_eq!(output["head"].as_str().unwrap(), repository.git(&["rev-parse", "HEAD"]).trim());
}

#[test]
fn every_form_is_valid_and_alone_on_standard_output() {
    let repository = faulty();
    let review = |format| {
        let ran = repository.secondlook(&["review", "--format", format]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert_eq!(ran.err, "", "no terminal, no progress");
        ran
    };
    let schema = |text: &str| jsonschema::validator_for(&serde_json::from_str(text).unwrap()).unwrap();
    let output = json(&review("json"));
    let faults: Vec<String> = schema(&repository.secondlook(&["schema", "output"]).out)
        .iter_errors(&output)
        .map(|error| error.to_string())
        .collect();
    assert!(faults.is_empty(), "{faults:?}");

    let standard = include_str!("../../fixtures/sarif/sarif-schema-2.1.0.json")
        // The standard's own pattern for languages is no regular expression, and nothing here writes one.
        .replace("\"^[a-zA-Z]{2}|^[a-zA-Z]{2}-[a-zA-Z]{2}]?$\"", "\"\"");
    let log = json(&review("sarif"));
    let faults: Vec<String> = schema(&standard).iter_errors(&log).map(|error| error.to_string()).collect();
    assert!(faults.is_empty(), "{faults:?}");
    assert_eq!(log["runs"][0]["results"].as_array().unwrap().len(), output["findings"].as_array().unwrap().len());

    let commands = review("github").out;
    assert!(commands.lines().all(|line| line.starts_with("::")), "{commands}");
    assert!(commands.contains("file=app/show.py,line=5,endLine=5,title="), "{commands}");

    let pretty = review("pretty").out;
    assert!(pretty.contains("--> app/show.py:5:5"), "{pretty}");
    assert!(pretty.contains("5 |     subprocess.call(\"ls \" + name, shell=True)"), "{pretty}");
    assert!(!pretty.contains('\u{1b}'), "no colour without a terminal");

    let markdown = review("markdown").out;
    assert!(markdown.starts_with("## Review of "), "{markdown}");
    assert!(markdown.contains("`app/show.py:5`"), "{markdown}");
}

#[test]
fn colour_comes_only_when_it_is_wanted() {
    let repository = faulty();
    let with = |variables: &[(&str, &str)]| run(repository.path(), &["review"], variables, "").out.contains('\u{1b}');
    assert!(with(&[("CLICOLOR_FORCE", "1")]));
    assert!(!with(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]));
    assert!(!with(&[]));
}

#[test]
fn the_exit_code_tells() {
    let repository = faulty();
    let code = |arguments: &[&str]| repository.secondlook(arguments).code;
    assert_eq!(code(&["review"]), 0);
    assert_eq!(code(&["review", "--fail-on", "none"]), 0);
    assert_eq!(code(&["review", "--fail-on", "minor"]), 1);
    repository.git(&["switch", "--quiet", "--create", "clean", "main"]);
    repository.commit("Rename", &[("app/show.py", &BEFORE.replace("name", "title"))]);
    assert_eq!(code(&["review", "--fail-on", "nit"]), 0);
    assert_eq!(code(&["review", "--no-such-flag"]), 2);
    assert_eq!(code(&["--version"]), 0);
}

#[test]
fn an_empty_change_is_nothing_to_review() {
    let repository = GitRepository::with_branch(&[("a.py", BEFORE)]);
    for arguments in [&["review"][..], &["review", "--staged"], &["review", "--diff", "-"]] {
        let ran = repository.secondlook(arguments);
        assert_eq!((ran.code, ran.out.as_str()), (0, ""), "{arguments:?}: {}", ran.err);
        assert!(ran.err.contains("nothing to review"), "{}", ran.err);
    }
    // Who reads the result with a program gets one.
    for format in ["json", "sarif"] {
        let output = json(&repository.secondlook(&["review", "--format", format]));
        assert!(output["version"].is_number() || output["version"] == "2.1.0", "{output}");
    }
}

#[test]
fn what_is_staged_is_reviewed_and_nothing_else() {
    let repository = GitRepository::with_branch(&[("a.py", BEFORE), ("b.py", BEFORE)]);
    repository.write("a.py", AFTER);
    repository.git(&["add", "a.py"]);
    repository.write("a.py", "print(1)\n");
    repository.write("b.py", AFTER);
    let output = json(&repository.secondlook(&["review", "--staged", "--format", "json"]));
    assert_eq!(output["coverage"]["files"].as_array().unwrap().len(), 1);
    assert!(output["findings"].as_array().unwrap().iter().any(|f| f["path"] == "a.py" && f["line"] == 5), "{output}");
    assert_eq!(output["head"], "index");
}

#[test]
fn the_first_commit_can_be_reviewed_before_it_is_made() {
    let repository = GitRepository::new();
    repository.write("a.py", AFTER);
    repository.git(&["add", "a.py"]);
    let output = json(&repository.secondlook(&["review", "--staged", "--format", "json"]));
    assert!(output["findings"].as_array().unwrap().iter().any(|f| f["line"] == 5), "{output}");
}

#[test]
fn a_patch_is_reviewed_over_a_directory() {
    let repository = faulty();
    let patch = repository.git(&["diff", "main...feature"]);
    let plain = tempfile::tempdir().unwrap();
    std::fs::create_dir(plain.path().join("app")).unwrap();
    std::fs::write(plain.path().join("app/show.py"), AFTER).unwrap();
    let root = plain.path().to_str().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let arguments = ["review", "--diff", "-", "--root", root, "--format", "json"];
    let output = json(&run(elsewhere.path(), &arguments, &[], &patch));
    assert!(output["findings"].as_array().unwrap().iter().any(|f| f["line"] == 5), "{output}");
    std::fs::write(elsewhere.path().join("change.patch"), &patch).unwrap();
    let arguments = ["review", "--diff", "change.patch", "--root", root, "--fail-on", "nit"];
    assert_eq!(run(elsewhere.path(), &arguments, &[], "").code, 1);
}

#[test]
fn a_patch_over_other_code_is_refused() {
    let repository = faulty();
    let patch = repository.git(&["diff", "main...feature"]);
    let elsewhere = tempfile::tempdir().unwrap();
    let over = || run(elsewhere.path(), &["review", "--diff", "-"], &[], &patch);
    over().refuses("the patch changes app/show.py, which is not in the working directory: give the root");
    std::fs::create_dir(elsewhere.path().join("app")).unwrap();
    std::fs::write(elsewhere.path().join("app/show.py"), BEFORE).unwrap();
    over().refuses("of app/show.py in the working directory is not as the patch leaves it");
    std::fs::write(elsewhere.path().join("app/show.py"), AFTER.replace('\n', "\r\n")).unwrap();
    assert_eq!(over().code, 0, "line ends do not count");
}

#[test]
fn a_file_that_the_rules_cannot_read_is_not_reviewed() {
    let long = "# One line of many.\n".repeat(60_000);
    let repository = GitRepository::with_branch(&[("a.py", &format!("x = 1\n{long}"))]);
    repository.commit("Evaluate", &[("a.py", &format!("x = eval(y)\n{long}"))]);
    let ran = repository.secondlook(&["review", "--format", "json"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert_eq!(json(&ran)["coverage"]["files"][0]["status"], "not_reviewed", "{}", ran.out);
    assert!(ran.err.contains("one part of the change was not reviewed"), "{}", ran.err);
}

#[test]
fn the_rules_come_from_the_base() {
    let ignore = "paths:\n  ignore: [\"app/**\"]\n";
    let repository = faulty();
    repository.commit("Look away", &[(".github/secondlook.yml", ignore)]);
    assert_eq!(repository.secondlook(&["review", "--fail-on", "nit"]).code, 1, "a change cannot change its own rules");
    let rules = repository.write("rules.yml", ignore);
    let rules = rules.to_str().unwrap();
    let output = json(&repository.secondlook(&["review", "--config", rules, "--format", "json"]));
    assert_eq!(output["findings"].as_array().unwrap().len(), 0);
    assert_eq!(output["coverage"]["files"].as_array().unwrap().iter().filter(|f| f["status"] == "excluded").count(), 1);
    repository.write("rules.yml", "paths:\n  ignor: []\n");
    repository.secondlook(&["review", "--config", rules]).refuses("rules.yml:2:");
}

#[test]
fn a_checkout_does_not_choose_where_keys_are_sent() {
    let repository = faulty();
    repository.write("secondlook.toml", "model = 'openai::m'\n[openai]\nbase_url = 'http://127.0.0.1:9/v1'\n");
    let ran = repository.secondlook(&["review"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("embedded"), "{}", ran.out);
}

#[test]
fn what_git_cannot_give_is_said_in_a_sentence() {
    let nowhere = tempfile::tempdir().unwrap();
    run(nowhere.path(), &["review"], &[], "").refuses("is in no git checkout");

    let repository = faulty();
    repository.secondlook(&["review", "--base", "no-such"]).refuses("git knows no commit \"no-such\"");
    repository.secondlook(&["review", "--head=--output=x"]).refuses("git knows no commit \"--output=x\"");
    repository.git(&["checkout", "--quiet", "--orphan", "apart"]);
    repository.commit("Apart", &[]);
    repository.secondlook(&["review"]).refuses("have no commit in common");
    repository.git(&["branch", "--quiet", "-D", "main", "feature"]);
    repository.secondlook(&["review"]).refuses("no default branch is to be found");
}

#[test]
fn what_is_no_patch_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    run(directory.path(), &["review", "--diff", "-"], &[], "Dear Sir or Madam,\nno.\n")
        .refuses("standard input holds no patch");
    run(directory.path(), &["review", "--diff", "gone.patch"], &[], "").refuses("cannot read the patch gone.patch");
    let arguments = ["review", "--diff", "-", "--root", "gone"];
    run(directory.path(), &arguments, &[], "").refuses("gone is not a directory");
}

#[test]
fn a_wrong_setting_is_said_in_a_sentence() {
    let repository = faulty();
    let with = |variables: &[(&str, &str)]| run(repository.path(), &["review"], variables, "");
    with(&[("SECONDLOOK_MODEL", "gpt-5")]).refuses("names no model");
    with(&[("SECONDLOOK_MODEL", "acme::x")]).refuses("no known provider");
    with(&[("SECONDLOOK_MODEL", "openai::gpt-5")]).refuses("needs a key");
    with(&[("SECONDLOOK_LOG", "a=b=c")]).refuses("no log filter");
    repository.secondlook(&["review", "o/r#1"]).refuses("needs a token: set GITHUB_TOKEN");
    repository.secondlook(&["review", "--settings", "gone.toml"]).refuses("cannot read gone.toml");
}

#[test]
fn ctrl_c_prints_what_is_finished() {
    let repository = faulty();
    // A model that takes the question and never answers.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}/v1", listener.local_addr().unwrap());
    let variables = [("SECONDLOOK_MODEL", "openai::m"), ("OPENAI_BASE_URL", base.as_str())];
    let mut command = binary(repository.path(), &["review", "--format", "json"], &variables);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (told, asked) = std::sync::mpsc::channel();
    // The connection is kept open with the thread, which ends with the test's process.
    std::thread::spawn(move || {
        let (mut question, _) = listener.accept().unwrap();
        let read = question.read(&mut [0; 64]).unwrap();
        told.send(read).unwrap();
        std::io::copy(&mut question, &mut std::io::sink())
    });
    assert!(asked.recv_timeout(Duration::from_secs(60)).expect("the model is asked") > 0);
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(printed["coverage"]["files"][0]["status"], "not_reviewed", "{printed}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("interrupted"));
}

#[test]
fn schemas_are_printed() {
    let directory = tempfile::tempdir().unwrap();
    for of in ["config", "repository", "output"] {
        let ran = run(directory.path(), &["schema", of], &[], "");
        assert!(jsonschema::validator_for(&json(&ran)).is_ok(), "{of}");
    }
    let tools = json(&run(directory.path(), &["schema", "tools"], &[], ""));
    let names: Vec<&str> = tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"read_file") && names.contains(&"check_security"), "{names:?}");
}

#[test]
fn the_doctor_says_how_to_mend() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let data = data.to_str().unwrap();
    let well = run(directory.path(), &["doctor", "--data-dir", data], &[], "");
    assert_eq!(well.code, 0, "{} {}", well.out, well.err);
    for line in ["ok   configuration: ", "ok   database: ", "ok   jobs: ", "note GitHub App: ", "ok   model: embedded"]
    {
        assert!(well.out.contains(line), "{line} is not in {}", well.out);
    }
    let variables = [
        ("GITHUB_APP_ID", "1"),
        ("GITHUB_APP_PRIVATE_KEY", "no key"),
        ("GITHUB_WEBHOOK_SECRET", "s"),
        ("SECONDLOOK_MODEL", "openai::m"),
        ("OPENAI_BASE_URL", "http://127.0.0.1:9/v1"),
    ];
    let ill = run(directory.path(), &["doctor", "--data-dir", data], &variables, "");
    assert_eq!(ill.code, 2, "{}", ill.out);
    assert!(ill.out.contains("bad  GitHub App: ") && ill.out.contains("bad  model: openai::m at"), "{}", ill.out);
    let wrong = run(directory.path(), &["doctor"], &[("SECONDLOOK_LISTEN", "x")], "");
    assert_eq!(wrong.code, 2);
    assert!(wrong.out.starts_with("bad  configuration: SECONDLOOK_LISTEN is \"x\""), "{}", wrong.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pull_request_is_reviewed_and_posted_on_once() {
    let github = FakeGitHub::start(Arc::new(SystemClock)).await;
    let spec = PullSpec::new(
        "//- app/show.py\n import subprocess\n \n \n def show(name):\n+    subprocess.call(\"ls \" + name, shell=True)\n     print(name)\n",
    );
    let pr = github.open_pull(spec);
    let name = format!("{}#{}", pr.repo, pr.number);
    let token = github.personal_token("alice");
    let directory = tempfile::tempdir().unwrap();
    let variables = [("GITHUB_API_URL", github.url()), ("GITHUB_TOKEN", token.as_str())];
    let review = |more: &[&str]| {
        let arguments = [&["review", &name, "--format", "json"], more].concat();
        run(directory.path(), &arguments, &variables, "")
    };
    let output = json(&review(&[]));
    assert_eq!(output["pull"], name.as_str());
    assert!(output["findings"].as_array().unwrap().iter().any(|f| f["line"] == 5), "{output}");
    assert!(github.reviews(&pr).is_empty(), "nothing is written without --post");

    let posted = review(&["--post", "--fail-on", "minor"]);
    assert_eq!(posted.code, 1, "{}", posted.err);
    let findings = output["findings"].as_array().unwrap().len();
    assert_eq!((github.reviews(&pr).len(), github.comments(&pr).len()), (1, findings));
    let again = review(&["--post"]);
    assert_eq!(again.code, 0, "{}", again.err);
    assert_eq!((github.reviews(&pr).len(), github.comments(&pr).len()), (1, findings), "{}", again.err);
    // What was written counts as read.
    github.page(&pr);
    assert_eq!(github.complaints(), Vec::<String>::new());

    let unknown = run(directory.path(), &["review", "acme/app#99"], &variables, "");
    unknown.refuses("acme/app#99 cannot be read: GitHub knows no");
    let stranger = [variables[0], ("GITHUB_TOKEN", "ghp_nobody")];
    run(directory.path(), &["review", &name], &stranger, "").refuses("GitHub refused the credentials");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_knows_what_the_app_lacks() {
    let github = FakeGitHub::start(Arc::new(SystemClock)).await;
    github.set_app_permission("checks", Some("read"));
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let variables = [
        ("GITHUB_API_URL", github.url()),
        ("GITHUB_APP_ID", "4711"),
        ("GITHUB_APP_PRIVATE_KEY", crate::serve::KEY),
        ("GITHUB_WEBHOOK_SECRET", "s"),
    ];
    let arguments = ["doctor", "--data-dir", data.to_str().unwrap()];
    let ran = run(directory.path(), &arguments, &variables, "");
    assert_eq!(ran.code, 2, "{}", ran.out);
    assert!(ran.out.contains("ok   GitHub App: GitHub knows it as secondlook"), "{}", ran.out);
    assert!(
        ran.out.contains("bad  permissions: the App lacks the permission checks: write (it has read);"),
        "{}",
        ran.out
    );
}
