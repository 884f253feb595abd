//! Which files a review leaves out, and by which rule. Pure.
//!
//! Rules are read like `.gitignore`: the last one that matches decides. Built-in rules come first, then
//! `.gitattributes`, then the repository's own `paths.ignore`, whose `!glob` can bring a file back.

use std::sync::OnceLock;

use globset::{GlobBuilder, GlobMatcher};

use super::Policy;

/// Files that tools write: reviewing them costs tokens and brings nothing that their authors could act on.
const BUILT_IN: [(&str, &[&str]); 4] = [
    (
        "lock file",
        &[
            "package-lock.json",
            "npm-shrinkwrap.json",
            "yarn.lock",
            "pnpm-lock.yaml",
            "bun.lock",
            "bun.lockb",
            "deno.lock",
            "Cargo.lock",
            "Gemfile.lock",
            "poetry.lock",
            "uv.lock",
            "pdm.lock",
            "Pipfile.lock",
            "composer.lock",
            "go.sum",
            "go.work.sum",
            "mix.lock",
            "pubspec.lock",
            "Podfile.lock",
            "Package.resolved",
            "packages.lock.json",
            "gradle.lockfile",
            "flake.lock",
            ".terraform.lock.hcl",
        ],
    ),
    ("minified", &["*.min.js", "*.min.mjs", "*.min.css", "*.js.map", "*.css.map"]),
    (
        "generated",
        &[
            "*.pb.go",
            "*.pb.cc",
            "*.pb.h",
            "*_pb2.py",
            "*_pb2.pyi",
            "*_pb2_grpc.py",
            "*.g.dart",
            "*.freezed.dart",
            "*.generated.*",
            "__generated__/",
            "__snapshots__/",
        ],
    ),
    ("vendored", &["vendor/", "node_modules/", "third_party/", "bower_components/", "Pods/", ".yarn/"]),
];

/// Rules kept of a `.gitattributes`: real files have a few dozen.
const MAX_ATTRIBUTE_RULES: usize = 500;

/// A line of `.gitattributes` that says whether files are written by tools or by others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttributeRule {
    /// The pattern, as git reads it.
    pub pattern: String,
    /// `generated` or `vendored` when set, `None` when the line takes the mark away.
    pub mark: Option<&'static str>,
}

/// The rules of a policy, ready to be asked.
#[derive(Debug, Clone)]
pub struct Exclusions {
    rules: Vec<Rule>,
}

#[derive(Debug, Clone)]
struct Rule {
    matcher: GlobMatcher,
    reason: Option<String>,
}

impl Exclusions {
    /// The built-in rules, `.gitattributes` and `paths.ignore` of a policy. Globs that cannot be read match nothing.
    pub fn new(policy: &Policy) -> Self {
        let attributes = policy
            .attributes
            .iter()
            .map(|rule| (rule.pattern.as_str(), rule.mark.map(|mark| format!("{mark} by .gitattributes"))));
        let ignored = policy.paths.ignore.iter().map(|glob| match glob.strip_prefix('!') {
            Some(kept) => (kept, None),
            None => (glob.as_str(), Some(format!("ignored by `{glob}`"))),
        });
        let own =
            attributes.chain(ignored).filter_map(|(pattern, reason)| Some(Rule { matcher: matcher(pattern)?, reason }));
        Self { rules: built_in().iter().cloned().chain(own).collect() }
    }

    /// The rule that leaves `path` out, if one does.
    pub fn reason(&self, path: &str) -> Option<&str> {
        self.rules.iter().rev().find(|rule| rule.matcher.is_match(path)).and_then(|rule| rule.reason.as_deref())
    }
}

/// Reads the lines of a `.gitattributes` that set or unset `linguist-generated` and `linguist-vendored`. A quoted
/// pattern and macros are left out: nobody marks generated files with them.
pub fn read_attributes(text: &str) -> Vec<AttributeRule> {
    text.lines()
        .filter(|line| !line.trim_start().starts_with(['#', '"', '[']))
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let pattern = words.next()?;
            let mark = words.filter_map(attribute_mark).next_back()?;
            Some(AttributeRule { pattern: pattern.to_owned(), mark })
        })
        .take(MAX_ATTRIBUTE_RULES)
        .collect()
}

/// Whether a glob can be read, and if not, why.
pub(crate) fn check_glob(pattern: &str) -> Result<(), String> {
    glob(pattern).map(|_| ()).map_err(|e| e.kind().to_string())
}

