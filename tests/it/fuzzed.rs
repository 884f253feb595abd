//! What must hold for any input, over what fuzzing found and over a few seeds. `fuzz/run` looks for more, with the same
//! functions.

#![expect(unreachable_pub, reason = "the functions belong to the fuzz package, where they are public")]

use std::path::Path;

#[path = "../../fuzz/src/comment.rs"]
mod comment;
#[path = "../../fuzz/src/configuration.rs"]
mod configuration;
#[path = "../../fuzz/src/effects.rs"]
mod effects;
#[path = "../../fuzz/src/parts.rs"]
mod parts;
#[path = "../../fuzz/src/patch.rs"]
mod patch;
#[path = "../../fuzz/src/reply.rs"]
mod reply;
#[path = "../../fuzz/src/webhook.rs"]
mod webhook;

/// Runs every input that is kept for a target.
fn kept(target: &str, check: fn(&[u8])) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/fuzz").join(target);
    let mut inputs = 0;
    for entry in walkdir::WalkDir::new(&directory).sort_by_file_name() {
        let entry = entry.unwrap();
        if entry.file_type().is_file() {
            inputs += 1;
            let data = std::fs::read(entry.path()).unwrap();
            let held = std::panic::catch_unwind(|| check(&data));
            assert!(held.is_ok(), "{} breaks a property", entry.path().display());
        }
    }
    assert!(inputs > 0, "there is nothing in {}", directory.display());
}

#[test]
fn deliveries() {
    kept("webhook", webhook::check);
    for entry in walkdir::WalkDir::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/webhook")) {
        let entry = entry.unwrap();
        let name = entry.file_name().to_str().unwrap();
        if let Some((event, _)) = name.split_once('.').filter(|_| name.ends_with(".json")) {
            let body = std::fs::read(entry.path()).unwrap();
            webhook::check(&[event.as_bytes(), b"\n", &body].concat());
        }
    }
}

#[test]
fn patches() {
    kept("patch", patch::check);
}

#[test]
fn replies_of_models() {
    kept("reply", reply::check);
}

#[test]
fn configurations() {
    kept("configuration", configuration::check);
}

#[test]
fn comments() {
    kept("comment", comment::check);
}

/// A function that holds for everything would prove nothing.
#[test]
fn the_oracle_sees_effects() {
    assert_eq!(effects::of("@bob `@x` #1 ![a](b) <b>").len(), 4);
    assert_eq!(effects::of("[a](https://evil.example) &#64;bob"), ["link https://evil.example", " @b"]);
    assert_eq!(effects::of("```suggestion\nx\n```"), ["suggestion"]);
    assert_eq!(effects::beyond_ours("<details>\n<b>\n</details>"), ["html <b>"]);
    assert_eq!(effects::markers("<!-- SecondLook:finding 1 -->\n<!--secondlook"), 2);
}
