//! What Redis and PostgreSQL have counted since they were started, and the differences.

use std::collections::BTreeMap;
use std::fs;

use acceptance::{Postgres, Redis};
use sqlx::{Connection as _, PgConnection};
use tokio::time::Instant;

/// Figures by their names. Times are in microseconds.
pub(crate) type Figures = BTreeMap<&'static str, f64>;

/// All that the totals of PostgreSQL are, of the database that the service uses.
const TOTALS: &str = "\
    SELECT (xact_commit + xact_rollback)::float8, (tup_inserted + tup_updated + tup_deleted)::float8, \
           tup_fetched::float8, pg_database_size(datname)::float8, \
           (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::float8 \
    FROM pg_stat_database WHERE datname = current_database()";

/// The processes of the server, but for the one that answers this.
const PROCESSES: &str = "SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()";

/// Connections of the service.
const CONNECTIONS: &str = "\
    SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";

/// Reads both stores.
pub(super) struct Counters {
    redis: redis::Connection,
    postgres: PgConnection,
}

/// What they have counted up to some moment.
#[derive(Debug)]
pub(super) struct Reading {
    at: Instant,
    totals: Figures,
    /// How long each process of PostgreSQL has run.
    processes: BTreeMap<i32, f64>,
}

impl Counters {
    pub(super) async fn of(redis: &Redis, postgres: &Postgres) -> Self {
        let postgres = PgConnection::connect(&postgres.url()).await.expect("a connection to PostgreSQL");
        let redis = redis::Client::open(redis.url()).expect("an address of Redis");
        Self { redis: redis.get_connection().expect("a connection to Redis"), postgres }
    }

    pub(super) async fn read(&mut self) -> Reading {
        let mut totals = self.redis_totals();
        let row: (f64, f64, f64, f64, f64) =
            sqlx::query_as(TOTALS).fetch_one(&mut self.postgres).await.expect("what PostgreSQL has counted");
        totals.insert("postgres_transactions", row.0);
        totals.insert("postgres_rows_written", row.1);
        totals.insert("postgres_rows_read", row.2);
        totals.insert("postgres_disk_bytes", row.3);
        totals.insert("postgres_wal_bytes", row.4);
        let processes: Vec<i32> = sqlx::query_scalar(PROCESSES)
            .fetch_all(&mut self.postgres)
            .await
            .expect("the processes of PostgreSQL");
        let processes = processes.into_iter().map(|id| (id, processor_time(id))).collect();
        Reading { at: Instant::now(), totals, processes }
    }

    /// How many connections the service has to either store.
    pub(super) async fn connections(&mut self) -> Figures {
        let info = self.info();
        let postgres: i64 = sqlx::query_scalar(CONNECTIONS)
            .fetch_one(&mut self.postgres)
            .await
            .expect("the connections of PostgreSQL");
        // One of Redis' is our own.
        let redis = info_value(&info, "connected_clients") - 1.0;
        Figures::from([("redis", redis), ("postgres", postgres as f64)])
    }

    fn redis_totals(&mut self) -> Figures {
        let info = self.info();
        let value = |name: &str| info_value(&info, name);
        let processor = value("used_cpu_user_main_thread") + value("used_cpu_sys_main_thread");
        Figures::from([
            // `redis_operations` counts commands that scripts call within Redis as well.
            ("redis_operations", operations(&info)),
            ("redis_us", processor * 1e6),
            ("redis_in_bytes", value("total_net_input_bytes")),
            ("redis_out_bytes", value("total_net_output_bytes")),
            ("redis_log_bytes", value("aof_current_size")),
            ("redis_memory_bytes", value("used_memory_dataset")),
        ])
    }

    fn info(&mut self) -> String {
        redis::cmd("INFO").arg("all").query(&mut self.redis).expect("an answer of Redis")
    }
}

