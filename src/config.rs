//! The only reader of the environment and of `secondlook.toml`; composes each module's own settings.
//!
//! A value is taken from a flag, else from the environment, else from the file, else by default. Whatever is wrong
//! becomes one sentence that says what to do. Nobody below this module sees the whole.

pub mod layers;
pub mod model;
mod numbers;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use secrecy::SecretString;
use url::Url;

use crate::dashboard::credentials::{self, StoredApp};
use crate::github::client::{self, AppCredentials};
use crate::queue;
use crate::review::change::Limits;
use crate::room::{Inputs, system};
use layers::{Given, Layers};
use model::{ModelChoice, OtherModels};

/// The file in the data directory that holds the App's credentials after set-up.
pub const APP_FILE: &str = "app.json";

/// The only strategy of this version.
const STRATEGY: &str = "reflexion";

/// Smallest ceiling of memory: an idle server uses about half of it.
const LEAST_MEMORY: u64 = 64 << 20;

/// What is wrong with the configuration: one sentence that says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub String);

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

/// Everything configurable, checked.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where the server listens.
    pub listen: SocketAddr,
    /// Directory of the SQLite file and of the App's credentials.
    pub data_dir: PathBuf,
    /// The database; a URL may hold a password.
    pub database_url: SecretString,
    /// Where GitHub and people reach the server.
    pub public_url: Option<Url>,
    /// A channel that passes deliveries on, for a server that GitHub cannot reach.
    pub smee: Option<Url>,
    /// Which model answers.
    pub model: ModelChoice,
    /// Which models answer single roles, and which stand in.
    pub other_models: OtherModels,
    /// The log filter, when one is given.
    pub log: Option<String>,
    /// How log lines look.
    pub log_format: LogFormat,
    /// Where GitHub is.
    pub github: client::Settings,
    /// The App, when one is configured or was set up before.
    pub app: Option<AppSettings>,
    /// Whether a webhook secret is given that belongs to no App, and so is of no use.
    pub lone_secret: bool,
    /// Personal token, for the command line.
    pub token: Option<SecretString>,
    /// The job queue.
    pub queue: queue::Settings,
    /// Limits of one review.
    pub limits: Limits,
}

/// The App on GitHub.
#[derive(Debug, Clone)]
pub struct AppSettings {
    /// Its identity.
    pub credentials: AppCredentials,
    /// Secrets that deliveries are signed with: the present one first, then the one before the last rotation.
    pub webhook_secrets: Vec<SecretString>,
    /// The App's page on GitHub, when set-up stored it.
    pub html_url: Option<String>,
}

impl Config {
    /// Checks the layers and reads the files they name (the private key, the App of an earlier set-up).
    ///
    /// # Errors
    /// The first thing that is wrong, as one sentence that says what to do.
    pub fn load(layers: &Layers) -> Result<Self, ConfigError> {
        let data_dir = data_dir(layers);
        let database_url = match layers.get("SECONDLOOK_DATABASE_URL") {
            Some(given) => database_url(&given)?,
            None => format!("sqlite:{}", data_dir.join("secondlook.db").display()),
        };
        let max_memory = max_memory(layers)?;
        let mut github = client::Settings { inputs: Inputs::below(max_memory), ..client::Settings::default() };
        if let Some(given) = layers.get("GITHUB_API_URL") {
            github.api_url =
                web_address(&given, "https://github.example.com/api/v3")?.as_str().trim_end_matches('/').to_owned();
        }
        let model = model::choose(layers)?;
        let app = app(layers, &data_dir)?;
        Ok(Self {
            listen: listen(layers)?,
            database_url: SecretString::from(database_url),
            public_url: layers
                .get("SECONDLOOK_PUBLIC_URL")
                .map(|given| web_address(&given, "https://secondlook.example.com"))
                .transpose()?,
            smee: layers
                .get("SECONDLOOK_SMEE")
                .map(|given| web_address(&given, "https://smee.io/CHANNEL"))
                .transpose()?,
            other_models: model::others(layers, &model)?,
            model,
            log: layers.get("SECONDLOOK_LOG").map(|given| given.value),
            log_format: log_format(layers)?,
            github,
            lone_secret: app.is_none() && !webhook_secrets(layers).is_empty(),
            app,
            token: layers.get("GITHUB_TOKEN").map(|given| secret(&given)),
            queue: queue::Settings { max_memory, ..numbers::queue_settings(layers)? },
            limits: numbers::limits(layers)?,
            data_dir,
        })
    }

