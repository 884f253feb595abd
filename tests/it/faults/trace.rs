//! What happened on a calm day, in its order: every place where a fault can strike.

use std::collections::HashMap;
use std::fmt;

use secondlook::chat::ModelRole;

use crate::harness::bot::Bot;

/// A place where a fault can strike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Point {
    /// The `nth` request of a route, from 0.
    Request { route: String, nth: usize },
    /// The `nth` of all calls to the model.
    Call { role: ModelRole, nth: usize },
    /// The `nth` row that a statement writes to a table.
    Write { table: String, operation: String, nth: usize },
    /// The `nth` webhook.
    Delivery { nth: usize },
}

/// All places, in no order across the sorts.
#[derive(Debug, Clone, Default)]
pub(super) struct Trace {
    pub(super) points: Vec<Point>,
}

impl Trace {
    pub(super) fn of(bot: &Bot, delivered: usize, written: Vec<(String, String, usize)>) -> Self {
        let mut points = Vec::new();
        let mut seen: HashMap<String, usize> = HashMap::new();
        for logged in bot.github.requests() {
            let route = format!("{} {}", logged.method, route(&logged.path));
            let nth = seen.entry(route.clone()).or_default();
            points.push(Point::Request { route, nth: *nth });
            *nth += 1;
        }
        points.extend(bot.knowing.calls().into_iter().enumerate().map(|(nth, role)| Point::Call { role, nth }));
        for (table, operation, rows) in written {
            points.extend((0..rows).map(|nth| Point::Write {
                table: table.clone(),
                operation: operation.clone(),
                nth,
            }));
        }
        points.extend((0..delivered).map(|nth| Point::Delivery { nth }));
        Self { points }
    }
}

impl Point {
    /// The place without its number.
    pub(super) fn place(&self) -> String {
        match self {
            Self::Request { route, .. } => route.clone(),
            Self::Call { role, .. } => format!("model {role:?}"),
            Self::Write { table, operation, .. } => format!("{operation} {table}"),
            Self::Delivery { .. } => "webhook".into(),
        }
    }

    fn nth(&self) -> usize {
        match self {
            Self::Request { nth, .. } | Self::Call { nth, .. } | Self::Write { nth, .. } | Self::Delivery { nth } => {
                *nth
            }
        }
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}]", self.place(), self.nth())
    }
}

/// A path as a fault names it: names, numbers and commits as `*`.
fn route(path: &str) -> String {
    let mut parts: Vec<&str> = path.split('/').collect();
    let fixed = ["repos", "repositories"];
    if parts.get(1).is_some_and(|part| fixed.contains(part)) {
        let names = if parts[1] == "repos" { 2..4 } else { 2..3 };
        for at in names {
            parts[at] = "*";
        }
        if let Some(at) = parts.iter().position(|part| *part == "contents") {
            parts.truncate(at + 1);
            parts.push("**");
        }
        if let Some(at) = parts.iter().position(|part| *part == "collaborators") {
            parts[at + 1] = "*";
        }
    }
    if parts.get(1) == Some(&"users") {
        parts[2] = "*";
    }
    let any = |part: &str| {
        let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        digits || (part.len() == 40 && part.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    parts.into_iter().map(|part| if any(part) { "*" } else { part }).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_names_no_name() {
        assert_eq!(route("/repos/acme/app/pulls/7/files"), "/repos/*/*/pulls/*/files");
        assert_eq!(route("/repos/acme/app/contents/src/a%20b.rs"), "/repos/*/*/contents/**");
        assert_eq!(route("/repos/acme/app/collaborators/alice/permission"), "/repos/*/*/collaborators/*/permission");
        assert_eq!(route("/repositories/12/pulls/7"), "/repositories/*/pulls/*");
        assert_eq!(route("/users/secondlook%5Bbot%5D"), "/users/*");
    }
}
