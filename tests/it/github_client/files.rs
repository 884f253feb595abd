//! The files of a pull request, with every reason for which GitHub leaves a patch out.

use secondlook::diff::FileStatus;
use secondlook::github::{FileText, NoPatch, PullFile};

use super::{Bench, comment, review};
use crate::harness::github::actions::PullSpec;
use crate::harness::github::files::{Change, File};

/// Text of so many bytes in lines of a hundred, none of which another word has.
fn text(word: &str, bytes: usize) -> String {
    (0..bytes / 100).map(|n| format!("{word:-<90} {n:>8}\n")).collect()
}

fn find<'a>(files: &'a [PullFile], path: &str) -> &'a PullFile {
    files.iter().find(|file| file.diff.path == path).unwrap_or_else(|| panic!("no {path}"))
}

#[tokio::test]
async fn patches_that_are_left_out_are_made_up_for() {
    let bench = Bench::new().await;
    let file = |bytes: &str| Some(File::new(bytes));
    let raw = |bytes: &[u8]| Some(File::new(bytes));
    let old = text("old", 150_000);
    let new = text("new", 150_000);
    let change = Change::of("small.txt", file("a\n"), file("b\n"))
        .and("large.txt", file(&old), file(&new))
        .and("large-new.txt", None, file(&new))
        .and("large-gone.txt", file(&old), None)
        .and("huge.txt", file(&text("old", 2 << 20)), file(&text("new", 2 << 20)))
        .and("beyond-graphql.txt", file("a\n"), file(&text("word", 600_000)))
        .and("image.png", raw(b"\x89PNG\0\x01"), raw(b"\x89PNG\0\x02"))
        .and("latin.txt", raw(b"a\n"), raw(&[text("x", 150_000).as_bytes(), b"\xe9\n"].concat()))
        .and("empty.txt", None, file(""))
        .and("run.sh", file("#!/bin/sh\n"), Some(File::executable("#!/bin/sh\n")))
        .and("lib", Some(File::submodule(&"a".repeat(40))), Some(File::submodule(&"b".repeat(40))))
        .and("was/here.txt", file("moved\nas it is\n"), None)
        .and("is/there.txt", None, file("moved\nas it is\n"));
    let (pr, client) = bench.open(PullSpec::of(change));
    // The base moves on: the old side is still what the branches parted from.
    bench.gh.move_base(&pr, [("large.txt".to_owned(), File::new("other\n"))].into());
    let pull = client.pull_request(pr.number).await.unwrap();
    bench.gh.forget_requests();
    let files = client.pull_files(&pull).await.unwrap().files;

    let seen = |path: &str| {
        let file = find(&files, path);
        (file.no_patch, file.self_made, file.diff.counts())
    };
    let lines = |text: &str| text.lines().count();
    assert_eq!(seen("small.txt"), (None, false, (1, 1)));
    assert_eq!(seen("large.txt"), (None, true, (lines(&new), lines(&old))));
    assert_eq!(seen("large-new.txt"), (None, true, (lines(&new), 0)));
    assert_eq!(seen("large-gone.txt"), (None, true, (0, lines(&old))));
    assert_eq!(seen("huge.txt"), (Some(NoPatch::TooLarge), false, (0, 0)));
    assert_eq!(seen("beyond-graphql.txt"), (None, true, (6_000, 1)));
    assert_eq!(seen("image.png"), (Some(NoPatch::Binary), false, (0, 0)));
    assert_eq!(seen("latin.txt"), (Some(NoPatch::Binary), false, (0, 0)));
    assert_eq!(seen("empty.txt"), (Some(NoPatch::NoTextChange), false, (0, 0)));
    assert_eq!(seen("run.sh"), (Some(NoPatch::NoTextChange), false, (0, 0)));
    assert_eq!(seen("lib"), (Some(NoPatch::Submodule), false, (0, 0)));
    assert_eq!(seen("is/there.txt"), (Some(NoPatch::NoTextChange), false, (0, 0)));
    assert_eq!(find(&files, "is/there.txt").diff.old_path.as_deref(), Some("was/here.txt"));
    assert_eq!(find(&files, "large-gone.txt").blob_sha, None);
    // One page, the merge base, what the objects are, their texts, and two blobs: of the text that GraphQL cuts, and of
    // the one that is not UTF-8.
    assert_eq!(bench.gh.count("* /**"), 6);
    bench.gh.reckon();
}

#[tokio::test]
async fn an_answer_that_is_too_large_loses_no_file() {
    let bench = Bench::new().await;
    let mut change = Change::default();
    for n in 0..20 {
        let file = |word: &str| Some(File::new(text(word, 40_000)));
        change = change.and(&format!("f{n:02}.txt"), file("old"), file("new"));
    }
    change = change.and("was.txt", Some(File::new("same\n")), None).and("z.txt", None, Some(File::new("same\n")));
    let (pr, client) = bench.open(PullSpec::of(change));
    let pull = client.pull_request(pr.number).await.unwrap();
    let files = client.pull_files(&pull).await.unwrap().files;
    let expected = text("new", 40_000).lines().count();
    for file in files.iter().filter(|file| file.diff.path != "z.txt") {
        assert_eq!((file.no_patch, file.diff.counts()), (None, (expected, expected)), "{}", file.diff.path);
    }
    let made = files.iter().filter(|file| file.self_made).count();
    assert!((5..15).contains(&made), "GitHub left {made} patches out");
    // With zero counts a renamed file looks like one whose patch was dropped, so it is looked up.
    assert_eq!(find(&files, "z.txt").no_patch, Some(NoPatch::NoTextChange));
    bench.gh.reckon();
}

