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
