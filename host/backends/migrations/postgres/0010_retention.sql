-- Removing what ended long ago goes by when that was, oldest first.
CREATE INDEX run_records_by_end ON run_records (finished_at);

-- A job that its queue has dropped is answered from the record of its run.
CREATE INDEX run_records_of_job ON run_records (job_id) WHERE job_id IS NOT NULL;

-- The lock under which one process removes things of a kind.
CREATE TABLE sweeps (
    what       text   PRIMARY KEY, -- jobs, runs or tool_audit
    sweeper    text   NOT NULL, -- the process that has or had the lock
    held_until bigint NOT NULL,
    due_at     bigint NOT NULL -- when the next sweep is due, whoever makes it
);