#[tokio::test]
async fn names_are_names_whatever_they_hold() {
    let bench = Bench::new().await;
    let names = [
        "a b.txt",
        "a#b.txt",
        "what?.txt",
        "100%.txt",
        "grüße/日本.txt",
        "q\"uote'.txt",
        "back\\slash.txt",
        "a:b.txt",
        "[x]{y}.txt",
        "$e0.txt",
        "trailing ",
        ".hidden/..x",
        "%2F.txt",
        "emoji-🦀.rs",
        "a&b=c+d;e.txt",
        "~tilde",
    ];
    let mut change = Change::default();
    for name in names {
        change = change.and(name, Some(File::new(format!("old {name}\n"))), Some(File::new(format!("new {name}\n"))));
    }
    let (pr, client) = bench.open(PullSpec::of(change));
    let pull = client.pull_request(pr.number).await.unwrap();
    let paths = names.map(str::to_owned);
    let texts = client.file_texts(&pull.head_sha, &paths).await.unwrap();
    for (name, text) in names.iter().zip(&texts) {
        assert_eq!(text, &FileText::Text(format!("new {name}\n")));
    }
    let files = client.pull_files(&pull).await.unwrap().files;
    let comments: Vec<_> = files.iter().map(|file| comment(&file.diff.path, 1, "Here.")).collect();
    client.create_review(pr.number, &review(&pull.head_sha, "All.", comments)).await.unwrap();
    let listed = client.review_comments(pr.number).await.unwrap();
    let mut commented: Vec<&str> = listed.iter().map(|comment| comment.path.as_str()).collect();
    commented.sort_unstable();
    let mut expected = names;
    expected.sort_unstable();
    assert_eq!(commented, expected);
    // By the contents route too, where a name is part of the URL.
    for name in names {
        let failed = serde_json::json!({
            "data": { "repository": { "commit": { "oid": pull.head_sha }, "f0": null } },
            "errors": [{ "message": "Timed out", "path": ["repository", "f0"] }],
        });
        bench.gh.fault(crate::harness::github::fault::Fault::answer("POST /graphql", 200, failed));
        let text = client.file_texts(&pull.head_sha, &[name.to_owned()]).await.unwrap();
        assert_eq!(text, [FileText::Text(format!("new {name}\n"))], "{name}");
    }
    bench.gh.reckon();
}

#[tokio::test]
async fn texts_are_told_from_what_is_none() {
    let bench = Bench::new().await;
    let change = Change::of("text.txt", None, Some(File::new("a\r\nb\u{2028}c")))
        .and("binary.bin", None, Some(File::new(b"a\0b".as_slice())))
        .and("latin.txt", None, Some(File::new(b"caf\xe9\n".as_slice())))
        .and("large.txt", None, Some(File::new(text("x", 700_000))))
        .and("huge.txt", None, Some(File::new(text("x", 2 << 20))))
        .and("dir/file.txt", None, Some(File::new("")))
        .and("lib", None, Some(File::submodule(&"a".repeat(40))));
    let (pr, client) = bench.open(PullSpec::of(change));
    let head = bench.gh.head(&pr);
    let names =
        ["text.txt", "binary.bin", "latin.txt", "large.txt", "huge.txt", "dir", "dir/file.txt", "lib", "", "../x"];
    let texts = client.file_texts(&head, &names.map(str::to_owned)).await.unwrap();
    let expected = [
        FileText::Text("a\r\nb\u{2028}c".into()),
        FileText::NotText,
        FileText::NotText,
        FileText::Text(text("x", 700_000)),
        FileText::TooLarge,
        FileText::Missing,
        FileText::Text(String::new()),
        FileText::Missing,
        FileText::Missing,
        FileText::Missing,
    ];
    for ((name, got), want) in names.iter().zip(&texts).zip(&expected) {
        assert!(got == want, "{name}");
    }
    let (paths, _) = client.paths(&head).await.unwrap();
    assert!(paths.contains(&"dir/file.txt".to_owned()) && !paths.contains(&"lib".to_owned()));
    bench.gh.reckon();
}

#[tokio::test]
async fn hundreds_of_texts_take_one_request_for_each_hundred() {
    let bench = Bench::new().await;
    let mut change = Change::default();
    for n in 0..230 {
        change = change.and(&format!("f{n}"), None, Some(File::new(n.to_string())));
    }
    let (pr, client) = bench.open(PullSpec::of(change));
    let paths: Vec<String> = (0..230).map(|n| format!("f{n}")).collect();
    let texts = client.file_texts(&bench.gh.head(&pr), &paths).await.unwrap();
    assert!(texts.iter().enumerate().all(|(n, text)| *text == FileText::Text(n.to_string())));
    assert_eq!(bench.gh.count("POST /graphql"), 3);
    // When the server gives up on many at once, fewer are asked for.
    bench.gh.fault(crate::harness::github::fault::Fault::status("POST /graphql", 502, "Bad Gateway"));
    assert_eq!(client.file_texts(&bench.gh.head(&pr), &paths[..30]).await.unwrap().len(), 30);
    assert_eq!(bench.gh.count("POST /graphql"), 3 + 1 + 3);
    bench.gh.reckon();
}

#[tokio::test]
async fn a_change_of_type_keeps_its_status() {
    let bench = Bench::new().await;
    let link = File { bytes: b"target".to_vec(), mode: "120000" };
    let (pr, client) = bench.open(PullSpec::of(Change::of("x", Some(File::new("text\n")), Some(link))));
    let pull = client.pull_request(pr.number).await.unwrap();
    let files = client.pull_files(&pull).await.unwrap().files;
    assert_eq!((files[0].diff.status, files[0].diff.counts()), (FileStatus::Changed, (1, 1)));
    bench.gh.reckon();
}
