//! Git repositories and runs of the real binary for the tests of the command line.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// A git repository in a directory of its own.
pub(crate) struct GitRepository {
    directory: TempDir,
}

/// How a run of the binary ended.
pub(crate) struct Ran {
    /// Its exit code.
    pub(crate) code: i32,
    /// Standard output.
    pub(crate) out: String,
    /// Standard error.
    pub(crate) err: String,
}

impl GitRepository {
    /// An empty repository whose branch is `main`.
    pub(crate) fn new() -> Self {
        let repository = Self { directory: tempfile::tempdir().unwrap() };
        repository.git(&["init", "--quiet", "--initial-branch=main"]);
        repository
    }

    /// One with a first commit on `main` and the branch `feature` checked out.
    pub(crate) fn with_branch(files: &[(&str, &str)]) -> Self {
        let repository = Self::new();
        repository.commit("Begin", files);
        repository.git(&["switch", "--quiet", "--create", "feature"]);
        repository
    }

    /// Its root.
    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Writes a file.
    pub(crate) fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Writes files and commits everything.
    pub(crate) fn commit(&self, message: &str, files: &[(&str, &str)]) {
        for (path, text) in files {
            self.write(path, text);
        }
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--allow-empty", "--message", message]);
    }

    /// Runs git, which must succeed.
    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("git");
        command.current_dir(self.path()).args(["-c", "user.name=A", "-c", "user.email=a@example.com"]).args(arguments);
        isolate(&mut command, self.path());
        let output = command.output().unwrap();
        assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs the binary in the repository.
    pub(crate) fn secondlook(&self, arguments: &[&str]) -> Ran {
        run(self.path(), arguments, &[], "")
    }
}

/// The binary, without anything of this machine's own configuration.
pub(crate) fn binary(directory: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_secondlook"));
    command.current_dir(directory).args(arguments);
    isolate(&mut command, directory);
    command.envs(variables.iter().copied());
    command
}

/// Runs the binary to its end.
pub(crate) fn run(directory: &Path, arguments: &[&str], variables: &[(&str, &str)], input: &str) -> Ran {
    let mut command = binary(directory, arguments, variables);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A program that does not read its input closes the pipe, which is no fault of the test.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    Ran {
        code: status.code().unwrap_or(-1),
        out: String::from_utf8(stdout).unwrap(),
        err: String::from_utf8(stderr).unwrap(),
    }
}

impl Ran {
    /// Asserts that the run failed as a bad input does: exit code 2, one sentence on standard error that holds
    /// `expected`, and nothing on standard output.
    #[track_caller]
    pub(crate) fn refuses(&self, expected: &str) {
        assert_eq!(self.code, 2, "{} {}", self.out, self.err);
        assert_eq!(self.out, "", "nothing half-written");
        assert_eq!(self.err.lines().count(), 1, "one sentence: {}", self.err);
        assert!(self.err.starts_with("secondlook: "), "{}", self.err);
        assert!(self.err.contains(expected), "{:?} is not in {}", expected, self.err);
        assert!(!self.err.contains("panicked"));
    }
}

fn isolate(command: &mut Command, home: &Path) {
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", home.join(".home"))
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null");
}
