//! A repository on this machine: the files of a directory, or what git has at a commit or in its index.
//!
//! A directory's tree never leaves its root, and shows only what could be committed: ignored files (`.env`, build
//! output) and `.git` itself are not there, because what is read here may be sent to a model.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use async_trait::async_trait;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::{Mutex, OnceCell};

use super::ToolError;
use super::remote::stays_inside;
use super::source::SourceTree;
use crate::github::FileText;

/// Largest file that is read, in bytes; GitHub's limit for text, so that both ways in see the same.
pub const MAX_FILE_BYTES: usize = 1 << 20;

/// Most paths that are listed; GitHub's own limit for a tree.
pub const MAX_PATHS: usize = 100_000;

/// Files one search may read: they are near.
const SEARCH_WIDTH: usize = 5_000;

/// Most output of a git command that is kept, in bytes.
const MAX_OUTPUT: usize = 256 << 20;

/// Most symbolic links followed from one path inside a commit.
const MAX_LINKS: usize = 5;

/// Why there is no tree.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckoutError {
    /// The directory is missing or unreadable.
    #[error("{0} is not a directory that can be read; give the root of a checkout")]
    NotADirectory(String),
    /// git is not installed.
    #[error("git cannot be started ({0}); install it or put it on the PATH")]
    NoGit(String),
    /// The name of a commit is wrong.
    #[error("git knows no commit {0:?} here; fetch it, or check its name")]
    NoCommit(String),
    /// git failed otherwise.
    #[error("git {command} failed: {message}")]
    Git {
        /// Which command.
        command: String,
        /// What git said, clipped.
        message: String,
    },
}

/// The files of a directory as they are now.
pub struct Checkout {
    root: PathBuf,
    including: BTreeSet<String>,
    paths: OnceCell<(Vec<String>, bool)>,
}

impl Checkout {
    /// The tree below a directory.
    ///
    /// # Errors
    /// [`CheckoutError::NotADirectory`].
    pub fn new(root: &Path) -> Result<Self, CheckoutError> {
        let not = |_| CheckoutError::NotADirectory(root.display().to_string());
        let canonical = root.canonicalize().map_err(not)?;
        if !canonical.is_dir() {
            return Err(CheckoutError::NotADirectory(root.display().to_string()));
        }
        Ok(Self { root: canonical, including: BTreeSet::new(), paths: OnceCell::new() })
    }

    /// The same tree with these paths readable even where they are ignored: files of a change are committed, whatever
    /// `.gitignore` says of them.
    #[must_use]
    pub fn including(self, paths: impl IntoIterator<Item = String>) -> Self {
        Self { including: paths.into_iter().collect(), ..self }
    }

    async fn paths(&self) -> Result<&(Vec<String>, bool), ToolError> {
        let root = self.root.clone();
        let listed = self.paths.get_or_try_init(|| async { blocking(move || walk(&root, None)).await });
        listed.await
    }

    /// Whether a path could be committed, or belongs to the change. Where the list of paths has gaps, the path is looked
    /// for by itself: a gap must not open what is ignored.
    async fn shows(&self, path: &str) -> Result<bool, ToolError> {
        let among = |paths: &[String]| paths.binary_search_by(|known| known.as_str().cmp(path)).is_ok();
        let (paths, complete) = self.paths().await?;
        if self.including.contains(path) || among(paths) {
            return Ok(true);
        }
        if *complete {
            return Ok(false);
        }
        let (root, only) = (self.root.clone(), PathBuf::from(path));
        let (found, _) = blocking(move || walk(&root, Some(only))).await?;
        Ok(among(&found))
    }
}

#[async_trait]
impl SourceTree for Checkout {
    async fn read(&self, path: &str) -> Result<FileText, ToolError> {
        if !stays_inside(path) || is_git(Path::new(path)) {
            return Ok(FileText::Missing);
        }
        if !self.shows(path).await? {
            return Ok(FileText::Missing);
        }
        let (root, named) = (self.root.clone(), self.root.join(path));
        let Some(real) = blocking(move || inside(&root, &named)).await? else {
            return Ok(FileText::Missing);
        };
        // A link shows no more than its target would show by itself.
        if real != path && !self.shows(&real).await? {
            return Ok(FileText::Missing);
        }
        let real = self.root.join(real);
        blocking(move || read_file(&real)).await
    }

