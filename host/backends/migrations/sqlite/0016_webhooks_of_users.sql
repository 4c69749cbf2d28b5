-- The first due webhooks of each user, and how many of a user's are claimed: a user with many delays nobody else.
CREATE INDEX webhooks_due_of_users ON webhooks (user_id, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX webhooks_claimed ON webhooks (user_id, due_at) WHERE owner IS NOT NULL;
