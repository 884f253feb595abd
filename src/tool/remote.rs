//! A repository on GitHub, at one commit.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use tokio::sync::OnceCell;

use super::ToolError;
use super::source::SourceTree;
use crate::github::FileText;
use crate::github::client::RepositoryClient;
use crate::github::error::GitHubError;
use crate::retry::Retry;

/// Most text kept in memory for one tree, in bytes. What does not fit is fetched again.
const MAX_CACHE: usize = 16 << 20;

/// Files fetched ahead together: one request of GraphQL.
const AHEAD: usize = 100;

/// The tree of a commit, read through the API. Files are kept while the tree lives: a commit does not change.
///
/// Files that were announced by [`SourceTree::prefetch`] are fetched when one of them is read, with as many of those behind
/// it as one request holds. So thousands of files cost a request per hundred, and few of them are in memory at once.
pub struct Remote {
    client: RepositoryClient,
    commit: String,
    files: Mutex<Cache>,
    announced: Mutex<Announced>,
    /// Held while files are fetched ahead, so that readers of one batch wait for one request.
    fetching: tokio::sync::Mutex<()>,
    paths: OnceCell<(Vec<String>, bool)>,
}

/// Texts by path; the oldest go first when there is no more room.
#[derive(Default)]
struct Cache {
    files: HashMap<String, FileText>,
    order: VecDeque<String>,
    bytes: usize,
}

/// What is going to be read: lists, each in the order of reading.
struct Announced {
    lists: Vec<List>,
    /// In which list, and where there.
    at: HashMap<String, (usize, usize)>,
    /// Files fetched together: as many as fitted into the cache last time.
    together: usize,
}

#[derive(Default)]
struct List {
    paths: Vec<String>,
    /// Which were fetched ahead once: they are not again.
    fetched: Vec<bool>,
}

impl Cache {
    /// Keeps a text, for the price of older ones. One that is too large for the whole cache is not kept.
    fn keep(&mut self, path: &str, text: &FileText) {
        let size = size(path, text);
        if size > MAX_CACHE || self.files.contains_key(path) {
            return;
        }
        while self.bytes + size > MAX_CACHE
            && let Some(oldest) = self.order.pop_front()
        {
            if let Some(gone) = self.files.remove(&oldest) {
                self.bytes -= self::size(&oldest, &gone);
            }
        }
        self.bytes += size;
        self.order.push_back(path.to_owned());
        self.files.insert(path.to_owned(), text.clone());
    }
}

impl Default for Announced {
    fn default() -> Self {
        Self { lists: Vec::new(), at: HashMap::new(), together: AHEAD }
    }
}

impl Announced {
    fn add(&mut self, paths: &[String]) {
        let mut list = List::default();
        for path in paths.iter().filter(|path| stays_inside(path)) {
            if !self.at.contains_key(path) {
                self.at.insert(path.clone(), (self.lists.len(), list.paths.len()));
                list.paths.push(path.clone());
                list.fetched.push(false);
            }
        }
        if !list.paths.is_empty() {
            self.lists.push(list);
        }
    }

    /// What to fetch for one who reads `path`: with it those behind it in its list that were not fetched yet.
    fn batch(&self, path: &str) -> Vec<String> {
        let mut batch = vec![path.to_owned()];
        let Some((list, at)) = self.at.get(path).and_then(|(list, at)| Some((self.lists.get(*list)?, *at))) else {
            return batch;
        };
        let behind = list.paths.iter().zip(&list.fetched).skip(at + 1).filter(|(_, fetched)| !**fetched);
        batch.extend(behind.take(self.together - 1).map(|(path, _)| path.clone()));
        batch
    }

    /// After a batch that could not be fetched.
    fn fewer(&mut self) {
        self.together = (self.together / 2).max(1);
    }

    /// Notes what a batch came to: its first `kept` files are in the cache now.
    fn note(&mut self, batch: &[String], kept: usize) {
        if kept < batch.len() {
            self.together = kept.max(1);
        }
        for path in batch.iter().take(kept.max(1)) {
            let fetched = self.at.get(path).and_then(|(list, at)| self.lists.get_mut(*list)?.fetched.get_mut(*at));
            if let Some(fetched) = fetched {
                *fetched = true;
            }
        }
    }
}

fn size(path: &str, text: &FileText) -> usize {
    path.len() + if let FileText::Text(text) = text { text.len() } else { 0 }
}

impl Remote {
    /// The tree at a commit; asks nothing yet.
    pub fn new(client: RepositoryClient, commit: impl Into<String>) -> Self {
        Self {
            client,
            commit: commit.into(),
            files: Mutex::default(),
            announced: Mutex::default(),
            fetching: tokio::sync::Mutex::default(),
            paths: OnceCell::new(),
        }
    }

    fn cached(&self, path: &str) -> Option<FileText> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).files.get(path).cloned()
    }

    fn announced(&self) -> MutexGuard<'_, Announced> {
        self.announced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fetches files; the text of the first one.
    async fn fetch(&self, paths: &[String]) -> Result<FileText, ToolError> {
        let mut texts = self.client.file_texts(&self.commit, paths).await.map_err(failed)?;
        let mut room = MAX_CACHE;
        let fits = paths.iter().zip(&texts).take_while(|(path, text)| {
            let size = size(path, text);
            let fits = size <= room;
            room = room.saturating_sub(size);
            fits
        });
        let kept = fits.count();
        {
            let mut cache = self.files.lock().unwrap_or_else(PoisonError::into_inner);
            for (path, text) in paths.iter().zip(&texts).take(kept) {
                cache.keep(path, text);
            }
        }
        self.announced().note(paths, kept);
        Ok(if texts.is_empty() { FileText::Missing } else { texts.swap_remove(0) })
    }
}