    async fn list(&self) -> Result<(Vec<String>, bool), ToolError> {
        self.paths().await.cloned()
    }

    fn search_width(&self) -> usize {
        SEARCH_WIDTH
    }
}

/// What git has at a commit, or in the index; the working tree does not matter.
pub struct GitTree {
    root: PathBuf,
    commit: Option<String>,
    entries: BTreeMap<String, Entry>,
    complete: bool,
    /// The running `git cat-file --batch`. Taken out while it is asked something, so that a question that is given up
    /// half way takes its process with it.
    batch: Mutex<Option<Batch>>,
}

struct Entry {
    link: bool,
    object: String,
}

struct Batch {
    /// Killed when dropped.
    _child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl GitTree {
    /// The tree of a commit, by any name git knows (`main`, `v1.2`, `HEAD~2`, a hash). `root` is a checkout or a bare
    /// repository.
    ///
    /// # Errors
    /// See [`CheckoutError`].
    pub async fn at(root: &Path, reference: &str) -> Result<Self, CheckoutError> {
        let unknown = || CheckoutError::NoCommit(reference.to_owned());
        if reference.is_empty() || reference.starts_with('-') || reference.contains(['\0', '\n']) {
            return Err(unknown());
        }
        let commit = format!("{reference}^{{commit}}");
        let resolved = git(root, &["rev-parse", "--verify", "--quiet", "--end-of-options", &commit]).await;
        let resolved = match resolved {
            Ok(output) => String::from_utf8_lossy(&output).trim().to_owned(),
            // With --quiet, git says nothing when there is no such commit, and something when all else is wrong.
            Err(CheckoutError::Git { message, .. }) if message.is_empty() => return Err(unknown()),
            Err(error) => return Err(error),
        };
        let listed = git(root, &["ls-tree", "-r", "-z", "--full-tree", &resolved]).await?;
        // <mode> SP <type> SP <object> TAB <path>
        let entry = |meta: &str| {
            let mut words = meta.split(' ');
            Some((words.next()?.to_owned(), words.nth(1)?.to_owned()))
        };
        Ok(Self::new(root.to_owned(), Some(resolved), &listed, entry))
    }

    /// What is staged.
    ///
    /// # Errors
    /// See [`CheckoutError`].
    pub async fn index(root: &Path) -> Result<Self, CheckoutError> {
        let top = git(root, &["rev-parse", "--show-toplevel"]).await?;
        let root = PathBuf::from(String::from_utf8_lossy(&top).trim_end_matches('\n'));
        let listed = git(&root, &["ls-files", "--stage", "-z"]).await?;
        // <mode> SP <object> SP <stage> TAB <path>
        let entry = |meta: &str| {
            let mut words = meta.split(' ');
            Some((words.next()?.to_owned(), words.next()?.to_owned()))
        };
        Ok(Self::new(root, None, &listed, entry))
    }

    /// The commit's hash; `None` for the index.
    pub fn commit(&self) -> Option<&str> {
        self.commit.as_deref()
    }

    fn new(
        root: PathBuf,
        commit: Option<String>,
        listed: &[u8],
        entry: impl Fn(&str) -> Option<(String, String)>,
    ) -> Self {
        let mut entries = BTreeMap::new();
        let mut complete = true;
        for record in listed.split(|byte| *byte == 0).filter(|record| !record.is_empty()) {
            // A path that is not UTF-8 cannot be named by anybody here.
            let Some((meta, path)) = std::str::from_utf8(record).ok().and_then(|record| record.split_once('\t')) else {
                complete = false;
                continue;
            };
            let Some((mode, object)) = entry(meta) else { continue };
            if entries.len() == MAX_PATHS {
                complete = false;
                break;
            }
            // 160000 is a submodule: a commit of another repository.
            if mode != "160000" {
                entries.insert(path.to_owned(), Entry { link: mode == "120000", object });
            }
        }
        Self { root, commit, entries, complete, batch: Mutex::new(None) }
    }

    async fn object(&self, object: &str) -> Result<FileText, ToolError> {
        let failed = |error: std::io::Error| ToolError::Transient(format!("git cat-file: {error}"));
        // Held only to take or give back: several readers then run a process each, and one of them is kept.
        let taken = self.batch.lock().await.take();
        let mut batch = match taken {
            Some(batch) => batch,
            None => Batch::start(&self.root).map_err(failed)?,
        };
        let text = batch.ask(object).await.map_err(failed)?;
        if text != FileText::TooLarge {
            *self.batch.lock().await = Some(batch);
        }
        Ok(text)
    }
}

#[async_trait]
impl SourceTree for GitTree {
    async fn read(&self, path: &str) -> Result<FileText, ToolError> {
        let mut path = path.to_owned();
        for _ in 0..MAX_LINKS {
            let Some(entry) = self.entries.get(&path) else {
                return Ok(FileText::Missing);
            };
            let text = self.object(&entry.object).await?;
            match text {
                FileText::Text(target) if entry.link => match followed(&path, &target) {
                    Some(target) => path = target,
                    None => return Ok(FileText::Missing),
                },
                text => return Ok(text),
            }
        }
        Ok(FileText::Missing)
    }

