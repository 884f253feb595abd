//! `.github/secondlook.yml`: how a repository wants to be reviewed. Always read from the base branch.
//!
//! A pull request must not change the rules it is judged by, so everything here comes from the base commit: the policy
//! file, `.gitattributes`, and the instruction files that people already keep for coding assistants.

pub mod exclude;
pub mod read;

use globset::GlobBuilder;
use serde::{Deserialize, Serialize};

use super::budget::BudgetPolicy;
use super::finding::Severity;
use crate::github::FileText;
use exclude::AttributeRule;
use read::PolicyComplaint;

/// Where the policy stands in a repository.
pub const POLICY_PATH: &str = ".github/secondlook.yml";

/// Marks generated and vendored files by `linguist-generated` and `linguist-vendored`.
const ATTRIBUTES_PATH: &str = ".gitattributes";

/// Files with instructions for reviewers, the most general first.
const INSTRUCTION_FILES: [&str; 4] = ["AGENTS.md", "CLAUDE.md", ".github/copilot-instructions.md", "REVIEW.md"];

/// Characters kept of one instruction file: beyond a few pages a prompt is only diluted.
const MAX_INSTRUCTION_CHARS: usize = 8_000;

/// A repository's rules, with defaults for everything.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// How to review.
    pub review: ReviewPolicy,
    /// Which files.
    pub paths: PathPolicy,
    /// What it may cost.
    pub budget: BudgetPolicy,
    /// The language comments are written in, such as `German`; English when it is not given.
    pub language: Option<String>,
    /// How comments should sound, in a few words.
    pub tone: Option<String>,
    /// Generated and vendored files, read from `.gitattributes` and not from this file.
    #[serde(skip)]
    pub attributes: Vec<AttributeRule>,
}

/// When a review begins by itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Automatic {
    /// When a pull request is opened or becomes ready, and on every push.
    #[default]
    Push,
    /// When it is opened or becomes ready, and not on later pushes.
    Opened,
    /// Never: only when somebody asks.
    Asked,
}

/// `review:`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ReviewPolicy {
    /// When a review begins by itself.
    pub trigger: Automatic,
    /// Review drafts too.
    pub drafts: bool,
    /// Findings below this are not said.
    pub severity_floor: Severity,
    /// Most findings said in one round (0 to 100).
    pub max_comments: usize,
    /// Post REQUEST_CHANGES instead of COMMENT when a finding is at or above this.
    pub request_changes: Option<Severity>,
    /// The check fails when a finding is at or above this; it never fails without.
    pub fail_on: Option<Severity>,
}

impl Default for ReviewPolicy {
    fn default() -> Self {
        Self {
            trigger: Automatic::Push,
            drafts: false,
            severity_floor: Severity::Minor,
            max_comments: 12,
            request_changes: None,
            fail_on: None,
        }
    }
}

/// `paths:`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PathPolicy {
    /// Globs that are not reviewed, as in `.gitignore`; `!glob` brings files back that a default leaves out.
    pub ignore: Vec<String>,
    /// What to look at in some paths.
    pub instructions: Vec<PathInstruction>,
}

/// An instruction for some paths.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PathInstruction {
    /// Glob.
    pub path: String,
    /// What the reviewer should know or look for.
    pub text: String,
}

/// A policy together with what was wrong in its file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LoadedPolicy {
    /// The rules, with defaults where the file was wrong or silent.
    pub policy: Policy,
    /// What was wrong.
    pub complaints: Vec<PolicyComplaint>,
}

/// The files of the base commit a policy is made of, in the order [`load`] expects their texts.
pub fn policy_files() -> Vec<String> {
    let mut files = vec![POLICY_PATH.to_owned(), ATTRIBUTES_PATH.to_owned()];
    files.extend(INSTRUCTION_FILES.map(str::to_owned));
    files
}

