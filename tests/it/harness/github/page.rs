//! What a person sees of a pull request, as text that stays the same from run to run.

use std::collections::BTreeMap;

use super::diff::{Line, lines};
use super::state::{Comment, Pull, Repo, State};

/// The page: title, check runs of the present head, then reviews with their line comments and the talk, by time.
pub fn render(state: &State, pull: &Pull) -> String {
    let mut page = String::new();
    let kind = match (pull.merged_at.is_some(), pull.open, pull.draft) {
        (true, ..) => "merged",
        (_, false, _) => "closed",
        (_, _, true) => "draft",
        _ => "open",
    };
    let author = pull.author.as_deref().unwrap_or("ghost");
    page.push_str(&format!("#{} {} [{kind}] by {author}\n", pull.number, pull.title));
    let repo = state.repos.iter().find(|repo| repo.pulls.get(&pull.number).is_some_and(|own| own.id == pull.id));
    for check in repo.into_iter().flat_map(|repo| &repo.checks).filter(|check| check.head_sha == pull.head()) {
        let outcome = check.conclusion.as_deref().unwrap_or(&check.status);
        page.push_str(&format!("check {}: {outcome}: {}\n", check.name, check.title.as_deref().unwrap_or("")));
    }
    enum Item<'a> {
        Review(&'a super::state::Review),
        Talk(&'a super::state::Talk),
    }
    let mut items: Vec<(u64, Item<'_>)> = Vec::new();
    // A review that only carries a reply is not shown on its own.
    let bare = |id: u64| pull.comments.iter().any(|c| c.review == id && c.reply_to.is_some());
    items.extend(pull.reviews.iter().filter(|r| !(r.body.is_empty() && bare(r.id))).map(|r| (r.id, Item::Review(r))));
    items.extend(pull.talk.iter().map(|talk| (talk.id, Item::Talk(talk))));
    items.sort_by_key(|(id, _)| *id);
    for (_, item) in items {
        match item {
            Item::Talk(talk) => {
                let author = talk.author.as_deref().unwrap_or("ghost");
                page.push_str(&format!("\n{author} said{}\n", reactions(&talk.reactions)));
                page.push_str(&indented(&seen(state, pull, &talk.body), "  "));
            }
            Item::Review(review) => {
                let verb = match review.state {
                    "APPROVED" => "approved",
                    "CHANGES_REQUESTED" => "requested changes",
                    "PENDING" => "has a review pending",
                    "DISMISSED" => "had a review dismissed",
                    _ => "reviewed",
                };
                page.push_str(&format!("\n{} {verb} {}\n", review.author, name_of(pull, &review.commit)));
                page.push_str(&indented(&seen(state, pull, &review.body), "  "));
                for comment in pull.comments.iter().filter(|c| c.review == review.id && c.reply_to.is_none()) {
                    page.push_str(&thread(state, pull, comment));
                }
            }
        }
    }
    page
}

/// The check runs of a repository's commits that are not the head of a pull request: former heads, merge queues.
pub fn other_checks(repo: &Repo) -> String {
    let mut text = String::new();
    for check in &repo.checks {
        if repo.pulls.values().any(|pull| pull.head() == check.head_sha) {
            continue;
        }
        let of = repo.pulls.values().find(|pull| pull.heads.contains(&check.head_sha));
        let of = of.map_or_else(
            || "a commit".to_owned(),
            |pull| format!("#{} {}", pull.number, name_of(pull, &check.head_sha)),
        );
        let outcome = check.conclusion.as_deref().unwrap_or(&check.status);
        text.push_str(&format!("check of {of}: {outcome}: {}\n", check.title.as_deref().unwrap_or("")));
    }
    text
}

/// The check runs that were begun and not ended.
pub fn unfinished(state: &State) -> Vec<String> {
    let checks = state.repos.iter().flat_map(|repo| &repo.checks).filter(|check| check.status != "completed");
    checks.map(|check| format!("a check run of {} is {} for ever", check.head_sha, check.status)).collect()
}

/// What of the App stands twice: the same comment at one place, the same review of one head, the same words on one
/// timeline, two reactions to one comment; and a review that was left pending.
pub fn twice(state: &State) -> Vec<String> {
    let bot = state.app.bot.as_str();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut wrong = Vec::new();
    for repo in &state.repos {
        for pull in repo.pulls.values() {
            let number = pull.number;
            for review in pull.reviews.iter().filter(|review| review.author == bot) {
                if review.state == "PENDING" {
                    wrong.push(format!("#{number}: a review is pending"));
                }
                if !review.body.is_empty() {
                    *seen
                        .entry(format!("#{number}: review of {}: {}", review.commit, unmarked(&review.body)))
                        .or_default() += 1;
                }
            }
            for comment in pull.comments.iter().filter(|comment| comment.author.as_deref() == Some(bot)) {
                let place = comment.reply_to.map_or_else(|| comment.path.clone(), |to| format!("reply to {to}"));
                *seen.entry(format!("#{number}: {place}: {}", unmarked(&comment.body))).or_default() += 1;
            }
            for talk in pull.talk.iter().filter(|talk| talk.author.as_deref() == Some(bot)) {
                *seen.entry(format!("#{number}: {}", unmarked(&talk.body))).or_default() += 1;
            }
            let reactions = pull.talk.iter().map(|talk| &talk.reactions);
            for reactions in reactions.chain(pull.comments.iter().map(|comment| &comment.reactions)) {
                let ours: Vec<&str> =
                    reactions.iter().filter(|r| r.author == bot).map(|reaction| reaction.content.as_str()).collect();
                if ours.len() > 1 {
                    wrong.push(format!("#{number}: reacted {} times", ours.len()));
                }
            }
        }
    }
    wrong
        .extend(seen.into_iter().filter(|(_, times)| *times > 1).map(|(what, times)| format!("{times} times: {what}")));
    wrong
}

/// A body without its HTML comments, which hold markers that differ.
fn unmarked(body: &str) -> String {
    let mut text = String::new();
    let mut rest = body;
    while let Some((before, after)) = rest.split_once("<!--") {
        text.push_str(before);
        rest = after.split_once("-->").map_or("", |(_, after)| after);
    }
    text + rest
}

fn thread(state: &State, pull: &Pull, root: &Comment) -> String {
    let side = if root.left { " (old)" } else { "" };
    let now = state.present_line(pull, root, root.line);
    let range = root.start.map_or_else(|| root.line.to_string(), |start| format!("{start}-{}", root.line));
    let outdated = if now.is_none() { " [outdated]" } else { "" };
    let resolved = if root.resolved { " [resolved]" } else { "" };
    let mut text = format!("\n  {}:{range}{side}{outdated}{resolved}\n", root.path);
    for line in commented(root) {
        text.push_str(&format!("  | {}{}\n", line.mark, line.text));
    }
    text.push_str(&indented(&seen(state, pull, &root.body), "    "));
    if !root.reactions.is_empty() {
        text.push_str(&format!("   {}\n", reactions(&root.reactions)));
    }
    for reply in pull.comments.iter().filter(|comment| comment.reply_to == Some(root.id)) {
        let author = reply.author.as_deref().unwrap_or("ghost");
        text.push_str(&format!("    > {author}{}:\n", reactions(&reply.reactions)));
        text.push_str(&indented(&seen(state, pull, &reply.body), "      "));
    }
    text
}

/// The code lines a comment stands on, as GitHub shows them above it.
fn commented(comment: &Comment) -> Vec<Line<'_>> {
    let number = |line: &Line<'_>| if comment.left { line.old } else { line.new };
    let from = comment.start.unwrap_or(comment.line);
    // The piece of hunk is shorter than its header says, which reading by counts bears.
    let mut shown = lines(&comment.hunk);
    shown.retain(|line| number(line).is_some_and(|number| (from..=comment.line).contains(&number)));
    shown
}

/// Markdown as people see it: without HTML comments, and with commits by the name of the head they are.
fn seen(state: &State, pull: &Pull, body: &str) -> String {
    let mut text = unmarked(body);
    for sha in pull.heads.iter().chain([&pull.base_sha]) {
        let name = name_of(pull, sha);
        for length in [40, 12, 10, 8, 7] {
            text = text.replace(&sha[..length], &name);
        }
    }
    text.replace(&state.url, "https://github.test")
}

/// `head1` for the first head, and so on.
fn name_of(pull: &Pull, sha: &str) -> String {
    match pull.heads.iter().position(|head| head == sha) {
        Some(at) => format!("head{}", at + 1),
        None if sha == pull.base_sha => "base".to_owned(),
        None => "a commit".to_owned(),
    }
}

fn reactions(reactions: &[super::state::Reaction]) -> String {
    reactions.iter().map(|reaction| format!(" [{} {}]", reaction.content, reaction.author)).collect()
}

/// Without blank lines at the ends and without trailing blanks, which an editor would take from a snapshot.
fn indented(text: &str, by: &str) -> String {
    let text = text.trim();
    if text.is_empty() {
        return String::new();
    }
    let line = |line: &str| if line.trim().is_empty() { "\n".to_owned() } else { format!("{by}{}\n", line.trim_end()) };
    text.lines().map(line).collect()
}
