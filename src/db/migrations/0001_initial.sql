-- Times are epoch milliseconds, truth is 0 or 1, JSON is text: what SQLite and PostgreSQL both speak.

CREATE TABLE deliveries (
    id TEXT PRIMARY KEY,
    event TEXT NOT NULL,
    action TEXT NOT NULL,
    outcome TEXT NOT NULL,
    received_at BIGINT NOT NULL
);
CREATE INDEX deliveries_received ON deliveries (received_at);

CREATE TABLE installations (
    id BIGINT PRIMARY KEY,
    account TEXT NOT NULL,
    suspended BIGINT NOT NULL DEFAULT 0,
    updated_at BIGINT NOT NULL,
    removed_at BIGINT
);

CREATE TABLE repositories (
    id BIGINT PRIMARY KEY,
    installation BIGINT NOT NULL,
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    updated_at BIGINT NOT NULL,
    removed_at BIGINT
);
CREATE INDEX repositories_installation ON repositories (installation);

CREATE TABLE jobs (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    state TEXT NOT NULL,
    payload TEXT NOT NULL,
    attempt BIGINT NOT NULL DEFAULT 0,
    run_at BIGINT NOT NULL,
    enqueued_at BIGINT NOT NULL,
    lease_until BIGINT,
    worker TEXT,
    supersedes BIGINT NOT NULL,
    -- 1: a newer job wants its place; 2: cancelled, never to be put back.
    interrupted BIGINT NOT NULL DEFAULT 0,
    reason TEXT
);
-- Of jobs that supersede each other, one waits; others wait side by side.
CREATE UNIQUE INDEX jobs_queued ON jobs (kind, key) WHERE state = 'queued' AND supersedes = 1;
-- Jobs of one key never run at the same time.
CREATE UNIQUE INDEX jobs_running ON jobs (key) WHERE state = 'running';
CREATE INDEX jobs_due ON jobs (state, run_at);

CREATE TABLE checkpoints (
    run_id TEXT PRIMARY KEY,
    graph TEXT NOT NULL,
    next TEXT,
    state TEXT NOT NULL,
    updated_at BIGINT NOT NULL
);

CREATE TABLE run_events (
    run_id TEXT NOT NULL,
    number BIGINT NOT NULL,
    event TEXT NOT NULL,
    PRIMARY KEY (run_id, number)
);

CREATE TABLE messages (
    conversation TEXT NOT NULL,
    position BIGINT NOT NULL,
    cause TEXT NOT NULL,
    message TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (conversation, position)
);

-- What is known of a pull request.
CREATE TABLE pulls (
    repository BIGINT NOT NULL,
    number BIGINT NOT NULL,
    installation BIGINT NOT NULL,
    reviewed_base TEXT,
    reviewed_head TEXT,
    check_head TEXT,
    check_run BIGINT,
    paused BIGINT NOT NULL DEFAULT 0,
    outcome TEXT,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (repository, number)
);

-- Hunks that were reviewed, wherever they stand now.
CREATE TABLE reviewed_hunks (
    repository BIGINT NOT NULL,
    number BIGINT NOT NULL,
    path TEXT NOT NULL,
    hunk TEXT NOT NULL,
    PRIMARY KEY (repository, number, path, hunk)
);

-- The ledger: every finding of a pull request and its fate.
CREATE TABLE findings (
    repository BIGINT NOT NULL,
    number BIGINT NOT NULL,
    fingerprint TEXT NOT NULL,
    path TEXT NOT NULL,
    finding TEXT NOT NULL,
    place TEXT NOT NULL,
    state TEXT NOT NULL,
    head_sha TEXT NOT NULL,
    comment_id BIGINT,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (repository, number, fingerprint)
);

-- What is to be written on GitHub: planned before, the id after.
CREATE TABLE posts (
    id TEXT PRIMARY KEY,
    repository BIGINT NOT NULL,
    number BIGINT NOT NULL,
    kind TEXT NOT NULL,
    cause TEXT NOT NULL,
    state TEXT NOT NULL,
    content TEXT NOT NULL,
    github_id BIGINT,
    updated_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX posts_cause ON posts (repository, number, kind, cause);
