//! Reviews a pull request, or what is new in it.
//!
//! What an event said is only a hint: everything is read afresh, and once more before anything is written. A round that
//! was planned and not finished is finished first, without asking a model again. When the head has moved on, the rest
//! is left to a job for the newer head, which the event of the push has made or, should it be lost, this one makes.

use std::sync::Arc;
use std::time::Duration;

use super::check::{self, ended, unfinished};
use super::worker::{End, JobError, Worker};
use super::{Job, PullRef, Trigger};
use crate::agent::graph::RunError;
use crate::diff::interdiff::{hunk_keys, new_hunks};
use crate::github::client::RepositoryClient;
use crate::github::error::GitHubError;
use crate::github::{CheckRun, CheckStatus, Conclusion, PullFile, PullRequest};
use crate::queue::Lease;
use crate::queue::worker::Stop;
use crate::retry::backoff;
use crate::review::change::{Change, ChangedFile, Engine, Interrupted, ProgressSink, review_change};
use crate::review::coverage::FileCoverage;
use crate::review::ledger::Ledger;
use crate::review::markdown::sanitise_line;
use crate::review::policy::{self, Automatic, LoadedPolicy, POLICY_PATH, Policy};
use crate::review::publish::plan::{RoundPlan, reviews};
use crate::review::publish::store::OpenRound;
use crate::review::publish::{Carried, Publisher};
use crate::review::render::check::{Round, conclusion, summary, title};
use crate::review::report::Report;
use crate::review::store::{PullState, PullStore, ReviewedHunks};
use crate::tool::remote::Remote;

/// How many times longer than usual a review waits of which no file could be reviewed: with the usual eight tries close to
/// two hours, as outages of providers last longer than those of a single request.
const OUTAGE_PATIENCE: u32 = 4;

/// Tries after which a few files that still fail do not keep what was found in the others from being said.
const TRIES_FOR_A_FILE: u32 = 3;

/// One review of one pull request.
struct Review<'w> {
    worker: &'w Worker,
    pull: &'w PullRef,
    client: RepositoryClient,
    store: PullStore,
    stop: &'w Stop,
    /// Whether there is no later try that could do what this one cannot.
    last_try: bool,
}

pub(super) async fn run(
    worker: &Worker,
    pull: &PullRef,
    trigger: Trigger,
    lease: &Lease<Job>,
    stop: &Stop,
) -> Result<End, JobError> {
    let client = worker.client(pull.installation, &pull.repository, stop)?;
    let last_try = lease.attempt >= worker.queue.settings().max_attempts;
    let review = Review { worker, pull, client, store: worker.pulls(stop), stop, last_try };
    let request = request(lease);
    let asked = matches!(trigger, Trigger::Asked | Trigger::AskedForNew);
    let state = review.store.state(pull.ids()).await?;
    let now = review.client.pull_request(pull.number).await?;
    if state.paused && !asked {
        return review.skip(&now, &state, "Paused", "Reviews are paused here; `/secondlook resume` goes on.").await;
    }
    let mut open = review.store.open_round(pull.ids()).await?;
    let state = review.catch_up(&now, state, open.as_mut()).await?;
    if let Some(round) = open {
        let current = now.open
            && round.plan.head == now.head_sha
            && (round.plan.base == now.base_sha || round.plan.base_ref == now.base_ref);
        if current {
            let own = round.plan.job == request;
            let end = review.finish(round).await?;
            if own || !asked || end == End::Stopped {
                return Ok(end);
            }
        } else {
            review.give_up_round(round).await?;
        }
    } else if asked && review.store.settled_last(pull.ids()).await?.is_some_and(|round| round.job == request) {
        // An earlier try came to the end, and only its last step failed.
        return review.tidy().await;
    }
    if !now.open {
        return Ok(End::Done);
    }
    let loaded = review.policy(&now).await?;
    if !asked && !automatic(trigger, &state, &loaded.policy) {
        let why = "`review.trigger` says when a review begins by itself; `/secondlook review` asks for one.";
        return review.skip(&now, &state, "Not reviewed by itself", why).await;
    }
    if !asked && now.draft && !loaded.policy.review.drafts {
        return review.skip(&now, &state, "Draft", "Drafts are not reviewed; `/secondlook review` asks for it.").await;
    }
    if !asked && is_reviewed(&state, &now) {
        return Ok(End::Done);
    }
    if !asked {
        // What was begun is finished whatever is left of the hour's requests; what is new waits for more of them.
        review.client.spare()?;
    }
    review.review(&now, trigger, lease, &loaded).await
}

