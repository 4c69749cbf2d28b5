//! What is asked of the tables of tool versions, in SQL that PostgreSQL and SQLite both understand.

/// Parameters: none.
pub(super) const REVISION: &str = "SELECT revision FROM tool_revision";

/// Every record beside the revision of the store; one row without a record if there is none. Parameters:
/// none.
pub(super) const RECORDS: &str = "\
    SELECT of_store.revision, kept.name, kept.revision, kept.record \
    FROM tool_revision AS of_store LEFT JOIN tool_records AS kept ON TRUE";

/// `$1` name.
pub(super) const RECORD: &str = "SELECT revision, record FROM tool_records WHERE name = $1";

/// `$1` name, `$2` the revision before, which is 0, `$3` record, `$4` id of its trial, `$5` id of the counts
/// of first calls.
pub(super) const INSERT_RECORD: &str = "\
    INSERT INTO tool_records (name, revision, record, trial, first_calls) VALUES ($1, $2 + 1, $3, $4, $5) \
    ON CONFLICT DO NOTHING";

/// Takes the parameters of [`INSERT_RECORD`].
pub(super) const REPLACE_RECORD: &str = "\
    UPDATE tool_records SET revision = $2 + 1, record = $3, trial = $4, first_calls = $5 \
    WHERE name = $1 AND revision = $2";

/// `$1` name.
pub(super) const FORGET_DIGESTS: &str = "DELETE FROM tool_record_digests WHERE name = $1";

/// `$1` name, `$2` the digests as an array of JSON.
pub(super) const NOTE_DIGESTS_IN_POSTGRES: &str = "\
    INSERT INTO tool_record_digests (name, digest) SELECT $1, value FROM jsonb_array_elements_text($2::jsonb)";

/// Notes digests. `$1` name, `$2` the digests as an array of JSON.
pub(super) const NOTE_DIGESTS_IN_SQLITE: &str =
    "INSERT INTO tool_record_digests (name, digest) SELECT $1, value FROM json_each($2)";

/// Makes a new revision, and keeps others from making one until the transaction ends. Parameters: none.
pub(super) const RAISE_REVISION: &str = "UPDATE tool_revision SET revision = revision + 1 RETURNING revision";

/// Announces that there is another revision, once the transaction is committed. `$1` channel.
pub(super) const ANNOUNCE_IN_POSTGRES: &str = "SELECT pg_notify($1, '')";

/// Keeps others from making a revision until the transaction ends. Parameters: none.
pub(super) const HOLD_REVISION: &str = "UPDATE tool_revision SET revision = revision";

/// `$1` revision of the store, `$2` name, `$3` line.
pub(super) const INSERT_AUDIT_LINE: &str =
    "INSERT INTO tool_audit (revision, name, line) VALUES ($1, $2, $3)";

/// `$1` name, `$2` most rows.
pub(super) const AUDIT: &str = "SELECT line FROM tool_audit WHERE name = $1 ORDER BY revision DESC LIMIT $2";

/// `$1` digest.
pub(super) const KEEP_AGAIN: &str =
    "UPDATE tool_components SET kept_at = (SELECT ms FROM clock) WHERE digest = $1";

/// `$1` name, `$2` digest, `$3` signature.
pub(super) const KEEP_SIGNATURE: &str = "\
    INSERT INTO tool_signatures (name, digest, signature) VALUES ($1, $2, $3) \
    ON CONFLICT (digest, name) DO UPDATE SET signature = excluded.signature";

/// Parameters: none.
pub(super) const KEPT_BYTES: &str = "SELECT CAST(coalesce(sum(bytes), 0) AS bigint) FROM tool_components";

/// `$1` id.
pub(super) const BEGIN_BLOB: &str = "INSERT INTO tool_blobs (id, begun_at) SELECT $1, ms FROM clock";

/// `$1` blob, `$2` number, `$3` bytes.
pub(super) const INSERT_CHUNK: &str =
    "INSERT INTO tool_blob_chunks (blob, number, bytes) VALUES ($1, $2, $3)";

