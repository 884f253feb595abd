//! What people do on GitHub. Everything that GitHub tells the App about puts a webhook into the outbox.

use serde_json::json;

use super::files::{self, Change, Files};
use super::routes::comments::{add_reply, add_talk};
use super::state::{Comment, Fork, Pull, Reaction, Review, State};
use super::{FakeGitHub, Pr, diff, webhook};

/// A pull request to be opened. `PullSpec::new(marked)` and then what differs from the usual.
#[derive(Debug, Clone)]
pub struct PullSpec {
    pub repo: String,
    pub title: String,
    pub body: Option<String>,
    pub author: String,
    pub draft: bool,
    pub base: String,
    pub branch: String,
    /// The owner of the fork it comes from.
    pub fork: Option<String>,
    pub change: Change,
}

impl PullSpec {
    /// By `alice`, on `acme/app`, from a branch of it to `main`; the change in marked lines (see [`files::change`]).
    pub fn new(marked: &str) -> Self {
        Self::of(files::change(marked))
    }

    /// The same, of a change.
    pub fn of(change: Change) -> Self {
        Self {
            repo: "acme/app".into(),
            title: "Change something".into(),
            body: None,
            author: "alice".into(),
            draft: false,
            base: "main".into(),
            branch: "topic".into(),
            fork: None,
            change,
        }
    }

    pub fn repo(self, repo: &str) -> Self {
        Self { repo: repo.into(), ..self }
    }

    pub fn title(self, title: &str) -> Self {
        Self { title: title.into(), ..self }
    }

    pub fn body(self, body: &str) -> Self {
        Self { body: Some(body.into()), ..self }
    }

    pub fn author(self, author: &str) -> Self {
        Self { author: author.into(), ..self }
    }

    pub fn draft(self) -> Self {
        Self { draft: true, ..self }
    }

    pub fn fork(self, owner: &str) -> Self {
        Self { fork: Some(owner.into()), ..self }
    }

    pub fn branch(self, branch: &str) -> Self {
        Self { branch: branch.into(), ..self }
    }

    pub fn base(self, base: &str) -> Self {
        Self { base: base.into(), ..self }
    }
}

impl FakeGitHub {
    /// Gives somebody a role: `none`, `read`, `triage`, `write`, `maintain`, `admin`.
    pub fn permit(&self, repo: &str, login: &str, role: &str) {
        let mut state = self.lock();
        state.account(login, "User");
        let id = state.repo_named(repo).id;
        state.repo_by_id(id).roles.insert(login.into(), role.into());
    }

    /// Makes somebody known, as a bot.
    pub fn bot(&self, login: &str) {
        self.lock().account(login, "Bot");
    }

    /// Makes a repository private.
    pub fn make_private(&self, repo: &str) {
        let mut state = self.lock();
        let id = state.repo_named(repo).id;
        state.repo_by_id(id).private = true;
    }

    /// Commits files to a branch (made from `main` when there is none). The commit's name.
    pub fn commit(&self, repo: &str, branch: &str, files: Files) -> String {
        let mut state = self.lock();
        commit_to(&mut state, repo, branch, &Change { before: Files::new(), after: files })
    }

    /// Commits plain files to `main`: `//- path` and the text (see [`files::files`]).
    pub fn commit_main(&self, repo: &str, plain: &str) -> String {
        self.commit(repo, "main", files::files(plain))
    }

    /// Opens a pull request. What the change finds before is committed to the base branch first, if it is not there.
    pub fn open_pull(&self, spec: PullSpec) -> Pr {
        self.repo(&spec.repo);
        let mut state = self.lock();
        let state = &mut *state;
        state.account(&spec.author, "User");
        if let Some(owner) = &spec.fork {
            state.account(owner, "User");
        }
        let base = Change { before: Files::new(), after: spec.change.before.clone() };
        let base_sha = commit_to(state, &spec.repo, &spec.base, &base);
        let head = state.change_on(&base_sha, &spec.title, &spec.change);
        let (id, at) = (state.id(), state.now());
        let repo_id = state.repo_named(&spec.repo).id;
        let repo = state.repo_by_id(repo_id);
        let number = repo.next_number;
        repo.next_number += 1;
        if spec.fork.is_none() {
            repo.branches.insert(spec.branch.clone(), head.clone());
        }
        repo.pulls.insert(
            number,
            Pull {
                id,
                number,
                title: spec.title,
                body: spec.body,
                author: Some(spec.author.clone()),
                draft: spec.draft,
                open: true,
                merged_at: None,
                base_ref: spec.base,
                base_sha,
                head_ref: spec.branch,
                fork: spec.fork.map(Fork::Of),
                heads: vec![head],
                reviews: Vec::new(),
                comments: Vec::new(),
                talk: Vec::new(),
                created_at: at,
                updated_at: at,
            },
        );
        webhook::pull(state, repo_id, number, &spec.author, "opened", json!({}));
        Pr { repo: spec.repo, number }
    }