    /// The file that holds the App's credentials after set-up.
    pub fn app_file(&self) -> PathBuf {
        self.data_dir.join(APP_FILE)
    }
}

/// A web address, without its final `/` as far as a URL can be. `example` shows what is meant where it is none.
fn web_address(given: &Given, example: &str) -> Result<Url, ConfigError> {
    let text = given.value.trim();
    let url = Url::parse(text.trim_end_matches('/')).ok();
    url.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host()).ok_or_else(|| {
        ConfigError(format!(
            "{} is \"{text}\", which is no web address: write it in full, as in {example}",
            given.origin
        ))
    })
}

fn secret(given: &Given) -> SecretString {
    SecretString::from(given.value.trim().to_owned())
}

/// The data directory: the configured one, else the user's by the XDG convention, else one beside the process.
fn data_dir(layers: &Layers) -> PathBuf {
    if let Some(given) = layers.get("SECONDLOOK_DATA_DIR") {
        return PathBuf::from(given.value);
    }
    let environment = layers.environment();
    if let Some(directory) = environment.get("XDG_DATA_HOME") {
        return Path::new(directory).join("secondlook");
    }
    match environment.get("HOME") {
        Some(home) => Path::new(home).join(".local/share/secondlook"),
        None => PathBuf::from("secondlook-data"),
    }
}

fn listen(layers: &Layers) -> Result<SocketAddr, ConfigError> {
    let Some(given) = layers.get("SECONDLOOK_LISTEN") else {
        return Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)));
    };
    let text = given.value.trim();
    let named =
        text.strip_prefix("localhost:").and_then(|port| Some((IpAddr::from(Ipv4Addr::LOCALHOST), port.parse().ok()?)));
    named.map(SocketAddr::from).or_else(|| text.parse().ok()).ok_or_else(|| {
        ConfigError(format!(
            "{} is \"{text}\", which is no address to listen on: write IP:PORT, as in 127.0.0.1:8080 or 0.0.0.0:8080",
            given.origin
        ))
    })
}

/// Refuses what is neither database; the text never repeats the URL, which may hold a password.
fn database_url(given: &Given) -> Result<String, ConfigError> {
    let url = given.value.trim();
    let known = ["sqlite:", "postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme));
    if known {
        return Ok(url.to_owned());
    }
    Err(ConfigError(format!(
        "{} names no database that is known here: write sqlite:PATH or postgres://USER:PASSWORD@HOST/NAME",
        given.origin
    )))
}

/// The ceiling of memory in bytes: what is configured, else what the control group allows.
fn max_memory(layers: &Layers) -> Result<Option<u64>, ConfigError> {
    let Some(given) = layers.get("SECONDLOOK_MAX_MEMORY") else { return Ok(system::allowed()) };
    let ceiling = bytes(&given.value).filter(|ceiling| *ceiling >= LEAST_MEMORY);
    ceiling.map(Some).ok_or_else(|| {
        ConfigError(format!(
            "{} is \"{}\": write an amount of memory of at least {}M, as in 512M, 2G or a number of bytes",
            given.origin,
            given.value,
            LEAST_MEMORY >> 20
        ))
    })
}

/// A number of bytes, which may end with K, M or G (of 1024 each; `MB`, `MiB` mean the same).
fn bytes(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = match text.get(digits.len()..)?.trim() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << unit)
}

