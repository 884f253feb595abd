//! The alert rules that people are given name only what `/metrics` exports.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use axum::http::StatusCode;
use metrics_exporter_prometheus::PrometheusBuilder;
use regex::Regex;
use secondlook::queue::store::Outcome;
use secondlook::queue::worker::run_forever;
use serde_json::Value;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::harness::bot::{Setup, run_test};
use crate::harness::github::actions::PullSpec;

const CHANGE: &str = "
    //- src/cache.rs
     fn look_up(key: &str) -> u32 {
    -    0
    +    MAP.get(key).copied().unwrap()
     }
";

/// The rules of the file: name and expression.
fn rules() -> Vec<(String, String)> {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("alerts.yml")).unwrap();
    let file: Value = serde_saphyr::from_str(&text).unwrap();
    let rules = file["groups"].as_array().unwrap().iter().flat_map(|group| group["rules"].as_array().unwrap());
    rules
        .map(|rule| {
            for wanted in ["/annotations/summary", "/annotations/action", "/labels/severity"] {
                assert!(rule.pointer(wanted).is_some_and(Value::is_string), "{rule} has no {wanted}");
            }
            (rule["alert"].as_str().unwrap().to_owned(), rule["expr"].as_str().unwrap().to_owned())
        })
        .collect()
}

#[test]
fn every_metric_of_the_alert_rules_is_exported() {
    let exported = PrometheusBuilder::new().install_recorder().unwrap();
    run_test(Setup { dead_letters: 1, ..Setup::default() }, async |bot| {
        // One of each: a review, a delivery that nobody signed, a job that is given up.
        let pr = bot.github.open_pull(PullSpec::new(CHANGE));
        bot.model.on_file("src/cache.rs").finds("MAP.get(key).copied().unwrap()", "Panics when the key is missing");
        bot.settle().await;
        bot.github.push(&pr, "//- src/cache.rs\n fn look_up(key: &str) -> u32 {\n-    0\n+    1\n }\n");
        for delivery in bot.github.take_deliveries() {
            assert_eq!(bot.deliver_unsigned(&delivery).await, StatusCode::UNAUTHORIZED);
            assert_eq!(bot.deliver(&delivery).await, StatusCode::ACCEPTED);
        }
        let queue = bot.assembled.queue.clone();
        let lease = queue.claim("w").await.unwrap().unwrap();
        assert!(queue.finish(&lease, &Outcome::Failed("bad".into())).await.unwrap());
        bot.settle().await;
        let shutdown = CancellationToken::new();
        shutdown.cancel();
        run_forever(queue, bot.assembled.worker.clone(), Arc::new(Notify::new()), shutdown).await;
    });
    let page = exported.render();
    let types: BTreeSet<&str> =
        page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    let name = Regex::new(r"\b(?:secondlook|gen_ai)_[a-z_]+\b").unwrap();
    let label = Regex::new(r#"\b([a-z_]+)(?:!=|=~|=)""#).unwrap();
    let rules = rules();
    assert!(rules.len() > 5);
    for (alert, expression) in &rules {
        let metrics: BTreeSet<&str> = name.find_iter(expression).map(|found| found.as_str()).collect();
        assert!(!metrics.is_empty(), "{alert} is about nothing of ours");
        for metric in metrics {
            assert!(types.contains(metric), "{alert} names {metric}, which is not among {types:#?}");
            let lines: Vec<&str> = page.lines().filter(|line| line.starts_with(&format!("{metric}{{"))).collect();
            for label in label.captures_iter(expression) {
                let label = format!("{}=\"", &label[1]);
                assert!(
                    lines.iter().any(|line| line.contains(&label)),
                    "{alert}: {metric} has no label {label}: {lines:#?}"
                );
            }
        }
    }
    assert!(page.contains("secondlook_queue_jobs{state=\"dead\"} 1"), "{page}");
}
