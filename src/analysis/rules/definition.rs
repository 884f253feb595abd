//! The form rules are written in, and their compiled form.
//!
//! A rule file is a stream of YAML documents. Beside ast-grep's own `rule`, `constraints`, `utils` and `transform`, a
//! document carries what people read (title, why, fix) and its own tests (`ok`, `not_ok`). A document with `text`
//! instead of `rule` is a regular expression over lines, for things that no grammar knows.

use std::collections::HashMap;

use ast_grep_config::{DeserializeEnv, Fixer, RuleCore, SerializableRule, SerializableRuleCore, Transformation};
use ast_grep_core::Matcher;
use ast_grep_language::SupportLang;
use regex::{Regex, RegexBuilder};
use serde::Deserialize;

use super::{Category, Severity};
use crate::analysis::language::Language;

/// A rule as people wrote it.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// `language-what`, unique.
    pub id: String,
    /// One line: what is wrong.
    pub title: String,
    /// Why it matters.
    pub why: String,
    /// What to do.
    pub fix: String,
    /// How bad.
    pub severity: Severity,
    /// How often a careful maintainer would agree, 0 to 1.
    pub confidence: f64,
    /// Number in the Common Weakness Enumeration.
    #[serde(default)]
    pub cwe: Option<u32>,
    /// Whether it speaks in tests, examples and benchmarks too.
    #[serde(default)]
    pub in_tests: bool,
    /// Files it says nothing about, by a regular expression over their path: scripts that only their authors run,
    /// migrations that run once.
    #[serde(default)]
    unless_path: Option<String>,
    /// ast-grep's rule.
    #[serde(default)]
    rule: Option<SerializableRule>,
    /// ast-grep's constraints on meta-variables.
    #[serde(default)]
    constraints: Option<HashMap<String, SerializableRule>>,
    /// ast-grep's local utility rules.
    #[serde(default)]
    utils: Option<HashMap<String, SerializableRule>>,
    /// ast-grep's transformations of meta-variables.
    #[serde(default)]
    transform: Option<HashMap<String, Transformation>>,
    /// Template that replaces the match where that is exact.
    #[serde(default)]
    replace: Option<String>,
    /// Narrows a match of many lines to the first of them that matches this.
    #[serde(default)]
    focus: Option<String>,
    /// A regular expression over single lines, instead of `rule`.
    #[serde(default)]
    text: Option<String>,
    /// Lines that match this too are left alone; only with `text`.
    #[serde(default)]
    unless: Option<String>,
    /// Code it must be silent on.
    pub ok: Vec<String>,
    /// Code it must find.
    pub not_ok: Vec<String>,
}

/// What finds a rule's places.
pub(super) enum Finder {
    /// In the syntax tree.
    Tree { matcher: Box<RuleCore>, fixer: Option<Box<Fixer>>, kinds: Vec<usize>, focus: Option<Regex> },
    /// In single lines.
    Lines { pattern: Regex, unless: Option<Regex> },
}

/// A rule ready to run.
pub struct Rule {
    /// As written.
    pub definition: Definition,
    /// What it is about: by the file it stands in.
    pub category: Category,
    pub(super) unless_path: Option<Regex>,
    pub(super) finder: Finder,
}

/// Reads a rule file.
///
/// # Errors
/// The YAML error, with line and column.
pub(super) fn read(yaml: &str) -> Result<Vec<Definition>, String> {
    ast_grep_config::from_multiple(yaml).map_err(|error| error.to_string())
}

/// Makes a rule ready for a language, or for lines of any file when there is none.
///
/// # Errors
/// What is wrong with it, in a sentence that names the rule.
pub(super) fn compile(
    definition: &Definition,
    category: Category,
    language: Option<Language>,
    shared: &HashMap<String, SerializableRule>,
) -> Result<Rule, String> {
    let wrong = |what: &dyn std::fmt::Display| format!("rule {}: {what}", definition.id);
    let regex = |pattern: &str| RegexBuilder::new(pattern).size_limit(1 << 20).build().map_err(|e| wrong(&e));
    let finder = match (&definition.text, &definition.rule, language) {
        (Some(text), None, _) => {
            let unless = definition.unless.as_deref().map(regex).transpose()?;
            Finder::Lines { pattern: regex(text)?, unless }
        }
        (None, Some(rule), Some(language)) => {
            let focus = definition.focus.as_deref().map(regex).transpose()?;
            tree(definition, rule, language.grammar(), shared, focus).map_err(|error| wrong(&error))?
        }
        _ => return Err(wrong(&"it needs either `rule` and a language, or `text`")),
    };
    let unless_path = definition.unless_path.as_deref().map(regex).transpose()?;
    Ok(Rule { definition: definition.clone(), category, unless_path, finder })
}

fn tree(
    definition: &Definition,
    rule: &SerializableRule,
    grammar: SupportLang,
    shared: &HashMap<String, SerializableRule>,
    focus: Option<Regex>,
) -> Result<Finder, String> {
    let mut utils = shared.clone();
    utils.extend(definition.utils.clone().unwrap_or_default());
    let core = SerializableRuleCore {
        rule: rule.clone(),
        constraints: definition.constraints.clone(),
        utils: Some(utils),
        transform: definition.transform.clone(),
    };
    let matcher = core.get_matcher(DeserializeEnv::new(grammar)).map_err(|error| chain(&error))?;
    let kinds = matcher.potential_kinds().ok_or("it does not say which kinds of nodes it is about")?;
    let kinds = kinds.iter().collect();
    let fixer = match &definition.replace {
        None => None,
        Some(template) => {
            let fixer = ast_grep_config::from_str(&serde_json::Value::from(template.as_str()).to_string())
                .map_err(|error| error.to_string())?;
            let env = matcher.get_env(grammar);
            Fixer::parse(&fixer, &env, &definition.transform).map_err(|error| chain(&error))?.pop().map(Box::new)
        }
    };
    Ok(Finder::Tree { matcher: Box::new(matcher), fixer, kinds, focus })
}

/// An error with its causes: ast-grep's own texts name only the outermost.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}
