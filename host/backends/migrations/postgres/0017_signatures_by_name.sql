-- A signature is over a name and a digest: the same bytes may be signed under two names.
-- Those that earlier releases kept stay in tool_components, and are read where there is none here.
CREATE TABLE tool_signatures (
    name      text  COLLATE "C" NOT NULL,
    digest    text  COLLATE "C" NOT NULL REFERENCES tool_components (digest) ON DELETE CASCADE,
    signature bytea NOT NULL,
    PRIMARY KEY (digest, name)
);
