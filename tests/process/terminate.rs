//! SIGTERM with many jobs at work: the process ends well within its grace, and the next one goes on. With two of them,
//! one after the other, that is a rolling restart.

use secondlook::db::Backend;

use crate::campaign::{Blow, Campaign, run};
use crate::story::{Act, Story};

/// Seven pull requests at once, which are more than there are workers, then pushes to half of them and questions.
fn crowd(seed: u64) -> Story {
    let pulls = 7;
    let then = |pull| if pull % 2 == 0 { Act::Push(pull) } else { Act::Reply(pull) };
    let phases = vec![(0..pulls).map(Act::Open).collect(), (0..pulls).map(then).collect()];
    Story { number: 1_000 + usize::try_from(seed % 3).unwrap(), pulls, phases }
}

#[test]
fn one_process_and_a_rolling_restart_of_two() {
    run(&[
        Campaign { blow: Blow::Terminate, backend: Backend::Sqlite, processes: 1, sample: 1, story: crowd },
        Campaign { blow: Blow::Terminate, backend: Backend::Postgres, processes: 2, sample: 1, story: crowd },
    ]);
}
