//! The SQL of what is written on GitHub: a row before, the id after.

use std::collections::BTreeSet;

use sqlx::Row;
use sqlx::any::AnyRow;

use super::catch_up::Stray;
use super::plan::{PlannedReview, RoundPlan};
use crate::db::DbError;
use crate::ids::new_id;
use crate::review::ledger::Fate;
use crate::review::store::{PullKey, PullStore, from_json, signed, to_json};

/// How far a post is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PostState {
    /// Nothing was sent.
    Planned,
    /// It may have been sent: look before sending it again.
    Sending,
    /// It stands on GitHub.
    Posted,
    /// It will not be sent.
    Abandoned,
}

/// What a post is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PostKind {
    /// A whole round; its reviews are posts of their own.
    Round,
    /// A review.
    Review,
    /// An answer in a thread.
    Reply,
    /// A comment on the timeline.
    Comment,
    /// A command that was carried out; nothing but a reaction is written.
    Command,
}

/// A post as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Post {
    /// Its id, which stands in the marker of a review.
    pub id: String,
    /// How far it is.
    pub state: PostState,
    /// What is to be written: the text of an answer, or JSON.
    pub content: String,
}

/// A review of a round that is not settled.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenReview {
    /// The post.
    pub id: String,
    /// How far it is.
    pub state: PostState,
    /// What is to be written.
    pub review: PlannedReview,
}

/// A round that is not settled.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenRound {
    /// The post.
    pub id: String,
    /// What it is to write and to remember.
    pub plan: RoundPlan,
    /// Its reviews, in order.
    pub reviews: Vec<OpenReview>,
}

impl PullStore {
    /// Plans a round: its reviews, and its findings in the ledger, in one transaction.
    ///
    /// # Errors
    /// When a statement fails, which it also does when another worker planned at the same time.
    pub async fn plan_round(
        &self,
        pull: PullKey,
        plan: &RoundPlan,
        reviews: &[PlannedReview],
        findings: &[crate::review::report::Reported],
    ) -> Result<OpenRound, DbError> {
        let mut tx = self.begin().await?;
        let row = sqlx::query(
            "SELECT CAST(count(*) AS BIGINT) FROM posts WHERE repository = $1 AND number = $2 AND kind = $3",
        )
        .bind(signed(pull.repository))
        .bind(signed(pull.number))
        .bind(kind_word(PostKind::Round))
        .fetch_one(&mut *tx)
        .await?;
        // Rounds are counted, so that two workers that plan at once want the same row and only one of them gets it.
        let round = row.try_get::<i64, _>(0)? + 1;
        let mut planned = vec![(new_id(), PostKind::Round, format!("{round}"), to_json("round", plan)?)];
        for review in reviews {
            let cause = format!("{round}:{}:{}", review.head, review.part);
            planned.push((new_id(), PostKind::Review, cause, to_json("review", review)?));
        }
        for (id, kind, cause, content) in &planned {
            sqlx::query(
                "INSERT INTO posts (id, repository, number, kind, cause, state, content, updated_at)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
            )
            .bind(id)
            .bind(signed(pull.repository))
            .bind(signed(pull.number))
            .bind(kind_word(*kind))
            .bind(cause)
            .bind(state_word(PostState::Planned))
            .bind(content)
            .bind(self.now())
            .execute(&mut *tx)
            .await?;
        }
        self.insert_planned(&mut tx, pull, &plan.head, findings).await?;
        tx.commit().await?;
        let mut ids = planned.into_iter().map(|(id, ..)| id);
        Ok(OpenRound {
            id: ids.next().unwrap_or_default(),
            plan: plan.clone(),
            reviews: ids
                .zip(reviews)
                .map(|(id, review)| OpenReview { id, state: PostState::Planned, review: review.clone() })
                .collect(),
        })
    }

