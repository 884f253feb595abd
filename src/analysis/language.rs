//! Which language a file is written in, by its name, its extension or its shebang.

use std::fmt;

use ast_grep_language::SupportLang;
use serde::{Deserialize, Serialize};

/// A language whose grammar is compiled in. Asking ast-grep for any other one would panic, so nothing else is ever
/// handed to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// Shell scripts: `sh`, `bash`, `zsh` near enough.
    Bash,
    /// C, and headers.
    C,
    /// Go.
    Go,
    /// Java.
    Java,
    /// JavaScript, JSX too.
    JavaScript,
    /// Python.
    Python,
    /// Ruby.
    Ruby,
    /// Rust.
    Rust,
    /// TypeScript without JSX.
    TypeScript,
    /// TypeScript with JSX.
    Tsx,
    /// YAML.
    Yaml,
}

/// Names of files that have no telling extension.
const NAMES: &[(&str, Language)] = &[
    (".bash_profile", Language::Bash),
    (".bashrc", Language::Bash),
    (".clang-format", Language::Yaml),
    (".profile", Language::Bash),
    (".zshrc", Language::Bash),
    ("APKBUILD", Language::Bash),
    ("PKGBUILD", Language::Bash),
    ("Brewfile", Language::Ruby),
    ("Fastfile", Language::Ruby),
    ("Gemfile", Language::Ruby),
    ("Podfile", Language::Ruby),
    ("Rakefile", Language::Ruby),
    ("Vagrantfile", Language::Ruby),
    ("SConstruct", Language::Python),
    ("SConscript", Language::Python),
    ("wscript", Language::Python),
];

/// Extensions, in lower case.
const EXTENSIONS: &[(&str, Language)] = &[
    ("bash", Language::Bash),
    ("bats", Language::Bash),
    ("c", Language::C),
    ("cjs", Language::JavaScript),
    ("cts", Language::TypeScript),
    ("gemspec", Language::Ruby),
    ("go", Language::Go),
    ("h", Language::C),
    ("java", Language::Java),
    ("js", Language::JavaScript),
    ("jsx", Language::JavaScript),
    ("ksh", Language::Bash),
    ("mjs", Language::JavaScript),
    ("mts", Language::TypeScript),
    ("py", Language::Python),
    ("pyi", Language::Python),
    ("pyw", Language::Python),
    ("rake", Language::Ruby),
    ("rb", Language::Ruby),
    ("rs", Language::Rust),
    ("ru", Language::Ruby),
    ("sh", Language::Bash),
    ("ts", Language::TypeScript),
    ("tsx", Language::Tsx),
    ("yaml", Language::Yaml),
    ("yml", Language::Yaml),
    ("zsh", Language::Bash),
];

/// Interpreters of a shebang, without a version.
const INTERPRETERS: &[(&str, Language)] = &[
    ("bash", Language::Bash),
    ("bun", Language::TypeScript),
    ("dash", Language::Bash),
    ("deno", Language::TypeScript),
    ("ksh", Language::Bash),
    ("node", Language::JavaScript),
    ("nodejs", Language::JavaScript),
    ("pypy", Language::Python),
    ("python", Language::Python),
    ("ruby", Language::Ruby),
    ("sh", Language::Bash),
    ("ts-node", Language::TypeScript),
    ("tsx", Language::TypeScript),
    ("zsh", Language::Bash),
];

impl Language {
    /// Every language there is.
    pub const ALL: [Self; 11] = [
        Self::Bash,
        Self::C,
        Self::Go,
        Self::Java,
        Self::JavaScript,
        Self::Python,
        Self::Ruby,
        Self::Rust,
        Self::TypeScript,
        Self::Tsx,
        Self::Yaml,
    ];

    /// The name in lower case, as rules and tools write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::C => "c",
            Self::Go => "go",
            Self::Java => "java",
            Self::JavaScript => "javascript",
            Self::Python => "python",
            Self::Ruby => "ruby",
            Self::Rust => "rust",
            Self::TypeScript => "typescript",
            Self::Tsx => "tsx",
            Self::Yaml => "yaml",
        }
    }

    /// The same language in ast-grep's words.
    pub fn grammar(self) -> SupportLang {
        match self {
            Self::Bash => SupportLang::Bash,
            Self::C => SupportLang::C,
            Self::Go => SupportLang::Go,
            Self::Java => SupportLang::Java,
            Self::JavaScript => SupportLang::JavaScript,
            Self::Python => SupportLang::Python,
            Self::Ruby => SupportLang::Ruby,
            Self::Rust => SupportLang::Rust,
            Self::TypeScript => SupportLang::TypeScript,
            Self::Tsx => SupportLang::Tsx,
            Self::Yaml => SupportLang::Yaml,
        }
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The language of a file, by its name, then its extension, then the shebang in its first line. `None` for everything
/// whose grammar is not compiled in.
pub fn detect(path: &str, first_line: &str) -> Option<Language> {
    let name = path.rsplit('/').next().unwrap_or(path);
    if let Some((_, language)) = NAMES.iter().find(|(known, _)| *known == name) {
        return Some(*language);
    }
    match name.rsplit_once('.') {
        // A known extension decides; an unknown one is no reason to look at the shebang of, say, a template.
        Some((stem, extension)) if !stem.is_empty() => {
            let extension = extension.to_ascii_lowercase();
            EXTENSIONS.iter().find(|(known, _)| *known == extension).map(|(_, language)| *language)
        }
        _ => by_shebang(first_line),
    }
}

fn by_shebang(first_line: &str) -> Option<Language> {
    let mut words = first_line.strip_prefix("#!")?.split_whitespace();
    let mut program = words.next()?.rsplit('/').next()?;
    if program == "env" {
        // `env -S node --flag`, `env NAME=value python3`
        program = words.find(|word| !word.starts_with('-') && !word.contains('='))?;
    }
    let program = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    INTERPRETERS.iter().find(|(known, _)| *known == program).map(|(_, language)| *language)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_extensions_and_shebangs_decide_in_that_order() {
        for (path, first_line, expected) in [
            ("src/main.rs", "", Some(Language::Rust)),
            ("SRC/MAIN.RS", "", Some(Language::Rust)),
            ("a/b.d.ts", "", Some(Language::TypeScript)),
            ("App.tsx", "", Some(Language::Tsx)),
            ("App.jsx", "", Some(Language::JavaScript)),
            ("ci/Rakefile", "", Some(Language::Ruby)),
            (".github/workflows/ci.yml", "", Some(Language::Yaml)),
            ("bin/tool", "#!/usr/bin/env python3", Some(Language::Python)),
            ("bin/tool", "#!/usr/bin/env -S FOO=1 node --no-warnings", Some(Language::JavaScript)),
            ("bin/tool", "#! /bin/sh -e", Some(Language::Bash)),
            ("bin/tool", "#!/usr/bin/python3.11", Some(Language::Python)),
            ("bin/tool", "#!", None),
            ("bin/tool", "# no shebang", None),
            ("page.html", "#!/bin/sh", None),
            (".gitignore", "", None),
            ("", "", None),
            ("weird.", "", None),
            ("Main.kt", "", None),
        ] {
            assert_eq!(detect(path, first_line), expected, "{path} {first_line}");
        }
    }

    #[test]
    fn every_language_has_its_grammar_and_keeps_its_name() {
        use ast_grep_core::tree_sitter::LanguageExt;
        for language in Language::ALL {
            // Panics when the grammar is not compiled in.
            let _ = language.grammar().get_ts_language();
            assert_eq!(serde_json::to_value(language).unwrap(), language.name());
        }
    }
}
