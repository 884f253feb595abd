//! Reads Rust files for the rules: code apart from comments and strings, without a compiler.

use std::path::{Path, PathBuf};

/// A Rust file with its layers apart. All three texts have the same lines as the file.
pub struct Source {
    /// Path from the package's root, with `/`.
    pub path: String,
    /// The file as it is.
    pub raw: String,
    /// Comments and the insides of strings blanked out.
    pub code: String,
    /// Everything but the insides of strings blanked out.
    pub strings: String,
    /// Everything but comments blanked out.
    pub comments: String,
}

/// Where a character belongs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layer {
    Code,
    Text,
    Comment,
}

impl Source {
    /// Takes a file's text apart.
    pub fn new(path: &str, raw: &str) -> Self {
        let layers = layers(raw);
        let only = |wanted: Layer| -> String {
            raw.chars().zip(&layers).map(|(c, layer)| if c == '\n' || *layer == wanted { c } else { ' ' }).collect()
        };
        Self {
            path: path.into(),
            raw: raw.into(),
            code: only(Layer::Code),
            strings: only(Layer::Text),
            comments: only(Layer::Comment),
        }
    }

    /// The module that stands directly under the crate: `github` for `src/github/client.rs`; `None` outside of `src`
    /// and for the two roots.
    pub fn module(&self) -> Option<&str> {
        let below = self.path.strip_prefix("src/")?;
        let first = below.split('/').next()?;
        let name = first.strip_suffix(".rs").unwrap_or(first);
        (!matches!(name, "main" | "lib")).then_some(name)
    }

    /// How many modules lie between this file and the crate's root: 1 for `src/db.rs` and `src/chat/mod.rs`.
    pub fn depth(&self) -> usize {
        let below = self.path.strip_prefix("src/").unwrap_or(&self.path);
        below.split('/').filter(|part| *part != "mod.rs").count()
    }

    /// Lines of the code layer with their numbers, those of the final `mod tests` left out.
    pub fn product_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let end = self.tests_begin().unwrap_or(usize::MAX);
        self.code.lines().enumerate().map(|(index, line)| (index + 1, line)).take_while(move |(line, _)| *line < end)
    }

    /// The line on which `#[cfg(test)] mod tests` begins; the first one of a file that is such a module.
    pub fn tests_begin(&self) -> Option<usize> {
        if self.path.ends_with("/tests.rs") {
            return Some(1);
        }
        let lines: Vec<&str> = self.code.lines().map(str::trim).collect();
        let is_tests = |line: &str| {
            let line =
                line.strip_prefix("pub").map_or(line, |rest| rest.split_once(' ').map_or(rest, |(_, rest)| rest));
            line.starts_with("mod tests")
        };
        let begins = |index: &usize| {
            let rest = lines.get(index + 1..).unwrap_or_default();
            rest.iter().find(|line| !line.starts_with("#[")).is_some_and(|line| is_tests(line))
        };
        (0..lines.len()).filter(|index| lines[*index] == "#[cfg(test)]").find(begins).map(|index| index + 1)
    }
}

/// Every Rust file of `src` and `tests`.
pub fn tree() -> Vec<Source> {
    let root = root();
    let mut files: Vec<PathBuf> = ["src", "tests", "examples"]
        .iter()
        .flat_map(|directory| walkdir::WalkDir::new(root.join(directory)))
        .filter_map(Result::ok)
        .map(walkdir::DirEntry::into_path)
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect();
    files.sort();
    assert!(files.len() > 50, "the tree was not found under {}", root.display());
    let read = |path: &PathBuf| {
        let name = path.strip_prefix(&root).unwrap().to_str().unwrap().replace('\\', "/");
        Source::new(&name, &std::fs::read_to_string(path).unwrap())
    };
    files.iter().map(read).collect()
}

/// The package's directory.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

/// One layer per character.
fn layers(raw: &str) -> Vec<Layer> {
    let text: Vec<char> = raw.chars().collect();
    let mut layers = vec![Layer::Code; text.len()];
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let (layer, length) = match rest {
            ['/', '/', ..] => (Layer::Comment, rest.iter().position(|c| *c == '\n').unwrap_or(rest.len())),
            ['/', '*', ..] => (Layer::Comment, block_comment(rest)),
            ['"', ..] => (Layer::Text, string(rest)),
            ['\'', ..] => match character(rest) {
                Some(length) => (Layer::Text, length),
                None => (Layer::Code, 1),
            },
            ['r', '"' | '#', ..] if !continues_word(&text, at) => match raw_string(rest) {
                Some(length) => (Layer::Text, length),
                None => (Layer::Code, 1),
            },
            _ => (Layer::Code, 1),
        };
        layers[at..at + length].fill(layer);
        at += length;
    }
    layers
}

fn continues_word(text: &[char], at: usize) -> bool {
    // `br"…"` is a raw string too; any other letter before the `r` makes it the end of a word.
    let before = |back: usize| at.checked_sub(back).map(|index| text[index]);
    let word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    if before(1) == Some('b') { word(before(2)) } else { word(before(1)) }
}

fn block_comment(rest: &[char]) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        match rest[at..] {
            ['/', '*', ..] => (depth, at) = (depth + 1, at + 2),
            ['*', '/', ..] => {
                (depth, at) = (depth - 1, at + 2);
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    rest.len()
}

fn string(rest: &[char]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// The length of a character literal; `None` for a lifetime.
fn character(rest: &[char]) -> Option<usize> {
    match rest {
        [_, '\\', ..] => rest.iter().skip(3).take(10).position(|c| *c == '\'').map(|index| index + 4),
        [_, _, '\'', ..] => Some(3),
        _ => None,
    }
}

/// The length of a raw string; `None` for a raw identifier.
fn raw_string(rest: &[char]) -> Option<usize> {
    let hashes = rest[1..].iter().take_while(|c| **c == '#').count();
    if rest.get(1 + hashes) != Some(&'"') {
        return None;
    }
    let closes = |at: usize| {
        rest[at] == '"' && rest.get(at + 1..at + 1 + hashes).is_some_and(|end| end.iter().all(|c| *c == '#'))
    };
    let end = (2 + hashes..rest.len()).find(|at| closes(*at)).map_or(rest.len(), |at| at + 1 + hashes);
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(raw: &str) -> String {
        Source::new("src/x.rs", raw).code.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn comments_and_strings_are_told_from_code() {
        assert_eq!(code("a(\"b // c\") // d\ne"), "a( ) e");
        assert_eq!(code("a /* b /* c */ d */ e"), "a e");
        assert_eq!(code("a(r#\"b \" c\"#, br\"d\", r#type, for_\"x\")"), "a( , b , r#type, for_ )");
        assert_eq!(code("fn a<'b>(c: &'b str) { '\\'' ; '\"' ; '\\u{1F600}' }"), "fn a<'b>(c: &'b str) { ; ; }");
        let source = Source::new("src/x.rs", "let a = \"SELECT 1\"; // why");
        assert_eq!((source.strings.trim(), source.comments.trim()), ("\"SELECT 1\"", "// why"));
    }

    #[test]
    fn a_file_knows_its_place() {
        let place = |path: &str| {
            let source = Source::new(path, "");
            (source.module().map(str::to_owned), source.depth())
        };
        assert_eq!(place("src/db.rs"), (Some("db".into()), 1));
        assert_eq!(place("src/chat/mod.rs"), (Some("chat".into()), 1));
        assert_eq!(place("src/cli/output/json.rs"), (Some("cli".into()), 3));
        assert_eq!(place("src/lib.rs").0, None);
        assert_eq!(place("tests/it/main.rs").0, None);
    }
}
