-- What every replica agrees on about components: a record each, the components' bytes, counts of trials, who did what.

CREATE TABLE tool_revision (
    id       INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    revision INTEGER NOT NULL -- rises with every write of a record
) STRICT;
INSERT INTO tool_revision (id, revision) VALUES (1, 0);

CREATE TABLE tool_records (
    name     TEXT    NOT NULL PRIMARY KEY,
    revision INTEGER NOT NULL, -- of this record, from 1
    record   TEXT    NOT NULL, -- JSON
    trial    TEXT -- id of its trial: whose counts must stay
) STRICT;

-- The digests whose components must stay.
CREATE TABLE tool_record_digests (
    name   TEXT NOT NULL,
    digest TEXT NOT NULL,
    PRIMARY KEY (digest, name)
) STRICT;
CREATE INDEX tool_record_digests_of_name ON tool_record_digests (name);

CREATE TABLE tool_audit (
    revision INTEGER NOT NULL PRIMARY KEY, -- that the write made: the order of lines
    name     TEXT    NOT NULL,
    line     TEXT    NOT NULL -- JSON
) STRICT;
CREATE INDEX tool_audit_of_name ON tool_audit (name, revision);

-- Bytes are written in chunks, each a transaction of its own, and count from when a component names them.
CREATE TABLE tool_blobs (
    id       TEXT    NOT NULL PRIMARY KEY, -- a UUID: two who write one component do not meet
    begun_at INTEGER NOT NULL
) STRICT;

CREATE TABLE tool_blob_chunks (
    blob   TEXT    NOT NULL REFERENCES tool_blobs (id) ON DELETE CASCADE,
    number INTEGER NOT NULL, -- from 0
    bytes  BLOB    NOT NULL,
    PRIMARY KEY (blob, number)
) STRICT;

CREATE TABLE tool_components (
    digest    TEXT    NOT NULL PRIMARY KEY,
    blob      TEXT    NOT NULL UNIQUE REFERENCES tool_blobs (id),
    bytes     INTEGER NOT NULL, -- how many
    signature BLOB,
    kept_at   INTEGER NOT NULL -- when somebody last wanted it kept
) STRICT;

CREATE TABLE tool_trial_counts (
    trial  TEXT NOT NULL PRIMARY KEY,
    counts TEXT NOT NULL -- JSON
) STRICT;