fn log_format(layers: &Layers) -> Result<LogFormat, ConfigError> {
    match layers.get("SECONDLOOK_LOG_FORMAT") {
        None => Ok(LogFormat::Text),
        Some(given) => match given.value.trim() {
            "text" => Ok(LogFormat::Text),
            "json" => Ok(LogFormat::Json),
            other => Err(ConfigError(format!("{} is \"{other}\": write `text` or `json`", given.origin))),
        },
    }
}

/// The App that is configured, else the one that set-up stored.
fn app(layers: &Layers, data_dir: &Path) -> Result<Option<AppSettings>, ConfigError> {
    let secrets = webhook_secrets(layers);
    let Some(id) = layers.get("GITHUB_APP_ID") else {
        if let Some(key) = layers.get("GITHUB_APP_PRIVATE_KEY").or_else(|| layers.get("GITHUB_APP_PRIVATE_KEY_PATH")) {
            return Err(ConfigError(format!(
                "{} is set, but GITHUB_APP_ID is not: set it to the App ID that stands on the App's settings page",
                key.origin
            )));
        }
        return stored_app(data_dir, secrets);
    };
    let app_id = id.value.trim().parse::<u64>().ok().filter(|id| *id > 0).ok_or_else(|| {
        ConfigError(format!(
            "{} is \"{}\", which is no App ID: use the number that stands on the App's settings page",
            id.origin, id.value
        ))
    })?;
    let private_key = private_key(layers, &id)?;
    if secrets.is_empty() {
        return Err(ConfigError(
            "a GitHub App is configured without a webhook secret, so that anybody could send events: set \
             GITHUB_WEBHOOK_SECRET to the secret on the App's settings page"
                .into(),
        ));
    }
    let credentials = AppCredentials { app_id, private_key };
    Ok(Some(AppSettings { credentials, webhook_secrets: secrets, html_url: None }))
}

/// The present secret, then the one before the last rotation.
fn webhook_secrets(layers: &Layers) -> Vec<SecretString> {
    // A secret is used as it stands: a blank at its end is part of it.
    let names = ["GITHUB_WEBHOOK_SECRET", "GITHUB_WEBHOOK_SECRET_PREVIOUS"];
    names.iter().filter_map(|name| layers.get(name)).map(|given| SecretString::from(given.value)).collect()
}

fn private_key(layers: &Layers, id: &Given) -> Result<SecretString, ConfigError> {
    if let Some(given) = layers.get("GITHUB_APP_PRIVATE_KEY") {
        // Many places that hold variables keep one line only, and people write line ends as `\n` there.
        return Ok(SecretString::from(given.value.replace("\\n", "\n")));
    }
    let Some(given) = layers.get("GITHUB_APP_PRIVATE_KEY_PATH") else {
        return Err(ConfigError(format!(
            "{} is set, but there is no private key: set GITHUB_APP_PRIVATE_KEY_PATH to the .pem file that GitHub let \
             you download, or GITHUB_APP_PRIVATE_KEY to its text",
            id.origin
        )));
    };
    std::fs::read_to_string(&given.value).map(SecretString::from).map_err(|error| {
        ConfigError(format!(
            "cannot read the private key {} named by {}: {error}; check that the file is there, is the .pem file from \
             GitHub, and may be read by this user",
            given.value, given.origin
        ))
    })
}

