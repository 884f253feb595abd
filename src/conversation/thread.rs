//! A thread on GitHub as a conversation. Pure.

use super::command::Need;
use crate::chat::ChatMessage;
use crate::github::{Permission, ReviewComment, User};
use crate::review::render::marker;

/// Characters of one comment that a model is given.
const MAX_COMMENT_CHARS: usize = 6_000;

/// Whether somebody may have what they ask for. The author of a pull request may ask about it, also without any
/// permission in the repository.
pub fn may(permission: Permission, is_author: bool, need: Need) -> bool {
    match need {
        Need::Ask => is_author || permission >= Permission::Triage,
        Need::Change => permission >= Permission::Write,
    }
}

/// A thread up to the comment that is to be answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    /// Its first comment.
    pub root: ReviewComment,
    /// All its comments up to the one to answer, oldest first, the root among them.
    pub comments: Vec<ReviewComment>,
}

impl Thread {
    /// The thread of `comment` among all line comments of the pull request; `None` when its root was deleted.
    pub fn of(comment: &ReviewComment, all: &[ReviewComment]) -> Option<Self> {
        let root_id = comment.in_reply_to.unwrap_or(comment.id);
        let mut comments: Vec<ReviewComment> = all
            .iter()
            .filter(|c| (c.id == root_id || c.in_reply_to == Some(root_id)) && c.id <= comment.id)
            .cloned()
            .collect();
        comments.sort_by_key(|c| c.id);
        let root = comments.iter().find(|c| c.id == root_id)?.clone();
        Some(Self { root, comments })
    }

    /// Whether it is about a comment of ours.
    pub fn is_ours(&self, us: &User) -> bool {
        by(self.root.author.as_ref(), us)
    }

    /// Whether the comment to answer was answered already, by the marker of our answer.
    pub fn answered(&self, comment: u64, all: &[ReviewComment], us: &User) -> Option<u64> {
        all.iter().find(|c| by(c.author.as_ref(), us) && marker::read_reply(&c.body) == Some(comment)).map(|c| c.id)
    }

    /// Each comment with the message it is to a model: ours are what the model said, people's begin with their name.
    /// Comments of other bots are left out.
    pub fn messages(&self, us: &User) -> Vec<(u64, ChatMessage)> {
        self.comments
            .iter()
            .filter_map(|comment| {
                let author = comment.author.as_ref();
                let text = visible(&comment.body);
                let message = match author {
                    _ if by(author, us) => ChatMessage::assistant(text),
                    Some(user) if user.is_bot => return None,
                    Some(user) => ChatMessage::user(format!("{} wrote:\n\n{text}", user.login)),
                    None => ChatMessage::user(format!("Somebody whose account is gone wrote:\n\n{text}")),
                };
                Some((comment.id, message))
            })
            .collect()
    }
}

/// Whether `author` is us: by the stable id, since names can be taken over.
pub fn by(author: Option<&User>, us: &User) -> bool {
    author.is_some_and(|author| author.id == us.id)
}

/// The id of the conversation about a thread, or about the timeline without a root.
pub fn conversation_id(repository: u64, number: u64, root: Option<u64>) -> String {
    match root {
        Some(root) => format!("pr:{repository}:{number}:{root}"),
        None => format!("pr:{repository}:{number}:timeline"),
    }
}

/// What of a comment people see: without its hidden marker and its folded part, and not without end.
pub fn visible(body: &str) -> String {
    let mut text = String::new();
    let mut folded = false;
    for line in body.lines() {
        if line.starts_with("<details>") {
            folded = true;
        }
        if !folded && !line.starts_with("<!-- secondlook:") {
            text.push_str(line);
            text.push('\n');
        }
        if line.starts_with("</details>") {
            folded = false;
        }
    }
    text.trim().chars().take(MAX_COMMENT_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn user(id: u64, login: &str, is_bot: bool) -> User {
        User { id, login: login.into(), is_bot }
    }

    fn comment(id: u64, reply_to: Option<u64>, author: Option<User>, body: &str) -> ReviewComment {
        ReviewComment {
            id,
            in_reply_to: reply_to,
            review_id: None,
            author,
            body: body.into(),
            path: "a.rs".into(),
            line: Some(1),
            original_line: Some(1),
            side: None,
            diff_hunk: String::new(),
            created_at: String::new(),
            updated_at: String::new(),
        }
    }

    #[rstest]
    #[case(Permission::None, false, Need::Ask, false)]
    #[case(Permission::Read, false, Need::Ask, false)]
    #[case(Permission::None, true, Need::Ask, true)]
    #[case(Permission::Triage, false, Need::Ask, true)]
    #[case(Permission::Triage, true, Need::Change, false)]
    #[case(Permission::Write, false, Need::Change, true)]
    #[case(Permission::Admin, false, Need::Change, true)]
    fn who_may(#[case] permission: Permission, #[case] author: bool, #[case] need: Need, #[case] allowed: bool) {
        assert_eq!(may(permission, author, need), allowed);
    }

    #[test]
    fn a_thread_is_told_to_a_model_up_to_the_question() {
        let us = user(9, "second-look[bot]", true);
        let ada = || Some(user(1, "ada", false));
        let all = [
            comment(
                10,
                None,
                Some(us.clone()),
                "**Panics**\n\n<details>\nx\n</details>\n\n<!-- secondlook:finding f -->",
            ),
            comment(11, None, ada(), "another thread"),
            comment(12, Some(10), Some(user(2, "ci[bot]", true)), "noise"),
            comment(13, Some(10), None, "ghost"),
            comment(14, Some(10), ada(), "why?"),
            comment(15, Some(10), Some(us.clone()), "Because.\n\n<!-- secondlook:reply to=14 -->"),
            comment(16, Some(10), ada(), "later"),
        ];
        let thread = Thread::of(&all[4], &all).unwrap();
        assert!(thread.is_ours(&us));
        let messages: Vec<String> = thread.messages(&us).into_iter().map(|(_, m)| m.text().to_owned()).collect();
        assert_eq!(messages, ["**Panics**", "Somebody whose account is gone wrote:\n\nghost", "ada wrote:\n\nwhy?"]);
        assert_eq!(thread.answered(14, &all, &us), Some(15));
        assert_eq!(thread.answered(16, &all, &us), None);
        assert!(Thread::of(&comment(20, Some(99), ada(), "x"), &all).is_none());
    }

    #[test]
    fn a_name_is_not_an_identity() {
        let us = user(9, "second-look[bot]", true);
        assert!(!by(Some(&user(8, "second-look[bot]", true)), &us));
        assert!(!by(None, &us));
    }
}