impl Reading {
    /// What was counted since an earlier reading, without what `idle` says that idle replicas cost in a
    /// second, and the seconds.
    pub(super) fn since(&self, earlier: &Self, idle: &Figures) -> (Figures, f64) {
        let seconds = self.at.duration_since(earlier.at).as_secs_f64();
        let mut figures: Figures =
            self.totals.iter().map(|(name, total)| (*name, total - earlier.totals[name])).collect();
        let ran = |(id, time): (&i32, &f64)| time - earlier.processes.get(id).copied().unwrap_or(0.0);
        figures.insert("postgres_us", self.processes.iter().map(ran).sum());
        for (name, figure) in &mut figures {
            *figure -= idle.get(name).copied().unwrap_or(0.0) * seconds;
        }
        (figures, seconds)
    }
}

/// A share of each figure.
pub(super) fn divided(figures: Figures, by: f64) -> Figures {
    figures.into_iter().map(|(name, figure)| (name, figure / by)).collect()
}

/// What each replica costs after the first one.
pub(super) fn each_further(one: &Figures, several: &Figures, replicas: usize) -> Figures {
    let further = replicas as f64 - 1.0;
    several
        .iter()
        .map(|(name, figure)| (*name, (figure - one.get(name).copied().unwrap_or(0.0)) / further))
        .collect()
}

fn info_value(info: &str, name: &str) -> f64 {
    let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let value = value.unwrap_or_else(|| panic!("Redis does not tell {name}"));
    value.trim().parse().unwrap_or_else(|_| panic!("{name} of Redis is no number: {value}"))
}

/// The sum of `calls=` over all lines of `INFO commandstats`. Our own way to ask is none of them.
fn operations(info: &str) -> f64 {
    let calls = info.lines().filter_map(|line| {
        let (name, figures) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        let (calls, _) = figures.split_once(',')?;
        if name == "info" { None } else { calls.parse::<f64>().ok() }
    });
    calls.sum()
}

/// How long a process has run, as the scheduler counts it. One that has ended meanwhile counts nothing.
fn processor_time(process: i32) -> f64 {
    let text = fs::read_to_string(format!("/proc/{process}/schedstat")).unwrap_or_default();
    let nanoseconds = text.split_whitespace().next().and_then(|time| time.parse::<f64>().ok());
    nanoseconds.unwrap_or(0.0) / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = "# Stats\r\nused_memory_dataset:12\r\n# Commandstats\r\n\
        cmdstat_evalsha:calls=3,usec=9,usec_per_call=3.00\r\ncmdstat_info:calls=9,usec=1\r\n\
        cmdstat_config|get:calls=2,usec=1\r\n";

    #[test]
    fn calls_of_all_commands_are_added_but_for_the_question_itself() {
        assert!((operations(INFO) - 5.0).abs() < 1e-9);
        assert!((info_value(INFO, "used_memory_dataset") - 12.0).abs() < 1e-9);
    }

    #[test]
    fn idle_time_is_taken_off_and_further_replicas_are_counted_alone() {
        let at = Instant::now();
        let reading = |seconds, operations, time| Reading {
            at: at + std::time::Duration::from_secs(seconds),
            totals: Figures::from([("redis_operations", operations)]),
            processes: BTreeMap::from([(1, time), (2, 5.0)]),
        };
        let earlier = Reading { processes: BTreeMap::from([(1, 10.0)]), ..reading(0, 100.0, 0.0) };
        let idle = Figures::from([("redis_operations", 4.0)]);
        let (figures, seconds) = reading(10, 240.0, 30.0).since(&earlier, &idle);
        assert!((seconds - 10.0).abs() < 1e-9);
        assert!((figures["redis_operations"] - 100.0).abs() < 1e-9, "{figures:?}");
        assert!((figures["postgres_us"] - 25.0).abs() < 1e-9, "a process that is new and one that went on");
        let further = each_further(&idle, &Figures::from([("redis_operations", 10.0)]), 3);
        assert!((further["redis_operations"] - 3.0).abs() < 1e-9);
    }
}
