//! Sizes: lines, hunks and files by the thousand. What is bounded is how much is read and said, never by a clock.

use super::range::{FAULT, Range};

/// A secret, which is looked for line by line in files of any length.
const SECRET: &str = "key = \"AKIAIOSFODNN7EXAMPLQ\"";

#[test]
fn a_hundred_thousand_lines() {
    let mut lines: Vec<String> = (0..100_000).map(|n| format!("v{n}")).collect();
    lines[99_997] = SECRET.into();
    let range = Range::from(&[("a.py", b"import os\n")]);
    range.commit(&[("long.txt", (lines.join("\n") + "\n").as_bytes())]);
    let reviewed = range.review();
    assert_eq!(reviewed.findings, [("long.txt".to_owned(), 99_998)]);
    assert_eq!(reviewed.coverage["long.txt"], "reviewed");
}

#[test]
fn ten_thousand_hunks() {
    let before: Vec<String> = (0..100_000).map(|n| format!("v{n}")).collect();
    let mut after = before.clone();
    for at in (5..100_000).step_by(10) {
        after[at] = format!("w{at}");
    }
    after[99_995] = SECRET.into();
    let text = |lines: &[String]| (lines.join("\n") + "\n").into_bytes();
    let range = Range::from(&[("many.txt", &text(&before))]);
    range.commit(&[("many.txt", &text(&after))]);
    let reviewed = range.review();
    assert_eq!(reviewed.findings, [("many.txt".to_owned(), 99_996)]);
    assert_eq!(reviewed.coverage["many.txt"], "reviewed");
}

#[test]
fn a_line_of_five_megabytes_is_named_and_takes_nothing_with_it() {
    let line = format!("x = \"{}\"\n", "a".repeat(5 << 20));
    let range = Range::from(&[("a.py", b"import os\n")]);
    let faulty = format!("import os\n\n\ndef show(path):\n    {FAULT}\n");
    let wide = format!("# {}\n{SECRET}\n", "b".repeat(90_000));
    range.commit(&[("wide.py", line.as_bytes()), ("a.py", faulty.as_bytes()), ("less_wide.py", wide.as_bytes())]);
    let reviewed = range.review();
    assert!(reviewed.coverage["wide.py"].starts_with("not_reviewed"), "{:?}", reviewed.coverage["wide.py"]);
    assert_eq!(reviewed.code, 2);
    assert!(reviewed.coverage["less_wide.py"].starts_with("not_reviewed"), "as long as in minified files");
    assert_eq!(reviewed.findings, [("a.py".to_owned(), 5)]);
}
