#!/bin/sh
# Measures the variants in turn, so that what else the machine does hits them alike.
set -eu
cd "$(dirname "$0")"
ROUNDS=${ROUNDS:-3} SECONDS_EACH=${SECONDS_EACH:-6} CLIENTS=${CLIENTS:-16} BACKLOG=${BACKLOG:-100000}
VARIANTS="today without_jobs_to_do fillfactor_80 narrow narrow_fillfactor_80"
scripts=$(mktemp -d)
trap 'rm -r "$scripts"' EXIT
cat add.sql claim.sql finish.sql >"$scripts/today.sql"
cat add.sql claim.sql renew.sql renew.sql renew.sql renew.sql renew.sql finish.sql >"$scripts/today_renewed.sql"
cat add-ready.sql claim-ready.sql finish.sql >"$scripts/narrow.sql"
cat add-ready.sql claim-ready.sql renew.sql renew.sql renew.sql renew.sql renew.sql finish.sql >"$scripts/narrow_renewed.sql"

prepare() {
    database=ready_table_$1
    psql -q -d postgres -c "SET client_min_messages = warning" -c "DROP DATABASE IF EXISTS $database" -c "CREATE DATABASE $database"
    for migration in ../../migrations/postgres/*.sql; do
        psql -q -d "$database" -v ON_ERROR_STOP=1 -f "$migration"
    done
    {
        echo "CREATE SEQUENCE ids;"
        case $1 in
        without_jobs_to_do) echo "DROP INDEX IF EXISTS jobs_to_do;" ;;
        narrow*)
            echo "DROP INDEX IF EXISTS jobs_to_do; DROP INDEX jobs_waiting;"
            echo "CREATE TABLE jobs_ready (id text COLLATE \"C\" PRIMARY KEY, place bigint NOT NULL, due_at bigint NOT NULL);"
            echo "CREATE INDEX jobs_ready_next ON jobs_ready (place, due_at, id);"
            ;;
        esac
        case $1 in *fillfactor_80) echo "ALTER TABLE jobs SET (fillfactor = 80);" ;; esac
        echo "INSERT INTO jobs (id, run_id, user_id, query, status, due_at, created_at)
              SELECT lpad(to_hex(nextval('ids')), 32, '0'), 'run_' || md5(g::text), 'user-' || g % 1000,
                     'What is 2 + 3 times the number of letters in this sentence?', 'waiting', ms - 200000 + g, ms
              FROM generate_series(1, $BACKLOG) g, (SELECT ms FROM clock) c;"
        case $1 in narrow*) echo "INSERT INTO jobs_ready SELECT id, place, due_at FROM jobs;" ;; esac
        echo "VACUUM ANALYZE;"
    } | psql -q -d "$database" -v ON_ERROR_STOP=1
}

position() { psql -qtA -d postgres -c "SELECT pg_current_wal_lsn() - '0/0'::pg_lsn"; }

# Ticks of all sessions that have ended: the postmaster has waited for them.
ticks() { if [ -n "${POSTMASTER:-}" ]; then awk '{ print $16 + $17 }' "/proc/$POSTMASTER/stat"; else echo 0; fi; }

measure() { # variant, part, synchronous_commit
    script=today
    case $1 in narrow*) script=narrow ;; esac
    wal=$(position) cpu=$(ticks)
    PGOPTIONS="-c synchronous_commit=$3" pgbench -n -M prepared -c "$CLIENTS" -j 2 -T "$SECONDS_EACH" \
        -f "$scripts/$script$2.sql" "ready_table_$1" >"$scripts/said"
    sleep 0.3
    awk -v what="$1 ${2:-_once} synchronous_commit=$3" -v wal=$(($(position) - wal)) -v cpu=$(($(ticks) - cpu)) -v hertz="$(getconf CLK_TCK)" '
        /^number of transactions actually/ { jobs = $NF }
        /^tps/ { printf "%s %d jobs/s, %d bytes of log and %d us of the sessions a job\n", what, $3, wal / jobs, cpu * 1e6 / hertz / jobs }
    ' "$scripts/said"
}

for variant in $VARIANTS; do prepare "$variant"; done
psql -q -d postgres -c CHECKPOINT
for _round in $(seq "$ROUNDS"); do
    for variant in $VARIANTS; do
        measure "$variant" "" on
        measure "$variant" "" off
        measure "$variant" _renewed off
    done
done
psql -d ready_table_today -c "SELECT n_tup_upd AS updates, n_tup_hot_upd AS of_them_in_place FROM pg_stat_user_tables WHERE relname = 'jobs'"
psql -d ready_table_narrow_fillfactor_80 -c "SELECT n_tup_upd AS updates, n_tup_hot_upd AS of_them_in_place FROM pg_stat_user_tables WHERE relname = 'jobs'"
