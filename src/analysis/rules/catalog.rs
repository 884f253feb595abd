//! The rules that come with secondlook, compiled once.

use std::collections::HashMap;
use std::sync::LazyLock;

use ast_grep_config::SerializableRule;

use super::Category;
use super::definition::{Finder, Rule, compile, read};
use crate::analysis::language::Language;

/// A file of rules: for which languages (none: lines of any file), about what, and its text.
type File = (&'static [Language], Category, &'static str);

macro_rules! rules {
    ($path:literal) => {
        include_str!(concat!("catalog/", $path))
    };
}

const FILES: &[File] = &[
    (&[], Category::Security, rules!("anywhere/security.yml")),
    (&[Language::Python], Category::Security, rules!("python/security.yml")),
    (&[Language::Python], Category::Correctness, rules!("python/correctness.yml")),
    (&[Language::Python], Category::Performance, rules!("python/performance.yml")),
    (&[Language::Python], Category::BestPractice, rules!("python/best_practice.yml")),
];

/// Utility rules that the rules of a language share.
const SHARED: &[(&[Language], &str)] = &[(&[Language::Python], rules!("python/shared.yml"))];

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