    /// The round that is not settled, if there is one.
    ///
    /// # Errors
    /// When a statement fails or a row cannot be read.
    pub async fn open_round(&self, pull: PullKey) -> Result<Option<OpenRound>, DbError> {
        let row = sqlx::query(
            "SELECT id, cause, content FROM posts
             WHERE repository = $1 AND number = $2 AND kind = $3 AND state = $4 ORDER BY id DESC LIMIT 1",
        )
        .bind(signed(pull.repository))
        .bind(signed(pull.number))
        .bind(kind_word(PostKind::Round))
        .bind(state_word(PostState::Planned))
        .fetch_optional(self.db().reader())
        .await?;
        let Some(row) = row else { return Ok(None) };
        let round: String = row.try_get(1)?;
        let rows = sqlx::query(
            "SELECT id, state, content FROM posts
             WHERE repository = $1 AND number = $2 AND kind = $3 AND cause LIKE $4",
        )
        .bind(signed(pull.repository))
        .bind(signed(pull.number))
        .bind(kind_word(PostKind::Review))
        .bind(format!("{round}:%"))
        .fetch_all(self.db().reader())
        .await?;
        let mut reviews = rows.iter().map(read_review).collect::<Result<Vec<_>, _>>()?;
        reviews.sort_by_key(|open| open.review.part);
        Ok(Some(OpenRound { id: row.try_get(0)?, plan: from_json("round", row.try_get(2)?)?, reviews }))
    }

    /// The plan of the round that was settled last, if there is one.
    ///
    /// # Errors
    /// When the statement fails or the row cannot be read.
    pub async fn settled_last(&self, pull: PullKey) -> Result<Option<RoundPlan>, DbError> {
        let row = sqlx::query(
            "SELECT content FROM posts WHERE repository = $1 AND number = $2 AND kind = $3 AND state = $4
             ORDER BY id DESC LIMIT 1",
        )
        .bind(signed(pull.repository))
        .bind(signed(pull.number))
        .bind(kind_word(PostKind::Round))
        .bind(state_word(PostState::Posted))
        .fetch_optional(self.db().reader())
        .await?;
        row.map(|row| from_json("round", row.try_get(0)?)).transpose()
    }

