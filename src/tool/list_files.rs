//! Lists the files of the repository.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use async_trait::async_trait;
use globset::{GlobBuilder, GlobMatcher};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::toolbox::MAX_RESULT_BYTES;
use super::{Observation, Tool, ToolContext, ToolError, parameters};
use crate::chat::ToolSpecification;

/// Longest glob, in bytes.
const MAX_GLOB: usize = 300;

/// Room for the sentence that says what is left out, in bytes.
const NOTE_BYTES: usize = 200;

const DESCRIPTION: &str = "\
Lists files of the repository after the change, by folder, by glob, or all. When there are too many to show, folders are \
listed with the number of their files instead.
Example: {\"dir\": \"src\", \"glob\": \"*.rs\"}
Result:
3 files
src/cache.rs
src/lib.rs
src/store/mod.rs";

/// `list_files`.
pub struct ListFiles {
    specification: ToolSpecification,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Parameters {
    /// Only files in this folder and below.
    dir: Option<String>,
    /// Only files that match: `*.rs` by name, `src/**/*.ts` by path.
    glob: Option<String>,
}

impl ListFiles {
    /// The tool.
    pub fn new() -> Self {
        Self { specification: parameters::specification::<Parameters>("list_files", DESCRIPTION) }
    }
}

impl Default for ListFiles {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Tool for ListFiles {
    fn specification(&self) -> &ToolSpecification {
        &self.specification
    }

    async fn call(&self, arguments: &Value, cx: &ToolContext) -> Result<Observation, ToolError> {
        let wanted: Parameters = parameters::read(arguments)?;
        let glob = wanted.glob.as_deref().map(glob).transpose()?;
        let dir = wanted.dir.as_deref().map(folder).unwrap_or_default();
        let (paths, complete) = cx.source.list().await?;
        let chosen: Vec<&str> = paths
            .iter()
            .map(String::as_str)
            .filter(|path| path.starts_with(&dir) && glob.as_ref().is_none_or(|glob| matches(glob, path)))
            .collect();
        Ok(Observation { text: listed(&chosen, &dir, complete) })
    }
}

/// A glob that a model wrote. One without `/` is about the file's name, wherever it stands.
///
/// # Errors
/// [`ToolError::BadArguments`] when it is none.
pub(super) fn glob(pattern: &str) -> Result<GlobMatcher, ToolError> {
    if pattern.len() > MAX_GLOB {
        return Err(ToolError::BadArguments(format!("the glob is longer than {MAX_GLOB} bytes")));
    }
    let pattern = pattern.trim().trim_start_matches("./").trim_start_matches('/');
    let anywhere = if pattern.contains('/') { pattern.to_owned() } else { format!("**/{pattern}") };
    let glob = GlobBuilder::new(&anywhere).literal_separator(true).build();
    glob.map(|glob| glob.compile_matcher()).map_err(|error| ToolError::BadArguments(error.to_string()))
}

/// Whether a path matches.
pub(super) fn matches(glob: &GlobMatcher, path: &str) -> bool {
    glob.is_match(path)
}

fn folder(dir: &str) -> String {
    let dir = dir.trim().trim_start_matches("./").trim_matches('/');
    if dir.is_empty() || dir == "." { String::new() } else { format!("{dir}/") }
}

fn listed(paths: &[&str], dir: &str, complete: bool) -> String {
    let mut out = match paths.len() {
        0 => "no such files".to_owned(),
        1 => "1 file".to_owned(),
        n => format!("{n} files"),
    };
    if !complete {
        out.push_str(" (the repository is too large to be listed whole; there may be more)");
    }
    out.push('\n');
    let whole: usize = paths.iter().map(|path| path.len() + 1).sum();
    if out.len() + whole <= MAX_RESULT_BYTES {
        for path in paths {
            let _ = writeln!(out, "{path}");
        }
        return out;
    }
    // Too many: what stands directly here, and how many files each folder holds.
    let mut here: BTreeMap<String, usize> = BTreeMap::new();
    for path in paths {
        let below = path.strip_prefix(dir).unwrap_or(path);
        let entry = match below.split_once('/') {
            Some((folder, _)) => format!("{dir}{folder}/"),
            None => (*path).to_owned(),
        };
        *here.entry(entry).or_default() += 1;
    }
    for (entry, count) in here {
        let line = if entry.ends_with('/') { format!("{entry} ({count} files)\n") } else { format!("{entry}\n") };
        if out.len() + line.len() + NOTE_BYTES > MAX_RESULT_BYTES {
            out.push_str("(more; give `dir` or a narrower `glob`)\n");
            break;
        }
        out.push_str(&line);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_are_about_names_or_paths() {
        let is = |pattern: &str, path: &str| glob(pattern).unwrap().is_match(path);
        assert!(is("*.rs", "src/a/b.rs") && is("*.rs", "b.rs") && is("src/**/*.rs", "src/b.rs"));
        assert!(!is("src/*.rs", "src/a/b.rs") && !is("*.rs", "b.rsx") && is("./src/*.rs", "src/b.rs"));
        assert!(glob("[").is_err() && glob(&"a".repeat(301)).is_err());
    }

    #[test]
    fn many_files_are_shown_as_folders() {
        let many: Vec<String> =
            (0..2_000).map(|n| format!("src/m{}/file{n}.rs", n % 7)).chain(["src/lib.rs".into()]).collect();
        let paths: Vec<&str> = many.iter().map(String::as_str).collect();
        let text = listed(&paths, "src/", false);
        assert!(text.starts_with("2001 files (the repository is too large"), "{text}");
        assert!(text.contains("src/m0/ (286 files)\n") && text.contains("src/lib.rs\n"), "{text}");
        assert_eq!(listed(&[], "", true), "no such files\n");
    }
}
