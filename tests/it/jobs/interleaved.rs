//! What comes between two tries of a job, or takes its place.

use super::*;

#[tokio::test]
async fn a_pause_or_a_draft_between_two_tries_ends_the_check() {
    for pauses in [true, false] {
        let bench = Bench::new(Backend::Sqlite, Scripted::default()).await.unwrap();
        let pr = bench.gh.open_pull(PullSpec::new(CHANGE));
        bench.gh.fault(Fault::status(FILES, 503, "Unavailable"));
        bench.review(&pr, Trigger::Opened).await;
        assert_eq!(bench.gh.checks(&pr)[0].conclusion, None);
        if pauses {
            let pause = bench.gh.comment(&pr, "alice", "/secondlook pause");
            bench.run(Job::RunCommand { pull: bench.pull(&pr), comment: pause }).await;
        } else {
            bench.gh.convert_to_draft(&pr);
        }
        bench.try_again().await;
        let [check] = &bench.gh.checks(&pr)[..] else { panic!("one check run") };
        assert_eq!(check.conclusion.as_deref(), Some("skipped"));
        bench.settled().await;
    }
}

#[tokio::test]
async fn a_check_whose_creation_got_no_answer_is_ended_by_the_closing() {
    let bench = Bench::new(Backend::Sqlite, Scripted::default()).await.unwrap();
    let pr = bench.gh.open_pull(PullSpec::new(CHANGE));
    bench.gh.fault(Fault::apply_then_drop("POST /repos/*/*/check-runs"));
    bench.review(&pr, Trigger::Opened).await;
    bench.gh.close(&pr);
    bench.run(Job::ClosePullRequest { pull: bench.pull(&pr) }).await;
    bench.try_again().await;
    let [check] = &bench.gh.checks(&pr)[..] else { panic!("one check run") };
    assert_eq!(check.conclusion.as_deref(), Some("cancelled"));
    bench.settled().await;
}

#[tokio::test]
async fn a_review_asked_for_while_another_is_posted_has_a_check_of_its_own() {
    let model = Scripted::reviewer([found(&[finding()]), found(&[])]).and(ModelRole::Critic, [kept()]);
    let bench = Bench::new(Backend::Sqlite, model).await.unwrap();
    let pr = bench.gh.open_pull(PullSpec::new(CHANGE));
    bench.gh.fault(Fault::drop(REVIEWS));
    bench.review(&pr, Trigger::Opened).await;
    bench.review(&pr, Trigger::Asked).await;
    bench.try_again().await;
    let titles: Vec<_> = bench.gh.checks(&pr).into_iter().filter_map(|check| check.title).collect();
    assert_eq!(titles, ["1 problem (major)", "1 from earlier still open"]);
    bench.settled().await;
}

#[tokio::test]
async fn a_push_that_takes_the_place_of_the_opening_does_not_lose_its_review() {
    let bench = Bench::new(Backend::Sqlite, one_finding()).await.unwrap();
    bench.gh.commit_main("acme/app", "//- .github/secondlook.yml\nreview:\n  trigger: opened\n");
    let pr = bench.gh.open_pull(PullSpec::new(CHANGE));
    bench.enqueue(Job::ReviewPullRequest { pull: bench.pull(&pr), trigger: Trigger::Opened }).await;
    bench.review(&pr, Trigger::Push).await;
    assert_eq!(bench.gh.reviews(&pr).len(), 1);
    bench.gh.push(&pr, "//- src/other.rs\n+fn other() {}\n");
    bench.review(&pr, Trigger::Push).await;
    assert_eq!(bench.gh.checks(&pr).pop().unwrap().conclusion.as_deref(), Some("skipped"));
    bench.settled().await;
}

#[tokio::test]
async fn what_the_cap_left_out_is_said_by_the_next_round() {
    let other = json!({
        "path": "src/cache.rs", "quote": "std::thread::sleep(WAIT);", "severity": "minor", "category": "performance",
        "title": "Sleeps in every look-up", "body": "Each look-up waits. Remove the sleep.", "confidence": 0.9,
    });
    let both = json!([
        {"index": 0, "verdict": "keep", "reason": "It does.", "confidence": 0.9},
        {"index": 1, "verdict": "keep", "reason": "It does.", "confidence": 0.9},
    ]);
    let model = Scripted::reviewer([found(&[finding(), other.clone()]), found(&[other])])
        .and(ModelRole::Critic, [says(json!({"verdicts": both, "missed": []}).to_string()), kept()]);
    let bench = Bench::new(Backend::Sqlite, model).await.unwrap();
    bench.gh.commit_main("acme/app", "//- .github/secondlook.yml\nreview:\n  max_comments: 1\n");
    let change = CHANGE.replace("copied().unwrap()\n", "copied().unwrap()\n+    std::thread::sleep(WAIT);\n");
    let pr = bench.gh.open_pull(PullSpec::new(&change));
    bench.review(&pr, Trigger::Opened).await;
    assert_eq!(bench.gh.comments(&pr).len(), 1);
    bench.gh.push(&pr, "//- Cargo.lock\n+version = 4\n");
    bench.review(&pr, Trigger::Push).await;
    assert_eq!(bench.gh.comments(&pr).len(), 2, "{}", bench.gh.page(&pr));
    bench.settled().await;
}

#[tokio::test]
async fn an_answer_that_was_sent_at_the_second_try_is_remembered() {
    let model = Scripted::default().and(ModelRole::Answer, [says("The lock guards it."), says("Yes.")]);
    let bench = Bench::new(Backend::Sqlite, model).await.unwrap();
    let pr = bench.gh.open_pull(PullSpec::new(CHANGE));
    let ask = |text| Job::RunCommand { pull: bench.pull(&pr), comment: bench.gh.comment(&pr, "alice", text) };
    bench.gh.fault(Fault::apply_then_status("POST /repos/*/*/issues/*/comments", 502));
    bench.run(ask("@secondlook is this safe?")).await;
    bench.try_again().await;
    bench.run(ask("@secondlook are you sure?")).await;
    let last = bench.model.requests().pop().unwrap();
    assert!(last.messages.iter().any(|message| message.text() == "The lock guards it."), "{last:?}");
    bench.settled().await;
}
