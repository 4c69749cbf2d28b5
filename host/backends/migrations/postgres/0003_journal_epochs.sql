-- The claim under which an event was written: a writer whose claim is not the highest any more is refused.
-- It takes the place of run_events.writer, which newer programs leave empty.
ALTER TABLE run_events ADD COLUMN epoch bigint NOT NULL DEFAULT 0;
-- How often a job was claimed: the epoch of its claim. It only grows, whatever becomes of its attempts.
ALTER TABLE jobs ADD COLUMN claims bigint NOT NULL DEFAULT 0;
