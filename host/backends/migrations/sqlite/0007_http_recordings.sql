-- What tools were answered over HTTP (TOOLS_RECORD_HTTP).
CREATE TABLE http_recordings (
    run_id   TEXT    NOT NULL,
    number   INTEGER NOT NULL, -- within the run, in the order in which they ended
    call_id  TEXT    NOT NULL,
    bytes    INTEGER NOT NULL, -- of the exchange
    exchange BLOB    NOT NULL,
    PRIMARY KEY (run_id, number)
) STRICT;
