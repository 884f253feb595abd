-- Since when a repository is ours to review, and when its pull requests were last compared with GitHub's.
ALTER TABLE repositories ADD COLUMN known_since BIGINT NOT NULL DEFAULT 0;
UPDATE repositories SET known_since = updated_at;
ALTER TABLE repositories ADD COLUMN reconciled_at BIGINT NOT NULL DEFAULT 0;
-- The head (or draft) for which a comparison asked for a review.
ALTER TABLE pulls ADD COLUMN noticed TEXT;
-- When the comment was last edited that paused or resumed reviews last, as GitHub writes times.
ALTER TABLE pulls ADD COLUMN pause_said TEXT;