    async fn list(&self) -> Result<(Vec<String>, bool), ToolError> {
        Ok((self.entries.keys().cloned().collect(), self.complete))
    }

    fn search_width(&self) -> usize {
        SEARCH_WIDTH
    }
}

impl Batch {
    fn start(root: &Path) -> std::io::Result<Self> {
        let mut child =
            git_command(root).args(["cat-file", "--batch"]).stdin(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let piped = || std::io::Error::other("no pipe to git");
        let questions = child.stdin.take().ok_or_else(piped)?;
        let answers = BufReader::new(child.stdout.take().ok_or_else(piped)?);
        Ok(Self { _child: child, questions, answers })
    }

    /// Asks for one object. After [`FileText::TooLarge`] or an error the process must not be used again.
    async fn ask(&mut self, object: &str) -> std::io::Result<FileText> {
        self.questions.write_all(format!("{object}\n").as_bytes()).await?;
        self.questions.flush().await?;
        let mut head = String::new();
        (&mut self.answers).take(300).read_line(&mut head).await?;
        // <object> SP <type> SP <size>, or <object> SP missing
        let mut words = head.trim_end().split(' ').skip(1);
        let (kind, size) = (words.next(), words.next().and_then(|size| size.parse::<usize>().ok()));
        let (Some("blob"), Some(size)) = (kind, size) else {
            return if kind == Some("missing") { Ok(FileText::Missing) } else { Err(std::io::Error::other("no blob")) };
        };
        if size > MAX_FILE_BYTES {
            return Ok(FileText::TooLarge);
        }
        let mut bytes = vec![0; size + 1];
        self.answers.read_exact(&mut bytes).await?;
        bytes.truncate(size);
        Ok(as_text(bytes))
    }
}

/// Where a link inside a commit points to; `None` when that is outside.
fn followed(link: &str, target: &str) -> Option<String> {
    if target.starts_with('/') {
        return None;
    }
    let mut parts: Vec<&str> = link.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

fn as_text(bytes: Vec<u8>) -> FileText {
    match String::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => FileText::Text(text),
        _ => FileText::NotText,
    }
}

/// Runs work that blocks on the disk where it holds nobody up.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, ToolError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| ToolError::Transient("reading was interrupted".into()))
}

/// The paths below a root in order, and whether these are all. With `only`, no more than that one is looked for.
fn walk(root: &Path, only: Option<PathBuf>) -> (Vec<String>, bool) {
    let top = root.to_owned();
    let wanted = move |path: &Path| match (&only, path.strip_prefix(&top)) {
        (Some(only), Ok(path)) => only.starts_with(path),
        _ => true,
    };
    let mut paths = Vec::new();
    let mut complete = true;
    let walk = ignore::WalkBuilder::new(root)
        .hidden(false)
        .require_git(false)
        .ignore(false)
        .git_global(false)
        .follow_links(false)
        .filter_entry(move |entry| wanted(entry.path()) && !is_git(Path::new(entry.file_name())))
        .build();
    for entry in walk {
        let Ok(entry) = entry else {
            complete = false;
            continue;
        };
        // Links are listed; where they lead is looked at when they are read.
        if !entry.file_type().is_some_and(|kind| kind.is_file() || kind.is_symlink()) {
            continue;
        }
        if paths.len() == MAX_PATHS {
            complete = false;
            break;
        }
        let parts = entry.path().strip_prefix(root).ok().map(|path| path.iter().map(|part| part.to_str()));
        match parts.and_then(Iterator::collect::<Option<Vec<_>>>) {
            Some(parts) => paths.push(parts.join("/")),
            None => complete = false,
        }
    }
    paths.sort_unstable();
    (paths, complete)
}

/// Where a path leads below the root, all links followed; `None` when that is outside, nothing, or git's own.
fn inside(root: &Path, path: &Path) -> Option<String> {
    let real = path.canonicalize().ok()?;
    let below = real.strip_prefix(root).ok()?;
    if is_git(below) {
        return None;
    }
    let parts: Option<Vec<&str>> = below.iter().map(|part| part.to_str()).collect();
    Some(parts?.join("/"))
}

fn read_file(path: &Path) -> FileText {
    // Opening a pipe would wait for somebody to write into it.
    if !path.is_file() {
        return FileText::Missing;
    }
    let Ok(file) = std::fs::File::open(path) else {
        return FileText::Missing;
    };
    let mut bytes = Vec::new();
    match file.take(MAX_FILE_BYTES as u64 + 1).read_to_end(&mut bytes) {
        Ok(read) if read > MAX_FILE_BYTES => FileText::TooLarge,
        Ok(_) => as_text(bytes),
        Err(_) => FileText::Missing,
    }
}

/// Whether a path lies in git's own directory, which holds credentials. Some file systems ignore case.
fn is_git(path: &Path) -> bool {
    path.iter().any(|part| part.eq_ignore_ascii_case(".git"))
}

/// A call of git that reads a repository without running anything the repository names. Its configuration may belong to
/// a stranger, and can name programs as monitors, hooks, signature checkers, or transports for missing objects; the
/// variables would put programs of the environment in their place.
pub fn git_command(root: &Path) -> Command {
    let mut command = Command::new("git");
    command
        .current_dir(root)
        .args(["--no-pager", "--literal-pathspecs"])
        .args(["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"])
        .args(["-c", "log.showSignature=false", "-c", "core.quotePath=true"])
        .env_remove("GIT_DIFF_OPTS")
        .env_remove("GIT_EXTERNAL_DIFF")
        .env("GIT_OPTIONAL_LOCKS", "0")
        .env("GIT_TERMINAL_PROMPT", "0")
        // Before git 2.45 the first is not known; the second then leaves no transport to fetch with.
        .env("GIT_NO_LAZY_FETCH", "1")
        .env("GIT_ALLOW_PROTOCOL", "")
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

async fn git(root: &Path, arguments: &[&str]) -> Result<Vec<u8>, CheckoutError> {
    if !root.is_dir() {
        return Err(CheckoutError::NotADirectory(root.display().to_string()));
    }
    let name = arguments.first().copied().unwrap_or_default().to_owned();
    let output =
        git_command(root).args(arguments).output().await.map_err(|error| CheckoutError::NoGit(error.to_string()))?;
    if output.status.success() && output.stdout.len() <= MAX_OUTPUT {
        return Ok(output.stdout);
    }
    let message: String = String::from_utf8_lossy(&output.stderr).trim().chars().take(500).collect();
    Err(CheckoutError::Git { command: name, message })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_inside_a_commit_are_followed_but_not_out_of_it() {
        assert_eq!(followed("a/b/link", "../c.rs"), Some("a/c.rs".into()));
        assert_eq!(followed("link", "./x//y"), Some("x/y".into()));
        assert_eq!(followed("link", "../x"), None);
        assert_eq!(followed("a/link", "/etc/passwd"), None);
    }

    #[test]
    fn the_directory_of_git_is_known_in_any_case() {
        assert!(is_git(Path::new("a/.GIT/config")) && is_git(Path::new(".git")));
        assert!(!is_git(Path::new(".github/x")) && !is_git(Path::new("a.git/x")));
    }

    #[test]
    fn bytes_are_text_only_when_they_are() {
        assert_eq!(as_text(b"a\r\n".to_vec()), FileText::Text("a\r\n".into()));
        assert_eq!(as_text(vec![0xff]), FileText::NotText);
        assert_eq!(as_text(vec![b'a', 0]), FileText::NotText);
    }
}
