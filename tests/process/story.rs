//! What people do. A story has a number, from which everything in it follows; its phases are done one after the other,
//! each when the bot has nothing left to do, so that every telling ends in the same pages.

use crate::seed::Seed;

/// Something people do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    /// Somebody opens the pull request.
    Open(usize),
    /// The same, and pushes when the model looks at it for the first time.
    OpenThenPush(usize),
    /// The author pushes.
    Push(usize),
    /// The author answers the first comment of the bot.
    Reply(usize),
    /// The author asks on the timeline.
    Ask(usize),
}

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Story {
    pub(crate) number: usize,
    /// How many pull requests, each in a repository and an organisation of its own.
    pub(crate) pulls: usize,
    pub(crate) phases: Vec<Vec<Act>>,
}

impl Story {
    /// The story of this number.
    pub(crate) fn of(number: usize) -> Self {
        let mut chance = Seed::new(u64::try_from(number).unwrap());
        let pulls = 1 + usize::from(chance.once_in(4));
        let open = |pull| if (number + pull) % 4 == 3 { Act::OpenThenPush(pull) } else { Act::Open(pull) };
        let mut phases: Vec<Vec<Act>> = vec![(0..pulls).map(open).collect()];
        for _ in 0..1 + usize::from(chance.once_in(4)) {
            let act = |pull| match chance.below(3) {
                0 => Act::Push(pull),
                1 => Act::Reply(pull),
                _ => Act::Ask(pull),
            };
            phases.push((0..pulls).map(act).collect());
        }
        Self { number, pulls, phases }
    }

    /// The change of one push, in marked lines: files of their own, so that what was said of older ones stays said.
    pub(crate) fn change(&self, pull: usize, push: usize) -> String {
        let mut chance = Seed::new(u64::try_from(self.number * 100 + pull * 10 + push).unwrap());
        let mut change = String::new();
        for file in 0..1 + chance.below(2) {
            let reads = chance.below(3);
            change.push_str(&format!("//- app/p{pull}h{push}f{file}_t{reads}.py\n+def check(value):\n"));
            for defect in 0..chance.below(3) {
                change.push_str(&format!("+    defect(\"s{}p{pull}h{push}f{file}d{defect}\")\n", self.number));
            }
            change.push_str("+    return value\n");
        }
        change
    }

    /// The repository of a pull request.
    pub(crate) fn repository(&self, pull: usize) -> String {
        format!("org{pull}/app")
    }
}

#[test]
fn stories_differ_and_stay_what_they_are() {
    assert_eq!(Story::of(3), Story::of(3));
    let told: std::collections::HashSet<String> = (0..20).map(|n| format!("{:?}", Story::of(n).phases)).collect();
    assert!(told.len() > 8, "{told:?}");
    assert!((0..20).any(|n| Story::of(n).phases[0].contains(&Act::OpenThenPush(0))));
}
