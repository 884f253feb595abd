//! Where a setting comes from: a flag, the environment, `secondlook.toml`, in this order; an empty value counts as none.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::ConfigError;

/// A setting that is one text: its name in the environment, in the file, and as a flag.
struct Name {
    environment: &'static str,
    file: &'static str,
    flag: Option<&'static str>,
}

/// Every setting that is one text. The names are a contract that scripts rely on.
const NAMES: &[Name] = &[
    Name { environment: "SECONDLOOK_LISTEN", file: "listen", flag: Some("--listen") },
    Name { environment: "SECONDLOOK_DATA_DIR", file: "data_dir", flag: Some("--data-dir") },
    Name { environment: "SECONDLOOK_DATABASE_URL", file: "database_url", flag: Some("--database-url") },
    Name { environment: "SECONDLOOK_PUBLIC_URL", file: "public_url", flag: Some("--public-url") },
    Name { environment: "SECONDLOOK_SMEE", file: "smee", flag: Some("--smee") },
    Name { environment: "SECONDLOOK_MODEL", file: "model", flag: Some("--model") },
    Name { environment: "SECONDLOOK_STRATEGY", file: "strategy", flag: Some("--strategy") },
    Name { environment: "SECONDLOOK_LOG", file: "log", flag: Some("--log") },
    Name { environment: "SECONDLOOK_LOG_FORMAT", file: "log_format", flag: Some("--log-format") },
    Name { environment: "SECONDLOOK_MAX_MEMORY", file: "max_memory", flag: Some("--max-memory") },
    Name { environment: "GITHUB_APP_ID", file: "github.app_id", flag: None },
    Name { environment: "GITHUB_APP_PRIVATE_KEY", file: "github.private_key", flag: None },
    Name { environment: "GITHUB_APP_PRIVATE_KEY_PATH", file: "github.private_key_path", flag: None },
    Name { environment: "GITHUB_WEBHOOK_SECRET", file: "github.webhook_secret", flag: None },
    Name { environment: "GITHUB_WEBHOOK_SECRET_PREVIOUS", file: "github.webhook_secret_previous", flag: None },
    Name { environment: "GITHUB_API_URL", file: "github.api_url", flag: None },
    Name { environment: "GITHUB_TOKEN", file: "github.token", flag: None },
    Name { environment: "OPENAI_API_KEY", file: "openai.api_key", flag: None },
    Name { environment: "OPENAI_BASE_URL", file: "openai.base_url", flag: None },
];

/// Variables of the process, as a value, so that whoever decides by them can be given others.
#[derive(Clone, Default)]
pub struct Environment {
    variables: BTreeMap<String, String>,
}

/// Values given as flags, by the name of the setting in the environment.
pub type Flags = BTreeMap<&'static str, String>;

/// `secondlook.toml`. Every key is optional, and an unknown one is an error.
#[derive(Clone, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(title = "secondlook.toml")]
pub struct File {
    /// Address and port to listen on (`127.0.0.1:8080`).
    pub listen: Option<String>,
    /// Directory of the SQLite file and of the App's credentials.
    pub data_dir: Option<String>,
    /// `sqlite:PATH` or `postgres://USER:PASSWORD@HOST/NAME`.
    pub database_url: Option<String>,
    /// Where GitHub and people reach this server, for example `https://secondlook.example.com`.
    pub public_url: Option<String>,
    /// A smee.io channel that passes GitHub's deliveries on to a server that GitHub cannot reach.
    pub smee: Option<String>,
    /// `embedded` or `provider::name`.
    pub model: Option<String>,
    /// Models of single roles, and whom to ask when one cannot answer.
    pub models: ModelsSection,
    /// Addresses of further providers, by the name that stands before `::`.
    pub endpoints: BTreeMap<String, EndpointSection>,
    /// How files are reviewed: `reflexion`.
    pub strategy: Option<String>,
    /// Log filter, for example `info` or `secondlook=debug`.
    pub log: Option<String>,
    /// `text` or `json`.
    pub log_format: Option<String>,
    /// Memory near which no further job begins, for example `512M`; the control group's limit by default.
    pub max_memory: Option<String>,
    /// GitHub.
    pub github: GitHubSection,
    /// The endpoint that speaks OpenAI's protocol.
    pub openai: OpenAiSection,
    /// The job queue.
    pub queue: QueueSection,
    /// Limits of one review.
    pub review: ReviewSection,
    /// What pull requests, repositories and days may cost.
    pub budget: BudgetSection,
}

