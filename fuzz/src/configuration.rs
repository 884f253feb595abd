//! `secondlook.toml`, then a repository's policy, its `.gitattributes`, and a path.

use std::path::Path;

use secondlook::config::Config;
use secondlook::config::layers::{Environment, Flags, Layers, parse_file};
use secondlook::github::FileText;
use secondlook::review::policy::exclude::{Exclusions, read_attributes};
use secondlook::review::policy::load;
use secondlook::review::policy::read::parse_policy;

use super::effects;
use super::parts::texts;

/// Stands in the seeds where a secret would: no message may repeat it.
const SECRET: &str = "s3cr3t-v4lue";

/// Reads all of them.
pub fn check(data: &[u8]) {
    let Some([settings, policy, attributes, path]) = texts(data) else { return };
    operator(&settings);
    repository(&policy, &attributes, &path);
}

fn operator(text: &str) {
    let sentence = |said: &str| {
        assert!(!said.contains('\n') && !said.trim().is_empty(), "a fault is one sentence: {said:?}");
        assert!(!said.contains(SECRET), "a message repeats a secret: {said}");
    };
    let file = match parse_file(text, Path::new("secondlook.toml")) {
        Ok(file) => file,
        Err(error) => return sentence(&error.to_string()),
    };
    let written = serde_json::to_string(&file).expect("settings are written as JSON");
    // These would make the test read files of the machine.
    if file.data_dir.is_some() || file.github.private_key_path.is_some() {
        return;
    }
    let environment = Environment::from([("SECONDLOOK_DATA_DIR", "/nonexistent")]);
    match Config::load(&Layers::new(Flags::new(), environment, file)) {
        Err(error) => sentence(&error.to_string()),
        Ok(config) => {
            assert!((1..=64).contains(&config.queue.workers) && (1..=100).contains(&config.queue.max_attempts));
            assert!((5..=3_600).contains(&config.queue.lease.as_secs()));
            assert!((1..=64).contains(&config.limits.concurrent_files) && config.limits.max_rounds <= 10);
            assert!((1..=16).contains(&config.limits.group_files));
            let shown = format!("{config:?}");
            assert!(!shown.contains(SECRET), "the debug form shows a secret: {written}");
            if let Some(app) = &config.app {
                assert!(!app.webhook_secrets.is_empty(), "an App without a secret believes everybody");
            }
        }
    }
}

fn repository(policy: &str, attributes: &str, path: &str) {
    let lines = policy.split('\n').count() as u64 + 1;
    let read = parse_policy(policy);
    assert!(read.complaints.len() <= 20);
    for complaint in &read.complaints {
        assert!((1..=lines).contains(&complaint.line) && complaint.column >= 1, "{complaint:?} of {lines} lines");
        assert!(!complaint.message.contains('\n') && complaint.message.len() < 2_000, "{complaint:?}");
        let shown = secondlook::review::markdown::sanitise_line(&complaint.message, 400);
        assert_eq!(effects::of(&shown), Vec::<String>::new(), "{shown}");
    }
    assert!(read.policy.review.max_comments <= 100);
    assert!(read.policy.paths.ignore.len() <= 200 && read.policy.paths.instructions.len() <= 200);
    assert!(read_attributes(attributes).len() <= 500);
    let text = |text: &str| FileText::Text(text.to_owned());
    let loaded = load(&[text(policy), text(attributes), text(path)]);
    let path = path.lines().next().unwrap_or_default();
    let exclusions = Exclusions::new(&loaded.policy);
    let before = exclusions.reason(path).map(str::to_owned);
    assert_eq!(exclusions.reason(path).map(str::to_owned), before);
    for instruction in loaded.policy.instructions_for(path) {
        assert!(instruction.chars().count() <= 8_200);
    }
    // The last rule decides: one that brings everything back does.
    let mut kept = loaded.policy.clone();
    kept.paths.ignore.push("!**".into());
    assert_eq!(Exclusions::new(&kept).reason(path), None, "{path:?} was brought back");
}
