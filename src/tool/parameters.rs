//! What the tools of secondlook share: how their parameters are described and read, and how they open a file.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{ToolContext, ToolError};
use crate::chat::ToolSpecification;
use crate::diff::{FileDiff, FileStatus};
use crate::github::FileText;

/// A specification with the schema of `P`: inline, without the words that only schema tools read.
pub fn specification<P: JsonSchema>(name: &str, description: &str) -> ToolSpecification {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let schema = settings.into_generator().into_root_schema_for::<P>();
    let mut parameters = schema.to_value();
    if let Value::Object(root) = &mut parameters {
        root.remove("title");
        root.remove("description");
        // Servers that check schemas strictly want this member even when there is nothing in it.
        root.entry("properties").or_insert_with(|| Value::Object(serde_json::Map::new()));
        for property in
            root.get_mut("properties").and_then(Value::as_object_mut).into_iter().flat_map(|p| p.values_mut())
        {
            if let Value::Object(property) = property {
                property.remove("format");
                property.remove("default");
            }
        }
    }
    ToolSpecification { name: name.into(), description: description.into(), parameters }
}

/// The arguments as their struct.
///
/// # Errors
/// [`ToolError::BadArguments`] when they do not fit.
pub fn read<P: DeserializeOwned>(arguments: &Value) -> Result<P, ToolError> {
    serde_json::from_value(arguments.clone()).map_err(|error| ToolError::BadArguments(error.to_string()))
}

/// The path a call is about: the given one, or the one under review. `./` and slashes at the front mean the root.
///
/// # Errors
/// [`ToolError::BadArguments`] when there is neither.
pub fn path(given: Option<&str>, cx: &ToolContext) -> Result<String, ToolError> {
    // A name may begin or end with a blank: what is exactly that of a changed file is meant as it stands.
    if let Some(given) = given.filter(|given| *given == cx.path || cx.files.iter().any(|file| file.path == *given)) {
        return Ok(given.to_owned());
    }
    let path = given.map_or(cx.path.as_str(), str::trim);
    let path = path.trim_start_matches("./").trim_start_matches('/');
    if path.is_empty() {
        return Err(ToolError::BadArguments("no path is given, and no file is under review; give `path`".into()));
    }
    Ok(path.to_owned())
}

/// The change of a file, if it is part of the change: by its present path, or by the one before a rename.
pub fn change<'c>(path: &str, cx: &'c ToolContext) -> Option<&'c FileDiff> {
    let by_path = cx.files.iter().find(|file| file.path == path);
    let found = by_path.or_else(|| cx.files.iter().find(|file| file.old_path.as_deref() == Some(path)));
    found.map(AsRef::as_ref)
}

/// The text of a file at the head.
///
/// # Errors
/// [`ToolError::Refused`] with what to do instead when it has none.
pub async fn text(path: &str, cx: &ToolContext) -> Result<String, ToolError> {
    match cx.source.read(path).await? {
        FileText::Text(text) => Ok(text),
        FileText::Missing if change(path, cx).is_some_and(|file| file.status == FileStatus::Removed) => {
            Err(ToolError::Refused(format!("{path} is removed by this change; read_diff shows what it was")))
        }
        FileText::Missing => Err(ToolError::Refused(format!(
            "there is no file {path:?} in this repository; list_files shows what there is"
        ))),
        FileText::NotText => Err(ToolError::Refused(format!("{path} is not text"))),
        FileText::TooLarge => Err(ToolError::Refused(format!("{path} is too large to be read"))),
    }
}

/// A line for showing: at most `max` characters, and no line breaks of any kind that would look like another line.
pub fn shown(line: &str, max: usize) -> String {
    let line = line.strip_suffix('\r').unwrap_or(line);
    let mut out: String = line.chars().take(max).collect();
    if out.len() < line.len() {
        out.push_str(" […]");
    }
    out
}
