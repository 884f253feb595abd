//! GitHub's limits hold for all instances and all jobs of an installation, and cost neither a worker nor a job.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rstest::rstest;
use secondlook::clock::{Clock, SharedClock};
use secondlook::db::Backend;
use secondlook::github::client::{GitHubApp, RepositoryClient};
use secondlook::github::error::GitHubError;
use secondlook::github::rate::FRESH;
use secondlook::retry::Retry;

use crate::harness::bot::{Bot, Setup, run_test};
use crate::harness::clock::ManualClock;
use crate::harness::database::{TestDb, fresh};
use crate::harness::github::actions::PullSpec;
use crate::harness::github::fault::{Fault, Gate};
use crate::harness::github::{FakeGitHub, Pr};

const PULL: &str = "GET /repos/*/*/pulls/*";
const SAY: &str = "POST /repos/*/*/issues/*/comments";
const POST_REVIEW: &str = "POST /repos/*/*/pulls/*/reviews";

const CACHE: &str = "
    //- src/cache.rs
     pub fn look_up(map: &HashMap<String, u32>, key: &str) -> u32 {
    -    0
    +    *map.get(key).unwrap()
     }
";
const CACHE_FAULT: &str = "*map.get(key).unwrap()";

/// Two instances of the bot on one database.
struct Pair {
    gh: FakeGitHub,
    clock: ManualClock,
    pr: Pr,
    one: RepositoryClient,
    two: RepositoryClient,
    db: TestDb,
}

impl Pair {
    async fn new(backend: Backend, gap: Duration) -> Option<Self> {
        let db = fresh(backend).await?;
        let clock = ManualClock::default();
        let gh = FakeGitHub::start(Arc::new(clock.clone())).await;
        let pr = gh.open_pull(PullSpec::new(CACHE));
        let client = |clock: SharedClock| {
            let settings = secondlook::github::client::Settings { write_gap: gap, ..gh.settings() };
            let app = GitHubApp::new(&gh.credentials(), &settings, clock).unwrap().sharing((*db).clone());
            app.repository(gh.installation(&pr.repo), &gh.repo(&pr.repo))
        };
        let (one, two) = (client(Arc::new(clock.clone())), client(Arc::new(clock.clone())));
        Some(Self { one, two, gh, clock, pr, db })
    }

    /// Another instance, just started.
    fn third(&self) -> RepositoryClient {
        let clock = Arc::new(self.clock.clone());
        let app =
            GitHubApp::new(&self.gh.credentials(), &self.gh.settings(), clock).unwrap().sharing((*self.db).clone());
        app.repository(self.gh.installation(&self.pr.repo), &self.gh.repo(&self.pr.repo))
    }

    async fn read(&self, client: &RepositoryClient) -> Result<(), GitHubError> {
        client.pull_request(self.pr.number).await.map(drop)
    }

    async fn say(&self, client: &RepositoryClient) -> Result<(), GitHubError> {
        client.create_issue_comment(self.pr.number, "Said.").await.map(drop)
    }
}

fn limited(seconds: u64) -> Result<(), GitHubError> {
    Err(GitHubError::RateLimited { wait: Duration::from_secs(seconds) })
}

#[rstest]
#[case::sqlite(Backend::Sqlite)]
#[case::postgres(Backend::Postgres)]
#[tokio::test]
async fn a_secondary_limit_that_one_instance_met_stops_the_others(#[case] backend: Backend) {
    let Some(pair) = Pair::new(backend, Duration::ZERO).await else { return };
    pair.read(&pair.two).await.unwrap();
    pair.gh.fault(Fault::secondary_limit(SAY, Some("72")));
    assert_eq!(pair.say(&pair.one).await, limited(72));
    let asked = pair.gh.count("* /repos/**");
    assert_eq!(pair.read(&pair.one).await, limited(72));
    assert_eq!(pair.say(&pair.two).await, limited(72), "a write looks into the row");
    assert_eq!(pair.read(&pair.two).await, limited(72), "and now it is known");
    assert_eq!(pair.read(&pair.third()).await, limited(72), "an instance that has just started looks first");
    assert_eq!(pair.gh.count("* /repos/**"), asked, "none of them was sent");
    pair.clock.advance(Duration::from_secs(72));
    pair.say(&pair.two).await.unwrap();
    pair.read(&pair.one).await.unwrap();
    pair.gh.reckon();
}

