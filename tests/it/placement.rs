//! Placement on generated changes: every patch that we make is read back, every finding that is placed would be
//! accepted by GitHub and stands on what it quotes.

use std::process::Command;

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use secondlook::diff::follow::{follow, shifted};
use secondlook::diff::make::make_hunks;
use secondlook::diff::parse::{parse_patch, parse_unified};
use secondlook::diff::{FileDiff, FileStatus, Hunk, LineKind};
use secondlook::review::anchor::anchor;

use crate::adversary::{check, findings, lines_of};

/// Lines that repeat, that look like parts of a diff, and that hold what other tools take for line ends.
const LINES: [&str; 18] = [
    "",
    "}",
    "    }",
    "return x;",
    "    return x;",
    "\treturn x;",
    "let key = map.get(name).unwrap();",
    "--- a/x",
    "+++ b/x",
    "@@ -1 +1 @@",
    "\\ No newline at end of file",
    "-- ",
    "carriage\r",
    "a\u{2028}b",
    "a\u{c}b\u{85}c",
    "lone\rreturn",
    "diff --git a/x b/x",
    "höher 😀",
];

fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => prop::sample::select(LINES.to_vec()).prop_map(str::to_owned),
        2 => (0..40u32).prop_map(|n| format!("    line_{n}(argument);")),
    ]
}

/// A text before and after some edits.
fn texts() -> impl Strategy<Value = (String, String)> {
    let edits = prop::collection::vec((0..60usize, 0..4usize, prop::collection::vec(line(), 0..4)), 0..6);
    (prop::collection::vec(line(), 0..60), edits, any::<bool>(), any::<bool>()).prop_map(
        |(old, edits, old_end, new_end)| {
            let mut new = old.clone();
            for (at, removed, added) in edits {
                let at = at.min(new.len());
                let end = (at + removed).min(new.len());
                new.splice(at..end, added);
            }
            let text = |lines: &[String], end: bool| {
                let mut text = lines.join("\n");
                if end && !lines.is_empty() {
                    text.push('\n');
                }
                text
            };
            (text(&old, old_end), text(&new, new_end))
        },
    )
}

/// The hunks as GitHub's `patch`.
fn patch_of(hunks: &[Hunk]) -> String {
    let mut lines = Vec::new();
    for hunk in hunks {
        let Hunk { old_start, old_count, new_start, new_count, .. } = hunk;
        lines.push(format!("@@ -{old_start},{old_count} +{new_start},{new_count} @@ fn around()"));
        for line in &hunk.lines {
            let marker = match line.kind {
                LineKind::Context => ' ',
                LineKind::Added => '+',
                LineKind::Removed => '-',
            };
            lines.push(format!("{marker}{}", line.text));
            if line.no_newline {
                lines.push("\\ No newline at end of file".to_owned());
            }
        }
    }
    lines.join("\n")
}

/// The new text, from the old one and the hunks.
fn applied(old: &str, hunks: &[Hunk]) -> String {
    let old: Vec<&str> = old.split_inclusive('\n').collect();
    let mut new = String::new();
    let mut at = 0;
    for hunk in hunks {
        let start = if hunk.old_count == 0 { hunk.old_start } else { hunk.old_start - 1 } as usize;
        new.extend(old[at..start].iter().copied());
        for line in hunk.lines.iter().filter(|line| line.kind != LineKind::Removed) {
            new.push_str(&line.text);
            if !line.no_newline {
                new.push('\n');
            }
        }
        let kept = hunk.lines.iter().filter(|line| line.kind != LineKind::Added);
        for (line, old) in kept.zip(&old[start..]) {
            assert_eq!(format!("{}{}", line.text, if line.no_newline { "" } else { "\n" }), **old);
        }
        at = start + hunk.old_count as usize;
    }
    new.extend(old[at..].iter().copied());
    new
}