    /// Keeps a review's present form and state, before it is sent or after GitHub refused a part of it.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn keep_review(&self, id: &str, state: PostState, review: &PlannedReview) -> Result<(), DbError> {
        let mut tx = self.begin().await?;
        sqlx::query("UPDATE posts SET state = $2, content = $3, updated_at = $4 WHERE id = $1")
            .bind(id)
            .bind(state_word(state))
            .bind(to_json("review", review)?)
            .bind(self.now())
            .execute(&mut *tx)
            .await?;
        tx.commit().await?;
        Ok(())
    }

    /// Writes down that a review stands on GitHub, and with it its findings.
    ///
    /// # Errors
    /// When a statement fails.
    pub async fn review_posted(
        &self,
        pull: PullKey,
        id: &str,
        review: &PlannedReview,
        github_id: u64,
    ) -> Result<(), DbError> {
        let mut tx = self.begin().await?;
        sqlx::query("UPDATE posts SET state = $2, content = $3, github_id = $4, updated_at = $5 WHERE id = $1")
            .bind(id)
            .bind(state_word(PostState::Posted))
            .bind(to_json("review", review)?)
            .bind(signed(github_id))
            .bind(self.now())
            .execute(&mut *tx)
            .await?;
        let on_lines: Vec<&str> = review.comments.iter().map(|c| c.reported.fingerprint.as_str()).collect();
        self.set_fate(&mut tx, pull, &on_lines, Fate::Posted).await?;
        let in_body: Vec<&str> = review.in_body().collect();
        self.set_fate(&mut tx, pull, &in_body, Fate::Summary).await?;
        tx.commit().await?;
        Ok(())
    }

    /// Plans of all reviews that are known of a pull request, whatever became of them.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn planned_reviews(&self, pull: PullKey) -> Result<BTreeSet<String>, DbError> {
        let rows = sqlx::query("SELECT id FROM posts WHERE repository = $1 AND number = $2 AND kind = $3")
            .bind(signed(pull.repository))
            .bind(signed(pull.number))
            .bind(kind_word(PostKind::Review))
            .fetch_all(self.db().reader())
            .await?;
        rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
    }

    /// Takes reviews over that stand on GitHub and were not known, with their findings. `reviewed` is the base and head
    /// of a round that stands there in full; its hunks are not known, so a later push is looked at as a whole.
    ///
    /// # Errors
    /// When a statement fails.
    pub async fn adopt(&self, pull: PullKey, strays: &[Stray], reviewed: Option<(&str, &str)>) -> Result<(), DbError> {
        let mut tx = self.begin().await?;
        for stray in strays {
            sqlx::query(
                "INSERT INTO posts (id, repository, number, kind, cause, state, content, github_id, updated_at)
                 VALUES ($1, $2, $3, $4, $5, $6, '{}', $7, $8) ON CONFLICT DO NOTHING",
            )
            .bind(&stray.plan)
            .bind(signed(pull.repository))
            .bind(signed(pull.number))
            .bind(kind_word(PostKind::Review))
            .bind(format!("found:{}", stray.plan))
            .bind(state_word(PostState::Posted))
            .bind(signed(stray.id))
            .bind(self.now())
            .execute(&mut *tx)
            .await?;
            for (said, fate) in [(&stray.on_lines, Fate::Posted), (&stray.in_body, Fate::Summary)] {
                self.insert_planned(&mut tx, pull, &stray.head, said).await?;
                let identities: Vec<&str> = said.iter().map(|said| said.fingerprint.as_str()).collect();
                self.set_fate(&mut tx, pull, &identities, fate).await?;
            }
        }
        if let Some(reviewed) = reviewed {
            self.set_reviewed(&mut tx, pull, reviewed).await?;
        }
        tx.commit().await?;
        Ok(())
    }

    /// Ends a round that is written in full: its base and head count as reviewed.
    ///
    /// # Errors
    /// When a statement fails.
    pub async fn settle_round(&self, pull: PullKey, round: &OpenRound) -> Result<(), DbError> {
        let plan = &round.plan;
        // All of it stands on GitHub, so the hunks count whatever becomes of the rest.
        self.add_reviewed_hunks(pull, &plan.hunks).await?;
        let mut tx = self.begin().await?;
        self.set_reviewed(&mut tx, pull, (&plan.base, &plan.head)).await?;
        self.set_state_in(&mut tx, &round.id, PostState::Posted).await?;
        tx.commit().await?;
        Ok(())
    }

    /// Gives up what of a round was not written: those findings leave the ledger, so that a later round can say them.
    ///
    /// # Errors
    /// When a statement fails.
    pub async fn abandon_round(&self, pull: PullKey, round: &OpenRound) -> Result<(), DbError> {
        let mut tx = self.begin().await?;
        for open in &round.reviews {
            if open.state == PostState::Posted {
                continue;
            }
            self.set_state_in(&mut tx, &open.id, PostState::Abandoned).await?;
            let unsaid: Vec<&str> = open.review.fingerprints().collect();
            self.drop_planned(&mut tx, pull, &unsaid).await?;
        }
        self.set_state_in(&mut tx, &round.id, PostState::Abandoned).await?;
        tx.commit().await?;
        Ok(())
    }

    /// Plans an answer, or finds the one planned before for the same cause. `content` counts only the first time.
    ///
    /// # Errors
    /// When a statement fails.
    pub async fn plan_answer(
        &self,
        pull: PullKey,
        kind: PostKind,
        cause: &str,
        content: &str,
    ) -> Result<Post, DbError> {
        let mut tx = self.begin().await?;
        sqlx::query(
            "INSERT INTO posts (id, repository, number, kind, cause, state, content, updated_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (repository, number, kind, cause) DO NOTHING",
        )
        .bind(new_id())
        .bind(signed(pull.repository))
        .bind(signed(pull.number))
        .bind(kind_word(kind))
        .bind(cause)
        .bind(state_word(PostState::Planned))
        .bind(content)
        .bind(self.now())
        .execute(&mut *tx)
        .await?;
        tx.commit().await?;
        self.answer(pull, kind, cause)
            .await?
            .ok_or(DbError::Corrupt { what: "answer", reason: "its row was deleted while it was planned".into() })
    }

    /// The answer planned for a cause, if there is one.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn answer(&self, pull: PullKey, kind: PostKind, cause: &str) -> Result<Option<Post>, DbError> {
        let row = sqlx::query(
            "SELECT id, state, content FROM posts
             WHERE repository = $1 AND number = $2 AND kind = $3 AND cause = $4",
        )
        .bind(signed(pull.repository))
        .bind(signed(pull.number))
        .bind(kind_word(kind))
        .bind(cause)
        .fetch_optional(self.db().reader())
        .await?;
        row.map(|row| Ok(Post { id: row.try_get(0)?, state: read_state(&row, 1)?, content: row.try_get(2)? }))
            .transpose()
    }

    /// Plans a command anew whose comment says something else now.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn plan_again(&self, id: &str, content: &str) -> Result<(), DbError> {
        let mut tx = self.begin().await?;
        sqlx::query("UPDATE posts SET state = $2, content = $3, updated_at = $4 WHERE id = $1")
            .bind(id)
            .bind(state_word(PostState::Planned))
            .bind(content)
            .bind(self.now())
            .execute(&mut *tx)
            .await?;
        tx.commit().await?;
        Ok(())
    }

    /// Moves an answer on; `github_id` once it stands there.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn set_answer(&self, id: &str, state: PostState, github_id: Option<u64>) -> Result<(), DbError> {
        let mut tx = self.begin().await?;
        sqlx::query("UPDATE posts SET state = $2, github_id = $3, updated_at = $4 WHERE id = $1")
            .bind(id)
            .bind(state_word(state))
            .bind(github_id.map(signed))
            .bind(self.now())
            .execute(&mut *tx)
            .await?;
        tx.commit().await?;
        Ok(())
    }

    /// Moves a post on, within the caller's transaction.
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn set_state_in(&self, tx: &mut crate::db::Tx<'_>, id: &str, state: PostState) -> Result<(), DbError> {
        sqlx::query("UPDATE posts SET state = $2, updated_at = $3 WHERE id = $1")
            .bind(id)
            .bind(state_word(state))
            .bind(self.now())
            .execute(&mut **tx)
            .await?;
        Ok(())
    }
}

fn read_review(row: &AnyRow) -> Result<OpenReview, DbError> {
    Ok(OpenReview { id: row.try_get(0)?, state: read_state(row, 1)?, review: from_json("review", row.try_get(2)?)? })
}

fn read_state(row: &AnyRow, column: usize) -> Result<PostState, DbError> {
    let word: &str = row.try_get(column)?;
    [PostState::Planned, PostState::Sending, PostState::Posted, PostState::Abandoned]
        .into_iter()
        .find(|state| state_word(*state) == word)
        .ok_or_else(|| DbError::Corrupt { what: "post", reason: format!("unknown state `{word}`") })
}

fn state_word(state: PostState) -> &'static str {
    match state {
        PostState::Planned => "planned",
        PostState::Sending => "sending",
        PostState::Posted => "posted",
        PostState::Abandoned => "abandoned",
    }
}

fn kind_word(kind: PostKind) -> &'static str {
    match kind {
        PostKind::Round => "round",
        PostKind::Review => "review",
        PostKind::Reply => "reply",
        PostKind::Comment => "comment",
        PostKind::Command => "command",
    }
}
