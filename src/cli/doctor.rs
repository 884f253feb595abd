//! `secondlook doctor`: looks at everything a server needs, and says of each how to mend it.

use std::process::ExitCode;
use std::sync::Arc;

use super::{FAILED, Failure, jobs, output};
use crate::chat::openai::{OpenAiModel, Settings};
use crate::clock::{SharedClock, SystemClock};
use crate::config::Config;
use crate::config::layers::Layers;
use crate::config::model::ModelChoice;
use crate::dashboard::manifest::{EVENTS, PERMISSIONS};
use crate::db::{Backend, Db};
use crate::github::client::{AppIdentity, GitHubApp};
use crate::job::Job;
use crate::queue::store::Queue;
use crate::serve;

/// Dead letters that are listed one by one.
const MOST_LETTERS: usize = 20;

/// How a thing is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// As it should be.
    Ok,
    /// Worth knowing.
    Note,
    /// To be mended.
    Bad,
}

/// What was found of one thing.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Check {
    state: State,
    what: &'static str,
    text: String,
}

/// Checks everything and prints a line for each thing; exit code 2 when something is to be mended.
///
/// # Errors
/// When the lines cannot be printed.
pub async fn run(layers: &Layers) -> Result<ExitCode, Failure> {
    let checks = match Config::load(layers) {
        Ok(config) => examine(&config).await,
        Err(error) => vec![bad("configuration", error.to_string())],
    };
    super::print(&render(&checks))?;
    let any_bad = checks.iter().any(|check| check.state == State::Bad);
    Ok(if any_bad { ExitCode::from(FAILED) } else { ExitCode::SUCCESS })
}

async fn examine(config: &Config) -> Vec<Check> {
    let clock: SharedClock = Arc::new(SystemClock);
    let mut checks = vec![ok("configuration", format!("read; the server listens on {}", config.listen))];
    checks.push(match &config.public_url {
        Some(url) => ok("address", format!("GitHub and people reach it at {url}")),
        None => {
            note("address", "SECONDLOOK_PUBLIC_URL is not set: fine on a laptop; GitHub needs one to deliver to".into())
        }
    });
    let (app, database, model) =
        futures_util::join!(app(config, clock.clone()), database(config, clock.clone()), model(config, clock.clone()));
    checks.extend(database);
    checks.extend(app);
    checks.push(model);
    checks
}

async fn database(config: &Config, clock: SharedClock) -> Vec<Check> {
    let db = match serve::open_database(config).await {
        Ok(db) => db,
        Err(error) => return vec![bad("database", error.to_string())],
    };
    let mut checks = vec![match db.ping().await {
        Ok(()) => {
            let backend = match db.backend() {
                Backend::Sqlite => "SQLite",
                Backend::Postgres => "PostgreSQL",
            };
            ok("database", format!("{backend} answers, and its schema is up to date"))
        }
        Err(error) => bad("database", format!("{error}; look at the database's own log")),
    }];
    checks.extend(letters(db, clock, config).await);
    checks
}

async fn letters(db: Db, clock: SharedClock, config: &Config) -> Vec<Check> {
    let queue = Queue::<Job>::new(db, clock, config.queue.clone());
    match queue.dead_letters().await {
        Ok(letters) if letters.is_empty() => vec![ok("jobs", "none was given up".into())],
        Ok(letters) => {
            let mut checks: Vec<Check> = letters
                .iter()
                .take(MOST_LETTERS)
                .map(|letter| {
                    let mend = format!("mend that, then run `secondlook jobs requeue {}`", letter.id);
                    bad("jobs", format!("{}; {mend}", jobs::in_words(letter)))
                })
                .collect();
            if letters.len() > MOST_LETTERS {
                checks.push(note(
                    "jobs",
                    format!("{} more were given up: `secondlook jobs list`", letters.len() - MOST_LETTERS),
                ));
            }
            checks
        }
        Err(error) => vec![bad("jobs", format!("the queue cannot be read: {error}"))],
    }
}