fn file(hunks: Vec<Hunk>) -> FileDiff {
    FileDiff { path: "src/x.rs".into(), old_path: None, status: FileStatus::Modified, hunks }
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config(200))]

    #[test]
    fn a_made_patch_says_what_changed_and_is_read_back((old, new) in texts()) {
        let hunks = make_hunks(&old, &new);
        prop_assert_eq!(applied(&old, &hunks), new.clone());
        prop_assert_eq!(hunks.is_empty(), old == new);
        let patch = patch_of(&hunks);
        prop_assert_eq!(parse_patch(&patch), (hunks.clone(), Vec::new()));
        let unified = format!("diff --git a/src/x.rs b/src/x.rs\n--- a/src/x.rs\n+++ b/src/x.rs\n{patch}\n");
        if !hunks.is_empty() {
            prop_assert_eq!(parse_unified(unified.as_bytes()), (vec![file(hunks)], Vec::new()));
        }
    }

    #[test]
    fn placed_findings_are_accepted_and_stand_on_their_quote((old, new) in texts()) {
        let hunks = make_hunks(&old, &new);
        let lines = lines_of(&patch_of(&hunks));
        let given = findings("src/x.rs", "src/y.rs", &lines, 12);
        let anchored = anchor(given.clone(), &file(hunks));
        if let Err(why) = check("src/x.rs", &lines, &given, &anchored) {
            return Err(TestCaseError::fail(why));
        }
    }

    #[test]
    fn lines_are_followed_to_where_they_stand((old, new) in texts()) {
        let hunks = make_hunks(&old, &new);
        let (old_lines, new_lines): (Vec<_>, Vec<_>) = (old.split('\n').collect(), new.split('\n').collect());
        for (index, text) in old_lines.iter().enumerate().filter(|(_, text)| !text.trim().is_empty()) {
            let number = u32::try_from(index + 1).unwrap();
            let hint = shifted(&hunks, number);
            if let Some(there) = hint {
                prop_assert_eq!(new_lines[there as usize - 1], *text);
                // What did not change is found where the hunks say.
                prop_assert_eq!(follow(text, &new, hint), Some(there..=there));
            }
            if let Some(place) = follow(text, &new, Some(number)) {
                prop_assert_eq!(new_lines[*place.start() as usize - 1].trim(), text.trim());
            }
        }
    }

    #[test]
    fn damaged_patches_are_read_without_panic_and_never_off_the_text(
        (old, new) in texts(),
        cut in 0..400usize,
        noise in "(?s)[-+ @\\\\\n0-9,a]{0,12}",
    ) {
        let mut patch = patch_of(&make_hunks(&old, &new));
        let at = patch.floor_char_boundary(cut);
        patch.insert_str(at, &noise);
        for text in [patch.as_str(), &patch[..at], &patch[at..]] {
            let (hunks, _) = parse_patch(text);
            let (files, _) = parse_unified(format!("--- x\n+++ x\n{text}").as_bytes());
            for hunk in hunks.iter().chain(files.iter().flat_map(|file| &file.hunks)) {
                let on = |kind| hunk.lines.iter().filter(|line| line.kind != kind).count();
                prop_assert_eq!(hunk.old_count as usize, on(LineKind::Added));
                prop_assert_eq!(hunk.new_count as usize, on(LineKind::Removed));
            }
        }
    }
}

#[test]
fn git_says_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut same = 0;
    const CASES: usize = 40;
    for _ in 0..CASES {
        let (old, new) = texts().new_tree(&mut runner).unwrap().current();
        std::fs::write(path("old"), &old).unwrap();
        std::fs::write(path("new"), &new).unwrap();
        let git = Command::new("git")
            .args([
                "-c",
                "core.autocrlf=false",
                "diff",
                "--no-index",
                "--no-color",
                "-U3",
                "--inter-hunk-context=1",
                "--text",
            ])
            .args(["--no-ext-diff", "--src-prefix=a/", "--dst-prefix=b/", "--", "old", "new"])
            .current_dir(directory.path())
            .output();
        let Ok(git) = git else {
            eprintln!("skipped: git cannot be run");
            return;
        };
        let (files, complaints) = parse_unified(&git.stdout);
        assert_eq!(complaints, [], "{}", String::from_utf8_lossy(&git.stdout));
        let hunks: Vec<Hunk> = files.into_iter().flat_map(|file| file.hunks).collect();
        assert_eq!(applied(&old, &hunks), new);
        same += usize::from(hunks == make_hunks(&old, &new));
    }
    eprintln!("{same} of {CASES} diffs are git's own");
    // Where lines repeat there are several shortest diffs; git may pick another.
    assert!(same >= CASES / 2, "only {same} of {CASES} diffs are git's own");
}

