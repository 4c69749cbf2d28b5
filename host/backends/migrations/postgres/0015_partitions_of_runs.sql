-- Runs by month: an old month is then dropped as a whole, instead of row by row. The key is the id of the run, because
-- PostgreSQL wants it in each unique constraint, and (run_id, sequence) is the fence of the journal. Ids that this program makes begin with
-- their time (UUID version 7), so a month is a range of them; src/sql/retention/partitions.rs makes the partitions and drops them.
--
-- The tables so far become the DEFAULT partitions: no row is read or copied, and their indexes are attached and not built anew. They
-- keep all that was there before, take ids without a time (runs of jobs on Redis have digests), and whatever no month was made for.
-- Columns keep their collation: ids are lower-case hexadecimal behind one prefix, which collations order alike. (One of ICU's that orders numbers by
-- their value does not: there no month can be made, and all stays in the DEFAULT partition.)

-- Whoever waits for such a lock keeps all others waiting behind it, so it is not waited for long, and the service tries again. A little
-- longer than deadlock_timeout, after which PostgreSQL ends an automatic vacuum that is in the way. Everybody locks these tables in this order.
SET LOCAL lock_timeout = '2s';
LOCK TABLE run_events, run_records IN ACCESS EXCLUSIVE MODE;

ALTER TABLE run_events RENAME TO run_events_rest;
ALTER INDEX run_events_pkey RENAME TO run_events_rest_pkey;
CREATE TABLE run_events (LIKE run_events_rest INCLUDING DEFAULTS) PARTITION BY RANGE (run_id);
ALTER TABLE run_events ADD PRIMARY KEY (run_id, sequence);
ALTER TABLE run_events ATTACH PARTITION run_events_rest DEFAULT;

ALTER TABLE run_records RENAME TO run_records_rest;
ALTER INDEX run_records_pkey RENAME TO run_records_rest_pkey;
ALTER INDEX run_records_by_end RENAME TO run_records_rest_by_end;
ALTER INDEX run_records_of_job RENAME TO run_records_rest_of_job;
CREATE TABLE run_records (LIKE run_records_rest INCLUDING DEFAULTS) PARTITION BY RANGE (run_id);
ALTER TABLE run_records ADD PRIMARY KEY (run_id);
CREATE INDEX run_records_by_end ON run_records (finished_at);
CREATE INDEX run_records_of_job ON run_records (job_id) WHERE job_id IS NOT NULL;
ALTER TABLE run_records ATTACH PARTITION run_records_rest DEFAULT;

SET LOCAL lock_timeout TO DEFAULT;
