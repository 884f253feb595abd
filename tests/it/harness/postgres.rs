//! A PostgreSQL server of one's own, to be stopped, started and set otherwise.
//!
//! Its programs are those in the directory that `TEST_POSTGRES_BIN` names; `tests/run` names it. PostgreSQL does not run
//! as root, so there it runs as nobody.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sqlx::{AnyConnection, AssertSqlSafe, Connection};

/// Where the programs of PostgreSQL are for the tests.
const PROGRAMS: &str = "TEST_POSTGRES_BIN";

/// The user and group that run it where root may not.
const NOBODY: &str = "65534";

/// A running server. Stopped and gone when it is dropped.
pub(crate) struct OwnPostgres {
    place: tempfile::TempDir,
    programs: PathBuf,
    port: u16,
}

impl OwnPostgres {
    /// Starts one with these settings; `None`, said aloud, where there are no programs.
    pub(crate) fn start(settings: &[&str]) -> Option<Self> {
        let Some(programs) = std::env::var_os(PROGRAMS).map(PathBuf::from) else {
            eprintln!("skipped: {PROGRAMS} is not set, so this test had no PostgreSQL of its own");
            return None;
        };
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("password"), "s3cret\n").unwrap();
        for path in [place.path().to_owned(), place.path().join("password")] {
            if is_root() {
                std::os::unix::fs::chown(&path, Some(65_534), Some(65_534)).unwrap();
            }
        }
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let server = Self { place, programs, port };
        let data = server.data();
        let password = format!("--pwfile={}", server.place.path().join("password").display());
        let arguments = ["-U", "secondlook", "-A", "password", &password, "--encoding=UTF8", "--locale=C", "--no-sync"];
        server.program("initdb", &[&["-D", &data], arguments.as_slice()].concat());
        let mut configuration = std::fs::read_to_string(Path::new(&data).join("postgresql.conf")).unwrap();
        let fixed = ["listen_addresses='127.0.0.1'", "unix_socket_directories=''", "fsync=off", "full_page_writes=off"];
        for line in fixed.iter().chain(settings) {
            configuration.push_str(line);
            configuration.push('\n');
        }
        configuration.push_str(&format!("port={port}\n"));
        std::fs::write(Path::new(&data).join("postgresql.conf"), configuration).unwrap();
        server.go();
        Some(server)
    }

    /// The URL of its database, for the user that owns it.
    pub(crate) fn url(&self) -> String {
        self.url_of("secondlook:s3cret", "postgres")
    }

    /// The URL for other credentials and another database.
    pub(crate) fn url_of(&self, credentials: &str, database: &str) -> String {
        format!("postgres://{credentials}@127.0.0.1:{}/{database}", self.port)
    }

    /// Starts it again after [`OwnPostgres::halt`].
    pub(crate) fn go(&self) {
        let log = self.place.path().join("log");
        self.program("pg_ctl", &["-D", &self.data(), "-l", log.to_str().unwrap(), "-w", "-s", "start"]);
    }

    /// Stops it at once, as a crash would.
    pub(crate) fn halt(&self) {
        self.program("pg_ctl", &["-D", &self.data(), "-m", "immediate", "-w", "-s", "stop"]);
    }

    /// Runs a statement as the owner, over a connection of its own.
    pub(crate) async fn run(&self, sql: &str) {
        sqlx::any::install_default_drivers();
        let mut connection = AnyConnection::connect(&self.url()).await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    }

    /// Runs one of its programs to its end, which must be a good one.
    pub(crate) fn program(&self, name: &str, arguments: &[&str]) {
        let mut command = if is_root() {
            let mut command = Command::new("setpriv");
            command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]).arg(self.programs.join(name));
            command
        } else {
            Command::new(self.programs.join(name))
        };
        let output = self.place.path().join("output");
        let file = std::fs::File::create(&output).unwrap();
        // A server goes on with what it was started with, so a pipe would never end.
        let status = command
            .args(arguments)
            .current_dir(self.place.path())
            .env("HOME", "/")
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .status()
            .unwrap();
        assert!(status.success(), "{name} {arguments:?}: {}", std::fs::read_to_string(&output).unwrap());
    }

    fn data(&self) -> String {
        self.place.path().join("data").display().to_string()
    }
}

impl Drop for OwnPostgres {
    fn drop(&mut self) {
        let stopped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.halt()));
        if stopped.is_err() {
            eprintln!("a test's PostgreSQL did not run any more");
        }
    }
}

/// Whether the files of this test belong to root.
fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}
