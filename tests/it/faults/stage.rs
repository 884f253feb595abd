//! Where a scenario is played: the bot, the faults that are to strike, and what is seen of it all. Between the steps of a
//! scenario everybody rests: webhooks are delivered, jobs done, processes begun again, and time passes until nothing is
//! due.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::http::StatusCode;
use secondlook::queue::worker::run_next;

use super::database;
use super::table::{Case, Strike};
use super::trace::{Point, Trace};
use crate::harness::bot::{Answers, Bot, Setup};
use crate::harness::database::TestDb;
use crate::harness::github::fault::Gate;
use crate::harness::github::state::Delivery;

/// Steps after which a scenario is thought to run in circles.
const MAX_STEPS: usize = 600;

/// What waits longer is not waited for: the grace period of a removed repository, not a retry.
const HORIZON: Duration = Duration::from_secs(48 * 60 * 60);

/// What a delivery suffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mail {
    /// It comes twice in a row.
    Twice,
    /// It comes again when all is done.
    Again,
    /// It comes when all is done, and the next ones before it.
    Late,
}

/// The stage.
pub(super) struct Stage {
    pub(super) bot: Bot,
    strikes: Vec<(&'static Case, Point)>,
    began: bool,
    crash: Gate,
    mail: Vec<(usize, Mail)>,
    delivered: usize,
    /// Deliveries to be made at the end.
    later: Vec<Delivery>,
    circles: bool,
}

/// What came of it.
pub(super) struct Played {
    pub(super) page: String,
    pub(super) trace: Trace,
    /// Kind and reason of each.
    pub(super) dead: Vec<String>,
    /// What must never be, whatever the fault.
    pub(super) wrong: Vec<String>,
    /// Check runs that never ended.
    pub(super) unfinished: Vec<String>,
    /// How often each question to the model was answered.
    pub(super) answered: BTreeMap<String, usize>,
}

impl Stage {
    pub(super) async fn new(database: TestDb, strikes: Vec<(&'static Case, Point)>) -> Self {
        let slow = strikes.iter().any(|(case, _)| case.slow).then(|| Duration::from_millis(600));
        let setup = Setup { answers: Answers::Knowing, github_timeout: slow, ..Setup::default() };
        Self {
            bot: Bot::start(&setup, database).await,
            strikes,
            began: false,
            crash: Gate::new(),
            mail: Vec::new(),
            delivered: 0,
            later: Vec::new(),
            circles: false,
        }
    }

    /// From here on the faults strike, and what happens is written down.
    pub(super) async fn begin(&mut self) {
        assert!(!self.began, "a scenario begins once");
        self.began = true;
        self.bot.github.forget_requests();
        self.bot.knowing.forget_calls();
        self.delivered = 0;
        database::watch(&self.bot.database).await;
        for (case, point) in std::mem::take(&mut self.strikes) {
            match (&case.strike, &point) {
                (Strike::GitHub(fault), Point::Request { route, nth }) => {
                    self.bot.github.fault(fault(route).after(*nth));
                }
                (Strike::Crash(fault), Point::Request { route, nth }) => {
                    self.bot.github.fault(fault(route, &self.crash).after(*nth));
                }
                (Strike::Slow, Point::Request { route, nth }) => {
                    let never = Gate::new();
                    self.bot.github.fault(crate::harness::github::fault::Fault::hold(route, &never).after(*nth));
                }
                (Strike::Model(times, fault), Point::Call { nth, .. }) => {
                    self.bot.knowing.fail(*nth, *times, fault(&self.crash));
                }
                (Strike::Database(how), Point::Write { table, operation, nth }) => {
                    database::arm(&self.bot.database, table, operation, *nth, *how).await;
                }
                (Strike::Mail(mail), Point::Delivery { nth }) => self.mail.push((*nth, *mail)),
                (_, point) => panic!("{} is no fault for {point}", case.name),
            }
        }
    }

    /// Until nobody has anything to do, however long that takes.
    pub(super) async fn rest(&mut self) {
        for _ in 0..MAX_STEPS {
            if !self.deliver().await && !self.work().await && !self.pass_time().await {
                return;
            }
        }
        self.circles = true;
    }

    /// Delivers what waits. GitHub does not deliver again by itself what was refused; its recovery does.
    async fn deliver(&mut self) -> bool {
        let deliveries = self.bot.github.take_deliveries();
        let some = !deliveries.is_empty();
        for delivery in deliveries {
            let mail = self.mail.iter().find(|(nth, _)| self.began && *nth == self.delivered).map(|(_, mail)| *mail);
            self.delivered += 1;
            if mail == Some(Mail::Late) {
                self.later.push(delivery);
                continue;
            }
            self.hand_over(&delivery).await;
            match mail {
                Some(Mail::Twice) => self.hand_over(&delivery).await,
                Some(Mail::Again) => self.later.push(delivery),
                _ => {}
            }
        }
        some
    }

    async fn hand_over(&self, delivery: &Delivery) {
        for _ in 0..3 {
            match self.bot.deliver(delivery).await {
                StatusCode::ACCEPTED => return,
                _ => database::disarm(&self.bot.database).await,
            }
        }
        panic!("{} is not taken", delivery.event);
    }

    /// Does one job, or as much of it as the process lives to see.
    async fn work(&mut self) -> bool {
        let assembled = &self.bot.assembled;
        let ran = tokio::select! {
            biased;
            ran = run_next(&assembled.queue, &*assembled.worker, "test") => Some(ran),
            () = self.crash.reached() => None,
        };
        match ran {
            None => {
                self.bot.restart();
                true
            }
            Some(Ok(ran)) => {
                if ran && self.began {
                    database::disarm_if_met(&self.bot.database).await;
                }
                ran
            }
            Some(Err(_)) => {
                database::disarm(&self.bot.database).await;
                true
            }
        }
    }

    /// Lets time pass until something is due; false when nothing waits. What is due and was not done waits for a lease to
    /// end, of a process that is no more.
    async fn pass_time(&self) -> bool {
        let Some(due) = self.bot.assembled.queue.next_due().await.unwrap() else { return false };
        let now = secondlook::clock::Clock::now(&self.bot.clock);
        let wait = Duration::try_from(due.duration_since(now)).unwrap_or_default();
        if wait > HORIZON {
            return false;
        }
        self.bot.clock.advance(wait.max(Duration::from_secs(1)));
        true
    }

    /// The end: what was to come later comes, everybody rests, and it is looked what there is.
    pub(super) async fn end(mut self) -> Played {
        self.rest().await;
        for delivery in std::mem::take(&mut self.later) {
            self.hand_over(&delivery).await;
            self.rest().await;
        }
        let trace = Trace::of(&self.bot, self.delivered, database::written(&self.bot.database).await);
        let letters = self.bot.assembled.queue.dead_letters().await.unwrap();
        let mut wrong = self.bot.github.complaints();
        wrong.extend(self.bot.github.twice());
        if self.circles {
            wrong.push("webhooks and jobs go round in circles".into());
        }
        if self.bot.knowing.spared() {
            wrong.push("the model was spared its fault".into());
        }
        Played {
            page: self.bot.github.pages(),
            trace,
            dead: letters
                .into_iter()
                .map(|letter| format!("{}: {}", letter.kind, letter.reason.unwrap_or_default()))
                .collect(),
            wrong,
            unfinished: self.bot.github.unfinished(),
            answered: self.bot.knowing.answered(),
        }
    }
}