    /// Pushes a commit to a pull request: the change in marked lines, relative to its present head.
    pub fn push(&self, pr: &Pr, marked: &str) -> String {
        self.push_change(pr, &files::change(marked))
    }

    /// Pushes a commit to a pull request.
    pub fn push_change(&self, pr: &Pr, change: &Change) -> String {
        self.advance(pr, |state, pull| (state.change_on(&pull.0, "More", change), None))
    }

    /// Replaces the commits of a pull request by one on the present tip of its base, with these files changed there.
    pub fn force_push(&self, pr: &Pr, change: &Change) -> String {
        self.advance(pr, |state, pull| {
            let tip = pull.1.clone();
            (state.change_on(&tip, "Again", change), Some(tip))
        })
    }

    fn advance(&self, pr: &Pr, make: impl FnOnce(&mut State, (String, String)) -> (String, Option<String>)) -> String {
        let mut state = self.lock();
        let state = &mut *state;
        let repo = state.repo_named(&pr.repo);
        let pull = &repo.pulls[&pr.number];
        let now = state.now();
        let (id, before, author) = (repo.id, pull.head().to_owned(), pull.author.clone().unwrap_or_default());
        let tip = repo.branches[&pull.base_ref].clone();
        let (head, base) = make(state, (before.clone(), tip));
        let repo = state.repo_by_id(id);
        let pull = repo.pulls.get_mut(&pr.number).unwrap();
        pull.heads.push(head.clone());
        pull.updated_at = now;
        if let Some(base) = base {
            pull.base_sha = base;
        }
        if pull.fork.is_none() {
            repo.branches.insert(pull.head_ref.clone(), head.clone());
        }
        let more = json!({ "before": before, "after": head });
        webhook::pull(state, id, pr.number, &author, "synchronize", more);
        head
    }

    /// Commits to the base branch of a pull request, which does not move with it.
    pub fn move_base(&self, pr: &Pr, files: Files) -> String {
        let base = self.read(pr, |_, pull| pull.base_ref.clone());
        self.commit(&pr.repo, &base, files)
    }

    /// Marks a draft as ready.
    pub fn ready_for_review(&self, pr: &Pr) {
        self.edit(pr, "ready_for_review", json!({}), |pull| pull.draft = false);
    }

    /// Makes it a draft again.
    pub fn convert_to_draft(&self, pr: &Pr) {
        self.edit(pr, "converted_to_draft", json!({}), |pull| pull.draft = true);
    }

    /// Points it at another branch, whose tip becomes its base. The head stays, and there is no `synchronize`.
    pub fn retarget(&self, pr: &Pr, branch: &str) {
        let (from_ref, from_sha) = self.read(pr, |_, pull| (pull.base_ref.clone(), pull.base_sha.clone()));
        let tip = self.lock().repo_named(&pr.repo).branches[branch].clone();
        let changes = json!({ "changes": { "base": { "ref": { "from": from_ref }, "sha": { "from": from_sha } } } });
        self.edit(pr, "edited", changes, |pull| {
            pull.base_ref = branch.to_owned();
            pull.base_sha = tip;
        });
    }

    /// Changes the title.
    pub fn retitle(&self, pr: &Pr, title: &str) {
        let from = self.read(pr, |_, pull| pull.title.clone());
        let changes = json!({ "changes": { "title": { "from": from } } });
        self.edit(pr, "edited", changes, |pull| pull.title = title.to_owned());
    }

    /// Closes it without merging.
    pub fn close(&self, pr: &Pr) {
        self.edit(pr, "closed", json!({}), |pull| pull.open = false);
    }

    /// Opens it again.
    pub fn reopen(&self, pr: &Pr) {
        self.edit(pr, "reopened", json!({}), |pull| pull.open = true);
    }

