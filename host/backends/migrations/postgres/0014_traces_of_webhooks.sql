-- The trace in which a job was submitted (W3C Trace Context): its delivery belongs to it.
ALTER TABLE webhooks ADD COLUMN traceparent TEXT;