/// `[github]`.
#[derive(Clone, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GitHubSection {
    /// App id.
    pub app_id: Option<u64>,
    /// The App's private key, PEM.
    pub private_key: Option<String>,
    /// A file that holds it.
    pub private_key_path: Option<String>,
    /// Secret that deliveries are signed with.
    pub webhook_secret: Option<String>,
    /// The secret before the last rotation, still accepted.
    pub webhook_secret_previous: Option<String>,
    /// `https://api.github.com`, or `https://HOST/api/v3`.
    pub api_url: Option<String>,
    /// Personal token for `secondlook review owner/repo#7`.
    pub token: Option<String>,
}

/// `[models]`: each `embedded` or `provider::name`.
#[derive(Clone, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ModelsSection {
    /// Drafts findings.
    pub reviewer: Option<String>,
    /// Tries to refute them.
    pub critic: Option<String>,
    /// Answers people in threads.
    pub answer: Option<String>,
    /// Asked one after the other when the model of a role cannot answer.
    pub fallbacks: Option<Vec<String>>,
}

/// `[endpoints.NAME]`.
#[derive(Clone, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EndpointSection {
    /// Key of the endpoint.
    pub api_key: Option<String>,
    /// Its base URL, up to and with `/v1`.
    pub base_url: Option<String>,
}

/// `[openai]`.
#[derive(Clone, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OpenAiSection {
    /// Key of the endpoint.
    pub api_key: Option<String>,
    /// Its base URL, for example `https://api.openai.com/v1`.
    pub base_url: Option<String>,
}

/// `[queue]`.
#[derive(Clone, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct QueueSection {
    /// Jobs run at the same time by this process (1 to 64, default 4).
    pub workers: Option<u64>,
    /// Jobs of one installation that run at the same time in all instances together (1 to 1000; no limit when left out:
    /// installations take turns anyway).
    pub per_installation: Option<u64>,
    /// Tries before a job is given up (1 to 100, default 8).
    pub max_attempts: Option<u64>,
    /// How long a claim lasts without being extended (5 to 3600 seconds, default 60).
    pub lease_seconds: Option<u64>,
    /// How long a stopping process waits for running jobs (0 to 3600 seconds, default 25).
    pub grace_seconds: Option<u64>,
}

/// `[review]`.
#[derive(Clone, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ReviewSection {
    /// Files reviewed at the same time (1 to 64, default 8).
    pub concurrent_files: Option<u64>,
    /// Most small files that are reviewed together, in one conversation (1 to 16, 1 for never, default 8).
    pub group_files: Option<u64>,
    /// Most rounds of draft and critique per file (1 to 10, default 5).
    pub max_rounds: Option<u64>,
    /// Whole time of one review (1 to 86400 seconds, default 1200).
    pub time_seconds: Option<u64>,
    /// Most tokens of one review, input and output (at least 1000, default 5000000).
    pub tokens: Option<u64>,
    /// Most US cents of one review, by the price table (no limit by default).
    pub cents: Option<u64>,
}

/// `[budget]`: no limit where none is given. A repository may lower its own in `.github/secondlook.yml`.
#[derive(Clone, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BudgetSection {
    /// Most tokens of one pull request, over all its reviews and answers.
    pub pull_request_tokens: Option<u64>,
    /// Most US cents of one pull request, by the price table.
    pub pull_request_cents: Option<u64>,
    /// Most tokens of one repository on one day (UTC).
    pub repository_day_tokens: Option<u64>,
    /// Most US cents of one repository on one day (UTC).
    pub repository_day_cents: Option<u64>,
    /// Most tokens of all repositories on one day (UTC), over all instances.
    pub day_tokens: Option<u64>,
    /// Most US cents of all repositories on one day (UTC).
    pub day_cents: Option<u64>,
}

