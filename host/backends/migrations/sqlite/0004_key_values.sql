-- What tools keep between calls.
CREATE TABLE tool_spaces (
    id        BLOB    NOT NULL PRIMARY KEY, -- SHA-256 of the two names
    component TEXT    NOT NULL,
    user_id   TEXT, -- none: all callers of the component share it
    bytes     INTEGER NOT NULL -- of its keys and values, those included that have expired and are still here
) STRICT;

CREATE TABLE tool_values (
    space      BLOB    NOT NULL,
    key        BLOB    NOT NULL, -- UTF-8; bytes compare alike everywhere and may be 0
    value      BLOB    NOT NULL,
    expires_at INTEGER, -- none: it stays for good
    PRIMARY KEY (space, key)
) STRICT;

CREATE INDEX tool_values_of_space_to_expire ON tool_values (space, expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX tool_values_to_expire ON tool_values (expires_at) WHERE expires_at IS NOT NULL;
