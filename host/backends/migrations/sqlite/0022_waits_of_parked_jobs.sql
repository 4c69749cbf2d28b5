-- For what the run of a parked job waits, a bit for each kind, and since when (ms since 1970): so that a million of them can
-- be counted by kind from the beginning of an index.
ALTER TABLE jobs ADD COLUMN waits INTEGER;
ALTER TABLE jobs ADD COLUMN waits_since INTEGER;
CREATE INDEX jobs_parked_by_kind ON jobs (waits, waits_since) WHERE status = 'parked';
