//! Reviews: posting them, and finding our own again.

use http::Method;
use serde_json::{Map, Value, json};

use super::client::RepositoryClient;
use super::error::GitHubError;
use super::{NewComment, NewReview, Review, wire};

/// Pages of reviews read: 1,000 reviews. A pull request with more is past helping, and every page costs a request.
const MAX_PAGES: usize = 10;

impl RepositoryClient {
    /// Posts a review. All or nothing on GitHub's side.
    ///
    /// # Errors
    /// [`GitHubError::Unprocessable`] when any comment is refused; see [`GitHubError::doubtful`].
    pub async fn create_review(&self, number: u64, review: &NewReview) -> Result<u64, GitHubError> {
        let what = self.pull_name(number);
        Ok(self.post::<wire::Id>(&format!("/pulls/{number}/reviews"), body(review), &what).await?.id)
    }

    /// All reviews of a pull request, oldest first (the first 1,000).
    ///
    /// # Errors
    /// As any request.
    pub async fn reviews(&self, number: u64) -> Result<Vec<Review>, GitHubError> {
        let what = self.pull_name(number);
        let reviews: Vec<wire::ReviewWire> = self.pages(&format!("/pulls/{number}/reviews"), MAX_PAGES, &what).await?;
        Ok(reviews.into_iter().map(Review::from).collect())
    }

    /// Removes a pending review of ours.
    ///
    /// # Errors
    /// As any request.
    pub async fn delete_pending_review(&self, number: u64, review_id: u64) -> Result<(), GitHubError> {
        let what = format!("review {review_id} on {}", self.pull_name(number));
        let answer = self.call(Method::DELETE, &format!("/pulls/{number}/reviews/{review_id}"), None, &what).await?;
        // Whatever else answers 200 on the way has not deleted it.
        answer.json::<wire::Id>(&what)?;
        Ok(())
    }
}

/// The JSON of a review. octocrab's own type cannot hold line comments, and GitHub refuses a start that equals the end,
/// so a start is sent for ranges only.
fn body(review: &NewReview) -> Value {
    // Without an event it would be pending, which nobody but its author sees.
    json!({
        "commit_id": review.commit_id,
        "body": review.body,
        "event": review.event,
        "comments": review.comments.iter().map(comment).collect::<Vec<_>>(),
    })
}

fn comment(comment: &NewComment) -> Value {
    let mut json = Map::new();
    json.insert("path".into(), json!(comment.path));
    json.insert("body".into(), json!(comment.body));
    json.insert("side".into(), json!(comment.side));
    json.insert("line".into(), json!(comment.line));
    if let Some(start) = comment.start_line {
        json.insert("start_side".into(), json!(comment.side));
        json.insert("start_line".into(), json!(start));
    }
    Value::Object(json)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diff::Side;
    use crate::github::ReviewEvent;

    #[test]
    fn a_start_is_sent_for_ranges_only() {
        let one = NewComment { path: "a b.rs".into(), line: 3, side: Side::Left, start_line: None, body: "x".into() };
        let range = NewComment { start_line: Some(1), side: Side::Right, ..one.clone() };
        let review = NewReview {
            commit_id: "abc".into(),
            body: "s".into(),
            event: ReviewEvent::RequestChanges,
            comments: vec![one, range],
        };
        assert_eq!(
            body(&review),
            json!({"commit_id": "abc", "body": "s", "event": "REQUEST_CHANGES", "comments": [
                {"path": "a b.rs", "body": "x", "side": "LEFT", "line": 3},
                {"path": "a b.rs", "body": "x", "side": "RIGHT", "line": 3, "start_side": "RIGHT", "start_line": 1},
            ]})
        );
    }
}