#[tokio::test]
async fn a_read_hears_of_another_instance_s_pause_within_seconds() {
    let Some(pair) = Pair::new(Backend::Sqlite, Duration::ZERO).await else { return };
    pair.read(&pair.two).await.unwrap();
    pair.gh.fault(Fault::secondary_limit(SAY, Some("72")));
    assert_eq!(pair.say(&pair.one).await, limited(72));
    pair.clock.advance(FRESH.unsigned_abs());
    assert_eq!(pair.read(&pair.two).await, limited(67));
    pair.gh.reckon();
}

#[rstest]
#[case::sqlite(Backend::Sqlite)]
#[case::postgres(Backend::Postgres)]
#[tokio::test]
async fn waits_grow_whoever_meets_the_limit_and_shrink_when_writes_are_taken(#[case] backend: Backend) {
    let Some(pair) = Pair::new(backend, Duration::ZERO).await else { return };
    pair.gh.fault(Fault::secondary_limit(SAY, None).times(3));
    for (client, wait) in [(&pair.one, 60), (&pair.two, 120), (&pair.one, 240)] {
        assert_eq!(pair.say(client).await, limited(wait));
        pair.clock.advance(Duration::from_secs(wait));
    }
    for client in [&pair.one, &pair.two, &pair.one] {
        pair.say(client).await.unwrap();
    }
    pair.gh.fault(Fault::secondary_limit(SAY, None));
    assert_eq!(pair.say(&pair.two).await, limited(60));
    pair.gh.reckon();
}

#[tokio::test]
async fn a_limit_may_name_its_end_in_every_way() {
    let Some(pair) = Pair::new(Backend::Sqlite, Duration::ZERO).await else { return };
    let now = pair.clock.now().as_second();
    let date = |text: &str| Fault::secondary_limit(PULL, Some(text));
    let past = Fault::primary_limit(PULL, now - 100);
    for (fault, wait) in [
        (date("Mon, 05 Jan 2026 09:02:00 GMT"), 120),
        (date("Mon, 05 Jan 2026 08:00:00 GMT"), 1),
        (date("in a while"), 60),
        (Fault::primary_limit(PULL, now + 600), 600),
        (past, 1),
        (Fault::status(PULL, 429, "Too Many Requests"), 60),
    ] {
        let Some(pair) = Pair::new(Backend::Sqlite, Duration::ZERO).await else { return };
        pair.gh.fault(fault);
        assert_eq!(pair.read(&pair.one).await, limited(wait));
        pair.clock.advance(Duration::from_secs(wait));
        pair.read(&pair.one).await.unwrap();
        pair.gh.reckon();
    }
}

#[rstest]
#[case::sqlite(Backend::Sqlite)]
#[case::postgres(Backend::Postgres)]
#[tokio::test]
async fn an_exhausted_budget_is_heard_of_by_all(#[case] backend: Backend) {
    let Some(pair) = Pair::new(backend, Duration::ZERO).await else { return };
    let reset = pair.clock.now().as_second() + 600;
    pair.gh.fault(Fault::primary_limit(PULL, reset));
    assert_eq!(pair.read(&pair.one).await, limited(600));
    assert_eq!(pair.read(&pair.two).await, limited(600));
    assert_eq!(pair.gh.count(PULL), 1);
    pair.clock.advance(Duration::from_secs(600));
    pair.read(&pair.two).await.unwrap();
    pair.read(&pair.one).await.unwrap();
    pair.gh.reckon();
}

#[rstest]
#[case::sqlite(Backend::Sqlite)]
#[case::postgres(Backend::Postgres)]
#[tokio::test]
async fn writes_of_two_instances_keep_their_distance(#[case] backend: Backend) {
    let gap = Duration::from_millis(60);
    let Some(pair) = Pair::new(backend, gap).await else { return };
    let begun = Instant::now();
    let pair = &pair;
    let writes = |client| async move {
        for _ in 0..4 {
            pair.say(client).await.unwrap();
        }
    };
    futures_util::join!(writes(&pair.one), writes(&pair.two));
    assert!(begun.elapsed() >= gap * 7, "{:?}", begun.elapsed());
    assert_eq!(pair.gh.timeline(&pair.pr).len(), 8);
}

