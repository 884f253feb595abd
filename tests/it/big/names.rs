//! Names of files that hold whatever a file system takes. All are reviewed, and each finding names exactly its own file.

use super::range::{FAULT, Range};

const NAMES: [&str; 30] = [
    "plain.py",
    "with space.py",
    " leading and trailing .py",
    "-rf.py",
    "--output=x.py",
    "#hash.py",
    "100%.py",
    "%2e%2e%2fup.py",
    "what?.py",
    "a&b=c;d.py",
    "quote\"inside.py",
    "it's.py",
    "back\\slash.py",
    "tab\there.py",
    "line\nbreak.py",
    "carriage\rreturn.py",
    "bell\u{7}.py",
    "escape\u{1b}[31m.py",
    "é\u{301}ü.py",
    "emoji 🦀.py",
    "right\u{202e}left.py",
    "line\u{2028}separator.py",
    "@alice.py",
    "[link](x).py",
    "**bold** `code`.py",
    "<!-- comment -->.py",
    "<img src=x>.py",
    "$(touch x).py",
    ":(exclude)magic.py",
    "*.py",
];

#[test]
fn every_name_is_reviewed_as_it_is() {
    let text = format!("import os\n\n\ndef show(path):\n    {FAULT}\n");
    let long = format!("{}.py", "n".repeat(252));
    let deep = format!("{}deep.py", "a b/ü/".repeat(20));
    let names: Vec<&str> = NAMES.iter().copied().chain([long.as_str(), deep.as_str(), "a -> b/c => d.py"]).collect();
    let range = Range::from(&[("README.md", b"Names.\n")]);
    // The findings are many, and each of its own words, so that none is merged or capped.
    let texts: Vec<String> = (0..names.len()).map(|n| text.replace("cat", &format!("cat {n}"))).collect();
    let files: Vec<(&str, &[u8])> = names.iter().zip(&texts).map(|(name, text)| (*name, text.as_bytes())).collect();
    for part in files.chunks(10) {
        let range = Range::from(&[("README.md", b"Names.\n")]);
        range.commit(part);
        let reviewed = range.review();
        assert_eq!(reviewed.code, 0);
        let mut expected: Vec<(String, u64)> = part.iter().map(|(name, _)| ((*name).to_owned(), 5)).collect();
        expected.sort();
        assert_eq!(reviewed.findings, expected);
        assert!(part.iter().all(|(name, _)| reviewed.coverage[*name] == "reviewed"), "{:?}", reviewed.coverage);
    }
    // All at once, in every form, for whoever reads it: valid, and no line of its own.
    range.commit(&files);
    for format in ["pretty", "github", "markdown", "sarif"] {
        let ran = range.repository.secondlook(&["review", "--format", format]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert!(!ran.out.contains('\u{1b}') && !ran.out.contains('\u{7}') && !ran.out.contains('\u{202e}'), "{format}");
        if format == "github" {
            assert!(ran.out.lines().all(|line| line.starts_with("::")), "{}", ran.out);
        }
    }
}
