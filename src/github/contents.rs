//! Files of a repository at a commit.
//!
//! Many files are read with one GraphQL request, each as an alias whose expression (`commit:path`) is a variable: names
//! are never pasted into the query. What GraphQL cannot give (it cuts texts at about 500 KB) is read as a blob.

use std::collections::HashSet;
use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::FileText::{self, Missing, NotText, Text, TooLarge};
use super::client::RepositoryClient;
use super::endpoint::{file_path, segment};
use super::error::GitHubError;
use super::wire::{self, ObjectWire};

/// Objects asked for with one request.
const BATCH: usize = 100;
/// Objects asked for at once after a larger request failed: GitHub gives up after 10 s, and we at 32 MiB.
const SMALL_BATCH: usize = 10;

/// Bytes of memory reckoned for one text that is asked for with others, as an answer and as what is made of it.
const TEXT_BYTES: usize = 64 << 10;

/// What came of asking for an object.
#[derive(Debug, Clone)]
pub(super) enum Found {
    /// There is none.
    Nothing,
    /// There is one.
    Object(ObjectWire),
    /// GitHub could not say for this one.
    Failed,
}

/// How much is asked for of each object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fields {
    /// Name, size and kind.
    Facts,
    /// The text too.
    Text,
}

impl RepositoryClient {
    /// The texts of files at a commit, in the order asked, many with one GraphQL request (100 at a time); what GraphQL
    /// cannot give is read as a blob.
    ///
    /// # Errors
    /// As any request; [`GitHubError::Unavailable`] while the commit is not there (a push to a fork may be announced
    /// seconds before it can be read).
    pub async fn file_texts(&self, commit: &str, paths: &[String]) -> Result<Vec<FileText>, GitHubError> {
        let expressions: Vec<String> = paths.iter().map(|path| format!("{commit}:{path}")).collect();
        let found = self.objects(commit, &expressions, Fields::Text).await?;
        let mut texts = Vec::with_capacity(paths.len());
        for (path, found) in paths.iter().zip(found) {
            texts.push(match found {
                Found::Nothing => Missing,
                Found::Object(object) => self.text_of(object).await?,
                Found::Failed => self.text_by_path(commit, path).await?,
            });
        }
        Ok(texts)
    }

    /// All file paths at a commit (recursive tree) and whether GitHub cut the list.
    ///
    /// # Errors
    /// As any request.
    pub async fn paths(&self, commit: &str) -> Result<(Vec<String>, bool), GitHubError> {
        let what = self.commit_name(commit);
        let tree: wire::TreeWire = self.get(&format!("/git/trees/{}?recursive=1", segment(commit)), &what).await?;
        let files = tree.tree.into_iter().filter(|entry| entry.kind == "blob").map(|entry| entry.path).collect();
        Ok((files, tree.truncated))
    }

    /// The commit where two parted. Asked for as a page behind the last, which holds neither commits nor files.
    pub(super) async fn merge_base(&self, base: &str, head: &str) -> Result<String, GitHubError> {
        let what = format!("comparison of {base} and {head} in {}", self.repository().full_name());
        let route = format!("/compare/{}...{}?per_page=1&page=2", segment(base), segment(head));
        Ok(self.get::<wire::CompareWire>(&route, &what).await?.merge_base_commit.sha)
    }

    /// Looks up one object per expression, in order.
    pub(super) async fn objects(
        &self,
        commit: &str,
        expressions: &[String],
        fields: Fields,
    ) -> Result<Vec<Found>, GitHubError> {
        let mut found = Vec::with_capacity(expressions.len());
        for batch in expressions.chunks(BATCH) {
            match self.batch(commit, batch, fields).await {
                Err(GitHubError::Unavailable(_) | GitHubError::Unreadable(_)) if batch.len() > SMALL_BATCH => {
                    for batch in batch.chunks(SMALL_BATCH) {
                        found.extend(self.batch(commit, batch, fields).await?);
                    }
                }
                other => found.extend(other?),
            }
        }
        Ok(found)
    }

    async fn batch(&self, commit: &str, expressions: &[String], fields: Fields) -> Result<Vec<Found>, GitHubError> {
        let what = self.commit_name(commit);
        let mut variables = Map::new();
        variables.insert("owner".into(), json!(self.repository().owner));
        variables.insert("name".into(), json!(self.repository().name));
        variables.insert("commit".into(), json!(commit));
        for (n, expression) in expressions.iter().enumerate() {
            variables.insert(format!("e{n}"), json!(expression));
        }
        // What comes is not known before; an answer of this size is common, and parsed it takes more.
        let _held = match fields {
            Fields::Text => Some(self.settings().inputs.hold(expressions.len() * TEXT_BYTES).await),
            Fields::Facts => None,
        };
        let query = query(expressions.len(), fields);
        let (data, errors) = self.graphql(&query, Value::Object(variables), &what).await?;
        let Some(repository) = data.get("repository").filter(|repository| repository.is_object()) else {
            return Err(GitHubError::NotFound(format!("repository {}", self.repository().full_name())));
        };
        if repository.get("commit").is_none_or(Value::is_null) {
            return Err(GitHubError::Unavailable(format!("{what} cannot be read yet")));
        }
        let failed = failed_aliases(&errors);
        Ok((0..expressions.len()).map(|n| read_object(repository, &format!("f{n}"), &failed)).collect())
    }

