-- Where the ends of jobs are sent. Under the job's id, before the job is added; the job's data know nothing of it.
CREATE TABLE webhooks (
    job_id     TEXT    NOT NULL PRIMARY KEY,
    user_id    TEXT    NOT NULL,
    url        TEXT    NOT NULL,
    state      TEXT    NOT NULL, -- waiting, pending, delivered or failed
    tries      INTEGER NOT NULL DEFAULT 0,
    due_at     INTEGER, -- none: nothing is to be done
    owner      TEXT   , -- who has claimed it last
    attempts   TEXT    NOT NULL DEFAULT '[]', -- JSON
    created_at INTEGER NOT NULL
) STRICT;

CREATE INDEX webhooks_due ON webhooks (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX webhooks_by_age ON webhooks (created_at);
