-- A run that waits for somebody may do so for weeks, and a million of them are to cost nobody anything: when the
-- next one expires, whose they are, which is the oldest, and which months of runs still have one.
CREATE INDEX jobs_parked ON jobs (due_at, id) WHERE status = 'parked';
CREATE INDEX jobs_parked_of_user ON jobs (user_id, id) WHERE status = 'parked';
CREATE INDEX jobs_parked_by_age ON jobs (id) WHERE status = 'parked';
CREATE INDEX jobs_parked_runs ON jobs (run_id) WHERE status = 'parked';
