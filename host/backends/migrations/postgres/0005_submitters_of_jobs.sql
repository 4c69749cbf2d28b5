-- What the token of a job's submitter said beside the user's id: the run has the tools of that tier and role. Absent where it
-- said nothing, and in jobs that were added before.
ALTER TABLE jobs ADD COLUMN user_tier TEXT;
ALTER TABLE jobs ADD COLUMN user_role TEXT;