/// Has a component consist of a blob, unless somebody else was first: answers whose blob it consists of. `$1`
/// digest, `$2` blob, `$3` how many bytes.
pub(super) const INSERT_COMPONENT: &str = "\
    INSERT INTO tool_components (digest, blob, bytes, kept_at) SELECT $1, $2, $3, ms FROM clock WHERE TRUE \
    ON CONFLICT (digest) DO UPDATE SET kept_at = excluded.kept_at RETURNING blob";

/// Has a component consist of a blob, whatever it consisted of. Takes the parameters of [`INSERT_COMPONENT`].
pub(super) const REPLACE_COMPONENT: &str = "\
    INSERT INTO tool_components (digest, blob, bytes, kept_at) SELECT $1, $2, $3, ms FROM clock WHERE TRUE \
    ON CONFLICT (digest) DO UPDATE SET blob = excluded.blob, bytes = excluded.bytes, \
    kept_at = excluded.kept_at RETURNING blob";

/// With the signature of the name, or the one that an earlier release kept for whichever. `$1` digest, `$2`
/// name.
pub(super) const COMPONENT: &str = "\
    SELECT blob, bytes, coalesce((SELECT own.signature FROM tool_signatures AS own \
    WHERE own.digest = $1 AND own.name = $2), signature) AS signature FROM tool_components WHERE digest = $1";

/// `$1` blob, `$2` number.
pub(super) const CHUNK: &str = "SELECT bytes FROM tool_blob_chunks WHERE blob = $1 AND number = $2";

/// Removes a blob with its chunks, unless a component consists of it. `$1` id.
pub(super) const REMOVE_BLOB: &str = "\
    DELETE FROM tool_blobs WHERE id = $1 AND NOT EXISTS (SELECT 1 FROM tool_components WHERE blob = $1)";

/// Blobs that no component consists of, begun so long ago that nobody writes them any more. `$1` how long, in
/// milliseconds.
pub(super) const UNFINISHED: &str = "\
    SELECT id FROM tool_blobs WHERE begun_at <= (SELECT ms FROM clock) - $1 \
    AND NOT EXISTS (SELECT 1 FROM tool_components WHERE blob = tool_blobs.id)";

/// Components that no record needs. `$1` since when nobody wanted them kept, in milliseconds before now.
pub(super) const UNNEEDED: &str = "\
    SELECT digest FROM tool_components WHERE kept_at <= (SELECT ms FROM clock) - $1 AND NOT EXISTS \
    (SELECT 1 FROM tool_record_digests AS named WHERE named.digest = tool_components.digest) ORDER BY kept_at";

/// Removes a component if that still holds of it: answers its blob. `$1` the same, `$2` digest.
pub(super) const REMOVE_UNNEEDED: &str = "\
    DELETE FROM tool_components WHERE digest = $2 AND kept_at <= (SELECT ms FROM clock) - $1 AND NOT EXISTS \
    (SELECT 1 FROM tool_record_digests AS named WHERE named.digest = $2) RETURNING blob";

/// Makes the counts of a trial if there are none, and holds them until the transaction ends. `$1` id of the
/// trial.
pub(super) const HOLD_COUNTS: &str = "\
    INSERT INTO tool_trial_counts (trial, counts) VALUES ($1, '{}') \
    ON CONFLICT (trial) DO UPDATE SET counts = tool_trial_counts.counts RETURNING counts";

/// `$1` id of the trial, `$2` counts.
pub(super) const PUT_COUNTS: &str = "UPDATE tool_trial_counts SET counts = $2 WHERE trial = $1";

/// `$1` id of the trial.
pub(super) const COUNTS: &str = "SELECT counts FROM tool_trial_counts WHERE trial = $1";

/// Asks for counts that no record names. Parameters: none.
pub(super) const HAS_UNNEEDED_COUNTS: &str = "\
    SELECT EXISTS (SELECT 1 FROM tool_trial_counts AS kept WHERE NOT EXISTS \
    (SELECT 1 FROM tool_records AS named WHERE kept.trial IN (named.trial, named.first_calls)))";

/// Removes them. Parameters: none.
pub(super) const REMOVE_UNNEEDED_COUNTS: &str = "\
    DELETE FROM tool_trial_counts WHERE NOT EXISTS \
    (SELECT 1 FROM tool_records AS named WHERE tool_trial_counts.trial IN (named.trial, named.first_calls))";
