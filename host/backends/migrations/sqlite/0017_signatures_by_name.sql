-- A signature is over a name and a digest: the same bytes may be signed under two names.
-- Those that earlier releases kept stay in tool_components, and are read where there is none here.
CREATE TABLE tool_signatures (
    name      TEXT NOT NULL,
    digest    TEXT NOT NULL REFERENCES tool_components (digest) ON DELETE CASCADE,
    signature BLOB NOT NULL,
    PRIMARY KEY (digest, name)
) STRICT;