#[async_trait]
impl SourceTree for Remote {
    async fn read(&self, path: &str) -> Result<FileText, ToolError> {
        if !stays_inside(path) {
            return Ok(FileText::Missing);
        }
        if let Some(text) = self.cached(path) {
            return Ok(text);
        }
        if !self.announced().at.contains_key(path) {
            return self.fetch(&[path.to_owned()]).await;
        }
        let _one_at_a_time = self.fetching.lock().await;
        if let Some(text) = self.cached(path) {
            return Ok(text);
        }
        let batch = self.announced().batch(path);
        match self.fetch(&batch).await {
            // One that is asked for alone may still be had where many together fail.
            Err(error) if batch.len() > 1 => {
                tracing::warn!(%error, "files could not be fetched together");
                self.announced().fewer();
                self.fetch(&[path.to_owned()]).await
            }
            read => read,
        }
    }

    async fn list(&self) -> Result<(Vec<String>, bool), ToolError> {
        let listed = self.paths.get_or_try_init(|| async {
            let (mut paths, cut) = self.client.paths(&self.commit).await.map_err(failed)?;
            paths.sort_unstable();
            Ok((paths, !cut))
        });
        listed.await.cloned()
    }

    async fn prefetch(&self, paths: &[String]) -> Result<(), ToolError> {
        self.announced().add(paths);
        Ok(())
    }
}

/// Whether a path names something below the root: no `..`, no empty part, not absolute. Such paths cannot exist in a
/// commit, and some servers resolve them.
pub(super) fn stays_inside(path: &str) -> bool {
    !path.contains('\0') && path.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

fn failed(error: GitHubError) -> ToolError {
    match error.retry() {
        Retry::Never => ToolError::Refused(error.to_string()),
        Retry::After(_) | Retry::Backoff => ToolError::Transient(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_leave_the_root_are_known() {
        for path in ["a", "a/b.rs", "..a/b..", "a/.hidden", "é\u{2028}/ü"] {
            assert!(stays_inside(path), "{path}");
        }
        for path in ["", "/a", "a/", "a//b", "../a", "a/../../b", "./a", "a\0b", "."] {
            assert!(!stays_inside(path), "{path}");
        }
    }

    fn text(bytes: usize) -> FileText {
        FileText::Text("x".repeat(bytes))
    }

    #[test]
    fn what_is_kept_is_bounded_and_the_oldest_goes_first() {
        let mut cache = Cache::default();
        for path in ["a", "b", "c", "d", "e"] {
            cache.keep(path, &text(MAX_CACHE / 4 - 1));
            cache.keep(path, &text(1));
        }
        assert!(cache.bytes <= MAX_CACHE && cache.files.len() == 4 && !cache.files.contains_key("a"));
        cache.keep("huge", &text(MAX_CACHE + 1));
        assert!(!cache.files.contains_key("huge") && cache.files.len() == 4);
        cache.keep("f", &text(MAX_CACHE - 1));
        assert_eq!((cache.bytes, cache.files.len(), cache.order.len()), (MAX_CACHE, 1, 1));
    }

    #[test]
    fn announced_files_come_a_hundred_at_a_time_each_once() {
        let paths: Vec<String> = (0..250).map(|n| format!("f{n}")).collect();
        let mut announced = Announced::default();
        announced.add(&paths);
        announced.add(&["f0".to_owned(), "g".to_owned(), "h".to_owned()]);
        let mut read = |path: &str, kept: usize| {
            let batch = announced.batch(path);
            announced.note(&batch, kept.min(batch.len()));
            (batch.len(), batch[1..].first().cloned().unwrap_or_default())
        };
        let is = |len: usize, second: &str| (len, second.to_owned());
        assert_eq!(read("other", 1), is(1, ""));
        assert_eq!(read("f3", 100), is(100, "f4"));
        assert_eq!(read("f0", 100), is(100, "f1"), "f1, f2, and from f103 on");
        assert_eq!(read("f50", 100), is(51, "f200"), "one that is not kept any more brings the rest of its list");
        assert_eq!(read("f50", 100), is(1, ""));
        assert_eq!(read("g", 100), is(2, "h"), "another list");
    }

    #[test]
    fn large_files_come_as_many_together_as_are_kept() {
        let paths: Vec<String> = (0..250).map(|n| format!("f{n}")).collect();
        let mut announced = Announced::default();
        announced.add(&paths);
        let batch = announced.batch("f0");
        announced.note(&batch, 7);
        assert_eq!(announced.batch("f7").len(), 7);
        let batch = announced.batch("f7");
        announced.note(&batch, 0);
        assert_eq!(announced.batch("f8"), ["f8"], "at least one, whatever its size");
    }

    #[test]
    fn passing_faults_may_be_tried_again_and_others_not() {
        assert!(matches!(failed(GitHubError::Unavailable("x".into())), ToolError::Transient(_)));
        assert!(matches!(failed(GitHubError::NotFound("x".into())), ToolError::Refused(_)));
    }
}
