//! Killed with -9 at every step and started again: nothing is lost, nothing is done twice, and no finished model call is
//! paid again.
//!
//! SQLite takes one process. There "two" means a rival that is started while the first one stands at its step: it must
//! be refused and touch nothing, and what is started after the kill takes over at once.

use secondlook::db::Backend;

use crate::campaign::{Blow, Campaign, run};
use crate::story::Story;

fn story(seed: u64) -> Story {
    Story::of(usize::try_from(seed % 12).unwrap())
}

#[test]
fn one_process_and_two_on_sqlite() {
    run(&[
        Campaign { blow: Blow::Kill, backend: Backend::Sqlite, processes: 1, sample: 3, story },
        Campaign { blow: Blow::KillWithRival, backend: Backend::Sqlite, processes: 2, sample: 2, story },
    ]);
}

#[test]
fn one_process_and_two_on_postgres() {
    run(&[
        Campaign { blow: Blow::Kill, backend: Backend::Postgres, processes: 1, sample: 2, story },
        Campaign { blow: Blow::Kill, backend: Backend::Postgres, processes: 2, sample: 2, story },
    ]);
}
