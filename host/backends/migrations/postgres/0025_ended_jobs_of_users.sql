-- The list of a user's jobs that ended in one way goes along an index of these, however many others the user has.
CREATE INDEX IF NOT EXISTS jobs_ended_of_user ON jobs (user_id, status, id) WHERE status IN ('completed', 'failed', 'cancelled');
