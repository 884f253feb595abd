//! Prints the JSON Schemas of what people write and scripts read.

use serde_json::{Value, json};

use super::output::json::Output;
use crate::config::layers::File;
use crate::review::policy::Policy;
use crate::tool::toolbox::Toolbox;

/// What has a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum SchemaOf {
    /// secondlook.toml
    Config,
    /// .github/secondlook.yml in a repository
    Repository,
    /// The result of `review --format json`
    Output,
    /// The tools a model may call, each with the schema of its arguments
    Tools,
}

/// The schema, indented, with a final newline.
pub fn render(of: SchemaOf) -> String {
    let value = match of {
        SchemaOf::Config => json!(schemars::schema_for!(File)),
        SchemaOf::Repository => json!(schemars::schema_for!(Policy)),
        SchemaOf::Output => json!(schemars::schema_for!(Output)),
        SchemaOf::Tools => {
            let tools = Toolbox::reviewing().specifications().into_iter();
            Value::Array(tools.map(|tool| json!(tool)).collect())
        }
    };
    let mut text = serde_json::to_string_pretty(&value).unwrap_or_default();
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_are_schemas_and_refuse_what_is_unknown() {
        let validator = |of| jsonschema::validator_for(&serde_json::from_str(&render(of)).unwrap()).unwrap();
        let config = validator(SchemaOf::Config);
        assert!(config.is_valid(&json!({ "listen": "127.0.0.1:1", "queue": { "workers": 2 } })));
        assert!(!config.is_valid(&json!({ "lissten": "127.0.0.1:1" })));
        let repository = validator(SchemaOf::Repository);
        assert!(repository.is_valid(&json!({ "review": { "severity_floor": "major" } })));
        assert!(!repository.is_valid(&json!({ "review": { "severity_floor": "awful" } })));
    }
}
