-- Old webhooks are deleted along an index of those that are settled, however many of the same age are still due. The list
-- of a user's waiting jobs goes along an index of these, however many others the user has.
DROP INDEX webhooks_by_age;
CREATE INDEX webhooks_settled ON webhooks (created_at) WHERE due_at IS NULL;
CREATE INDEX IF NOT EXISTS jobs_waiting_of_user ON jobs (user_id, id, due_at) WHERE status = 'waiting';
