-- Texts that callers chose hold no U+0000: src/sql/text.rs writes it as \0.
-- Times are milliseconds since 1970.

-- The one place that tells the time.
CREATE VIEW clock AS SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER) AS ms;

CREATE TABLE run_events (
    run_id   TEXT    NOT NULL,
    sequence INTEGER NOT NULL, -- counted from 0 within the run
    writer   TEXT    NOT NULL, -- the process that appended it
    event    TEXT    NOT NULL, -- JSON
    PRIMARY KEY (run_id, sequence)
) STRICT;

CREATE TABLE run_records (
    run_id      TEXT    NOT NULL PRIMARY KEY,
    request_id  TEXT    NOT NULL,
    user_id     TEXT,
    job_id      TEXT,
    started_at  INTEGER NOT NULL,
    finished_at INTEGER NOT NULL,
    outcome     TEXT    NOT NULL -- JSON
) STRICT;

CREATE TABLE jobs (
    id            TEXT    NOT NULL PRIMARY KEY, -- grows with time
    run_id        TEXT    NOT NULL,
    user_id       TEXT    NOT NULL,
    query         TEXT    NOT NULL,
    status        TEXT    NOT NULL, -- waiting, active, completed, failed or cancelled
    place         INTEGER NOT NULL DEFAULT 1, -- 0 is the front of the queue
    due_at        INTEGER NOT NULL, -- waiting: from when it may be taken; active: when its lease ends
    attempts_made INTEGER NOT NULL DEFAULT 0,
    losses        INTEGER NOT NULL DEFAULT 0, -- how often its worker died
    cancel_asked  INTEGER NOT NULL DEFAULT FALSE,
    worker        TEXT, -- who holds it
    token         TEXT, -- proves that
    result        TEXT, -- JSON
    error         TEXT,
    created_at    INTEGER NOT NULL,
    started_at    INTEGER,
    finished_at   INTEGER
) STRICT;

CREATE INDEX jobs_to_do ON jobs (place, id) WHERE status IN ('waiting', 'active');
CREATE INDEX jobs_of_user ON jobs (user_id, id);
