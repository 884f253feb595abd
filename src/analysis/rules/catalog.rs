//! The rules that come with secondlook, compiled once.

use std::collections::HashMap;
use std::sync::OnceLock;

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
    broken: Vec<String>,
}

impl LanguageRules {
    /// All of them.
    pub fn all(&self) -> &[Rule] {
        &self.rules
    }

    /// What is wrong with those that could not be compiled and are left out; empty, as a test holds.
    pub fn broken(&self) -> &[String] {
        &self.broken
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

/// Compiling the rules of a language takes a while, so it is done when they are first needed: one place for each
/// language, and one for the rules over lines.
static COMPILED: [OnceLock<LanguageRules>; Language::ALL.len() + 1] =
    [const { OnceLock::new() }; Language::ALL.len() + 1];

/// The rules of a language; none for languages without any.
pub fn of(language: Language) -> &'static LanguageRules {
    rules(Some(language))
}

/// The rules over lines of any file.
pub fn anywhere() -> &'static LanguageRules {
    rules(None)
}

fn rules(language: Option<Language>) -> &'static LanguageRules {
    static NONE: OnceLock<LanguageRules> = OnceLock::new();
    let place = language.and_then(|language| Language::ALL.iter().position(|one| *one == language));
    let place = COMPILED.get(place.unwrap_or(Language::ALL.len())).unwrap_or(&NONE);
    place.get_or_init(|| {
        let rules = compiled(language);
        for error in &rules.broken {
            tracing::error!(error, "a rule that comes with secondlook is broken and left out");
        }
        rules
    })
}

fn compiled(language: Option<Language>) -> LanguageRules {
    let mut all = LanguageRules::default();
    let shared = shared(language).unwrap_or_else(|error| {
        all.broken.push(error);
        HashMap::new()
    });
    let about =
        |languages: &[Language]| language.map_or(languages.is_empty(), |language| languages.contains(&language));
    for (_, category, yaml) in FILES.iter().filter(|(languages, ..)| about(languages)) {
        let definitions = read(yaml).unwrap_or_else(|error| {
            all.broken.push(error);
            Vec::new()
        });
        for definition in &definitions {
            match compile(definition, *category, language, &shared) {
                Ok(rule) => all.push(rule),
                Err(error) => all.broken.push(error),
            }
        }
    }
    all
}

fn shared(language: Option<Language>) -> Result<HashMap<String, SerializableRule>, String> {
    let about = |languages: &[Language]| language.is_some_and(|language| languages.contains(&language));
    let mut all = HashMap::new();
    for (_, yaml) in SHARED.iter().filter(|(languages, _)| about(languages)) {
        let some: HashMap<String, SerializableRule> =
            ast_grep_config::from_str(yaml).map_err(|error| error.to_string())?;
        all.extend(some);
    }
    Ok(all)
}
