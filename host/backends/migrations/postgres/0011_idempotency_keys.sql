-- Idempotency keys of requests, and their answers.
CREATE TABLE idempotency_keys (
    caller       text   NOT NULL,
    key          text   NOT NULL,
    request      text   NOT NULL, -- what the request is: a digest
    claim        text   NOT NULL, -- the same for every claim: the first owner
    owner        text   NOT NULL, -- proves the last claim
    leased_until bigint NOT NULL, -- when that claim ends
    answer       bytea,           -- none: the request has not been carried out
    bytes        bigint NOT NULL DEFAULT 0, -- of the answer
    expires_at   bigint NOT NULL,
    PRIMARY KEY (caller, key)
);

CREATE INDEX idempotency_keys_by_age ON idempotency_keys (caller, expires_at, bytes);
CREATE INDEX idempotency_keys_to_expire ON idempotency_keys (expires_at);
