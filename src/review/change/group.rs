//! Which files of a change are reviewed together: small ones, near each other, in one conversation. Pure, and a matter of
//! the change alone, so that a restart makes the same groups and goes on with their runs.

use std::collections::BTreeMap;

use crate::review::change::ChangedFile;
use crate::review::context::section_tokens;
use crate::review::policy::Policy;

/// Estimated tokens of the section of a file that is small.
const SMALL_TOKENS: u64 = 1_200;

/// Estimated tokens of all sections of a group.
const GROUP_TOKENS: u64 = 6_000;

/// A file to review, as far as it matters here.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Page {
    /// Its index in the change.
    at: usize,
    /// The instructions that apply to it: they stand once above a group, so they must be the same for all of it.
    instructions: Vec<String>,
    /// Its directory.
    directory: String,
    /// What its section takes; `None` when it is not small.
    tokens: Option<u64>,
}

/// Divides the files to review, given as indices in order of risk, into groups of at most `most`. A group stands in the
/// place of its riskiest file, which is its first one.
pub(super) fn groups(files: &[ChangedFile], order: &[usize], policy: &Policy, most: usize) -> Vec<Vec<usize>> {
    if most <= 1 || order.len() <= 1 {
        return order.iter().map(|at| vec![*at]).collect();
    }
    let page = |at: &usize| {
        let file = files.get(*at)?;
        let path = &file.file.diff.path;
        let tokens = section_tokens(file, SMALL_TOKENS);
        let instructions = if tokens.is_some() { policy.instructions_for(path) } else { Vec::new() };
        let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory).to_owned();
        Some(Page { at: *at, instructions, directory, tokens })
    };
    pack(&order.iter().filter_map(page).collect::<Vec<_>>(), most)
}

/// [`groups`] of pages in order of risk: those of one directory first, then what is left of neighbouring directories.
fn pack(pages: &[Page], most: usize) -> Vec<Vec<usize>> {
    // Ranks, not indices, until the end: the smaller one is the riskier file.
    let mut packed: Vec<Vec<usize>> = Vec::new();
    let mut near: BTreeMap<(&[String], &str), Vec<Group>> = BTreeMap::new();
    for (rank, page) in pages.iter().enumerate() {
        let Some(tokens) = page.tokens else {
            packed.push(vec![rank]);
            continue;
        };
        let one = Group { ranks: vec![rank], tokens };
        add(near.entry((&page.instructions, &page.directory)).or_default(), one, most);
    }
    let mut rests: BTreeMap<&[String], Vec<Group>> = BTreeMap::new();
    for ((instructions, _), mut groups) in near {
        if let Some(rest) = groups.pop() {
            add(rests.entry(instructions).or_default(), rest, most);
        }
        packed.extend(groups.into_iter().map(|group| group.ranks));
    }
    packed.extend(rests.into_values().flatten().map(|group| group.ranks));
    for group in &mut packed {
        group.sort_unstable();
    }
    packed.sort_unstable();
    let index = |rank: usize| pages.get(rank).map(|page| page.at);
    packed.into_iter().map(|group| group.into_iter().filter_map(index).collect()).collect()
}

struct Group {
    ranks: Vec<usize>,
    tokens: u64,
}