fn stored_app(data_dir: &Path, mut secrets: Vec<SecretString>) -> Result<Option<AppSettings>, ConfigError> {
    let file = data_dir.join(APP_FILE);
    let Some(StoredApp { app_id, private_key, webhook_secret, html_url, .. }) = credentials::load(&file).map_err(|error| {
        ConfigError(format!(
            "cannot read {}, which set-up wrote: {error}; mend its permissions, or remove it and set the App up again",
            file.display()
        ))
    })?
    else {
        return Ok(None);
    };
    // A configured secret is newer than the stored one, which stays valid until the rotation is over.
    secrets.push(webhook_secret);
    let credentials = AppCredentials { app_id, private_key };
    Ok(Some(AppSettings { credentials, webhook_secrets: secrets, html_url: Some(html_url) }))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rstest::rstest;
    use secrecy::ExposeSecret;

    use super::layers::{Environment, File, Flags};
    use super::*;
    use crate::agent::limits::Most;
    use crate::review::budget::{Budgets, most};

    fn load<const N: usize>(variables: [(&str, &str); N]) -> Result<Config, String> {
        let layers = Layers::new(Flags::new(), Environment::from(variables), File::default());
        Config::load(&layers).map_err(|error| error.to_string())
    }

    #[test]
    fn nothing_is_needed() {
        let config = load([("HOME", "/home/somebody")]).unwrap();
        assert_eq!(config.listen.to_string(), "127.0.0.1:8080");
        assert_eq!(config.database_url.expose_secret(), "sqlite:/home/somebody/.local/share/secondlook/secondlook.db");
        assert_eq!(config.github.api_url, "https://api.github.com");
        assert!(matches!(config.model, ModelChoice::Embedded));
        assert!(config.app.is_none());
    }

    #[test]
    fn a_secret_without_an_app_is_noticed() {
        let secret = ("GITHUB_WEBHOOK_SECRET", "s");
        assert!(load([("HOME", "/nowhere"), secret]).unwrap().lone_secret);
        assert!(!load([("HOME", "/nowhere")]).unwrap().lone_secret);
        let whole = [("HOME", "/nowhere"), secret, ("GITHUB_APP_ID", "1"), ("GITHUB_APP_PRIVATE_KEY", "k")];
        assert!(!load(whole).unwrap().lone_secret);
    }

    #[test]
    fn an_app_is_complete() {
        let config = load([
            ("GITHUB_APP_ID", "12"),
            ("GITHUB_APP_PRIVATE_KEY", "-----BEGIN\\nKEY"),
            ("GITHUB_WEBHOOK_SECRET", "new "),
            ("GITHUB_WEBHOOK_SECRET_PREVIOUS", "old"),
            ("GITHUB_API_URL", "https://ghe.example.com/api/v3/"),
        ])
        .unwrap();
        let app = config.app.unwrap();
        assert_eq!(app.credentials.app_id, 12);
        assert_eq!(app.credentials.private_key.expose_secret(), "-----BEGIN\nKEY");
        let secrets: Vec<&str> = app.webhook_secrets.iter().map(ExposeSecret::expose_secret).collect();
        assert_eq!(secrets, ["new ", "old"]);
        assert_eq!(config.github.api_url, "https://ghe.example.com/api/v3");
    }

    #[rstest]
    #[case(&[("SECONDLOOK_LISTEN", "8080")], "SECONDLOOK_LISTEN is \"8080\", which is no address to listen on")]
    #[case(&[("SECONDLOOK_DATABASE_URL", "mysql://u:pass@h/d")], "write sqlite:PATH or postgres://")]
    #[case(&[("SECONDLOOK_PUBLIC_URL", "example.com")], "SECONDLOOK_PUBLIC_URL is \"example.com\", which is no web")]
    #[case(&[("SECONDLOOK_LOG_FORMAT", "xml")], "write `text` or `json`")]
    #[case(&[("SECONDLOOK_MAX_MEMORY", "lots")], "SECONDLOOK_MAX_MEMORY is \"lots\": write an amount of memory of at least 64M")]
    #[case(&[("SECONDLOOK_MAX_MEMORY", "1M")], "at least 64M, as in 512M, 2G or a number of bytes")]
    #[case(&[("SECONDLOOK_STRATEGY", "lats")], "knows the strategy `reflexion` only")]
    #[case(&[("GITHUB_API_URL", "ftp://x")], "GITHUB_API_URL is \"ftp://x\"")]
    #[case(&[("GITHUB_APP_ID", "abc")], "which is no App ID")]
    #[case(&[("GITHUB_APP_ID", "1")], "there is no private key: set GITHUB_APP_PRIVATE_KEY_PATH")]
    #[case(&[("GITHUB_APP_ID", "1"), ("GITHUB_APP_PRIVATE_KEY_PATH", "/no/key.pem")], "cannot read the private key /no/key.pem")]
    #[case(&[("GITHUB_APP_ID", "1"), ("GITHUB_APP_PRIVATE_KEY", "k")], "without a webhook secret")]
    #[case(&[("GITHUB_APP_PRIVATE_KEY", "k")], "but GITHUB_APP_ID is not")]
    fn mistakes_say_what_to_do(#[case] variables: &[(&str, &str)], #[case] expected: &str) {
        let mut environment = vec![("HOME", "/nowhere")];
        environment.extend_from_slice(variables);
        let environment =
            environment.into_iter().fold(Environment::default(), |all, (name, value)| all.with(name, value));
        let error = Config::load(&Layers::new(Flags::new(), environment, File::default())).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert!(!error.contains('\n') && !error.contains("pass"), "{error}");
    }

    #[test]
    fn an_amount_of_memory_may_have_a_unit() {
        for (text, expected) in [
            ("536870912", Some(512 << 20)),
            ("512M", Some(512 << 20)),
            (" 512 MiB ", Some(512 << 20)),
            ("2g", Some(2 << 30)),
            ("65536kb", Some(64 << 20)),
            ("1.5G", None),
            ("-1M", None),
            ("M", None),
            ("5T", None),
            ("99999999999G", None),
        ] {
            assert_eq!(bytes(text), expected, "{text}");
        }
        assert_eq!(load([("SECONDLOOK_MAX_MEMORY", "256M")]).unwrap().queue.max_memory, Some(256 << 20));
    }

    #[test]
    fn numbers_of_the_file_are_checked() {
        let file = |text| layers::parse_file(text, Path::new("secondlook.toml")).unwrap();
        let load = |text| Config::load(&Layers::new(Flags::new(), Environment::default(), file(text)));
        let config = load("[queue]\nworkers = 2\ngrace_seconds = 0\n[review]\nmax_rounds = 1\n").unwrap();
        assert_eq!((config.queue.workers, config.queue.grace, config.limits.max_rounds), (2, Duration::ZERO, 1));
        let config = load("[review]\ncents = 3\n[budget]\nday_tokens = 7\nrepository_day_cents = 2\n").unwrap();
        assert_eq!(config.limits.review, Most { tokens: 5_000_000, micro_usd: 30_000 });
        let day = Budgets { day: Most::tokens(7), repository_day: most(None, Some(2)), ..Budgets::default() };
        assert_eq!(config.limits.budgets, day);
        assert_eq!(config.limits.group_files, 8);
        assert_eq!(load("[review]\ngroup_files = 1\n").unwrap().limits.group_files, 1);
        assert!(load("[review]\ngroup_files = 17\n").is_err());
        let error = load("[queue]\nworkers = 0\n").unwrap_err().to_string();
        assert_eq!(error, "`queue.workers` in secondlook.toml is 0: write a number from 1 to 64");
    }

    #[test]
    fn what_setup_stored_is_read_and_a_configured_secret_comes_first() {
        let directory = tempfile::tempdir().unwrap();
        let stored = StoredApp {
            app_id: 7,
            slug: "s".into(),
            private_key: SecretString::from("key"),
            webhook_secret: SecretString::from("stored"),
            client_id: "c".into(),
            client_secret: SecretString::from("cs"),
            html_url: "https://github.com/apps/s".into(),
        };
        credentials::store(&directory.path().join(APP_FILE), &stored).unwrap();
        let path = directory.path().to_str().unwrap();
        let app = load([("SECONDLOOK_DATA_DIR", path), ("GITHUB_WEBHOOK_SECRET", "newer")]).unwrap().app.unwrap();
        let secrets: Vec<&str> = app.webhook_secrets.iter().map(ExposeSecret::expose_secret).collect();
        assert_eq!((app.credentials.app_id, secrets), (7, vec!["newer", "stored"]));
        std::fs::write(directory.path().join(APP_FILE), "{").unwrap();
        assert!(load([("SECONDLOOK_DATA_DIR", path)]).unwrap_err().contains("set the App up again"));
    }
}
