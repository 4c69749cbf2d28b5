-- The list of one user's runs goes along an index of theirs, in its order: however many runs others have, none of those is looked at.
CREATE INDEX run_records_of_user ON run_records (user_id, finished_at, run_id) WHERE user_id IS NOT NULL;