/// Makes a policy of the texts of [`policy_files`], in their order. Missing files are missing rules, never an error.
pub fn load(texts: &[FileText]) -> LoadedPolicy {
    let mut loaded = match texts.first() {
        Some(FileText::Text(text)) => read::parse_policy(text),
        Some(FileText::NotText | FileText::TooLarge) => LoadedPolicy {
            policy: Policy::default(),
            complaints: vec![PolicyComplaint {
                line: 1,
                column: 1,
                message: "The file is too large or not UTF-8; the defaults apply.".into(),
            }],
        },
        Some(FileText::Missing) | None => LoadedPolicy::default(),
    };
    if let Some(FileText::Text(text)) = texts.get(1) {
        loaded.policy.attributes = exclude::read_attributes(text);
    }
    let general: Vec<PathInstruction> = INSTRUCTION_FILES
        .iter()
        .zip(texts.iter().skip(2))
        .filter_map(|(name, text)| match text {
            FileText::Text(text) if !text.trim().is_empty() => Some(PathInstruction {
                path: "**".into(),
                text: format!("From {name} of this repository:\n{}", clip_chars(text.trim(), MAX_INSTRUCTION_CHARS)),
            }),
            _ => None,
        })
        .collect();
    // The general comes first, so that what a repository says about single paths has the last word.
    loaded.policy.paths.instructions.splice(0..0, general);
    loaded
}

impl Policy {
    /// What the reviewer of `path` should be told, the general before the particular. Globs that cannot be read were
    /// complained about when the policy was read, and match nothing here.
    pub fn instructions_for(&self, path: &str) -> Vec<String> {
        let mut all = Vec::new();
        if let Some(language) = &self.language {
            all.push(format!("Write titles and texts of findings in this language: {language}."));
        }
        if let Some(tone) = &self.tone {
            all.push(format!("Write in this tone: {tone}."));
        }
        let matching = self.paths.instructions.iter().filter(|i| glob_matches(&i.path, path));
        all.extend(matching.map(|i| i.text.clone()));
        all
    }
}

/// The JSON Schema of the policy file, for editors.
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(Policy).to_value()
}

fn glob_matches(glob: &str, path: &str) -> bool {
    // `src/` and `src/**` mean the same to people.
    let glob = if glob.ends_with('/') { format!("{glob}**") } else { glob.to_owned() };
    GlobBuilder::new(&glob).literal_separator(true).build().is_ok_and(|glob| glob.compile_matcher().is_match(path))
}

fn clip_chars(text: &str, most: usize) -> &str {
    text.char_indices().nth(most).map_or(text, |(at, _)| text.get(..at).unwrap_or(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> FileText {
        FileText::Text(text.into())
    }

    #[test]
    fn a_repository_without_any_file_gets_the_defaults() {
        let texts = vec![FileText::Missing; policy_files().len()];
        assert_eq!(load(&texts), LoadedPolicy::default());
        assert_eq!(load(&[]), LoadedPolicy::default());
    }

    #[test]
    fn instruction_files_come_before_path_instructions() {
        let texts = [
            text("paths:\n  instructions:\n    - path: 'src/**'\n      text: No panics here.\n"),
            FileText::Missing,
            text("Use tabs.\n"),
            FileText::Missing,
            FileText::Missing,
            FileText::Missing,
        ];
        let policy = load(&texts).policy;
        assert_eq!(
            policy.instructions_for("src/a/b.rs"),
            ["From AGENTS.md of this repository:\nUse tabs.", "No panics here."]
        );
        assert_eq!(policy.instructions_for("docs/a.md").len(), 1);
    }

    #[test]
    fn language_and_tone_become_instructions() {
        let policy = Policy { language: Some("German".into()), tone: Some("dry".into()), ..Policy::default() };
        assert_eq!(policy.instructions_for("a.rs").len(), 2);
    }

    #[test]
    fn a_long_instruction_file_is_cut_on_a_character() {
        let mut texts = vec![FileText::Missing; 6];
        texts[5] = text(&"ü".repeat(20_000));
        let policy = load(&texts).policy;
        assert!(policy.paths.instructions[0].text.chars().count() < 8_100);
    }

    #[test]
    fn an_unreadable_policy_file_is_complained_about() {
        assert_eq!(load(&[FileText::NotText]).complaints.len(), 1);
    }

    #[test]
    fn the_schema_offers_the_keys_people_may_write() {
        let schema = schema();
        let keys: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
        assert_eq!(keys, ["review", "paths", "budget", "language", "tone"]);
        assert_eq!(schema["additionalProperties"], false);
    }
}
