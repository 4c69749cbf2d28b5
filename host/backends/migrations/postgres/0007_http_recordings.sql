-- What tools were answered over HTTP (TOOLS_RECORD_HTTP).
CREATE TABLE http_recordings (
    run_id   text   NOT NULL,
    number   bigint NOT NULL, -- within the run, in the order in which they ended
    call_id  text   NOT NULL,
    bytes    bigint NOT NULL, -- of the exchange
    exchange bytea  NOT NULL,
    PRIMARY KEY (run_id, number)
);
