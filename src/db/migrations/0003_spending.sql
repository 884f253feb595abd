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
