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
