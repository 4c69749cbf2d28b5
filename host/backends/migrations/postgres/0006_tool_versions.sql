-- What every replica agrees on about components: a record each, the components' bytes, counts of trials, who did what.

CREATE TABLE tool_revision (
    id       bigint PRIMARY KEY CHECK (id = 1),
    revision bigint NOT NULL -- rises with every write of a record; whoever holds the row keeps such writes out
);
INSERT INTO tool_revision (id, revision) VALUES (1, 0);

CREATE TABLE tool_records (
    name     text   COLLATE "C" PRIMARY KEY,
    revision bigint NOT NULL, -- of this record, from 1
    record   text   NOT NULL, -- JSON
    trial    text -- id of its trial: whose counts must stay
);

-- The digests whose components must stay.
CREATE TABLE tool_record_digests (
    name   text COLLATE "C" NOT NULL,
    digest text COLLATE "C" NOT NULL,
    PRIMARY KEY (digest, name)
);
CREATE INDEX tool_record_digests_of_name ON tool_record_digests (name);

CREATE TABLE tool_audit (
    revision bigint PRIMARY KEY, -- that the write made: the order of lines
    name     text   COLLATE "C" NOT NULL,
    line     text   NOT NULL -- JSON
);
CREATE INDEX tool_audit_of_name ON tool_audit (name, revision);

-- Bytes are written in chunks, each a transaction of its own, and count from when a component names them.
CREATE TABLE tool_blobs (
    id       text   PRIMARY KEY, -- a UUID: two who write one component do not meet
    begun_at bigint NOT NULL
);

CREATE TABLE tool_blob_chunks (
    blob   text   NOT NULL REFERENCES tool_blobs (id) ON DELETE CASCADE,
    number bigint NOT NULL, -- from 0
    bytes  bytea  NOT NULL,
    PRIMARY KEY (blob, number)
);
-- Compressing a chunk takes longer than writing it.
ALTER TABLE tool_blob_chunks ALTER COLUMN bytes SET STORAGE EXTERNAL;

CREATE TABLE tool_components (
    digest    text   COLLATE "C" PRIMARY KEY,
    blob      text   NOT NULL UNIQUE REFERENCES tool_blobs (id),
    bytes     bigint NOT NULL, -- how many
    signature bytea,
    kept_at   bigint NOT NULL -- when somebody last wanted it kept
);

CREATE TABLE tool_trial_counts (
    trial  text COLLATE "C" PRIMARY KEY,
    counts text NOT NULL -- JSON
);
