-- The first calls of the version that serves are counted as those of a trial are.
ALTER TABLE tool_records ADD COLUMN first_calls text; -- id of these counts, which must stay too