#[rstest]
#[case::sqlite(Backend::Sqlite)]
#[case::postgres(Backend::Postgres)]
#[tokio::test]
async fn while_one_instance_writes_the_other_sends_nothing_and_does_not_wait_for_long(#[case] backend: Backend) {
    let Some(pair) = Pair::new(backend, Duration::ZERO).await else { return };
    pair.read(&pair.two).await.unwrap();
    let gate = Gate::new();
    pair.gh.fault(Fault::hold(SAY, &gate));
    let first = pair.say(&pair.one);
    let second = async {
        gate.reached().await;
        let begun = Instant::now();
        let refused = pair.say(&pair.two).await.unwrap_err();
        assert!(matches!(refused.retry(), Retry::After(_)) && !refused.doubtful(), "{refused}");
        assert!(begun.elapsed() < Duration::from_secs(11), "{:?}", begun.elapsed());
        pair.read(&pair.two).await.unwrap();
        assert_eq!(pair.gh.timeline(&pair.pr).len(), 0);
        gate.open();
    };
    let (first, ()) = futures_util::join!(first, second);
    first.unwrap();
    pair.say(&pair.two).await.unwrap();
    assert_eq!(pair.gh.timeline(&pair.pr).len(), 2);
    pair.gh.reckon();
}

#[tokio::test]
async fn a_writer_that_died_holds_nobody_up_for_long() {
    let Some(pair) = Pair::new(Backend::Sqlite, Duration::ZERO).await else { return };
    let gate = Gate::new();
    pair.gh.fault(Fault::hold(SAY, &gate));
    futures_util::select! {
        _ = Box::pin(futures_util::FutureExt::fuse(pair.say(&pair.one))) => panic!("it is held"),
        () = Box::pin(futures_util::FutureExt::fuse(gate.reached())) => {}
    }
    gate.open();
    assert!(matches!(pair.say(&pair.two).await, Err(GitHubError::RateLimited { .. })));
    pair.clock.advance(Duration::from_secs(12));
    pair.say(&pair.two).await.unwrap();
}

/// Works until nothing waits; returns how many waits there were.
async fn until_done(bot: &Bot) -> usize {
    bot.settle().await;
    let mut waits = 0;
    while bot.assembled.queue.next_due().await.unwrap().is_some() {
        bot.until_next_due().await;
        waits += 1;
        assert!(waits < 200, "it never ends");
    }
    waits
}

#[test]
fn a_limit_costs_no_job_however_often_it_is_met() {
    run_test(Setup::default(), async |bot| {
        let pr = bot.github.open_pull(PullSpec::new(CACHE));
        bot.model.on_file("src/cache.rs").finds(CACHE_FAULT, "Panics when the key is missing");
        // More often than a job may fail.
        bot.github.fault(Fault::secondary_limit(POST_REVIEW, None).times(12));
        let begun = Instant::now();
        assert_eq!(until_done(bot).await, 12);
        assert!(begun.elapsed() < Duration::from_secs(60), "nobody slept: {:?}", begun.elapsed());
        assert_eq!((bot.github.reviews(&pr).len(), bot.github.count(POST_REVIEW)), (1, 13), "{}", bot.github.page(&pr));
    });
}

#[test]
fn a_limit_met_by_one_job_stops_the_others_of_its_installation_and_nobody_else() {
    run_test(Setup::default(), async |bot| {
        bot.github.repo("other/lib");
        let first = bot.github.open_pull(PullSpec::new(CACHE));
        bot.model.on_file("src/cache.rs").finds(CACHE_FAULT, "Panics when the key is missing");
        bot.github.fault(Fault::secondary_limit("POST /repos/acme/*/pulls/*/reviews", Some("600")));
        bot.settle().await;
        let second = bot.github.open_pull(PullSpec::new(CACHE));
        let elsewhere = bot.github.open_pull(PullSpec::new(CACHE).repo("other/lib"));
        bot.model.on_file("src/cache.rs").finds_nothing();
        bot.github.forget_requests();
        bot.settle().await;
        assert_eq!(bot.github.count("* /repos/acme/**"), 0);
        assert_eq!(bot.github.checks(&elsewhere)[0].status, "completed", "{}", bot.github.page(&elsewhere));
        bot.model.on_file("src/cache.rs").finds_nothing();
        bot.until_next_due().await;
        for pr in [&first, &second] {
            assert_eq!(bot.github.checks(pr)[0].status, "completed", "{}", bot.github.page(pr));
        }
    });
}

