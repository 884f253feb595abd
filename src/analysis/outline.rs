//! What a file defines and imports, for a reader who has not opened it: names, signatures, line ranges, scopes.

mod kinds;

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use tree_sitter::Node;

use super::language::Language;
use super::syntax::{self, Unparsed};

/// Most definitions kept of one file; generated files have tens of thousands.
pub const MAX_DEFINITIONS: usize = 2_000;

/// Longest signature and doc line, in characters.
const MAX_TEXT: usize = 160;

/// Deepest keys of YAML that are listed: a workflow's jobs and their names, but not every leaf.
const MAX_KEY_SCOPES: usize = 2;

/// What sort of thing is defined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A free function, or a named arrow function.
    Function,
    /// A function of a type.
    Method,
    /// A class or record.
    Class,
    /// A struct or union.
    Struct,
    /// An enum.
    Enum,
    /// A trait.
    Trait,
    /// An interface or annotation type.
    Interface,
    /// An `impl` block.
    Impl,
    /// A module or namespace.
    Module,
    /// A constant or static.
    Constant,
    /// A type alias, or a named type of Go.
    Type,
    /// A macro.
    Macro,
    /// A key of a YAML mapping.
    Key,
}

/// One definition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Definition {
    /// What it is.
    pub kind: Kind,
    /// Its own name.
    pub name: String,
    /// Its head without the body, on one line, clipped.
    pub signature: String,
    /// First line, decorators included (1-based).
    pub line: u32,
    /// Last line.
    pub end_line: u32,
    /// Names of what it stands in, joined as the language does; empty at the top.
    pub scope: String,
    /// How many definitions it stands in.
    pub depth: usize,
    /// First line of its documentation.
    pub doc: Option<String>,
}

/// One import, on one line, clipped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Import {
    /// Its first line (1-based).
    pub line: u32,
    /// As written, white space collapsed.
    pub text: String,
}

/// What a file defines and imports, in the order of the text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outline {
    /// Definitions; outer ones before what stands in them.
    pub definitions: Vec<Definition>,
    /// Imports.
    pub imports: Vec<Import>,
    /// True when there were more than [`MAX_DEFINITIONS`].
    pub cut: bool,
}

impl Outline {
    /// A form people and models read: imports, then one line per definition with its range, indented by scope.
    pub fn compact(&self) -> String {
        let mut out = String::new();
        for import in &self.imports {
            let _ = writeln!(out, "{}: {}", import.line, import.text);
        }
        if !self.imports.is_empty() && !self.definitions.is_empty() {
            out.push('\n');
        }
        for definition in &self.definitions {
            let indent = "  ".repeat(definition.depth.min(10));
            let _ = write!(out, "{}-{}: {indent}{}", definition.line, definition.end_line, definition.signature);
            if let Some(doc) = &definition.doc {
                let _ = write!(out, "  // {doc}");
            }
            out.push('\n');
        }
        if self.cut {
            let _ = writeln!(out, "(more than {MAX_DEFINITIONS} definitions; the rest is left out)");
        }
        out
    }
}

/// The outline of a text.
///
/// # Errors
/// When it is not parsed, see [`Unparsed`].
pub fn outline(language: Language, text: &str) -> Result<Outline, Unparsed> {
    let syntax = syntax::parse(language, text)?;
    let grammar = kinds::grammar(language);
    let root = syntax.root();
    let mut out = Outline::default();
    // Definitions the walk is inside of: (depth of the node, its kind, its name).
    let mut scopes: Vec<(usize, Kind, String)> = Vec::new();
    syntax::walk(root.get_inner_node(), |node, depth| {
        while scopes.last().is_some_and(|(outer, _, _)| *outer >= depth) {
            scopes.pop();
        }
        let kind = node.kind();
        if grammar.imports.contains(&kind) || is_ruby_import(language, node, text) {
            if out.imports.len() < MAX_DEFINITIONS {
                out.imports.push(Import { line: line(node.start_position().row), text: one_line(slice(text, node)) });
            }
            return;
        }
        let Some((_, kind)) = grammar.definitions.iter().find(|(known, _)| *known == kind) else {
            return;
        };
        let Some(found) = definition(language, grammar, node, *kind, text) else {
            return;
        };
        if language == Language::Yaml && scopes.len() > MAX_KEY_SCOPES {
            return;
        }
        if out.definitions.len() == MAX_DEFINITIONS {
            out.cut = true;
            return;
        }
        let names: Vec<&str> = scopes.iter().map(|(_, _, name)| name.as_str()).collect();
        let of_a_type = scopes.last().is_some_and(|(_, outer, _)| {
            matches!(outer, Kind::Impl | Kind::Trait | Kind::Class | Kind::Interface | Kind::Enum)
        });
        let kind = if found.kind == Kind::Function && of_a_type { Kind::Method } else { found.kind };
        let scope = names.join(grammar.separator);
        scopes.push((depth, kind, found.name.clone()));
        out.definitions.push(Definition { kind, scope, depth: scopes.len() - 1, ..found });
    });
    Ok(out)
}

