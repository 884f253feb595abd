//! The SQL of pull requests: how far they are reviewed, and their ledger.

pub mod known;

use std::collections::BTreeSet;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sqlx::Row;
use sqlx::any::AnyRow;

use super::ledger::{Entry, Fate, Ledger};
use super::report::Reported;
use crate::clock::SharedClock;
use crate::db::{Db, DbError, Tx};
use crate::diff::interdiff::HunkKey;
use crate::queue::store::tenure::Tenure;

/// Rows written in one transaction where there may be thousands.
const ROWS_AT_ONCE: usize = 200;

/// A pull request by the stable id of its repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PullKey {
    /// The repository's id.
    pub repository: u64,
    /// The number.
    pub number: u64,
    /// The installation it is reached by.
    pub installation: u64,
}

/// How far a pull request is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PullState {
    /// Base and head of the last finished review.
    pub reviewed: Option<(String, String)>,
    /// A check run of ours that is not completed yet: its head and its id.
    pub open_check: Option<(String, u64)>,
    /// The head for which a check run was asked for without learning its id: it may stand on GitHub.
    pub opening_check: Option<String>,
    /// Whether somebody paused reviews here.
    pub paused: bool,
}

/// A file's reviewed hunks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReviewedHunks {
    /// The file.
    pub path: String,
    /// Its hunks.
    pub hunks: Vec<HunkKey>,
}

/// Pull requests in the database. Cheap to clone.
#[derive(Clone)]
pub struct PullStore {
    db: Db,
    clock: SharedClock,
    tenure: Option<Tenure>,
}

impl PullStore {
    /// Over `db`.
    pub fn new(db: Db, clock: SharedClock) -> Self {
        Self { db, clock, tenure: None }
    }

    /// The same, for a job: it writes only while the job's lease is held. A worker that lost it without noticing would
    /// otherwise undo the books of the one that took over, and a review would be written twice for it.
    #[must_use]
    pub fn while_held(self, tenure: Option<Tenure>) -> Self {
        Self { tenure, ..self }
    }