/// Says by the check run that a review is given up: neutral, with the reason. Where none is open the review failed before
/// it began, and nobody would learn of it without a check run.
pub(super) async fn report_failure(worker: &Worker, pull: &PullRef, reason: &str, stop: &Stop) -> Result<(), JobError> {
    let client = worker.client(pull.installation, &pull.repository, stop)?;
    let review = Review { worker, pull, client, store: worker.pulls(stop), stop, last_try: true };
    let check = match unfinished(&review.client, &review.store, pull).await? {
        Some(check) => Some(check),
        None => {
            let now = review.client.pull_request(pull.number).await?;
            let silent = !now.open || now.draft || is_reviewed(&review.store.state(pull.ids()).await?, &now);
            if silent { None } else { review.open_check(&now).await?.map(|id| (now.head_sha, id)) }
        }
    };
    let Some((head, id)) = check else { return Ok(()) };
    check::end(&review.client, id, &check::given_up(pull, &head, reason)).await?;
    review.store.set_open_check(pull.ids(), None).await?;
    Ok(())
}

/// Whether a review that nobody asked for begins by itself, by the repository's rules. A push may take the place of the
/// opening in the queue, so the first review counts as the opening's.
fn automatic(trigger: Trigger, state: &PullState, policy: &Policy) -> bool {
    match policy.review.trigger {
        Automatic::Push => true,
        Automatic::Opened => trigger != Trigger::Push || state.reviewed.is_none(),
        Automatic::Asked => false,
    }
}

/// Whether there is nothing that was not reviewed yet.
fn is_reviewed(state: &PullState, now: &PullRequest) -> bool {
    state.reviewed.as_ref().is_some_and(|(base, head)| *base == now.base_sha && *head == now.head_sha)
}

/// Names what asked for a review. A newer request may take over the row of one that waits for its next try, and then says
/// a time of its own.
fn request(lease: &Lease<Job>) -> String {
    format!("{}@{}", lease.id, lease.enqueued_at.as_millisecond())
}

/// Runs are saved under this, one for each file and its change: a push that leaves a file as it is leaves its run.
fn change_id(pull: &PullRef) -> String {
    format!("pr:{}:{}", pull.repository.id, pull.number)
}