/// Which `secondlook.toml` to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileChoice {
    /// This one, and it must be there.
    Given(PathBuf),
    /// The one in the working directory, else the user's own. For commands that run where their operator put them.
    WorkingDirectory,
    /// The user's own only. For commands that run inside a checkout, whose files must not choose where keys are sent.
    UserOnly,
}

/// A value and where it was given.
#[derive(Clone)]
pub struct Given {
    /// The text.
    pub value: String,
    /// The place, as people know it: `--listen`, `SECONDLOOK_LISTEN`, or `listen in secondlook.toml`.
    pub origin: String,
}

/// Flags, environment and file, one over the other.
#[derive(Clone, Default)]
pub struct Layers {
    flags: Flags,
    environment: Environment,
    file: File,
}

impl Environment {
    /// The variables of this process. Those that are not UTF-8 are left out: none of ours is meant to hold such text.
    pub fn of_process() -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self { variables: std::env::vars_os().filter_map(text).collect() }
    }

    /// The same with one more variable.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.insert(name.into(), value.into());
        self
    }

    /// A variable that is set and not empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.trim().is_empty())
    }
}

impl<const N: usize> From<[(&str, &str); N]> for Environment {
    fn from(variables: [(&str, &str); N]) -> Self {
        Self { variables: variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect() }
    }
}

impl Layers {
    /// Reads the file that `choice` names and puts the other two over it.
    ///
    /// # Errors
    /// When a named file cannot be read, or a file is not what [`File`] describes.
    pub fn read(flags: Flags, environment: Environment, choice: &FileChoice) -> Result<Self, ConfigError> {
        let file = match choice {
            FileChoice::Given(path) => Some(path.clone()),
            FileChoice::WorkingDirectory => {
                Some(PathBuf::from("secondlook.toml")).filter(|path| path.exists()).or_else(|| user_file(&environment))
            }
            FileChoice::UserOnly => user_file(&environment),
        };
        let file = match file {
            Some(path) => {
                let text = std::fs::read_to_string(&path).map_err(|error| {
                    ConfigError(format!(
                        "cannot read {}: {error}; check the path given with --settings, or leave the flag out",
                        path.display()
                    ))
                })?;
                parse_file(&text, &path)?
            }
            None => File::default(),
        };
        Ok(Self { flags, environment, file })
    }

    /// The layers as values.
    pub fn new(flags: Flags, environment: Environment, file: File) -> Self {
        Self { flags, environment, file }
    }

    /// The value of a setting, by its name in the environment.
    pub fn get(&self, name: &str) -> Option<Given> {
        let known = NAMES.iter().find(|known| known.environment == name);
        let filled = |value: &str| !value.trim().is_empty();
        if let Some(value) = self.flags.get(name).filter(|value| filled(value)) {
            let flag = known.and_then(|known| known.flag).unwrap_or(name);
            return Some(Given { value: value.clone(), origin: flag.into() });
        }
        if let Some(value) = self.environment.get(name) {
            return Some(Given { value: value.into(), origin: name.into() });
        }
        let key = known?.file;
        let value = self.in_file(key).filter(|value| filled(value))?;
        Some(Given { value, origin: format!("`{key}` in secondlook.toml") })
    }

    /// The file's typed sections.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The variables, for what is not a setting of ours (`HOME`, a provider's own key).
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    fn in_file(&self, key: &str) -> Option<String> {
        let file = &self.file;
        match key {
            "listen" => file.listen.clone(),
            "data_dir" => file.data_dir.clone(),
            "database_url" => file.database_url.clone(),
            "public_url" => file.public_url.clone(),
            "smee" => file.smee.clone(),
            "model" => file.model.clone(),
            "strategy" => file.strategy.clone(),
            "log" => file.log.clone(),
            "log_format" => file.log_format.clone(),
            "max_memory" => file.max_memory.clone(),
            "github.app_id" => file.github.app_id.map(|id| id.to_string()),
            "github.private_key" => file.github.private_key.clone(),
            "github.private_key_path" => file.github.private_key_path.clone(),
            "github.webhook_secret" => file.github.webhook_secret.clone(),
            "github.webhook_secret_previous" => file.github.webhook_secret_previous.clone(),
            "github.api_url" => file.github.api_url.clone(),
            "github.token" => file.github.token.clone(),
            "openai.api_key" => file.openai.api_key.clone(),
            "openai.base_url" => file.openai.base_url.clone(),
            _ => None,
        }
    }
}

