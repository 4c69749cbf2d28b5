-- Idempotency keys of requests, and their answers.
CREATE TABLE idempotency_keys (
    caller       TEXT    NOT NULL,
    key          TEXT    NOT NULL,
    request      TEXT    NOT NULL, -- what the request is: a digest
    claim        TEXT    NOT NULL, -- the same for every claim: the first owner
    owner        TEXT    NOT NULL, -- proves the last claim
    leased_until INTEGER NOT NULL, -- when that claim ends
    answer       BLOB,             -- none: the request has not been carried out
    bytes        INTEGER NOT NULL DEFAULT 0, -- of the answer
    expires_at   INTEGER NOT NULL,
    PRIMARY KEY (caller, key)
) STRICT;

CREATE INDEX idempotency_keys_by_age ON idempotency_keys (caller, expires_at, bytes);
CREATE INDEX idempotency_keys_to_expire ON idempotency_keys (expires_at);
