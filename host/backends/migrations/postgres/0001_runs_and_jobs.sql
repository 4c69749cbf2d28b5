-- Texts that callers chose hold no U+0000: src/sql/text.rs writes it as \0.
-- Times are milliseconds since 1970 by the database's clock.

-- The one place that tells the time, so that replicas whose clocks differ agree on when a lease ends.
CREATE VIEW clock AS SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS ms;

CREATE TABLE run_events (
    run_id   text   NOT NULL,
    sequence bigint NOT NULL, -- counted from 0 within the run
    writer   text   NOT NULL, -- the process that appended it
    event    text   NOT NULL, -- JSON; jsonb refuses U+0000
    PRIMARY KEY (run_id, sequence)
);

CREATE TABLE run_records (
    run_id      text   PRIMARY KEY,
    request_id  text   NOT NULL,
    user_id     text,
    job_id      text,
    started_at  bigint NOT NULL,
    finished_at bigint NOT NULL,
    outcome     text   NOT NULL -- JSON
);

CREATE TABLE jobs (
    id            text    COLLATE "C" PRIMARY KEY, -- grows with time
    run_id        text    NOT NULL,
    user_id       text    NOT NULL,
    query         text    NOT NULL,
    status        text    NOT NULL, -- waiting, active, completed, failed or cancelled
    place         bigint  NOT NULL DEFAULT 1, -- 0 is the front of the queue
    due_at        bigint  NOT NULL, -- waiting: from when it may be taken; active: when its lease ends
    attempts_made bigint  NOT NULL DEFAULT 0,
    losses        bigint  NOT NULL DEFAULT 0, -- how often its worker died
    cancel_asked  boolean NOT NULL DEFAULT FALSE,
    worker        text, -- who holds it
    token         text, -- proves that
    result        text, -- JSON
    error         text,
    created_at    bigint  NOT NULL,
    started_at    bigint,
    finished_at   bigint
);

CREATE INDEX jobs_to_do ON jobs (place, id) WHERE status IN ('waiting', 'active');
CREATE INDEX jobs_of_user ON jobs (user_id, id);
