-- Old webhooks are deleted along an index of those that are settled, however many of the same age are still due. The list
-- of a user's waiting jobs goes along an index of these, however many others the user has. What is dropped comes last: it
-- keeps even those out who only read webhooks, and jobs may be many.
CREATE INDEX IF NOT EXISTS jobs_waiting_of_user ON jobs (user_id, id, due_at) WHERE status = 'waiting';
CREATE INDEX webhooks_settled ON webhooks (created_at) WHERE due_at IS NULL;
DROP INDEX webhooks_by_age;
