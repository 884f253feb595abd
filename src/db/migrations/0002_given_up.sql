-- A job that is given up still has to say so where people look, which is work like any other: until that is done, its
-- row is queued or running again. `given_up` is the number of tries that were made before; 0 while there is hope.
ALTER TABLE jobs ADD COLUMN given_up BIGINT NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN given_up_at BIGINT;
UPDATE jobs SET given_up = CASE WHEN attempt > 0 THEN attempt ELSE 1 END, given_up_at = run_at WHERE state = 'dead';
CREATE INDEX jobs_given_up ON jobs (given_up_at) WHERE given_up > 0;