    /// Merges it: the base branch gets its head.
    pub fn merge(&self, pr: &Pr) {
        let now = self.lock().now();
        let (base, head) = self.read(pr, |_, pull| (pull.base_ref.clone(), pull.head().to_owned()));
        {
            let mut state = self.lock();
            let id = state.repo_named(&pr.repo).id;
            state.repo_by_id(id).branches.insert(base, head);
        }
        self.edit(pr, "closed", json!({}), |pull| {
            pull.open = false;
            pull.merged_at = Some(now);
        });
    }

    fn edit(&self, pr: &Pr, action: &str, more: serde_json::Value, change: impl FnOnce(&mut Pull)) {
        let mut state = self.lock();
        let id = state.repo_named(&pr.repo).id;
        let now = state.now();
        let pull = state.repo_by_id(id).pulls.get_mut(&pr.number).unwrap();
        change(pull);
        pull.updated_at = now;
        let by = pull.author.clone().unwrap_or_else(|| "alice".into());
        webhook::pull(&mut state, id, pr.number, &by, action, more);
    }

    /// The author deletes the account: GitHub sends `null` for it from now on.
    pub fn delete_author(&self, pr: &Pr) {
        let mut state = self.lock();
        let id = state.repo_named(&pr.repo).id;
        state.repo_by_id(id).pulls.get_mut(&pr.number).unwrap().author = None;
    }

    /// Who wrote a line comment deletes the account.
    pub fn delete_commenter(&self, pr: &Pr, comment: u64) {
        let mut state = self.lock();
        let id = state.repo_named(&pr.repo).id;
        let pull = state.repo_by_id(id).pulls.get_mut(&pr.number).unwrap();
        pull.comments.iter_mut().find(|own| own.id == comment).expect("a line comment").author = None;
    }

    /// The fork it came from is deleted.
    pub fn delete_fork(&self, pr: &Pr) {
        let mut state = self.lock();
        let id = state.repo_named(&pr.repo).id;
        state.repo_by_id(id).pulls.get_mut(&pr.number).unwrap().fork = Some(Fork::Gone);
    }

    /// Somebody comments on the timeline. The comment's id.
    pub fn comment(&self, pr: &Pr, by: &str, body: &str) -> u64 {
        let mut state = self.lock();
        state.account(by, "User");
        let id = state.repo_named(&pr.repo).id;
        add_talk(&mut state, id, pr.number, by, body).id
    }

    /// Somebody edits a comment on the timeline.
    pub fn edit_comment(&self, pr: &Pr, comment: u64, by: &str, body: &str) {
        let mut state = self.lock();
        let id = state.repo_named(&pr.repo).id;
        let now = state.now();
        let pull = state.repo_by_id(id).pulls.get_mut(&pr.number).unwrap();
        let talk = pull.talk.iter_mut().find(|talk| talk.id == comment).expect("a comment on the timeline");
        talk.edited_at = now;
        let before = std::mem::replace(&mut talk.body, body.to_owned());
        let talk = talk.clone();
        webhook::talk(&mut state, id, pr.number, by, &talk, Some(&before));
    }

    /// Somebody answers in a thread. The reply's id.
    pub fn reply(&self, pr: &Pr, to: u64, by: &str, body: &str) -> u64 {
        let mut state = self.lock();
        state.account(by, "User");
        let id = state.repo_named(&pr.repo).id;
        add_reply(&mut state, id, pr.number, to, by, body).expect("a comment to reply to").id
    }

    /// Somebody comments on a line of the new side. The comment's id.
    pub fn comment_on_line(&self, pr: &Pr, by: &str, path: &str, line: u64, body: &str) -> u64 {
        let mut state = self.lock();
        let state = &mut *state;
        state.account(by, "User");
        let repo = state.repo_named(&pr.repo);
        let (id, pull) = (repo.id, &repo.pulls[&pr.number]);
        let entries = state.entries_of(pull);
        let entry = entries.iter().find(|entry| entry.filename == path).expect("a file of the pull request");
        entry.line(false, line).expect("a line of the diff");
        let (commit, base, at) = (pull.head().to_owned(), state.base_of(pull), state.now());
        let hunk = State::hunk_above(entry.patch().unwrap_or_default(), false, line);
        let review = Review {
            id: state.id(),
            author: by.into(),
            body: String::new(),
            state: "COMMENTED",
            commit: commit.clone(),
            at,
        };
        let comment = Comment {
            id: state.id(),
            review: review.id,
            reply_to: None,
            author: Some(by.into()),
            body: body.into(),
            path: path.into(),
            left: false,
            line,
            start: None,
            commit,
            base,
            hunk,
            reactions: Vec::new(),
            resolved: false,
            at,
        };
        let pull = state.repo_by_id(id).pulls.get_mut(&pr.number).unwrap();
        pull.reviews.push(review.clone());
        pull.comments.push(comment.clone());
        webhook::review(state, id, pr.number, by, &review);
        webhook::comment(state, id, pr.number, by, &comment);
        comment.id
    }

