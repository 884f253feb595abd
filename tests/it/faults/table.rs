//! The table of faults: each is a value, each goes with every place of its sort that a calm day shows.

use std::time::Duration;

use secondlook::chat::ChatError;

use super::database::Refusal;
use super::stage::Mail;
use super::trace::Point;
use crate::harness::github::fault::{Fault, Gate};
use crate::harness::knowing::ModelFault;

/// A fault.
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) strike: Strike,
    /// Only requests that write.
    writes: bool,
    /// The client gives up waiting; its patience is shortened.
    pub(super) slow: bool,
    /// Whether only the substance of the page can be the same: things come in another order.
    pub(super) reorders: bool,
}

/// What strikes.
pub(super) enum Strike {
    /// GitHub or the way there, at a route.
    GitHub(fn(&str) -> Fault),
    /// The process ends while GitHub works on a request of this route.
    Crash(fn(&str, &Gate) -> Fault),
    /// GitHub never answers.
    Slow,
    /// So many model calls in a row; whoever waits at the gate ends the process.
    Model(usize, fn(&Gate) -> ModelFault),
    /// The write of a row.
    Database(Refusal),
    /// A webhook.
    Mail(Mail),
}

const fn case(name: &'static str, strike: Strike) -> Case {
    Case { name, strike, writes: false, slow: false, reorders: false }
}

const fn github(name: &'static str, fault: fn(&str) -> Fault) -> Case {
    case(name, Strike::GitHub(fault))
}

const fn write(name: &'static str, fault: fn(&str) -> Fault) -> Case {
    Case { writes: true, ..case(name, Strike::GitHub(fault)) }
}

const fn model(name: &'static str, times: usize, fault: fn(&Gate) -> ModelFault) -> Case {
    case(name, Strike::Model(times, fault))
}

/// Every fault.
pub(super) static TABLE: &[Case] = &[
    github("500", |route| Fault::status(route, 500, "Server Error")),
    github("502", |route| Fault::status(route, 502, "Bad Gateway")),
    github("503", |route| Fault::status(route, 503, "Service Unavailable")),
    github("504", |route| Fault::status(route, 504, "Gateway Timeout")),
    github("three times 502", |route| Fault::status(route, 502, "Bad Gateway").up_to(3)),
    github("401 once", |route| Fault::status(route, 401, "Bad credentials")),
    github("401 for good", |route| Fault::status(route, 401, "Bad credentials").lasting()),
    github("403 for good", |route| Fault::status(route, 403, "Resource not accessible by integration").lasting()),
    github("404 for good", |route| Fault::status(route, 404, "Not Found").lasting()),
    github("429", |route| Fault::status(route, 429, "Too many requests")),
    github("primary limit", |route| Fault::primary_limit(route, 1_767_607_200)),
    github("secondary limit", |route| Fault::secondary_limit(route, None)),
    github("secondary limit that says when", |route| Fault::secondary_limit(route, Some("72"))),
    github("connection cut", Fault::drop),
    github("answer cut", Fault::truncated),
    github("not JSON", Fault::not_json),
    write("done, and the connection cut", Fault::apply_then_drop),
    write("done, and 502", |route| Fault::apply_then_status(route, 502)),
    Case { slow: true, ..case("no answer in time", Strike::Slow) },
    case("crash before GitHub acts", Strike::Crash(Fault::hold)),
    Case { writes: true, ..case("crash after GitHub acted", Strike::Crash(Fault::apply_then_hold)) },
    model("unavailable", 1, |_| ModelFault::Error(ChatError::Unavailable("503".into()))),
    model("unavailable for minutes", 4, |_| ModelFault::Error(ChatError::Unavailable("503".into()))),
    model("unavailable for good", usize::MAX, |_| ModelFault::Error(ChatError::Unavailable("503".into()))),
    model("timed out", 1, |_| ModelFault::Error(ChatError::TimedOut("first token"))),
    model("limited", 1, |_| ModelFault::Error(ChatError::RateLimited { retry_after: None })),
    model("limited for minutes", 1, |_| {
        ModelFault::Error(ChatError::RateLimited { retry_after: Some(Duration::from_secs(300)) })
    }),
    model("unreadable", 1, |_| ModelFault::Error(ChatError::Unreadable("no choices".into()))),
    model("unauthorised", usize::MAX, |_| ModelFault::Error(ChatError::Unauthorized("401".into()))),
    model("over budget", usize::MAX, |_| ModelFault::Error(ChatError::OverBudget("5 USD".into()))),
    model("malformed", 1, |_| ModelFault::Says("Looks good to me! {\"findings\": [{")),
    model("empty", 1, |_| ModelFault::Says("")),
    model("cut", 1, |_| ModelFault::Cut),
    model("panics", 1, |_| ModelFault::Panics),
    model("crash while it thinks", 1, |gate| ModelFault::Hangs(gate.clone())),
    case("statement fails", Strike::Database(Refusal::Fails)),
    case("connection to the database ends", Strike::Database(Refusal::Disconnects)),
    case("delivered twice", Strike::Mail(Mail::Twice)),
    case("delivered again", Strike::Mail(Mail::Again)),
    Case { reorders: true, ..case("delivered late", Strike::Mail(Mail::Late)) },
];

impl Case {
    /// Whether it can strike there.
    pub(super) fn fits(&self, point: &Point) -> bool {
        match (&self.strike, point) {
            (Strike::GitHub(_) | Strike::Crash(_) | Strike::Slow, Point::Request { route, .. }) => {
                !self.writes || !(route.starts_with("GET ") || route == "POST /graphql")
            }
            (Strike::Model(..), Point::Call { .. })
            | (Strike::Database(_), Point::Write { .. })
            | (Strike::Mail(_), Point::Delivery { .. }) => true,
            _ => false,
        }
    }
}
