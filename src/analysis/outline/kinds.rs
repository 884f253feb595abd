//! Which nodes of each grammar define something, import something, or document what follows. Data, not code.

use super::Kind;
use crate::analysis::language::Language;

/// What the outline knows of a grammar.
pub(super) struct Grammar {
    /// Node kinds that define something.
    pub(super) definitions: &'static [(&'static str, Kind)],
    /// Node kinds that import something.
    pub(super) imports: &'static [&'static str],
    /// Node kinds that wrap a definition together with its decorators or its `export`: the definition begins there.
    pub(super) wrappers: &'static [&'static str],
    /// Node kinds of comments (and attributes) that may stand directly before a definition.
    pub(super) leading: &'static [&'static str],
    /// Put between the names of scopes.
    pub(super) separator: &'static str,
}

const RUST: Grammar = Grammar {
    definitions: &[
        ("function_item", Kind::Function),
        ("function_signature_item", Kind::Function),
        ("struct_item", Kind::Struct),
        ("union_item", Kind::Struct),
        ("enum_item", Kind::Enum),
        ("trait_item", Kind::Trait),
        ("impl_item", Kind::Impl),
        ("mod_item", Kind::Module),
        ("const_item", Kind::Constant),
        ("static_item", Kind::Constant),
        ("type_item", Kind::Type),
        ("macro_definition", Kind::Macro),
    ],
    imports: &["use_declaration", "extern_crate_declaration"],
    wrappers: &[],
    leading: &["line_comment", "block_comment", "attribute_item"],
    separator: "::",
};

const PYTHON: Grammar = Grammar {
    definitions: &[("function_definition", Kind::Function), ("class_definition", Kind::Class)],
    imports: &["import_statement", "import_from_statement", "future_import_statement"],
    wrappers: &["decorated_definition"],
    leading: &["comment"],
    separator: ".",
};

const JAVASCRIPT: Grammar = Grammar {
    definitions: &[
        ("function_declaration", Kind::Function),
        ("generator_function_declaration", Kind::Function),
        ("class_declaration", Kind::Class),
        ("abstract_class_declaration", Kind::Class),
        ("method_definition", Kind::Method),
        ("method_signature", Kind::Method),
        ("abstract_method_signature", Kind::Method),
        ("interface_declaration", Kind::Interface),
        ("type_alias_declaration", Kind::Type),
        ("enum_declaration", Kind::Enum),
        ("internal_module", Kind::Module),
        ("variable_declarator", Kind::Function),
    ],
    imports: &["import_statement"],
    wrappers: &["export_statement", "lexical_declaration", "variable_declaration", "expression_statement"],
    leading: &["comment", "decorator"],
    separator: ".",
};

const JAVA: Grammar = Grammar {
    definitions: &[
        ("class_declaration", Kind::Class),
        ("record_declaration", Kind::Class),
        ("interface_declaration", Kind::Interface),
        ("annotation_type_declaration", Kind::Interface),
        ("enum_declaration", Kind::Enum),
        ("method_declaration", Kind::Method),
        ("constructor_declaration", Kind::Method),
        ("compact_constructor_declaration", Kind::Method),
    ],
    imports: &["import_declaration", "package_declaration"],
    wrappers: &[],
    leading: &["line_comment", "block_comment"],
    separator: ".",
};

const GO: Grammar = Grammar {
    definitions: &[
        ("function_declaration", Kind::Function),
        ("method_declaration", Kind::Method),
        ("type_spec", Kind::Type),
        ("type_alias", Kind::Type),
        ("const_spec", Kind::Constant),
    ],
    imports: &["import_declaration", "package_clause"],
    wrappers: &["type_declaration", "const_declaration"],
    leading: &["comment"],
    separator: ".",
};

const C: Grammar = Grammar {
    definitions: &[
        ("function_definition", Kind::Function),
        ("struct_specifier", Kind::Struct),
        ("union_specifier", Kind::Struct),
        ("enum_specifier", Kind::Enum),
        ("type_definition", Kind::Type),
        ("preproc_function_def", Kind::Macro),
    ],
    imports: &["preproc_include"],
    wrappers: &[],
    leading: &["comment"],
    separator: ".",
};

const RUBY: Grammar = Grammar {
    definitions: &[
        ("method", Kind::Method),
        ("singleton_method", Kind::Method),
        ("class", Kind::Class),
        ("module", Kind::Module),
    ],
    imports: &[],
    wrappers: &[],
    leading: &["comment"],
    separator: "::",
};

const BASH: Grammar = Grammar {
    definitions: &[("function_definition", Kind::Function)],
    imports: &[],
    wrappers: &[],
    leading: &["comment"],
    separator: ".",
};

const YAML: Grammar = Grammar {
    definitions: &[("block_mapping_pair", Kind::Key)],
    imports: &[],
    wrappers: &[],
    leading: &["comment"],
    separator: ".",
};

/// The tables of a language.
pub(super) fn grammar(language: Language) -> &'static Grammar {
    match language {
        Language::Rust => &RUST,
        Language::Python => &PYTHON,
        Language::JavaScript | Language::TypeScript | Language::Tsx => &JAVASCRIPT,
        Language::Java => &JAVA,
        Language::Go => &GO,
        Language::C => &C,
        Language::Ruby => &RUBY,
        Language::Bash => &BASH,
        Language::Yaml => &YAML,
    }
}