/// The innermost definition around a line (1-based).
pub fn enclosing(outline: &Outline, line: u32) -> Option<&Definition> {
    outline
        .definitions
        .iter()
        .filter(|definition| definition.line <= line && line <= definition.end_line)
        .max_by_key(|definition| (definition.depth, definition.line))
}

/// The definition a node makes, without its scope; `None` for nodes that only look like one (a struct type in a C
/// parameter, a variable that holds no function, a definition whose name is missing).
fn definition(
    language: Language,
    grammar: &kinds::Grammar,
    node: Node<'_>,
    kind: Kind,
    text: &str,
) -> Option<Definition> {
    let name = match (language, node.kind()) {
        (Language::Rust, "impl_item") => impl_name(node, text)?,
        (Language::C, "function_definition" | "type_definition") => declared_name(node, text)?,
        (Language::C, "struct_specifier" | "union_specifier" | "enum_specifier") => {
            node.child_by_field_name("body")?;
            slice(text, node.child_by_field_name("name")?).to_owned()
        }
        (_, "variable_declarator") => {
            let value = node.child_by_field_name("value")?;
            let functions = ["arrow_function", "function_expression", "function", "class", "generator_function"];
            if !functions.contains(&value.kind()) {
                return None;
            }
            slice(text, node.child_by_field_name("name")?).to_owned()
        }
        (Language::Go, "method_declaration") => {
            let receiver = node.child_by_field_name("receiver").map_or("", |receiver| slice(text, receiver));
            format!("{receiver}.{}", slice(text, node.child_by_field_name("name")?))
        }
        (Language::Yaml, _) => slice(text, node.child_by_field_name("key")?).to_owned(),
        _ => slice(text, node.child_by_field_name("name")?).to_owned(),
    };
    let mut outer = node;
    // A declaration of several names wraps several definitions; none of them begins where it begins.
    while let Some(parent) = outer.parent().filter(|p| grammar.wrappers.contains(&p.kind()) && is_only_child(*p)) {
        outer = parent;
    }
    let head_end = body_start(node).unwrap_or_else(|| node.end_byte());
    let head = text.get(outer.start_byte()..head_end).unwrap_or_default();
    let head = if language == Language::Yaml { head.split('\n').next().unwrap_or_default() } else { head };
    let signature = clipped(without_opening(&collapse(head)));
    let end = node.end_position();
    // A node that ends at column 0 ends with the line break before.
    let end_row = if end.column == 0 && end.row > node.start_position().row { end.row - 1 } else { end.row };
    Some(Definition {
        kind,
        name: clipped(&collapse(&name)),
        signature,
        line: line(outer.start_position().row),
        end_line: line(end_row),
        scope: String::new(),
        depth: 0,
        doc: documentation(language, grammar, outer, node, text),
    })
}

fn body_start(node: Node<'_>) -> Option<usize> {
    let holder = match node.kind() {
        "variable_declarator" => node.child_by_field_name("value")?,
        _ => node,
    };
    let value =
        matches!(node.kind(), "const_item" | "static_item" | "const_spec").then(|| node.child_by_field_name("value"));
    let body = value.unwrap_or_else(|| holder.child_by_field_name("body"))?;
    // A tuple struct's fields belong to its signature.
    (body.kind() != "ordered_field_declaration_list").then(|| body.start_byte())
}

