-- A run that waits for somebody may do so for weeks, and a million of them are to cost nobody anything: when the
-- next one expires, whose they are, and which months of runs still have one.
CREATE INDEX jobs_parked ON jobs (due_at) WHERE status = 'parked';
CREATE INDEX jobs_parked_of_user ON jobs (user_id, id) WHERE status = 'parked';
CREATE INDEX jobs_parked_runs ON jobs (run_id) WHERE status = 'parked';