async fn app(config: &Config, clock: SharedClock) -> Vec<Check> {
    let Some(app) = &config.app else {
        let text = "no App is configured: start `secondlook serve` and open its set-up page, or set GITHUB_APP_ID, \
                    GITHUB_APP_PRIVATE_KEY_PATH and GITHUB_WEBHOOK_SECRET";
        return vec![note("GitHub App", text.into())];
    };
    let client = match GitHubApp::new(&app.credentials, &config.github, clock) {
        Ok(client) => client,
        Err(error) => return vec![bad("GitHub App", error.to_string())],
    };
    match client.identity().await {
        Ok(identity) => {
            let mut checks = vec![ok("GitHub App", format!("GitHub knows it as {}", identity.slug))];
            let lacks = lacks(&identity);
            if lacks.is_empty() {
                checks.push(ok("permissions", "the App has the permissions and events it needs".into()));
            }
            let settings = "add it on the App's settings page, then accept the change in each installation";
            checks.extend(lacks.into_iter().map(|lack| bad("permissions", format!("{lack}; {settings}"))));
            checks
        }
        Err(error) => {
            let text =
                format!("{error}; check GITHUB_APP_ID, the private key and GITHUB_API_URL ({})", config.github.api_url);
            vec![bad("GitHub App", text)]
        }
    }
}

/// What an App lacks of the permissions and events of the manifest.
fn lacks(identity: &AppIdentity) -> Vec<String> {
    let rank = |level: &str| ["read", "write", "admin"].iter().position(|known| *known == level);
    let permissions = PERMISSIONS.iter().filter_map(|(name, needed)| {
        let has = identity.permissions.get(*name).map(String::as_str);
        let enough = has.is_some_and(|has| rank(has) >= rank(needed));
        (!enough).then(|| format!("the App lacks the permission {name}: {needed} (it has {})", has.unwrap_or("none")))
    });
    let events = EVENTS.iter().filter(|event| !identity.events.iter().any(|known| known == *event));
    permissions.chain(events.map(|event| format!("the App is not subscribed to the event {event}"))).collect()
}

async fn model(config: &Config, clock: SharedClock) -> Check {
    match &config.model {
        ModelChoice::Embedded => ok("model", "embedded: built-in rules, which need no network".into()),
        ModelChoice::OpenAi { provider, model, base_url, api_key } => {
            let settings = Settings::new(provider, model, base_url.clone(), api_key.clone());
            let asked = match OpenAiModel::new(settings, clock) {
                Ok(asked) => asked.reachable().await,
                Err(error) => Err(error),
            };
            match asked {
                Ok(()) => ok("model", format!("{provider}::{model} answers at {base_url}")),
                Err(error) => {
                    let advice = "check SECONDLOOK_MODEL, the key and OPENAI_BASE_URL";
                    bad("model", format!("{provider}::{model} at {base_url}: {error}; {advice}"))
                }
            }
        }
    }
}

fn ok(what: &'static str, text: String) -> Check {
    Check { state: State::Ok, what, text }
}

fn note(what: &'static str, text: String) -> Check {
    Check { state: State::Note, what, text }
}

fn bad(what: &'static str, text: String) -> Check {
    Check { state: State::Bad, what, text }
}

fn render(checks: &[Check]) -> String {
    let line = |check: &Check| {
        let word = match check.state {
            State::Ok => "ok  ",
            State::Note => "note",
            State::Bad => "bad ",
        };
        format!("{word} {}: {}\n", check.what, output::one_line(&check.text))
    };
    checks.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::github::User;

    #[test]
    fn a_lacking_permission_or_event_is_named() {
        let permissions = [("checks", "write"), ("contents", "write"), ("issues", "read"), ("metadata", "read")];
        let mut events: Vec<String> = EVENTS.iter().map(ToString::to_string).collect();
        events.retain(|event| event != "merge_group");
        let identity = AppIdentity {
            slug: "s".into(),
            bot: User { id: 1, login: "s[bot]".into(), is_bot: true },
            permissions: permissions.map(|(name, level)| (name.to_owned(), level.to_owned())).into(),
            events,
        };
        assert_eq!(
            lacks(&identity),
            [
                "the App lacks the permission issues: write (it has read)",
                "the App lacks the permission merge_queues: read (it has none)",
                "the App lacks the permission pull_requests: write (it has none)",
                "the App is not subscribed to the event merge_group",
            ]
        );
    }

    #[test]
    fn each_line_says_how_it_is() {
        let checks = [ok("a", "b".into()), note("c", "d\ne".into()), bad("f", "g".into())];
        assert_eq!(render(&checks), "ok   a: b\nnote c: d e\nbad  f: g\n");
    }
}
