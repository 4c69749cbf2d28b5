-- What is claimed next is the first entry of an index, however many jobs are held or delayed.
CREATE INDEX jobs_waiting ON jobs (place, due_at, id) WHERE status = 'waiting';
-- Not by due_at, which every heartbeat changes: PostgreSQL then need not touch any index.
CREATE INDEX jobs_active ON jobs (id) WHERE status = 'active';
-- jobs_to_do stays while programs of the release before this one may run, which claim by it. A later migration drops it.
