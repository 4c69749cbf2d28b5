-- SQLite has no partitions. Its tables stay as they are.
SELECT 1;
