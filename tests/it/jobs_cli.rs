//! `secondlook jobs`, as somebody types it, beside a running server.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use rstest::rstest;
use secondlook::clock::{Clock, SystemClock};
use secondlook::db::{Backend, Db};
use secondlook::github::Repository;
use secondlook::job::{Job, PullRef, Trigger};
use secondlook::queue::Settings;
use secondlook::queue::store::{Outcome, Queue};
use secondlook::serve::ownership;
use serde_json::Value;

use crate::harness::database::{TestDb, fresh};
use crate::repository::{Ran, run};

fn review(number: u64) -> Job {
    let repository = Repository { id: 7, owner: "acme".into(), name: "app".into() };
    Job::ReviewPullRequest { pull: PullRef { installation: 1, repository, number }, trigger: Trigger::Opened }
}

fn queue(db: &Db) -> Queue<Job> {
    Queue::new(db.clone(), Arc::new(SystemClock), Settings::default())
}

async fn put(db: &Db, job: Job, due: Timestamp) {
    let mut tx = db.begin().await.unwrap();
    queue(db).enqueue(&mut tx, &job.due(due)).await.unwrap();
    tx.commit().await.unwrap();
}

/// Gives a job up, as far as its row goes. Returns its id.
async fn give_up(db: &Db, number: u64, reason: &str) -> String {
    // Before all that waits.
    put(db, review(number), SystemClock.now() - SignedDuration::from_hours(1)).await;
    let lease = queue(db).claim("w").await.unwrap().unwrap();
    assert!(queue(db).finish(&lease, &Outcome::Failed(reason.to_owned())).await.unwrap());
    // Its handler is told, whatever else waits.
    let mut others = Vec::new();
    let told = loop {
        let claimed = queue(db).claim("w").await.unwrap().unwrap();
        if claimed.id == lease.id {
            break claimed;
        }
        others.push(claimed);
    };
    assert!(queue(db).finish(&told, &Outcome::Finished).await.unwrap());
    for other in others {
        assert!(queue(db).finish(&other, &Outcome::Released).await.unwrap());
    }
    lease.id
}

fn secondlook(db: &TestDb, directory: &std::path::Path, arguments: &[&str]) -> Ran {
    run(directory, &[&["--database-url", db.url()], arguments].concat(), &[], "")
}

#[rstest]
#[case::sqlite(Backend::Sqlite)]
#[case::postgres(Backend::Postgres)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_are_listed_requeued_and_discarded_beside_a_server(#[case] backend: Backend) {
    let Some(db) = fresh(backend).await else { return };
    let directory = tempfile::tempdir().unwrap();
    let jobs = |arguments: &[&str]| secondlook(&db, directory.path(), &[&["jobs"], arguments].concat());
    // What a running server holds.
    let _server = ownership::take(db.url()).unwrap();
    assert_eq!(jobs(&["list"]).out, "no jobs\n");
    assert_eq!(jobs(&["requeue", "--all"]).out, "requeued 0 jobs\n");

    let first = give_up(&db, 1, "GitHub knows no pull request 1\u{1b}[31m\nof acme/app").await;
    let second = give_up(&db, 2, "the model's key is wrong").await;
    put(&db, review(3), SystemClock.now()).await;
    let running = queue(&db).claim("w").await.unwrap().unwrap();
    put(&db, review(4), SystemClock.now()).await;

    let listed = jobs(&["list"]);
    assert_eq!((listed.code, listed.err.as_str()), (0, ""));
    let lines: Vec<&str> = listed.out.lines().collect();
    assert_eq!(lines.len(), 4, "{}", listed.out);
    assert!(lines[0].starts_with(&format!("dead    {second} review of acme/app#2 was given up at 2")), "{}", lines[0]);
    assert!(lines[0].ends_with("Z after 1 try: the model's key is wrong"), "{}", lines[0]);
    assert!(lines[1].contains(&first) && lines[1].ends_with("pull request 1\u{fffd}[31m of acme/app"), "{}", lines[1]);
    assert_eq!(lines[2], format!("running {} review of acme/app#3, try 1", running.id));
    assert!(lines[3].starts_with("queued  ") && lines[3].contains("review of acme/app#4, due at 2"), "{}", lines[3]);
    assert_eq!(jobs(&["list", "--state", "running"]).out.lines().count(), 1);
    let json: Value = serde_json::from_str(&jobs(&["list", "--state", "dead", "--format", "json"]).out).unwrap();
    let letter = &json[0];
    assert_eq!(
        (&letter["id"], &letter["what"], &letter["attempts"]),
        (&second.as_str().into(), &"review of acme/app#2".into(), &1.into())
    );
    assert!(letter["given_up_at"].is_string() && json.as_array().unwrap().len() == 2, "{json}");

    let doctor = secondlook(&db, directory.path(), &["doctor"]);
    assert!(doctor.out.contains(&format!("`secondlook jobs requeue {first}`")), "{}", doctor.out);
    assert!(doctor.out.contains("bad  jobs: review of acme/app#2 was given up at "), "{}", doctor.out);

    assert_eq!(jobs(&["requeue", &first]).out, format!("requeued {first}\n"));
    let again = jobs(&["requeue", &first]);
    assert_eq!((again.code, again.out.as_str()), (2, ""));
    assert!(again.err.contains("no dead letter") && again.err.contains("jobs list --state dead"), "{}", again.err);
    assert_eq!(jobs(&["discard", &running.id]).code, 2, "only dead letters are discarded");
    assert_eq!(jobs(&["requeue", "--all"]).out, "requeued 1 job\n");
    let third = give_up(&db, 5, "x").await;
    assert_eq!(jobs(&["discard", &third]).out, format!("discarded {third}\n"));

    // The running job is untouched, and what was put back has its tries before it.
    assert!(queue(&db).finish(&running, &Outcome::Finished).await.unwrap());
    let mut left = Vec::new();
    while let Some(lease) = queue(&db).claim("w").await.unwrap() {
        assert_eq!((lease.attempt, &lease.given_up), (1, &None));
        left.push(lease.key);
    }
    left.sort();
    assert_eq!(left, ["pull:7:1", "pull:7:2", "pull:7:4"]);
}

#[test]
fn a_wrong_place_or_no_choice_is_answered_with_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let missing = run(directory.path(), &["jobs", "list", "--database-url", "sqlite:nowhere.db"], &[], "");
    assert_eq!((missing.code, missing.out.as_str()), (2, ""));
    assert!(missing.err.contains("no database at nowhere.db") && missing.err.contains("--data-dir"), "{}", missing.err);
    assert!(!directory.path().join("nowhere.db").exists(), "nothing is made by looking");
    let bare = run(directory.path(), &["jobs", "requeue"], &[], "");
    assert_eq!(bare.code, 2);
    assert!(bare.err.contains("--all"), "{}", bare.err);
    let both = run(directory.path(), &["jobs", "requeue", "x", "--all"], &[], "");
    assert_eq!(both.code, 2);
    let help = run(directory.path(), &["jobs", "--help"], &[], "");
    assert!(help.out.contains("requeue") && help.out.contains("discard"), "{}", help.out);
}
