//! A fresh database for every test, of either kind.
//!
//! SQLite is a file in a directory of its own. PostgreSQL is a schema of its own in the database that
//! `TEST_DATABASE_URL` names; `tests/run` brings a server up. Both are gone when the value is dropped.

use secondlook::db::{Backend, Db};
use secondlook::ids::new_id;
use sqlx::{AssertSqlSafe, Connection};

/// Where PostgreSQL is for the tests.
pub(crate) const POSTGRES_VARIABLE: &str = "TEST_DATABASE_URL";

/// An empty database with the schema in it.
pub(crate) struct TestDb {
    db: Db,
    url: String,
    _place: Place,
}

impl TestDb {
    /// The URL another process or another pool opens it by.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

impl std::ops::Deref for TestDb {
    type Target = Db;

    fn deref(&self) -> &Db {
        &self.db
    }
}

/// A database of the given kind; `None`, said aloud, when it is PostgreSQL and there is none.
pub(crate) async fn fresh(backend: Backend) -> Option<TestDb> {
    Some(within(Place::of(backend).await?).await)
}

/// The database in a place, brought up to date.
pub(crate) async fn within(place: Place) -> TestDb {
    let url = place.url();
    let db = Db::connect(&url).await.unwrap();
    TestDb { db, url, _place: place }
}

/// An empty place for a database, without a schema.
pub(crate) enum Place {
    /// A directory.
    Directory(tempfile::TempDir),
    /// A PostgreSQL schema: the server's URL and its name.
    Schema(String, String),
}

impl Place {
    /// A place of the given kind, or `None`, said aloud, where there is no PostgreSQL.
    pub(crate) async fn of(backend: Backend) -> Option<Self> {
        match backend {
            Backend::Sqlite => Some(Self::Directory(tempfile::tempdir().unwrap())),
            Backend::Postgres => {
                let Ok(server) = std::env::var(POSTGRES_VARIABLE) else {
                    eprintln!("skipped: {POSTGRES_VARIABLE} is not set, so this test did not run on PostgreSQL");
                    return None;
                };
                let schema = format!("test_{}", new_id());
                execute(&server, &format!("CREATE SCHEMA {schema}")).await;
                Some(Self::Schema(server, schema))
            }
        }
    }

    /// The URL of a database there.
    pub(crate) fn url(&self) -> String {
        match self {
            Self::Directory(directory) => format!("sqlite:{}", directory.path().join("secondlook.db").display()),
            Self::Schema(server, schema) => {
                let mut url = url::Url::parse(server).unwrap();
                url.query_pairs_mut().append_pair("options[search_path]", schema);
                url.into()
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Self::Schema(server, schema) = self {
            let (server, schema) = (server.clone(), schema.clone());
            // A destructor cannot wait, and the test's own runtime may be one thread.
            let dropped = std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(execute(&server, &format!("DROP SCHEMA {schema} CASCADE")));
            });
            if dropped.join().is_err() {
                eprintln!("a test's PostgreSQL schema could not be dropped");
            }
        }
    }
}

async fn execute(server: &str, sql: &str) {
    sqlx::any::install_default_drivers();
    let mut connection = sqlx::AnyConnection::connect(server).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}
