-- What the submitter of a job asked for beside its query, as JSON: the options of its run.
ALTER TABLE jobs ADD COLUMN options TEXT;
