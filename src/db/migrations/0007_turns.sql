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
