//! Everything that can be seen of the bot from outside passes here, step by step, and may stop a process at any of them.

use std::sync::Mutex;

use async_trait::async_trait;
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;

use crate::github::fault::{Fault, matches};
use crate::github::watch::{Seen, Watch};

/// What is seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Step {
    /// A webhook is about to be delivered.
    Delivering,
    /// A webhook was answered with 202.
    Accepted,
    /// GitHub has a request and has not done it.
    Asked,
    /// GitHub has done it and has not answered.
    Applied,
    /// The model has a request.
    Thinking,
    /// The model has said half of its answer.
    HalfSaid,
    /// The model's answer is on its way, all of it.
    Said,
}

/// A step that was seen.
#[derive(Debug, Clone)]
pub(crate) struct Passed {
    /// By which door the process came, that is, which process it is.
    pub(crate) door: usize,
    pub(crate) step: Step,
    /// `POST /repos/*/*/pulls/*/reviews`, or what is asked of the model.
    pub(crate) what: String,
    /// Which pull request, where the address says so (`/repos/org1/…`).
    pub(crate) pull: Option<usize>,
    pub(crate) at: Instant,
}

/// Where somebody waits to be stopped.
#[derive(Debug, Clone)]
struct Trap {
    /// Only this process; any when `None`.
    door: Option<usize>,
    step: Step,
    /// Any when empty.
    what: String,
    /// Steps of this kind that still pass.
    skip: usize,
}

/// What decides which requests to GitHub go wrong.
type Faults = Box<dyn FnMut(&Seen) -> Option<Fault> + Send>;

#[derive(Default)]
struct Inner {
    passed: Vec<Passed>,
    trap: Option<Trap>,
    caught: Option<Passed>,
    held: Option<std::sync::Arc<Semaphore>>,
    faults: Option<Faults>,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Wire {
    inner: Mutex<Inner>,
    sprung: Notify,
}

impl Wire {
    /// From now on, the step after `skip` others of its kind is stopped at. `what` may be empty, for anything.
    pub(crate) fn set_trap(&self, door: Option<usize>, step: Step, what: &str, skip: usize) {
        self.disarm();
        self.inner.lock().unwrap().trap = Some(Trap { door, step, what: what.to_owned(), skip });
    }

    /// Waits until somebody is caught: who stands there stays until [`Self::disarm`].
    pub(crate) async fn caught(&self) -> Passed {
        loop {
            let sprung = self.sprung.notified();
            if let Some(caught) = self.inner.lock().unwrap().caught.take() {
                return caught;
            }
            sprung.await;
        }
    }

    /// Takes the trap away and lets go on who was caught.
    pub(crate) fn disarm(&self) {
        let mut inner = self.inner.lock().unwrap();
        inner.trap = None;
        inner.caught = None;
        if let Some(held) = inner.held.take() {
            held.close();
        }
    }

    /// What decides which requests to GitHub go wrong.
    pub(crate) fn set_faults(&self, faults: impl FnMut(&Seen) -> Option<Fault> + Send + 'static) {
        self.inner.lock().unwrap().faults = Some(Box::new(faults));
    }

    /// Nothing goes wrong any more.
    pub(crate) fn end_faults(&self) {
        self.inner.lock().unwrap().faults = None;
    }

    /// How many steps have passed.
    pub(crate) fn count(&self) -> usize {
        self.inner.lock().unwrap().passed.len()
    }

    /// The steps from the `from`-th on.
    pub(crate) fn since(&self, from: usize) -> Vec<Passed> {
        self.inner.lock().unwrap().passed[from..].to_vec()
    }

    /// Forgets the steps, which a long run need not keep.
    pub(crate) fn forget(&self) {
        self.inner.lock().unwrap().passed.clear();
    }

    /// A step passes, unless it is stopped.
    pub(crate) async fn pass(&self, door: usize, step: Step, what: &str) {
        self.pass_on(door, step, what, None).await;
    }

    async fn pass_on(&self, door: usize, step: Step, what: &str, pull: Option<usize>) {
        let held = {
            let mut inner = self.inner.lock().unwrap();
            let passed = Passed { door, step, what: what.to_owned(), pull, at: Instant::now() };
            inner.passed.push(passed.clone());
            let meant = |trap: &&mut Trap| {
                trap.step == step
                    && trap.door.is_none_or(|wanted| wanted == door)
                    && (trap.what.is_empty() || trap.what == what)
            };
            let caught = match inner.trap.as_mut().filter(meant) {
                Some(trap) if trap.skip > 0 => {
                    trap.skip -= 1;
                    false
                }
                Some(_) => true,
                None => false,
            };
            if !caught {
                return;
            }
            inner.trap = None;
            inner.caught = Some(passed);
            let held = std::sync::Arc::new(Semaphore::new(0));
            inner.held = Some(held.clone());
            held
        };
        self.sprung.notify_waiters();
        // What is on its way cannot be held back.
        if !matches!(step, Step::Delivering | Step::Accepted | Step::Said) {
            // It fails when the trap is taken away.
            let _ = held.acquire().await;
        }
    }
}

#[async_trait]
impl Watch for Wire {
    async fn arrives(&self, seen: &Seen) -> Option<Fault> {
        self.pass_on(seen.door, Step::Asked, &route(seen), pull(seen)).await;
        self.inner.lock().unwrap().faults.as_mut()?(seen)
    }

    async fn done(&self, seen: &Seen) {
        self.pass_on(seen.door, Step::Applied, &route(seen), pull(seen)).await;
    }
}

/// The pull request of a story that a request is about: each has an organisation of its own.
fn pull(seen: &Seen) -> Option<usize> {
    seen.path.strip_prefix("/repos/org")?.split('/').next()?.parse().ok()
}

/// The route of a request, without names and numbers.
fn route(seen: &Seen) -> String {
    const ROUTES: &[&str] = &[
        "POST /app/installations/*/access_tokens",
        "GET /repos/*/*/pulls/comments/*",
        "GET /repos/*/*/contents/**",
        "POST /repos/*/*/pulls/*/comments/*/replies",
        "PATCH /repos/*/*/check-runs/*",
        "GET /repos/*/*/commits/*/check-runs",
        "GET /repos/*/*/collaborators/*/permission",
        "GET /repos/*/*/issues/comments/*",
        "GET /repos/*/*/git/blobs/*",
        "GET /repos/*/*/git/trees/*",
        "GET /repos/*/*/pulls/*",
        "GET /users/*",
    ];
    let known = ROUTES.iter().find(|route| matches(route, &seen.method, &seen.path));
    if let Some(known) = known {
        return (*known).to_owned();
    }
    let mut parts: Vec<&str> = seen.path.split('/').collect();
    for place in [2, 3, 5] {
        if parts.get(1) == Some(&"repos")
            && let Some(part) = parts.get_mut(place)
        {
            *part = "*";
        }
    }
    format!("{} {}", seen.method, parts.join("/"))
}