    /// The text of an object, from what GraphQL said or else from the blob.
    async fn text_of(&self, object: ObjectWire) -> Result<FileText, GitHubError> {
        let size = object.byte_size.unwrap_or_default();
        if object.kind != "Blob" {
            return Ok(Missing);
        }
        if size > self.settings().max_file_bytes {
            return Ok(TooLarge);
        }
        match object.text {
            Some(text) if object.is_truncated != Some(true) => Ok(Text(text)),
            _ if object.is_binary == Some(true) => Ok(NotText),
            _ => self.blob_text(&object.oid).await,
        }
    }

    /// The text of a blob, read as bytes. The caller knows its size to be within the limit.
    pub(super) async fn blob_text(&self, oid: &str) -> Result<FileText, GitHubError> {
        let what = format!("blob {oid} in {}", self.repository().full_name());
        let _held = self.settings().inputs.hold(self.settings().max_file_bytes).await;
        let bytes = self.get_raw(&format!("/git/blobs/{}", segment(oid)), &what).await?;
        if bytes.contains(&0) {
            return Ok(NotText);
        }
        Ok(String::from_utf8(bytes.to_vec()).map_or(NotText, Text))
    }

    async fn text_by_path(&self, commit: &str, path: &str) -> Result<FileText, GitHubError> {
        let what = format!("{path} at {commit} in {}", self.repository().full_name());
        let route = format!("/contents/{}?ref={}", file_path(path), segment(commit));
        match self.get::<wire::ContentWire>(&route, &what).await {
            Ok(content) if content.size > self.settings().max_file_bytes => Ok(TooLarge),
            Ok(content) if content.kind == "file" => self.blob_text(&content.sha).await,
            // A directory is a list, which is no content; a submodule or symlink is no file.
            Ok(_) | Err(GitHubError::NotFound(_) | GitHubError::Unreadable(_)) => Ok(Missing),
            Err(other) => Err(other),
        }
    }

    fn commit_name(&self, commit: &str) -> String {
        format!("commit {commit} in {}", self.repository().full_name())
    }
}

/// The query for `count` objects. Only its length depends on the input.
fn query(count: usize, fields: Fields) -> String {
    let mut query = "query($owner:String!,$name:String!,$commit:String!".to_owned();
    for n in 0..count {
        let _ = write!(query, ",$e{n}:String!");
    }
    query.push_str("){repository(owner:$owner,name:$name){commit:object(expression:$commit){oid}");
    let text = if fields == Fields::Text { " text" } else { "" };
    for n in 0..count {
        let _ = write!(
            query,
            " f{n}:object(expression:$e{n}){{__typename oid ...on Blob{{byteSize isBinary isTruncated{text}}}}}"
        );
    }
    query.push_str("}}");
    query
}

/// Aliases below `repository` that an error is about.
fn failed_aliases(errors: &[Value]) -> HashSet<&str> {
    errors.iter().filter_map(|error| error.get("path")?.get(1)?.as_str()).collect()
}

fn read_object(repository: &Value, alias: &str, failed: &HashSet<&str>) -> Found {
    match repository.get(alias) {
        Some(object) if object.is_object() => {
            serde_json::from_value(object.clone()).map_or(Found::Failed, Found::Object)
        }
        _ if failed.contains(alias) => Found::Failed,
        _ => Found::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_query_holds_no_input() {
        assert_eq!(
            query(1, Fields::Facts),
            "query($owner:String!,$name:String!,$commit:String!,$e0:String!){repository(owner:$owner,name:$name)\
             {commit:object(expression:$commit){oid} f0:object(expression:$e0){__typename oid \
             ...on Blob{byteSize isBinary isTruncated}}}}"
        );
        assert!(query(2, Fields::Text).contains("isTruncated text"));
    }

    #[test]
    fn an_object_that_failed_is_told_from_one_that_is_not_there() {
        let errors = [json!({"path": ["repository", "f1"], "message": "timed out"}), json!("odd"), json!({"path": 3})];
        let failed = failed_aliases(&errors);
        let repository = json!({
            "f0": null, "f1": null, "f2": {"__typename": "Blob", "oid": "a", "byteSize": 1, "text": "x"}, "f3": {"odd": 1},
        });
        assert!(matches!(read_object(&repository, "f0", &failed), Found::Nothing));
        assert!(matches!(read_object(&repository, "f1", &failed), Found::Failed));
        assert!(
            matches!(read_object(&repository, "f2", &failed), Found::Object(object) if object.text.as_deref() == Some("x"))
        );
        assert!(matches!(read_object(&repository, "f3", &failed), Found::Failed));
        assert!(matches!(read_object(&repository, "f9", &failed), Found::Nothing));
    }
}
