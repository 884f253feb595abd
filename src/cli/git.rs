//! Asks git about a checkout, as a process of its own.
//!
//! The person's own configuration must not change what is read (colours, prefixes, external diff programs), so every
//! option that matters is given.

use std::path::{Path, PathBuf};

use tokio::io::AsyncReadExt as _;

use super::Failure;
use crate::tool::checkout::git_command;

/// Most bytes of a diff that are read. A change beyond this is not one that a review helps with.
pub const MOST_DIFF_BYTES: u64 = 128 << 20;

/// Branches that are taken for the default one, in this order, when the remote does not name its own.
const DEFAULT_BRANCHES: &[&str] = &["origin/main", "origin/master", "main", "master", "origin/trunk", "trunk"];

/// A checkout.
#[derive(Debug, Clone)]
pub struct Git {
    root: PathBuf,
}

/// How a call ended.
struct Answer {
    success: bool,
    out: Vec<u8>,
    complaint: String,
}

impl Git {
    /// The checkout that `directory` lies in.
    ///
    /// # Errors
    /// When git is not installed or the directory is in no repository.
    pub async fn open(directory: &Path) -> Result<Self, Failure> {
        let here = Self { root: directory.to_owned() };
        let answer = here.ask(&["rev-parse", "--show-toplevel"]).await?;
        let root = text(&answer.out);
        if answer.success && !root.is_empty() {
            return Ok(Self { root: PathBuf::from(root) });
        }
        if answer.complaint.contains("dubious ownership") {
            return Err(Failure(format!(
                "git does not trust {}, which belongs to another user: run `git config --global --add safe.directory DIR` \
                 with its root",
                directory.display()
            )));
        }
        Err(Failure(format!(
            "{} is in no git checkout: run this in one, or give a patch with --diff FILE and the code with --root DIR",
            directory.display()
        )))
    }

    /// The checkout's root.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The commit that a name stands for, 40 or 64 hexadecimal digits.
    ///
    /// # Errors
    /// When there is no such commit.
    pub async fn commit(&self, name: &str) -> Result<String, Failure> {
        match self.find(name).await? {
            Some(commit) => Ok(commit),
            None if name == "HEAD" => {
                Err(Failure("nothing is committed here yet: what is staged is reviewed with --staged".into()))
            }
            None => Err(Failure(format!(
                "git knows no commit \"{name}\" here: check the name, or fetch it first (git fetch origin)"
            ))),
        }
    }

    /// The same, or `None` when there is no such commit.
    ///
    /// # Errors
    /// When git cannot be run.
    pub async fn find(&self, name: &str) -> Result<Option<String>, Failure> {
        let commit = format!("{name}^{{commit}}");
        let answer = self.ask(&["rev-parse", "--verify", "--quiet", "--end-of-options", &commit]).await?;
        Ok(Some(text(&answer.out)).filter(|commit| answer.success && !commit.is_empty()))
    }

    /// The default branch: the one the remote names, else the first well-known one that exists.
    ///
    /// # Errors
    /// When there is none of these.
    pub async fn default_branch(&self) -> Result<String, Failure> {
        let answer = self.ask(&["symbolic-ref", "--quiet", "--short", "refs/remotes/origin/HEAD"]).await?;
        let named = text(&answer.out);
        if answer.success && self.find(&named).await?.is_some() {
            return Ok(named);
        }
        for branch in DEFAULT_BRANCHES {
            if self.find(branch).await?.is_some() {
                return Ok((*branch).to_owned());
            }
        }
        Err(Failure("no default branch is to be found here: say what to compare with, as in --base origin/main".into()))
    }

