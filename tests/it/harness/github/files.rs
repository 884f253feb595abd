//! Files before and after a change, and the short notation tests write them in.

use std::collections::BTreeMap;

/// A file of a repository at one commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Its bytes; for a submodule the commit's name.
    pub bytes: Vec<u8>,
    /// As git has it: `100644`, `100755`, `120000` (symlink), `160000` (submodule).
    pub mode: &'static str,
}

/// A tree: path to file.
pub type Files = BTreeMap<String, File>;

/// The same files before and after somebody worked on them. What stands in neither is not touched.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Change {
    /// What stood there.
    pub before: Files,
    /// What stands there now; a path of `before` that is not here is deleted.
    pub after: Files,
}

impl File {
    /// An ordinary file.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self { bytes: bytes.into(), mode: "100644" }
    }

    /// A file that may be run.
    pub fn executable(bytes: impl Into<Vec<u8>>) -> Self {
        Self { bytes: bytes.into(), mode: "100755" }
    }

    /// A submodule at a commit.
    pub fn submodule(commit: &str) -> Self {
        Self { bytes: commit.into(), mode: "160000" }
    }
}

impl Change {
    /// A change of one file; `None` where it does not exist.
    pub fn of(path: &str, before: Option<File>, after: Option<File>) -> Self {
        Self::default().and(path, before, after)
    }

    /// And of another.
    pub fn and(mut self, path: &str, before: Option<File>, after: Option<File>) -> Self {
        self.before.extend(before.map(|file| (path.to_owned(), file)));
        self.after.extend(after.map(|file| (path.to_owned(), file)));
        self
    }
}

/// Reads marked lines:
///
/// ```text
/// //- src/cache.rs
///  fn look_up(key: &str) -> u32 {
/// -    0
/// +    MAP.get(key).copied().unwrap_or(0)
///  }
/// //- old/name.rs -> new/name.rs
///  fn moved() {}
/// ```
///
/// The first column is ` `, `-` or `+` as in a diff; a line `\` takes the line break from the line above it. A file
/// with no line before is added, one with none after is deleted. The whole may be indented as its first line is.
pub fn change(marked: &str) -> Change {
    let mut change = Change::default();
    let mut current: Option<Section> = None;
    let marked = marked.trim_start_matches('\n');
    let indent = marked.len() - marked.trim_start_matches(' ').len();
    for line in marked.lines() {
        let line = line.get(indent..).unwrap_or_default();
        if let Some(header) = line.strip_prefix("//- ") {
            if let Some(section) = current.take() {
                section.put(&mut change);
            }
            let (from, to) = header.trim().split_once(" -> ").unwrap_or((header.trim(), header.trim()));
            current = Some(Section { from: from.into(), to: to.into(), ..Section::default() });
            continue;
        }
        let section = current.as_mut().expect("a marked change begins with `//- path`");
        section.line(line);
    }
    current.expect("a marked change names a file").put(&mut change);
    change
}

/// Files without marks: `//- path` and then the text as it is. For what simply stands there.
pub fn files(plain: &str) -> Files {
    let marked: Vec<String> = plain
        .trim_start_matches('\n')
        .lines()
        .map(|line| if line.starts_with("//- ") { line.to_owned() } else { format!(" {line}") })
        .collect();
    change(&marked.join("\n")).after
}

#[derive(Default)]
struct Section {
    from: String,
    to: String,
    old: Option<String>,
    new: Option<String>,
    last: (bool, bool),
}

impl Section {
    fn line(&mut self, line: &str) {
        if line == "\\" {
            for (side, touched) in [(&mut self.old, self.last.0), (&mut self.new, self.last.1)] {
                if let Some(text) = side.as_mut().filter(|_| touched) {
                    text.pop();
                }
            }
            return;
        }
        let (mark, text) = match line.chars().next() {
            None => (' ', ""),
            Some(mark @ (' ' | '+' | '-')) => (mark, line.get(1..).unwrap_or_default()),
            Some(other) => panic!("a marked line begins with ' ', '+' or '-', not {other:?}: {line}"),
        };
        self.last = (mark != '+', mark != '-');
        for (side, touched) in [(&mut self.old, self.last.0), (&mut self.new, self.last.1)] {
            if touched {
                let side = side.get_or_insert_default();
                side.push_str(text);
                side.push('\n');
            }
        }
    }

    fn put(self, change: &mut Change) {
        change.before.extend(self.old.map(|text| (self.from, File::new(text))));
        change.after.extend(self.new.map(|text| (self.to, File::new(text))));
    }
}
