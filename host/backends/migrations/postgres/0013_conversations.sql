-- Kept conversations: what was said in earlier runs of a user. One run at a time holds one, under a lease.
CREATE TABLE conversations (
    key          text   NOT NULL PRIMARY KEY, -- hex SHA-256 of kind, user and id
    kind         text   NOT NULL, -- conversation, or response: one of /v1/responses, which never changes
    user_id      text   NOT NULL,
    id           text   NOT NULL,
    turns        bigint NOT NULL DEFAULT 0,
    body         text   NOT NULL DEFAULT '[]', -- the turns, as JSON
    shown        text  , -- of a response: what its client was given, as JSON
    owner        text  , -- the run that holds it
    leased_until bigint NOT NULL DEFAULT 0,
    created_at   bigint NOT NULL,
    updated_at   bigint NOT NULL -- when the last turn was appended
);

CREATE INDEX conversations_of_user ON conversations (user_id, kind, updated_at);
CREATE INDEX conversations_by_age ON conversations (updated_at);

-- The kept conversation that the run of a job is part of.
ALTER TABLE jobs ADD COLUMN conversation_id text;
