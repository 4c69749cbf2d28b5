\set n random(1, 2000000000)
WITH a AS (INSERT INTO jobs (id, run_id, user_id, query, user_tier, user_role, conversation_id, traceparent, status, due_at, created_at)
SELECT lpad(to_hex(nextval('ids')), 32, '0'), 'run_' || md5(:n::text), 'user-' || (:n % 1000), 'What is 2 + 3 times the number of letters in this sentence?', NULL, NULL, NULL, NULL, 'waiting', ms, ms FROM clock 
RETURNING id, due_at) INSERT INTO jobs_ready (id, place, due_at) SELECT id, 1, due_at FROM a;