#[test]
fn names_are_read_however_git_writes_them() {
    let directory = tempfile::tempdir().unwrap();
    let git = |args: &[&str]| {
        let identity = ["-c", "user.name=t", "-c", "user.email=t@example.invalid", "-c", "commit.gpgsign=false"];
        Command::new("git").args(identity).args(args).current_dir(directory.path()).output()
    };
    if git(&["init", "-q"]).is_err() {
        eprintln!("skipped: git cannot be run");
        return;
    }
    let content = |n: usize| (0..20).map(|line| format!("{n} {line}\n")).collect::<String>();
    let names = [
        "plain.rs",
        "with space.rs",
        "höher 😀.rs",
        "tab\there.rs",
        "quote\".rs",
        "back\\slash.rs",
        "new\nline.rs",
        " b/x b/x.rs",
        "a/b/c.rs",
        "--- x",
        "end ",
    ];
    let path = |name: &str| directory.path().join(name);
    for (n, name) in names.iter().enumerate() {
        std::fs::create_dir_all(path(name).parent().unwrap()).unwrap();
        std::fs::write(path(name), content(n)).unwrap();
    }
    for (name, bytes) in
        [("binary.bin", "\0\u{1}"), ("gone.rs", "x\n"), ("old name.rs", &content(99)), ("empty gone", "")]
    {
        std::fs::write(path(name), bytes).unwrap();
    }
    for args in [&["add", "-A"][..], &["commit", "-qm", "one"]] {
        assert!(git(args).unwrap().status.success(), "{args:?}");
    }
    for (n, name) in names.iter().enumerate() {
        std::fs::write(path(name), content(n).replace(" 9\n", " nine\n")).unwrap();
    }
    for name in ["gone.rs", "old name.rs", "empty gone"] {
        std::fs::remove_file(path(name)).unwrap();
    }
    let renamed = content(99).replace("99 3\n", "99 three\n");
    for (name, bytes) in
        [("binary.bin", "\0\u{2}"), ("new name.rs", &renamed), ("empty here", ""), ("fresh \"1\".rs", "y\n")]
    {
        std::fs::write(path(name), bytes).unwrap();
    }
    assert!(git(&["add", "-A"]).unwrap().status.success());

    let mut expected: Vec<(String, FileStatus, usize)> =
        names.iter().map(|name| ((*name).to_owned(), FileStatus::Modified, 1)).collect();
    expected.extend([
        ("binary.bin".to_owned(), FileStatus::Modified, 0),
        ("gone.rs".to_owned(), FileStatus::Removed, 1),
        ("new name.rs".to_owned(), FileStatus::Renamed, 1),
        ("empty gone".to_owned(), FileStatus::Removed, 0),
        ("empty here".to_owned(), FileStatus::Added, 0),
        ("fresh \"1\".rs".to_owned(), FileStatus::Added, 1),
    ]);
    expected.sort_by(|one, other| one.0.cmp(&other.0));
    for form in [
        &["-c", "core.quotePath=true"][..],
        &["-c", "core.quotePath=false"],
        &["-c", "diff.mnemonicPrefix=true"],
        &["-c", "diff.noprefix=true"],
    ] {
        let diff = git(&[form, &["diff", "--cached", "-M50%", "--no-rename-empty", "--no-color"]].concat()).unwrap();
        let (files, complaints) = parse_unified(&diff.stdout);
        assert_eq!(complaints, [], "{form:?}");
        let mut got: Vec<_> = files.iter().map(|file| (file.path.clone(), file.status, file.hunks.len())).collect();
        got.sort_by(|one, other| one.0.cmp(&other.0));
        assert_eq!(got, expected, "{form:?}:\n{}", String::from_utf8_lossy(&diff.stdout));
        let renamed = files.iter().find(|file| file.status == FileStatus::Renamed).unwrap();
        assert_eq!(renamed.old_path.as_deref(), Some("old name.rs"));
    }
}