    /// The commit where the histories of two commits part; each with the name it is spoken of by.
    ///
    /// # Errors
    /// When they have none in common.
    pub async fn merge_base(
        &self,
        (base, base_commit): (&str, &str),
        (head, head_commit): (&str, &str),
    ) -> Result<String, Failure> {
        // A name may look like an option; a commit does not.
        let answer = self.ask(&["merge-base", base_commit, head_commit]).await?;
        let commit = text(&answer.out);
        if answer.success && !commit.is_empty() {
            return Ok(commit);
        }
        let shallow = text(&self.ask(&["rev-parse", "--is-shallow-repository"]).await?.out) == "true";
        let advice = if shallow {
            "the history here is cut, so fetch the rest first (git fetch --unshallow)"
        } else {
            "name another commit to compare with (--base)"
        };
        Err(Failure(format!("\"{base}\" and \"{head}\" have no commit in common: {advice}")))
    }

    /// The diff between two commits, or between one and the index.
    ///
    /// # Errors
    /// When git refuses, or the diff is larger than [`MOST_DIFF_BYTES`].
    pub async fn diff(&self, what: &[&str]) -> Result<Vec<u8>, Failure> {
        // The options that GitHub's own patches are made with, as far as can be told from outside.
        let mut arguments = vec![
            "diff",
            "--no-color",
            "--no-ext-diff",
            "--no-textconv",
            "--unified=3",
            "--inter-hunk-context=1",
            "--find-renames",
            "--diff-algorithm=myers",
            "--indent-heuristic",
            // Whatever `diff.orderFile` says.
            "-O/dev/null",
            "--submodule=short",
            "--ignore-submodules=dirty",
            "--src-prefix=a/",
            "--dst-prefix=b/",
        ];
        arguments.extend_from_slice(what);
        arguments.push("--");
        let answer = self.ask(&arguments).await?;
        if !answer.success {
            let advice = match answer.complaint.contains("lazy fetching disabled") {
                true => "; this clone is partial, so have git fetch what is missing first (git diff BASE...HEAD)",
                false => "",
            };
            return Err(Failure(format!("git cannot make the diff: {}{advice}", answer.complaint)));
        }
        Ok(answer.out)
    }

    /// Subjects of the commits between two, newest first, at most 50.
    ///
    /// # Errors
    /// When git cannot be run.
    pub async fn subjects(&self, base: &str, head: &str) -> Result<Vec<String>, Failure> {
        let range = format!("{base}..{head}");
        let answer = self.ask(&["log", "--no-color", "--format=%s", "--max-count=50", &range, "--"]).await?;
        Ok(text(&answer.out).lines().map(str::to_owned).collect())
    }

    async fn ask(&self, arguments: &[&str]) -> Result<Answer, Failure> {
        let mut command = git_command(&self.root);
        command.args(arguments);
        let broken =
            |error: std::io::Error| Failure(format!("cannot run git: {error}; install it, or check the directory"));
        let mut child = command.spawn().map_err(broken)?;
        let (mut out, mut complaint) = (Vec::new(), Vec::new());
        let read_out = async {
            match child.stdout.take() {
                Some(pipe) => pipe.take(MOST_DIFF_BYTES + 1).read_to_end(&mut out).await,
                None => Ok(0),
            }
        };
        let read_complaint = async {
            match child.stderr.take() {
                Some(pipe) => pipe.take(1 << 16).read_to_end(&mut complaint).await,
                None => Ok(0),
            }
        };
        let (first, second) = futures_util::join!(read_out, read_complaint);
        first.and(second).map_err(broken)?;
        if out.len() as u64 > MOST_DIFF_BYTES {
            return Err(Failure(format!(
                "the diff is larger than {} MiB: review it in parts, with --base and --head",
                MOST_DIFF_BYTES >> 20
            )));
        }
        let status = child.wait().await.map_err(broken)?;
        let complaint = super::output::one_line(&String::from_utf8_lossy(&complaint));
        Ok(Answer { success: status.success(), out, complaint })
    }
}

/// A one-line answer.
fn text(out: &[u8]) -> String {
    String::from_utf8_lossy(out).trim_end().to_owned()
}
