-- Retention asks every minute what ended first, and how far back so many go that ended last. Jobs and runs that wait for somebody do so
-- for weeks, a million of them: they stand in neither index.
CREATE INDEX IF NOT EXISTS jobs_ended ON jobs (id) WHERE status IN ('completed', 'failed', 'cancelled');
CREATE INDEX run_records_ended ON run_records (finished_at) WHERE outcome <> '{"outcome":"running"}';