/// A head without the brace, colon, arrow or equals sign that opens its body.
fn without_opening(head: &str) -> &str {
    let head = head.trim_end();
    ["=>", "{", ":", "="].iter().find_map(|opening| head.strip_suffix(opening)).unwrap_or(head).trim_end()
}

fn is_only_child(wrapper: Node<'_>) -> bool {
    let mut cursor = wrapper.walk();
    wrapper.named_children(&mut cursor).filter(|child| !matches!(child.kind(), "decorator" | "comment")).count() == 1
}

fn impl_name(node: Node<'_>, text: &str) -> Option<String> {
    let of = slice(text, node.child_by_field_name("type")?);
    Some(match node.child_by_field_name("trait") {
        Some(implemented) => format!("{} for {of}", slice(text, implemented)),
        None => of.to_owned(),
    })
}

/// The name inside C's nested declarators: `int *(*f)(void)`.
fn declared_name(node: Node<'_>, text: &str) -> Option<String> {
    let mut declarator = node.child_by_field_name("declarator")?;
    // As deep as the syntax allows, and it is bounded.
    while let Some(inner) = declarator
        .child_by_field_name("declarator")
        .or_else(|| (declarator.kind() == "parenthesized_declarator").then(|| declarator.named_child(0)).flatten())
    {
        declarator = inner;
    }
    Some(slice(text, declarator).to_owned())
}

fn is_ruby_import(language: Language, node: Node<'_>, text: &str) -> bool {
    language == Language::Ruby
        && node.kind() == "call"
        && node.child_by_field_name("receiver").is_none()
        && node
            .child_by_field_name("method")
            .is_some_and(|method| ["require", "require_relative", "load"].contains(&slice(text, method)))
}

/// First line of the docstring, or of the comments that stand directly above.
fn documentation(
    language: Language,
    grammar: &kinds::Grammar,
    outer: Node<'_>,
    node: Node<'_>,
    text: &str,
) -> Option<String> {
    if language == Language::Python {
        let first = node.child_by_field_name("body")?.named_child(0)?;
        let string = if first.kind() == "expression_statement" { first.named_child(0)? } else { first };
        return (string.kind() == "string").then(|| doc_line(slice(text, string))).flatten();
    }
    let mut row = outer.start_position().row;
    // Ruby wraps the body of a class: the comment of its first definition stands before the wrapper.
    let first_in = outer.parent().filter(|parent| parent.start_byte() == outer.start_byte());
    let mut before = outer.prev_sibling().or_else(|| first_in?.prev_sibling());
    let mut doc = None;
    // Comments grow upwards; the topmost of a block holds its first sentence.
    for _ in 0..200 {
        let Some(sibling) = before.filter(|sibling| grammar.leading.contains(&sibling.kind())) else {
            break;
        };
        // Rust's doc comments include their line break, so they end at column 0 of the next row.
        let end = sibling.end_position();
        let last_row = if end.column == 0 { end.row.saturating_sub(1) } else { end.row };
        if last_row + 1 < row {
            break;
        }
        row = sibling.start_position().row;
        if sibling.kind().contains("comment") {
            doc = doc_line(slice(text, sibling)).or(doc);
        }
        before = sibling.prev_sibling();
    }
    doc
}

/// The first line of a comment or docstring that says something, without its markers.
fn doc_line(comment: &str) -> Option<String> {
    comment
        .lines()
        .map(|line| {
            let line = line.trim().trim_start_matches(['/', '*', '!', '#', ' ', '"', '\'']);
            line.trim_end_matches(['/', '*', '"', '\'', ' '])
        })
        .find(|line| line.chars().any(char::is_alphanumeric))
        .map(clipped)
}

fn slice<'t>(text: &'t str, node: Node<'_>) -> &'t str {
    text.get(node.byte_range()).unwrap_or_default()
}

fn line(row: usize) -> u32 {
    u32::try_from(row).unwrap_or(u32::MAX - 1) + 1
}

fn one_line(text: &str) -> String {
    clipped(&collapse(text))
}

/// White space runs as one space; looks no further than it has to.
fn collapse(text: &str) -> String {
    let mut out = String::new();
    for word in text.split_whitespace() {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
        if out.len() > 8 * MAX_TEXT {
            break;
        }
    }
    out
}

fn clipped(text: &str) -> String {
    match text.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