#[test]
fn the_last_tenth_of_the_budget_is_for_people() {
    run_test(Setup::default(), async |bot| {
        bot.github.leave_budget(400);
        let pr = bot.github.open_pull(PullSpec::new(CACHE));
        bot.settle().await;
        assert!(bot.github.checks(&pr).is_empty(), "{}", bot.github.page(&pr));
        let waiting = bot.assembled.queue.next_due().await.unwrap().unwrap();
        assert!(waiting.duration_since(bot.clock.now()).as_secs() > 3_000, "until the hour is over");
        // A person is answered all the same.
        bot.github.comment(&pr, "alice", "/secondlook review");
        bot.model.on_file("src/cache.rs").finds_nothing();
        bot.settle().await;
        assert_eq!(bot.github.checks(&pr).len(), 1, "{}", bot.github.page(&pr));
        bot.github.leave_budget(5_000);
        until_done(bot).await;
        assert_eq!(bot.github.checks(&pr).len(), 1, "what was reviewed meanwhile is not reviewed again");
    });
}

#[test]
fn a_review_that_was_begun_is_finished_from_the_last_tenth() {
    run_test(Setup::default(), async |bot| {
        let pr = bot.github.open_pull(PullSpec::new(CACHE));
        bot.model.on_file("src/cache.rs").finds(CACHE_FAULT, "Panics when the key is missing");
        bot.github.fault(Fault::status(POST_REVIEW, 502, "Bad Gateway"));
        bot.settle().await;
        bot.github.leave_budget(300);
        bot.until_next_due().await;
        assert_eq!(bot.github.reviews(&pr).len(), 1, "{}", bot.github.page(&pr));
    });
}

#[test]
fn a_long_outage_is_sat_out() {
    run_test(Setup::default(), async |bot| {
        let prs: Vec<Pr> = (0..3).map(|_| bot.github.open_pull(PullSpec::new(CACHE))).collect();
        let outage = bot.clock.now() + jiff::SignedDuration::from_hours(6);
        bot.github.fault(Fault::status("* /repos/**", 502, "Bad Gateway").times(120));
        bot.settle().await;
        let mut tries = 0;
        while bot.clock.now() < outage && bot.github.complaints().iter().any(|text| text.contains("was not met")) {
            bot.until_next_due().await;
            tries += 1;
            assert!(tries < 2_000, "it never ends");
        }
        let asked = bot.github.count("* /repos/**");
        let minutes = 6 * 60;
        assert!(asked <= minutes / 5 + 20, "{asked} requests in six hours are too many for one who is ill");
        bot.github.recover();
        for _ in &prs {
            bot.model.on_file("src/cache.rs").finds_nothing();
        }
        until_done(bot).await;
        for pr in &prs {
            assert_eq!(bot.github.checks(pr)[0].status, "completed", "{}", bot.github.page(pr));
        }
    });
}

#[tokio::test]
async fn a_github_that_fails_is_asked_once_in_a_while_and_another_installation_as_before() {
    let clock = ManualClock::default();
    let gh = FakeGitHub::start(Arc::new(clock.clone())).await;
    let app = GitHubApp::new(&gh.credentials(), &gh.settings(), Arc::new(clock.clone())).unwrap();
    gh.repo("other/lib");
    let (pr, other) = (gh.open_pull(PullSpec::new(CACHE)), gh.open_pull(PullSpec::new(CACHE).repo("other/lib")));
    let client = |pr: &Pr| app.repository(gh.installation(&pr.repo), &gh.repo(&pr.repo));
    let (ill, well) = (client(&pr), client(&other));
    gh.fault(Fault::drop("GET /repos/acme/app/pulls/*").times(6));
    let rest = Duration::from_secs(30);
    for n in 1..=4 {
        let error = ill.pull_request(pr.number).await.unwrap_err();
        assert!(matches!(error, GitHubError::Unavailable(_)), "{n}: {error}");
    }
    assert_eq!(ill.pull_request(pr.number).await, Err(GitHubError::Resting { wait: rest }));
    for _ in 0..10 {
        assert_eq!(ill.pull_request(pr.number).await, Err(GitHubError::Resting { wait: rest }));
        well.pull_request(other.number).await.unwrap();
    }
    assert_eq!(gh.count("GET /repos/acme/app/pulls/*"), 5);
    clock.advance(rest);
    assert_eq!(ill.pull_request(pr.number).await, Err(GitHubError::Resting { wait: rest * 2 }), "the trial failed");
    clock.advance(rest * 2);
    for _ in 0..3 {
        ill.pull_request(pr.number).await.unwrap();
    }
    gh.reckon();
}
