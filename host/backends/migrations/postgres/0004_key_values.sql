-- What tools keep between calls. Whoever writes in a space holds its row, so that writers take turns and its quota holds.
CREATE TABLE tool_spaces (
    id        bytea  PRIMARY KEY, -- SHA-256 of the two names: they may be longer than an index takes
    component text   NOT NULL,
    user_id   text, -- none: all callers of the component share it
    bytes     bigint NOT NULL -- of its keys and values, those included that have expired and are still here
);

CREATE TABLE tool_values (
    space      bytea NOT NULL,
    key        bytea NOT NULL, -- UTF-8; bytes compare alike everywhere and may be 0
    value      bytea NOT NULL,
    expires_at bigint, -- none: it stays for good
    PRIMARY KEY (space, key)
);

CREATE INDEX tool_values_of_space_to_expire ON tool_values (space, expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX tool_values_to_expire ON tool_values (expires_at) WHERE expires_at IS NOT NULL;