    /// Somebody reacts to a line comment. GitHub sends no webhook for it.
    pub fn react(&self, pr: &Pr, comment: u64, by: &str, content: &str) {
        let mut state = self.lock();
        state.account(by, "User");
        let reaction = Reaction { id: state.id(), author: by.into(), content: content.into(), at: state.now() };
        let id = state.repo_named(&pr.repo).id;
        let pull = state.repo_by_id(id).pulls.get_mut(&pr.number).unwrap();
        let comment = pull.comments.iter_mut().find(|c| c.id == comment).expect("a line comment");
        comment.reactions.push(reaction);
    }

    /// Somebody resolves a thread.
    pub fn resolve(&self, pr: &Pr, root: u64, by: &str) {
        let mut state = self.lock();
        state.account(by, "User");
        let id = state.repo_named(&pr.repo).id;
        let pull = state.repo_by_id(id).pulls.get_mut(&pr.number).unwrap();
        pull.comments.iter_mut().find(|comment| comment.id == root).expect("a thread").resolved = true;
        webhook::thread(&mut state, id, pr.number, by, root, "resolved");
    }

    /// A review of the App that was begun and never submitted, as a crash leaves it. Its id.
    pub fn leave_pending_review(&self, pr: &Pr, body: &str) -> u64 {
        let bot = self.lock().app.bot.clone();
        self.leave_review(pr, &bot, "PENDING", body)
    }

    /// A review without comments by anybody; GitHub sends no webhook that is of interest here. Its id.
    pub fn leave_review(&self, pr: &Pr, by: &str, in_state: &'static str, body: &str) -> u64 {
        let mut state = self.lock();
        state.account(by, "User");
        let (id, at, author) = (state.id(), state.now(), by.to_owned());
        let repo = state.repo_named(&pr.repo).id;
        let pull = state.repo_by_id(repo).pulls.get_mut(&pr.number).unwrap();
        let commit = pull.head().to_owned();
        pull.reviews.push(Review { id, author, body: body.into(), state: in_state, commit, at });
        id
    }

    /// Somebody presses "Re-run" on the last check run of the present head.
    pub fn rerequest_check(&self, pr: &Pr, by: &str) {
        let check = self.checks(pr).pop().expect("a check run");
        let mut state = self.lock();
        state.account(by, "User");
        let id = state.repo_named(&pr.repo).id;
        webhook::check_rerequested(&mut state, id, by, &check);
    }

    /// The merge queue asks for checks of a merge of this pull request. The commit it is about.
    pub fn enqueue(&self, pr: &Pr) -> String {
        let mut state = self.lock();
        let repo = state.repo_named(&pr.repo);
        let (id, head) = (repo.id, repo.pulls[&pr.number].head().to_owned());
        let base = repo.branches["main"].clone();
        let files = (*state.commit(&head).files).clone();
        let merged = state.add_commit(vec![base.clone(), head], "Merge", files);
        webhook::merge_group(&mut state, id, "alice", &merged, &base);
        merged
    }
}

/// Puts a change on a branch; nothing happens when it is there already. The branch's tip.
fn commit_to(state: &mut State, repo: &str, branch: &str, change: &Change) -> String {
    let repo = state.repo_named(repo);
    let (id, tip) = (repo.id, repo.branches.get(branch).or_else(|| repo.branches.get("main")).unwrap().clone());
    let mut files = (*state.commit(&tip).files).clone();
    files.extend(change.after.clone());
    let unchanged = diff::entries(&state.commit(&tip).files, &files).is_empty();
    let tip = if unchanged { tip } else { state.add_commit(vec![tip], &format!("Work on {branch}"), files) };
    state.repo_by_id(id).branches.insert(branch.to_owned(), tip.clone());
    tip
}
