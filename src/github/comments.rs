//! Comments on lines and on the timeline, and reactions to them.

use serde_json::json;

use super::client::RepositoryClient;
use super::error::GitHubError;
use super::{IssueComment, ReviewComment, wire};

/// Pages of comments read: 3,000 comments.
const MAX_PAGES: usize = 30;

impl RepositoryClient {
    /// All line comments of a pull request, oldest first (the first 3,000).
    ///
    /// # Errors
    /// As any request.
    pub async fn review_comments(&self, number: u64) -> Result<Vec<ReviewComment>, GitHubError> {
        let what = self.pull_name(number);
        let comments: Vec<wire::ReviewCommentWire> =
            self.pages(&format!("/pulls/{number}/comments"), MAX_PAGES, &what).await?;
        Ok(comments.into_iter().map(ReviewComment::from).collect())
    }

    /// One line comment.
    ///
    /// # Errors
    /// As any request.
    pub async fn review_comment(&self, id: u64) -> Result<ReviewComment, GitHubError> {
        let what = self.comment_name(id);
        Ok(self.get::<wire::ReviewCommentWire>(&format!("/pulls/comments/{id}"), &what).await?.into())
    }

    /// Answers in a thread; `root` is its first comment.
    ///
    /// # Errors
    /// As any request.
    pub async fn reply(&self, number: u64, root: u64, body: &str) -> Result<u64, GitHubError> {
        let what = self.comment_name(root);
        let route = format!("/pulls/{number}/comments/{root}/replies");
        Ok(self.post::<wire::Id>(&route, json!({ "body": body }), &what).await?.id)
    }

    /// All comments on the timeline, oldest first (the first 3,000).
    ///
    /// # Errors
    /// As any request.
    pub async fn issue_comments(&self, number: u64) -> Result<Vec<IssueComment>, GitHubError> {
        let what = self.pull_name(number);
        let comments: Vec<wire::IssueCommentWire> =
            self.pages(&format!("/issues/{number}/comments"), MAX_PAGES, &what).await?;
        Ok(comments.into_iter().map(IssueComment::from).collect())
    }

    /// One comment of the timeline.
    ///
    /// # Errors
    /// As any request.
    pub async fn issue_comment(&self, id: u64) -> Result<IssueComment, GitHubError> {
        let what = self.comment_name(id);
        Ok(self.get::<wire::IssueCommentWire>(&format!("/issues/comments/{id}"), &what).await?.into())
    }

    /// Comments on the timeline.
    ///
    /// # Errors
    /// As any request.
    pub async fn create_issue_comment(&self, number: u64, body: &str) -> Result<u64, GitHubError> {
        let what = self.pull_name(number);
        Ok(self.post::<wire::Id>(&format!("/issues/{number}/comments"), json!({ "body": body }), &what).await?.id)
    }

    /// Puts a reaction (`eyes`, `+1`, `confused` …) on a timeline comment. Doing it twice is once.
    ///
    /// # Errors
    /// As any request.
    pub async fn react_to_issue_comment(&self, id: u64, content: &str) -> Result<(), GitHubError> {
        self.react(&format!("/issues/comments/{id}/reactions"), id, content).await
    }

    /// Puts a reaction on a line comment. Doing it twice is once.
    ///
    /// # Errors
    /// As any request.
    pub async fn react_to_review_comment(&self, id: u64, content: &str) -> Result<(), GitHubError> {
        self.react(&format!("/pulls/comments/{id}/reactions"), id, content).await
    }

    /// GitHub answers 201 for a new reaction and 200 for one that was there.
    async fn react(&self, route: &str, id: u64, content: &str) -> Result<(), GitHubError> {
        let what = self.comment_name(id);
        self.post::<wire::Id>(route, json!({ "content": content }), &what).await?;
        Ok(())
    }

    fn comment_name(&self, id: u64) -> String {
        format!("comment {id} in {}", self.repository().full_name())
    }
}