    /// Begins to write: every write is in such a transaction.
    ///
    /// # Errors
    /// When no connection is to be had, or the job is another worker's now.
    pub async fn begin(&self) -> Result<Tx<'static>, DbError> {
        let mut tx = self.db.begin().await?;
        if let Some(tenure) = &self.tenure {
            tenure.ensure_in(&mut tx).await?;
        }
        Ok(tx)
    }

    /// The database, for transactions that span several stores.
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// Now, as rows keep it.
    pub(super) fn now(&self) -> i64 {
        self.clock.now().as_millisecond()
    }

    /// How far a pull request is; the default for one never seen.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn state(&self, pull: PullKey) -> Result<PullState, DbError> {
        let row = sqlx::query(
            "SELECT reviewed_base, reviewed_head, check_head, check_run, paused FROM pulls
             WHERE repository = $1 AND number = $2",
        )
        .bind(signed(pull.repository))
        .bind(signed(pull.number))
        .fetch_optional(self.db.reader())
        .await?;
        let Some(row) = row else { return Ok(PullState::default()) };
        let base: Option<String> = row.try_get(0)?;
        let head: Option<String> = row.try_get(1)?;
        let check_head: Option<String> = row.try_get(2)?;
        let check_run: Option<i64> = row.try_get(3)?;
        Ok(PullState {
            reviewed: base.zip(head),
            opening_check: if check_run.is_none() { check_head.clone() } else { None },
            open_check: check_head.zip(check_run.map(i64::cast_unsigned)),
            paused: row.try_get::<i64, _>(4)? != 0,
        })
    }

    /// Remembers that a check run is about to be created, so that a creation whose answer is lost is looked up.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn set_opening_check(&self, pull: PullKey, head: &str) -> Result<(), DbError> {
        self.set_check(pull, Some(head), None).await
    }

    /// Remembers the check run that is being worked on, or that none is.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn set_open_check(&self, pull: PullKey, check: Option<(&str, u64)>) -> Result<(), DbError> {
        self.set_check(pull, check.map(|(head, _)| head), check.map(|(_, id)| id)).await
    }

    async fn set_check(&self, pull: PullKey, head: Option<&str>, id: Option<u64>) -> Result<(), DbError> {
        let mut tx = self.begin().await?;
        self.ensure_in(&mut tx, pull).await?;
        sqlx::query(
            "UPDATE pulls SET check_head = $3, check_run = $4, updated_at = $5 WHERE repository = $1 AND number = $2",
        )
        .bind(signed(pull.repository))
        .bind(signed(pull.number))
        .bind(head)
        .bind(id.map(signed))
        .bind(self.now())
        .execute(&mut *tx)
        .await?;
        tx.commit().await?;
        Ok(())
    }

    /// Pauses or resumes reviews, because of what was said at an instant (as GitHub writes it, RFC 3339 in UTC), unless
    /// something was said later that was heard before. True when it counts.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn set_paused(&self, pull: PullKey, paused: bool, said: &str) -> Result<bool, DbError> {
        let mut tx = self.begin().await?;
        self.ensure_in(&mut tx, pull).await?;
        let set = sqlx::query(
            "UPDATE pulls SET paused = $3, pause_said = $4, updated_at = $5
             WHERE repository = $1 AND number = $2 AND (pause_said IS NULL OR pause_said <= $4)",
        )
        .bind(signed(pull.repository))
        .bind(signed(pull.number))
        .bind(i64::from(paused))
        .bind(said)
        .bind(self.now())
        .execute(&mut *tx)
        .await?;
        tx.commit().await?;
        Ok(set.rows_affected() > 0)
    }

    /// Records how a pull request ended (`merged`, `closed`), or that it is open again.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn set_outcome(&self, pull: PullKey, outcome: Option<&str>) -> Result<(), DbError> {
        let mut tx = self.begin().await?;
        self.ensure_in(&mut tx, pull).await?;
        sqlx::query("UPDATE pulls SET outcome = $3, updated_at = $4 WHERE repository = $1 AND number = $2")
            .bind(signed(pull.repository))
            .bind(signed(pull.number))
            .bind(outcome)
            .bind(self.now())
            .execute(&mut *tx)
            .await?;
        tx.commit().await?;
        Ok(())
    }

    /// Everything known of a pull request's findings.
    ///
    /// # Errors
    /// When the statement fails or a row cannot be read.
    pub async fn ledger(&self, pull: PullKey) -> Result<Ledger, DbError> {
        let rows = sqlx::query(
            "SELECT fingerprint, finding, place, state, head_sha FROM findings
             WHERE repository = $1 AND number = $2 ORDER BY fingerprint",
        )
        .bind(signed(pull.repository))
        .bind(signed(pull.number))
        .fetch_all(self.db.reader())
        .await?;
        Ok(Ledger { entries: rows.iter().map(read_entry).collect::<Result<_, _>>()? })
    }

    /// The hunks that earlier rounds reviewed.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn reviewed_hunks(&self, pull: PullKey) -> Result<BTreeSet<HunkKey>, DbError> {
        let rows = sqlx::query("SELECT hunk FROM reviewed_hunks WHERE repository = $1 AND number = $2")
            .bind(signed(pull.repository))
            .bind(signed(pull.number))
            .fetch_all(self.db.reader())
            .await?;
        rows.iter().map(|row| Ok(HunkKey(row.try_get(0)?))).collect()
    }

    /// Remembers which comment on GitHub carries a finding.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn set_comment(&self, pull: PullKey, fingerprint: &str, comment: u64) -> Result<(), DbError> {
        let mut tx = self.begin().await?;
        sqlx::query(
            "UPDATE findings SET comment_id = $4, updated_at = $5
             WHERE repository = $1 AND number = $2 AND fingerprint = $3",
        )
        .bind(signed(pull.repository))
        .bind(signed(pull.number))
        .bind(fingerprint)
        .bind(signed(comment))
        .bind(self.now())
        .execute(&mut *tx)
        .await?;
        tx.commit().await?;
        Ok(())
    }

    /// Deletes everything kept of a repository's pull requests.
    ///
    /// # Errors
    /// When a statement fails; nothing is deleted then.
    pub async fn forget_repository(&self, repository: u64) -> Result<(), DbError> {
        let mut tx = self.begin().await?;
        for sql in [
            "DELETE FROM posts WHERE repository = $1",
            "DELETE FROM findings WHERE repository = $1",
            "DELETE FROM reviewed_hunks WHERE repository = $1",
            "DELETE FROM pulls WHERE repository = $1",
        ] {
            sqlx::query(sql).bind(signed(repository)).execute(&mut *tx).await?;
        }
        tx.commit().await?;
        Ok(())
    }

    /// Enters findings into the ledger as planned. One that is there already stays as it is.
    pub(super) async fn insert_planned(
        &self,
        tx: &mut Tx<'_>,
        pull: PullKey,
        head: &str,
        findings: &[Reported],
    ) -> Result<(), DbError> {
        for reported in findings {
            sqlx::query(
                "INSERT INTO findings (repository, number, fingerprint, path, finding, place, state, head_sha, updated_at)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
                 ON CONFLICT (repository, number, fingerprint) DO NOTHING",
            )
            .bind(signed(pull.repository))
            .bind(signed(pull.number))
            .bind(&reported.fingerprint)
            .bind(&reported.finding.path)
            .bind(to_json("finding", &reported.finding)?)
            .bind(to_json("place", &reported.place)?)
            .bind(to_json("fate", &Fate::Planned)?)
            .bind(head)
            .bind(self.now())
            .execute(&mut **tx)
            .await?;
        }
        Ok(())
    }

    /// Writes down what became of findings.
    pub(super) async fn set_fate(
        &self,
        tx: &mut Tx<'_>,
        pull: PullKey,
        fingerprints: &[&str],
        fate: Fate,
    ) -> Result<(), DbError> {
        for fingerprint in fingerprints {
            sqlx::query(
                "UPDATE findings SET state = $4, updated_at = $5
                 WHERE repository = $1 AND number = $2 AND fingerprint = $3",
            )
            .bind(signed(pull.repository))
            .bind(signed(pull.number))
            .bind(fingerprint)
            .bind(to_json("fate", &fate)?)
            .bind(self.now())
            .execute(&mut **tx)
            .await?;
        }
        Ok(())
    }

    /// Takes findings out of the ledger that were planned and never said, so that they can be said.
    pub(super) async fn drop_planned(
        &self,
        tx: &mut Tx<'_>,
        pull: PullKey,
        fingerprints: &[&str],
    ) -> Result<(), DbError> {
        for fingerprint in fingerprints {
            sqlx::query(
                "DELETE FROM findings WHERE repository = $1 AND number = $2 AND fingerprint = $3 AND state = $4",
            )
            .bind(signed(pull.repository))
            .bind(signed(pull.number))
            .bind(fingerprint)
            .bind(to_json("fate", &Fate::Planned)?)
            .execute(&mut **tx)
            .await?;
        }
        Ok(())
    }

    /// Adds hunks to those that are reviewed, in several transactions: others would wait long for one of thousands of rows.
    pub(super) async fn add_reviewed_hunks(&self, pull: PullKey, files: &[ReviewedHunks]) -> Result<(), DbError> {
        let hunks: Vec<_> = files.iter().flat_map(|file| file.hunks.iter().map(|hunk| (&file.path, &hunk.0))).collect();
        for some in hunks.chunks(ROWS_AT_ONCE) {
            let mut tx = self.begin().await?;
            for (path, hunk) in some {
                sqlx::query(
                    "INSERT INTO reviewed_hunks (repository, number, path, hunk) VALUES ($1, $2, $3, $4)
                     ON CONFLICT (repository, number, path, hunk) DO NOTHING",
                )
                .bind(signed(pull.repository))
                .bind(signed(pull.number))
                .bind(*path)
                .bind(*hunk)
                .execute(&mut *tx)
                .await?;
            }
            tx.commit().await?;
        }
        Ok(())
    }

    /// Writes down that base and head are reviewed, and that the check run is completed.
    pub(super) async fn set_reviewed(
        &self,
        tx: &mut Tx<'_>,
        pull: PullKey,
        (base, head): (&str, &str),
    ) -> Result<(), DbError> {
        self.ensure_in(tx, pull).await?;
        sqlx::query(
            "UPDATE pulls SET reviewed_base = $3, reviewed_head = $4, check_head = NULL, check_run = NULL, updated_at = $5
             WHERE repository = $1 AND number = $2",
        )
        .bind(signed(pull.repository))
        .bind(signed(pull.number))
        .bind(base)
        .bind(head)
        .bind(self.now())
        .execute(&mut **tx)
        .await?;
        Ok(())
    }

    async fn ensure_in(&self, tx: &mut Tx<'_>, pull: PullKey) -> Result<(), DbError> {
        sqlx::query(
            "INSERT INTO pulls (repository, number, installation, updated_at) VALUES ($1, $2, $3, $4)
             ON CONFLICT (repository, number) DO UPDATE SET installation = excluded.installation",
        )
        .bind(signed(pull.repository))
        .bind(signed(pull.number))
        .bind(signed(pull.installation))
        .bind(self.now())
        .execute(&mut **tx)
        .await?;
        Ok(())
    }
}

fn read_entry(row: &AnyRow) -> Result<Entry, DbError> {
    Ok(Entry {
        fingerprint: row.try_get(0)?,
        finding: from_json("finding", row.try_get(1)?)?,
        place: from_json("place", row.try_get(2)?)?,
        fate: from_json("fate", row.try_get(3)?)?,
        head_sha: row.try_get(4)?,
    })
}

/// The columns are signed; ids of GitHub are far below the sign.
pub(super) fn signed(id: u64) -> i64 {
    id.cast_signed()
}

pub(super) fn to_json<T: Serialize>(what: &'static str, value: &T) -> Result<String, DbError> {
    serde_json::to_string(value).map_err(|error| DbError::Corrupt { what, reason: error.to_string() })
}

pub(super) fn from_json<T: DeserializeOwned>(what: &'static str, text: &str) -> Result<T, DbError> {
    serde_json::from_str(text).map_err(|error| DbError::Corrupt { what, reason: error.to_string() })
}