/// Puts files with the last group where they fit, else behind it.
fn add(groups: &mut Vec<Group>, more: Group, most: usize) {
    match groups.last_mut() {
        Some(last) if last.ranks.len() + more.ranks.len() <= most && last.tokens + more.tokens <= GROUP_TOKENS => {
            last.ranks.extend(more.ranks);
            last.tokens += more.tokens;
        }
        _ => groups.push(more),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::diff::parse::parse_patch;
    use crate::diff::{FileDiff, FileStatus};
    use crate::github::PullFile;
    use crate::review::policy::PathInstruction;

    fn file(path: &str, lines: usize) -> ChangedFile {
        let added: String = (0..lines).map(|n| format!("+let value_{n} = compute(\"some text\", {n});\n")).collect();
        let hunks = parse_patch(&format!("@@ -0,0 +1,{lines} @@\n{added}")).0;
        let diff = FileDiff { path: path.into(), old_path: None, status: FileStatus::Modified, hunks };
        let file = PullFile { diff: Arc::new(diff), blob_sha: None, no_patch: None, self_made: false };
        ChangedFile { file, new_hunks: vec![0], known: vec![] }
    }

    /// The groups of files in this order of risk, by their paths.
    fn grouped(files: &[(&str, usize)], policy: &Policy, most: usize) -> Vec<String> {
        let files: Vec<ChangedFile> = files.iter().map(|(path, lines)| file(path, *lines)).collect();
        let order: Vec<usize> = (0..files.len()).collect();
        let groups = groups(&files, &order, policy, most);
        groups
            .iter()
            .map(|group| group.iter().map(|at| files[*at].file.diff.path.as_str()).collect::<Vec<_>>().join(" "))
            .collect()
    }

    #[test]
    fn near_files_come_together_and_a_group_stands_where_its_riskiest_file_does() {
        let files = [("z/login.rs", 3), ("a/big.rs", 500), ("a/1.rs", 3), ("z/2.rs", 3), ("a/3.rs", 3), ("m.rs", 3)];
        assert_eq!(grouped(&files, &Policy::default(), 2), ["z/login.rs z/2.rs", "a/big.rs", "a/1.rs a/3.rs", "m.rs"]);
        // What is left of a directory goes with what is left of its neighbours.
        assert_eq!(grouped(&files, &Policy::default(), 3), ["z/login.rs z/2.rs", "a/big.rs", "a/1.rs a/3.rs m.rs"]);
        assert_eq!(grouped(&files, &Policy::default(), 8), ["z/login.rs a/1.rs z/2.rs a/3.rs m.rs", "a/big.rs"]);
        assert_eq!(grouped(&files, &Policy::default(), 1).len(), 6);
    }

    #[test]
    fn a_group_has_its_bounds() {
        let many: Vec<(String, usize)> = (0..20).map(|n| (format!("src/{n:02}.rs"), 2)).collect();
        let many: Vec<(&str, usize)> = many.iter().map(|(path, lines)| (path.as_str(), *lines)).collect();
        let sizes = |groups: Vec<String>| groups.iter().map(|g| g.split(' ').count()).collect::<Vec<_>>();
        assert_eq!(sizes(grouped(&many, &Policy::default(), 8)), [8, 8, 4]);
        // Some 950 tokens each: six of them are as much as a group may hold.
        let longer: Vec<(&str, usize)> = many.iter().map(|(path, _)| (*path, 65)).collect();
        assert_eq!(sizes(grouped(&longer, &Policy::default(), 8)), [6, 6, 6, 2]);
    }

    #[test]
    fn only_files_under_the_same_instructions_come_together() {
        let mut policy = Policy::default();
        policy.paths.instructions = vec![PathInstruction { path: "**/*.sql".into(), text: "Name the index.".into() }];
        let files = [("db/a.sql", 2), ("db/a.rs", 2), ("db/b.sql", 2), ("db/b.rs", 2)];
        assert_eq!(grouped(&files, &policy, 8), ["db/a.sql db/b.sql", "db/a.rs db/b.rs"]);
    }

    proptest! {
        #[test]
        fn every_file_is_in_exactly_one_group(
            pages in prop::collection::vec((0..4_u8, 0..3_u8, prop::option::of(1..SMALL_TOKENS)), 0..60),
            most in 1..17_usize,
        ) {
            let pages: Vec<Page> = pages.into_iter().enumerate().map(|(n, (directory, instructions, tokens))| Page {
                at: 100 - n,
                instructions: vec![instructions.to_string()],
                directory: directory.to_string(),
                tokens,
            }).collect();
            let groups = pack(&pages, most);
            prop_assert_eq!(&groups, &pack(&pages, most));
            let mut all: Vec<usize> = groups.concat();
            all.sort_unstable_by(|a, b| b.cmp(a));
            prop_assert_eq!(all, pages.iter().map(|page| page.at).collect::<Vec<_>>());
            let firsts: Vec<usize> = groups.iter().map(|group| group[0]).collect();
            prop_assert!(firsts.is_sorted_by(|a, b| a > b), "in order of risk: {firsts:?}");
            for group in groups {
                let members: Vec<&Page> = group.iter().map(|at| &pages[100 - at]).collect();
                let alone = members.len() == 1;
                prop_assert!(members.len() <= most);
                prop_assert!(alone || members.iter().filter_map(|page| page.tokens).sum::<u64>() <= GROUP_TOKENS);
                prop_assert!(alone || members.iter().all(|page| page.tokens.is_some()));
                let instructions: BTreeSet<_> = members.iter().map(|page| &page.instructions).collect();
                prop_assert_eq!(instructions.len(), 1);
            }
        }
    }
}
