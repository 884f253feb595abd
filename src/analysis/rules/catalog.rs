//! The rules that come with secondlook, compiled once.

use std::collections::HashMap;
use std::sync::LazyLock;

use ast_grep_config::SerializableRule;

use super::Category;
use super::definition::{Finder, Rule, compile, read};
use crate::analysis::language::Language;

/// JavaScript's rules hold for all its dialects: the grammars name the same things the same.
const SCRIPT: &[Language] = &[Language::JavaScript, Language::TypeScript, Language::Tsx];

/// A file of rules: for which languages (none: lines of any file), about what, and its text.
type File = (&'static [Language], Category, &'static str);

macro_rules! rules {
    ($path:literal) => {
        include_str!(concat!("catalog/", $path))
    };
}

const FILES: &[File] = &[
    (&[], Category::Security, rules!("anywhere/security.yml")),
    (&[Language::Bash], Category::Security, rules!("bash/security.yml")),
    (&[Language::Bash], Category::Correctness, rules!("bash/correctness.yml")),
    (&[Language::C], Category::Security, rules!("c/security.yml")),
    (&[Language::C], Category::Correctness, rules!("c/correctness.yml")),
    (&[Language::Go], Category::Security, rules!("go/security.yml")),
    (&[Language::Go], Category::Correctness, rules!("go/correctness.yml")),
    (&[Language::Go], Category::Performance, rules!("go/performance.yml")),
    (&[Language::Java], Category::Security, rules!("java/security.yml")),
    (&[Language::Java], Category::Correctness, rules!("java/correctness.yml")),
    (&[Language::Java], Category::Performance, rules!("java/performance.yml")),
    (SCRIPT, Category::Security, rules!("javascript/security.yml")),
    (SCRIPT, Category::Correctness, rules!("javascript/correctness.yml")),
    (SCRIPT, Category::Performance, rules!("javascript/performance.yml")),
    (SCRIPT, Category::BestPractice, rules!("javascript/best_practice.yml")),
    (&[Language::Python], Category::Security, rules!("python/security.yml")),
    (&[Language::Python], Category::Correctness, rules!("python/correctness.yml")),
    (&[Language::Python], Category::Performance, rules!("python/performance.yml")),
    (&[Language::Python], Category::BestPractice, rules!("python/best_practice.yml")),
    (&[Language::Ruby], Category::Security, rules!("ruby/security.yml")),
    (&[Language::Ruby], Category::Correctness, rules!("ruby/correctness.yml")),
    (&[Language::Ruby], Category::Performance, rules!("ruby/performance.yml")),
    (&[Language::Ruby], Category::BestPractice, rules!("ruby/best_practice.yml")),
    (&[Language::Rust], Category::Security, rules!("rust/security.yml")),
    (&[Language::Rust], Category::Correctness, rules!("rust/correctness.yml")),
    (&[Language::Rust], Category::Performance, rules!("rust/performance.yml")),
    (&[Language::Rust], Category::BestPractice, rules!("rust/best_practice.yml")),
    (&[Language::Yaml], Category::Security, rules!("yaml/security.yml")),
];

/// Utility rules that the rules of a language share.
const SHARED: &[(&[Language], &str)] = &[
    (&[Language::Go], rules!("go/shared.yml")),
    (&[Language::Java], rules!("java/shared.yml")),
    (SCRIPT, rules!("javascript/shared.yml")),
    (&[Language::Python], rules!("python/shared.yml")),
    (&[Language::Rust], rules!("rust/shared.yml")),
];

/// The rules of one language.
#[derive(Default)]
pub struct LanguageRules {
    rules: Vec<Rule>,
    by_kind: HashMap<u16, Vec<usize>>,
}

impl LanguageRules {
    /// All of them.
    pub fn all(&self) -> &[Rule] {
        &self.rules
    }

    /// Those that may speak at a kind of node.
    pub(super) fn at(&self, kind: u16) -> impl Iterator<Item = &Rule> {
        self.by_kind.get(&kind).into_iter().flatten().filter_map(|index| self.rules.get(*index))
    }

    fn push(&mut self, rule: Rule) {
        if let Finder::Tree { kinds, .. } = &rule.finder {
            for kind in kinds.iter().filter_map(|kind| u16::try_from(*kind).ok()) {
                self.by_kind.entry(kind).or_default().push(self.rules.len());
            }
        }
        self.rules.push(rule);
    }
}

struct Catalog {
    languages: HashMap<Language, LanguageRules>,
    anywhere: Vec<Rule>,
    broken: Vec<String>,
}

static CATALOG: LazyLock<Catalog> = LazyLock::new(|| {
    let mut catalog = Catalog { languages: HashMap::new(), anywhere: Vec::new(), broken: Vec::new() };
    for (languages, category, yaml) in FILES {
        let definitions = read(yaml).unwrap_or_else(|error| {
            catalog.broken.push(error);
            Vec::new()
        });
        for definition in &definitions {
            if languages.is_empty() {
                match compile(definition, *category, None, &HashMap::new()) {
                    Ok(rule) => catalog.anywhere.push(rule),
                    Err(error) => catalog.broken.push(error),
                }
            }
            for language in *languages {
                let compiled =
                    shared(*language).and_then(|shared| compile(definition, *category, Some(*language), &shared));
                match compiled {
                    Ok(rule) => catalog.languages.entry(*language).or_default().push(rule),
                    Err(error) => catalog.broken.push(format!("{language}: {error}")),
                }
            }
        }
    }
    for error in &catalog.broken {
        tracing::error!(error, "a rule that comes with secondlook is broken and left out");
    }
    catalog
});

/// The rules of a language; none for languages without any.
pub fn of(language: Language) -> &'static LanguageRules {
    static NONE: LazyLock<LanguageRules> = LazyLock::new(LanguageRules::default);
    CATALOG.languages.get(&language).unwrap_or(&NONE)
}

/// The rules over lines of any file.
pub fn anywhere() -> &'static [Rule] {
    &CATALOG.anywhere
}

/// What is wrong with rules that could not be compiled; empty, as a test holds.
pub fn broken() -> &'static [String] {
    &CATALOG.broken
}

fn shared(language: Language) -> Result<HashMap<String, SerializableRule>, String> {
    let mut all = HashMap::new();
    for (_, yaml) in SHARED.iter().filter(|(languages, _)| languages.contains(&language)) {
        let some: HashMap<String, SerializableRule> =
            ast_grep_config::from_str(yaml).map_err(|error| error.to_string())?;
        all.extend(some);
    }
    Ok(all)
}