/// Reads the text of a `secondlook.toml`.
///
/// # Errors
/// One sentence with the line, when the text is not TOML, a key is unknown or a value has another type.
pub fn parse_file(text: &str, path: &Path) -> Result<File, ConfigError> {
    toml::from_str(text).map_err(|error| {
        let line =
            error.span().and_then(|span| text.get(..span.start)).map_or(1, |before| before.matches('\n').count() + 1);
        let reason = error.message().lines().collect::<Vec<_>>().join(" ");
        ConfigError(format!(
            "{}, line {line}: {reason}; `secondlook schema config` prints what is allowed",
            path.display()
        ))
    })
}

/// `secondlook/secondlook.toml` under the user's configuration directory, when it is there.
fn user_file(environment: &Environment) -> Option<PathBuf> {
    let directory = environment
        .get("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .or_else(|| environment.get("HOME").map(|home| Path::new(home).join(".config")))?;
    Some(directory.join("secondlook").join("secondlook.toml")).filter(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_wins_over_the_environment_and_that_over_the_file() {
        let file =
            parse_file("listen = '1.1.1.1:1'\ndata_dir = 'f'\nmodel = 'm'", Path::new("secondlook.toml")).unwrap();
        let environment = Environment::from([("SECONDLOOK_LISTEN", "2.2.2.2:2"), ("SECONDLOOK_DATA_DIR", "e")]);
        let layers = Layers::new(Flags::from([("SECONDLOOK_LISTEN", "3.3.3.3:3".into())]), environment, file);
        let given = |name| layers.get(name).map(|given| (given.value, given.origin));
        assert_eq!(given("SECONDLOOK_LISTEN"), Some(("3.3.3.3:3".into(), "--listen".into())));
        assert_eq!(given("SECONDLOOK_DATA_DIR"), Some(("e".into(), "SECONDLOOK_DATA_DIR".into())));
        assert_eq!(given("SECONDLOOK_MODEL"), Some(("m".into(), "`model` in secondlook.toml".into())));
        assert_eq!(given("GITHUB_TOKEN"), None);
    }

    #[test]
    fn an_empty_value_is_none() {
        let layers = Layers::new(
            Flags::new(),
            Environment::from([("SECONDLOOK_MODEL", " ")]),
            File { model: Some("embedded".into()), ..File::default() },
        );
        assert_eq!(layers.get("SECONDLOOK_MODEL").unwrap().value, "embedded");
    }

    #[test]
    fn every_name_can_be_given_in_the_file() {
        let text = "listen='x'\ndata_dir='x'\nsmee='x'\ndatabase_url='x'\npublic_url='x'\nmodel='x'\nstrategy='x'\nlog='x'\nlog_format='x'\nmax_memory='x'\n\
                    [github]\napp_id=1\nprivate_key='x'\nprivate_key_path='x'\nwebhook_secret='x'\n\
                    webhook_secret_previous='x'\napi_url='x'\ntoken='x'\n[openai]\napi_key='x'\nbase_url='x'\n";
        let layers =
            Layers::new(Flags::new(), Environment::default(), parse_file(text, Path::new("secondlook.toml")).unwrap());
        for name in NAMES {
            assert!(layers.get(name.environment).is_some(), "{} is not read from the file", name.environment);
        }
    }

    #[test]
    fn a_mistake_in_the_file_is_named_with_its_line() {
        let wrong = |text| parse_file(text, Path::new("secondlook.toml")).err().unwrap().to_string();
        let unknown = wrong("listen = '127.0.0.1:1'\nlissten = 'x'\n");
        assert!(unknown.starts_with("secondlook.toml, line 2: unknown field `lissten`"), "{unknown}");
        assert!(
            wrong("[queue]\nworkers = 'many'\n").contains("line 2: invalid type"),
            "{}",
            wrong("[queue]\nworkers = 'many'\n")
        );
        assert!(!wrong("listen = ").contains('\n'));
    }
}