impl Review<'_> {
    fn publisher<'p>(&'p self, app: &'p crate::github::client::GitHubApp) -> Publisher<'p> {
        Publisher { client: &self.client, app: Some(app), number: self.pull.number }
    }

    /// Learns what stands on GitHub already, before anything is said: the database may be an older one, restored.
    async fn catch_up(
        &self,
        now: &PullRequest,
        state: PullState,
        open: Option<&mut OpenRound>,
    ) -> Result<PullState, JobError> {
        let app = self.worker.github()?;
        if !self.publisher(&app).catch_up(&self.store, self.pull.ids(), open).await? {
            return Ok(state);
        }
        let state = self.store.state(self.pull.ids()).await?;
        if is_reviewed(&state, now)
            && let Some(id) = self.client.find_check_run(&now.head_sha, &self.pull.key()).await?
        {
            let why = "This head was reviewed before; its review says what was found.";
            let run = ended(self.pull, &now.head_sha, Conclusion::Neutral, "Reviewed before", why.to_owned());
            check::end(&self.client, id, &run).await?;
        }
        Ok(state)
    }

    async fn policy(&self, now: &PullRequest) -> Result<LoadedPolicy, JobError> {
        let texts = self.client.file_texts(&now.base_sha, &policy::policy_files()).await?;
        Ok(policy::load(&texts))
    }

    async fn review(
        &self,
        now: &PullRequest,
        trigger: Trigger,
        lease: &Lease<Job>,
        loaded: &LoadedPolicy,
    ) -> Result<End, JobError> {
        let check = self.open_check(now).await?;
        let listed = self.client.pull_files(now).await?;
        let ledger = self.store.ledger(self.pull.ids()).await?;
        // Another base makes another diff, and who asks wants everything looked at; what was said stays said.
        let everything = matches!(trigger, Trigger::Asked | Trigger::Retarget);
        let change = Change {
            id: change_id(self.pull),
            title: now.title.clone(),
            description: now.body.clone(),
            base: now.base_sha.clone(),
            head: now.head_sha.clone(),
            files: self.changed_files(listed.files, &ledger, everything).await?,
            unlisted: listed.unlisted,
            source: Arc::new(Remote::new(self.client.clone(), now.head_sha.clone())),
        };
        let app = &self.worker.app;
        let engine = Engine { purse: app.purse(self.pull.ids(), &loaded.policy.budget), ..app.engine.clone() };
        let mut report = match self.read(&change, &loaded.policy, engine, lease.attempt).await {
            Ok(report) => report,
            Err(Interrupted { later: Some(fault), partial }) if !self.stop.token.is_cancelled() => {
                let times = if partial.coverage.reviewed() > 0 { 1 } else { OUTAGE_PATIENCE };
                return self.put_off(check, now, fault, backoff(lease.attempt) * times).await;
            }
            Err(Interrupted { .. }) => return Ok(End::Stopped),
        };
        if self.stop.token.is_cancelled() {
            return Ok(End::Stopped);
        }
        // What was taken over from GitHub is known by its identity alone, when its code could not be read back.
        report.findings.retain(|reported| ledger.entry(&reported.fingerprint).is_none());
        let before_writing = self.client.pull_request(self.pull.number).await?;
        if !before_writing.open || before_writing.head_sha != now.head_sha || before_writing.base_ref != now.base_ref {
            self.overtaken(check.map(|id| (now.head_sha.as_str(), id))).await?;
            let retargeted = before_writing.base_ref != now.base_ref;
            return self.follow(&before_writing, if retargeted { Trigger::Retarget } else { trigger }).await;
        }
        let standing = ledger.standing(&change.files);
        let planned = reviews(&report, &loaded.policy, &now.base_sha, &now.head_sha);
        let round = Round {
            report: &report,
            standing: &standing,
            policy: &loaded.policy,
            complaints: &loaded.complaints,
            edits_policy: change.files.iter().any(|f| f.file.diff.path == POLICY_PATH),
            posts: !planned.is_empty(),
        };
        let conclusion = conclusion(&report, &standing, loaded.policy.review.fail_on);
        let run = ended(self.pull, &now.head_sha, conclusion, &title(&round), summary(&round));
        let plan = RoundPlan {
            job: request(lease),
            base_ref: now.base_ref.clone(),
            base: now.base_sha.clone(),
            head: now.head_sha.clone(),
            check: check.map(|id| (id, run)),
            hunks: reviewed_hunks(&change.files, &report),
        };
        let open = self.store.plan_round(self.pull.ids(), &plan, &planned, &report.findings).await?;
        self.finish(open).await
    }

    /// Reviews the files. One that a model or the database failed for now is tried again later, with all that is not
    /// finished; but not for ever while there is something to say about the others.
    async fn read(
        &self,
        change: &Change,
        policy: &Policy,
        mut engine: Engine,
        attempt: u32,
    ) -> Result<Report, Interrupted> {
        let progress: ProgressSink = Arc::new(|progress| tracing::debug!(?progress, "review"));
        engine.limits.patient = !self.last_try;
        let read = review_change(change, policy, &engine, &self.stop.token, &progress).await;
        match &read {
            Err(Interrupted { later: Some(_), partial })
                if attempt >= TRIES_FOR_A_FILE && partial.coverage.reviewed() > 0 =>
            {
                // What is finished comes from its checkpoint.
                engine.limits.patient = false;
                review_change(change, policy, &engine, &self.stop.token, &progress).await
            }
            _ => read,
        }
    }

    /// Leaves a review that a passing fault holds up to a later try, which goes on from the checkpoints; the check says so.
    async fn put_off(
        &self,
        check: Option<u64>,
        now: &PullRequest,
        fault: RunError,
        wait: Duration,
    ) -> Result<End, JobError> {
        if let Some(id) = check {
            let words = format!("{}.\n\nThe review goes on by itself.", sanitise_line(&fault.to_string(), 1_000));
            let run = ended(self.pull, &now.head_sha, Conclusion::Neutral, "Waiting to try again", words);
            check::end(&self.client, id, &CheckRun { status: CheckStatus::InProgress, conclusion: None, ..run })
                .await?;
        }
        Err(JobError::PutOff(fault, wait))
    }

    /// Has the present head reviewed. The event of a push does the same, and the two become one job.
    async fn follow(&self, now: &PullRequest, trigger: Trigger) -> Result<End, JobError> {
        if now.open {
            let trigger = if trigger == Trigger::Opened { Trigger::Push } else { trigger };
            self.worker.enqueue(Job::ReviewPullRequest { pull: self.pull.clone(), trigger }).await?;
        }
        Ok(End::Done)
    }

    /// Says by a check that there is no review, so that nobody waits for one who requires the check. Drafts cannot be
    /// merged, so they have none.
    async fn skip(&self, now: &PullRequest, state: &PullState, title: &str, why: &str) -> Result<End, JobError> {
        let run = ended(self.pull, &now.head_sha, Conclusion::Skipped, title, why.to_owned());
        if let Some((head, id)) = unfinished(&self.client, &self.store, self.pull).await? {
            // An earlier try began one, before there was a reason not to go on.
            check::end(&self.client, id, &run).await?;
            self.store.set_open_check(self.pull.ids(), None).await?;
            if head == now.head_sha {
                return Ok(End::Done);
            }
        }
        if !now.open || now.draft || is_reviewed(state, now) {
            return Ok(End::Done);
        }
        match self.client.say_by_check_run(&run).await {
            Ok(()) | Err(GitHubError::Forbidden(_)) => Ok(End::Done),
            Err(error) => Err(error.into()),
        }
    }

    /// The check run of this head, in progress. One of an older head is ended first. Without the permission for checks
    /// the review goes on without one.
    async fn open_check(&self, now: &PullRequest) -> Result<Option<u64>, JobError> {
        if let Some((head, id)) = unfinished(&self.client, &self.store, self.pull).await? {
            if head == now.head_sha {
                self.store.set_open_check(self.pull.ids(), Some((&head, id))).await?;
                return Ok(Some(id));
            }
            self.overtaken(Some((&head, id))).await?;
        }
        let run = CheckRun {
            head_sha: now.head_sha.clone(),
            status: CheckStatus::InProgress,
            conclusion: None,
            title: "Reviewing".into(),
            summary: "The changed files are being reviewed.".into(),
            external_id: self.pull.key(),
            details_url: None,
        };
        self.store.set_opening_check(self.pull.ids(), &now.head_sha).await?;
        match self.client.create_check_run(&run).await {
            Ok(id) => {
                self.store.set_open_check(self.pull.ids(), Some((&now.head_sha, id))).await?;
                Ok(Some(id))
            }
            Err(GitHubError::Forbidden(what)) => {
                tracing::warn!(github.message = %what, "no check run: the App lacks the permission to write checks");
                self.store.set_open_check(self.pull.ids(), None).await?;
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn changed_files(
        &self,
        files: Vec<PullFile>,
        ledger: &Ledger,
        everything: bool,
    ) -> Result<Vec<ChangedFile>, JobError> {
        let reviewed = if everything { Default::default() } else { self.store.reviewed_hunks(self.pull.ids()).await? };
        Ok(files
            .into_iter()
            .map(|file| ChangedFile {
                new_hunks: new_hunks(&file.diff, &reviewed),
                known: ledger.known_for(&file.diff),
                file,
            })
            .collect())
    }

    /// Writes a planned round and closes it: reviews, check run, then our own books.
    async fn finish(&self, mut round: OpenRound) -> Result<End, JobError> {
        let app = self.worker.github()?;
        let publisher = self.publisher(&app);
        match publisher.carry_out(&self.store, self.pull.ids(), &mut round, &self.stop.token).await? {
            Carried::Stopped => return Ok(End::Stopped),
            Carried::Overtaken => {
                self.give_up_round(round).await?;
                let now = self.client.pull_request(self.pull.number).await?;
                return self.follow(&now, Trigger::Push).await;
            }
            Carried::Out => {}
        }
        if let Some((id, run)) = &round.plan.check {
            check::end(&self.client, *id, run).await?;
        }
        self.store.settle_round(self.pull.ids(), &round).await?;
        self.tidy().await
    }

    /// Forgets the runs of a review that is over.
    async fn tidy(&self) -> Result<End, JobError> {
        self.worker.app.engine.checkpoints.forget(&format!("{}/", change_id(self.pull))).await?;
        Ok(End::Done)
    }

    /// Gives up what of a round was not written, after a look at what was.
    async fn give_up_round(&self, mut round: OpenRound) -> Result<(), JobError> {
        let app = self.worker.github()?;
        self.publisher(&app).look_back(&self.store, self.pull.ids(), &mut round).await?;
        self.store.abandon_round(self.pull.ids(), &round).await?;
        let check = round.plan.check.as_ref().map(|(id, _)| (round.plan.head.as_str(), *id));
        self.overtaken(check).await
    }

    /// Ends the check run of a head that is not the head any more.
    async fn overtaken(&self, check: Option<(&str, u64)>) -> Result<(), JobError> {
        if let Some((head, id)) = check {
            let summary = "The pull request has changed since. The review of its present state has a check of its own.";
            check::end(&self.client, id, &ended(self.pull, head, Conclusion::Cancelled, "Overtaken", summary.into()))
                .await?;
        }
        self.store.set_open_check(self.pull.ids(), None).await?;
        Ok(())
    }
}

/// The hunks that count as reviewed: all of the files that were, also those that had been before. A file with findings
/// that the cap left out is looked at again, so that they are said by a later round and do not turn the check green.
fn reviewed_hunks(files: &[ChangedFile], report: &Report) -> Vec<ReviewedHunks> {
    let covered = report.coverage.files.iter().map(|f| &f.coverage);
    let left_out = |path: &str| report.capped.iter().any(|reported| reported.finding.path == path);
    files
        .iter()
        .zip(covered)
        .filter(|(_, coverage)| matches!(coverage, FileCoverage::Reviewed | FileCoverage::Unchanged))
        .filter(|(file, _)| !left_out(&file.file.diff.path))
        .map(|(file, _)| ReviewedHunks { path: file.file.diff.path.clone(), hunks: hunk_keys(&file.file.diff) })
        .collect()
}
