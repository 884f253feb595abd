-- A job that is given up still has to say so where people look, which is work like any other: until that is done, its
-- row is queued or running again. `given_up` is the number of tries that were made before; 0 while there is hope.
ALTER TABLE jobs ADD COLUMN given_up BIGINT NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN given_up_at BIGINT;
UPDATE jobs SET given_up = CASE WHEN attempt > 0 THEN attempt ELSE 1 END, given_up_at = run_at WHERE state = 'dead';
CREATE INDEX jobs_given_up ON jobs (given_up_at) WHERE given_up > 0;

-- What model calls have cost: an account is a pull request, a repository or the whole server. `day` is a date in UTC, or
-- empty for an account over all time.
CREATE TABLE spending (
    account TEXT NOT NULL,
    day TEXT NOT NULL,
    tokens BIGINT NOT NULL,
    micro_usd BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (account, day)
);

-- How far GitHub's list of an App's deliveries was looked through.
CREATE TABLE delivery_progress (
    app BIGINT PRIMARY KEY,
    -- What was taken by whoever answered counts as recorded only if it was delivered after this.
    since BIGINT NOT NULL,
    -- Everything delivered up to here was looked at.
    looked_until BIGINT NOT NULL,
    -- A look that goes over several rounds: where it began, and its next page.
    walk_from BIGINT,
    walk_cursor TEXT,
    -- Whether it was said that there is no list.
    told BIGINT NOT NULL DEFAULT 0
);

-- Since when a repository is ours to review, and when its pull requests were last compared with GitHub's.
ALTER TABLE repositories ADD COLUMN known_since BIGINT NOT NULL DEFAULT 0;
UPDATE repositories SET known_since = updated_at;
ALTER TABLE repositories ADD COLUMN reconciled_at BIGINT NOT NULL DEFAULT 0;
-- The head (or draft) for which a comparison asked for a review.
ALTER TABLE pulls ADD COLUMN noticed TEXT;
-- When the comment was last edited that paused or resumed reviews last, as GitHub writes times.
ALTER TABLE pulls ADD COLUMN pause_said TEXT;

-- What GitHub lets each installation do, shared by all instances. Instants are epoch milliseconds; 0 is long ago.
CREATE TABLE github_limits (
    installation BIGINT PRIMARY KEY,
    paused_until BIGINT NOT NULL,
    level BIGINT NOT NULL,
    next_write BIGINT NOT NULL,
    writing_until BIGINT NOT NULL,
    spent_until BIGINT NOT NULL,
    budget_limit BIGINT,
    budget_left BIGINT,
    budget_reset BIGINT
);

-- A job belongs to a tenant (a repository), and that to an owner (an installation); both take turns.
ALTER TABLE jobs ADD COLUMN owner TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN tenant TEXT NOT NULL DEFAULT '';
-- The oldest waiting job of each tenant, in one step of the index.
CREATE INDEX jobs_waiting ON jobs (state, tenant, run_at, enqueued_at, id);

-- When a tenant or an owner was last served, as a count of services.
CREATE TABLE turns (
    name TEXT PRIMARY KEY,
    served BIGINT NOT NULL
);
CREATE INDEX turns_served ON turns (served);

-- When `run_at` was written, by which a clock that was set back is noticed.
ALTER TABLE jobs ADD COLUMN written_at BIGINT NOT NULL DEFAULT 0;
