-- Kept conversations: what was said in earlier runs of a user. One run at a time holds one, under a lease.
CREATE TABLE conversations (
    key          TEXT   NOT NULL PRIMARY KEY, -- hex SHA-256 of kind, user and id
    kind         TEXT   NOT NULL, -- conversation, or response: one of /v1/responses, which never changes
    user_id      TEXT   NOT NULL,
    id           TEXT   NOT NULL,
    turns        INTEGER NOT NULL DEFAULT 0,
    body         TEXT   NOT NULL DEFAULT '[]', -- the turns, as JSON
    shown        TEXT  , -- of a response: what its client was given, as JSON
    owner        TEXT  , -- the run that holds it
    leased_until INTEGER NOT NULL DEFAULT 0,
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL -- when the last turn was appended
) STRICT;

CREATE INDEX conversations_of_user ON conversations (user_id, kind, updated_at);
CREATE INDEX conversations_by_age ON conversations (updated_at);

-- The kept conversation that the run of a job is part of.
ALTER TABLE jobs ADD COLUMN conversation_id TEXT;
