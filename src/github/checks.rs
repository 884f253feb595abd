//! Our check run.

use std::cmp::Reverse;

use http::Method;
use serde_json::{Value, json};

use super::client::RepositoryClient;
use super::endpoint::segment;
use super::error::GitHubError;
use super::{CheckRun, wire};

/// The name people see, and that branch protection refers to.
const NAME: &str = "secondlook";
/// The status of a check run that has ended.
const COMPLETED: &str = "completed";
/// GitHub's limit on `output.title`, in characters.
const TITLE_CHARS: usize = 255;
/// GitHub's limit on `output.summary`, in characters.
const SUMMARY_CHARS: usize = 65_535;

impl RepositoryClient {
    /// Creates the check run named `secondlook`.
    ///
    /// # Errors
    /// As any request.
    pub async fn create_check_run(&self, run: &CheckRun) -> Result<u64, GitHubError> {
        let what = format!("commit {} in {}", run.head_sha, self.repository().full_name());
        let mut body = body(run);
        body["head_sha"] = json!(run.head_sha);
        Ok(self.post::<wire::Id>("/check-runs", body, &what).await?.id)
    }

    /// The check run of a commit that was created under `external_id` and has not ended, if there is one: asked after a
    /// creation whose answer was lost.
    ///
    /// # Errors
    /// As any request.
    pub async fn find_check_run(&self, head_sha: &str, external_id: &str) -> Result<Option<u64>, GitHubError> {
        let listed = self.check_runs(head_sha, external_id).await?;
        Ok(listed.iter().find(|run| run.status != COMPLETED).map(|run| run.id))
    }

    /// Says something by a completed check run, unless the newest one of this `external_id` says it already: a creation
    /// whose answer was lost is not made again.
    ///
    /// # Errors
    /// As any request.
    pub async fn say_by_check_run(&self, run: &CheckRun) -> Result<(), GitHubError> {
        let listed = self.check_runs(&run.head_sha, &run.external_id).await?;
        let title = cut(&run.title, TITLE_CHARS);
        let is_said =
            |newest: &wire::ListedCheckRun| newest.status == COMPLETED && newest.output.title.as_ref() == Some(&title);
        if !listed.first().is_some_and(is_said) {
            self.create_check_run(run).await?;
        }
        Ok(())
    }

    /// The check runs of a commit that were created under `external_id`, the newest first: ids grow.
    async fn check_runs(&self, head_sha: &str, external_id: &str) -> Result<Vec<wire::ListedCheckRun>, GitHubError> {
        let what = format!("commit {head_sha} in {}", self.repository().full_name());
        let rest = format!("/commits/{}/check-runs?check_name={NAME}&filter=all&per_page=100", segment(head_sha));
        let mut listed = self.get::<wire::CheckRuns>(&rest, &what).await?.check_runs;
        listed.retain(|run| run.external_id.as_deref() == Some(external_id));
        listed.sort_by_key(|run| Reverse(run.id));
        Ok(listed)
    }

    /// Updates it.
    ///
    /// # Errors
    /// As any request.
    pub async fn update_check_run(&self, id: u64, run: &CheckRun) -> Result<(), GitHubError> {
        let what = format!("check run {id} of {}", self.repository().full_name());
        let answer = self.call(Method::PATCH, &format!("/check-runs/{id}"), Some(body(run)), &what).await?;
        // Whatever else answers 200 on the way has not ended the check.
        answer.json::<wire::Id>(&what)?;
        Ok(())
    }
}

fn body(run: &CheckRun) -> Value {
    let mut body = json!({
        "name": NAME,
        "status": run.status,
        "external_id": run.external_id,
        "output": { "title": cut(&run.title, TITLE_CHARS), "summary": cut(&run.summary, SUMMARY_CHARS) },
    });
    if let Some(conclusion) = run.conclusion {
        body["conclusion"] = json!(conclusion);
    }
    if let Some(url) = &run.details_url {
        body["details_url"] = json!(url);
    }
    body
}

/// At most `limit` characters, the last of them an ellipsis when something was left out.
fn cut(text: &str, limit: usize) -> String {
    if text.chars().nth(limit).is_none() {
        return text.to_owned();
    }
    text.chars().take(limit.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::github::{CheckStatus, Conclusion};

    #[test]
    fn texts_are_cut_where_github_would_refuse_them() {
        let run = CheckRun {
            head_sha: "h".into(),
            status: CheckStatus::Completed,
            conclusion: Some(Conclusion::Neutral),
            title: "ä".repeat(300),
            summary: "ö".repeat(70_000),
            external_id: "x".into(),
            details_url: None,
        };
        let body = body(&run);
        assert_eq!(body["output"]["title"].as_str().unwrap().chars().count(), TITLE_CHARS);
        assert_eq!(body["output"]["summary"].as_str().unwrap().chars().count(), SUMMARY_CHARS);
        assert_eq!((&body["status"], &body["conclusion"]), (&json!("completed"), &json!("neutral")));
        assert!(body.get("details_url").is_none());
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("abcd", 3), "ab…");
    }
}
