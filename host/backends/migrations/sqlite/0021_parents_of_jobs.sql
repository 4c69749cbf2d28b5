-- The wait of another job that ends with this one, whose run is a child of that job's run.
ALTER TABLE jobs ADD COLUMN parent TEXT;
