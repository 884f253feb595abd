//! No room on the disk, with the real binary: a limit on the size of its files stands for the disk.

use std::process::Command;

use serde_json::Value;

use crate::serve::{KEY, Server, ping};

/// Blocks of 512 bytes that a file may have: the schema fits, and some dozens of deliveries.
const BLOCKS: u32 = 1_200;

/// More deliveries than there is room for.
const DELIVERIES: usize = 400;

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_answered_with_202_that_did_not_fit() {
    let directory = tempfile::tempdir().unwrap();
    let variables = [("GITHUB_APP_ID", "7"), ("GITHUB_APP_PRIVATE_KEY", KEY), ("GITHUB_WEBHOOK_SECRET", "s3cret")];
    let server = Server::start_limited(directory.path(), &variables, BLOCKS);
    let mut recorded = Vec::new();
    let mut refused = 0;
    for n in 0..DELIVERIES {
        let id = format!("d-{n}");
        match ping(&server, "s3cret", &id).await.as_u16() {
            202 => recorded.push(id),
            503 => refused += 1,
            other => panic!("{id} was answered with {other}"),
        }
        if refused == 3 {
            break;
        }
    }
    assert!(refused == 3 && recorded.len() > 3, "{} recorded, {refused} refused", recorded.len());
    // Room again: the same process goes on.
    let raised = Command::new("prlimit").args(["--pid", &server.id().to_string(), "--fsize=unlimited"]).status();
    if raised.is_ok_and(|status| status.success()) {
        for n in 0..3 {
            let id = format!("later-{n}");
            assert_eq!(ping(&server, "s3cret", &id).await, 202, "{id}");
            recorded.push(id);
        }
    } else {
        eprintln!("skipped: without prlimit the limit cannot be raised, so this test did not see the recovery");
    }
    let (code, log) = server.stop();
    assert_eq!(code, Some(0), "{log}");
    let said = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let fault = said.map(|line| line.to_string()).find(|line| line.contains("could not be recorded")).expect(&log);
    assert!(fault.contains("make room"), "{fault}");
    let url = format!("sqlite:{}", directory.path().join("data/secondlook.db").display());
    let db = secondlook::db::Db::connect(&url).await.unwrap();
    for id in &recorded {
        assert!(secondlook::webhook::store::outcome(&db, id).await.unwrap().is_some(), "{id} was answered and is lost");
    }
    db.close().await;
}
