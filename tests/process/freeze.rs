//! One process stands still past its lease (SIGSTOP) while the others take its work over, and then goes on where it was.

use secondlook::db::Backend;

use crate::campaign::{Blow, Campaign, run};
use crate::story::Story;

fn story(seed: u64) -> Story {
    Story::of(usize::try_from(seed % 12).unwrap())
}

#[test]
fn one_of_two_and_one_of_four() {
    run(&[
        Campaign { blow: Blow::Freeze, backend: Backend::Postgres, processes: 2, sample: 2, story },
        Campaign { blow: Blow::Freeze, backend: Backend::Postgres, processes: 4, sample: 2, story },
    ]);
}
