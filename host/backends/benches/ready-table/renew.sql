UPDATE jobs SET due_at = (SELECT ms FROM clock) + 60000 WHERE id = :job::text AND token = :n::text AND status = 'active' RETURNING cancel_asked;
