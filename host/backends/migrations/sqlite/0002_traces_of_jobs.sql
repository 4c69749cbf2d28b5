-- The trace in which a job was added (W3C Trace Context).
ALTER TABLE jobs ADD COLUMN traceparent TEXT;