fn attribute_mark(word: &str) -> Option<Option<&'static str>> {
    let (name, value) = match word.split_once('=') {
        Some((name, value)) => (name, !value.eq_ignore_ascii_case("false")),
        None => match word.strip_prefix(['-', '!']) {
            Some(name) => (name, false),
            None => (word, true),
        },
    };
    let mark = match name {
        "linguist-generated" => "generated",
        "linguist-vendored" => "vendored",
        _ => return None,
    };
    Some(value.then_some(mark))
}

/// The built-in rules, compiled once: that takes far longer than asking them.
fn built_in() -> &'static [Rule] {
    static RULES: OnceLock<Vec<Rule>> = OnceLock::new();
    RULES.get_or_init(|| {
        let patterns =
            BUILT_IN.iter().flat_map(|(reason, patterns)| patterns.iter().map(move |pattern| (*reason, *pattern)));
        patterns
            .filter_map(|(reason, pattern)| Some(Rule { matcher: matcher(pattern)?, reason: Some(reason.to_owned()) }))
            .collect()
    })
}

fn matcher(pattern: &str) -> Option<GlobMatcher> {
    glob(pattern).ok().map(|glob| glob.compile_matcher())
}

/// As in `.gitignore`: without a slash (but at its end) a pattern holds at every depth, with one it starts at the root;
/// a slash at the end means everything below.
fn glob(pattern: &str) -> Result<globset::Glob, globset::Error> {
    let pattern = pattern.trim();
    let body = pattern.strip_suffix('/').unwrap_or(pattern);
    let rooted = body.contains('/');
    let body = body.strip_prefix('/').unwrap_or(body);
    let mut full = if rooted { body.to_owned() } else { format!("**/{body}") };
    if pattern.ends_with('/') {
        full.push_str("/**");
    }
    GlobBuilder::new(&full).literal_separator(true).build()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("Cargo.lock", Some("lock file"))]
    #[case("web/yarn.lock", Some("lock file"))]
    #[case("a/b/vendor/x/y.go", Some("vendored"))]
    #[case("vendored.go", None)]
    #[case("src/vendor.rs", None)]
    #[case("dist/app.min.js", Some("minified"))]
    #[case("api/v1/x.pb.go", Some("generated"))]
    #[case("src/lib.rs", None)]
    #[case("locks/Cargo.lock.md", None)]
    fn built_in_rules(#[case] path: &str, #[case] reason: Option<&str>) {
        assert_eq!(Exclusions::new(&Policy::default()).reason(path), reason);
    }

    #[test]
    fn the_repository_has_the_last_word() {
        let mut policy = Policy { attributes: read_attributes("*.sql linguist-generated\n"), ..Policy::default() };
        policy.paths.ignore = vec!["!Cargo.lock".into(), "docs/".into(), "/top.rs".into(), "!db/keep.sql".into()];
        let exclusions = Exclusions::new(&policy);
        assert_eq!(exclusions.reason("Cargo.lock"), None);
        assert_eq!(exclusions.reason("docs/a/b.md"), Some("ignored by `docs/`"));
        assert_eq!(exclusions.reason("a/docs/b.md"), Some("ignored by `docs/`"));
        assert_eq!(exclusions.reason("top.rs"), Some("ignored by `/top.rs`"));
        assert_eq!(exclusions.reason("src/top.rs"), None);
        assert_eq!(exclusions.reason("db/all.sql"), Some("generated by .gitattributes"));
        assert_eq!(exclusions.reason("db/keep.sql"), None);
    }

    #[test]
    fn attributes_are_set_and_unset() {
        let text = "# x\n*.ts text eol=lf\ngen/*.ts linguist-generated=true\ngen/hand.ts -linguist-generated\n\
                    lib/** linguist-vendored\n\n\"a b\" linguist-generated\n";
        let rules = read_attributes(text);
        assert_eq!(rules.len(), 3);
        let exclusions = Exclusions::new(&Policy { attributes: rules, ..Policy::default() });
        assert_eq!(exclusions.reason("gen/a.ts"), Some("generated by .gitattributes"));
        assert_eq!(exclusions.reason("gen/hand.ts"), None);
        assert_eq!(exclusions.reason("lib/a/b.c"), Some("vendored by .gitattributes"));
    }

    #[test]
    fn a_bad_glob_matches_nothing() {
        let mut policy = Policy::default();
        policy.paths.ignore = vec!["a[".into()];
        assert_eq!(Exclusions::new(&policy).reason("a["), None);
        assert!(check_glob("a[").is_err());
        assert!(check_glob("src/**/*.rs").is_ok());
    }
}
