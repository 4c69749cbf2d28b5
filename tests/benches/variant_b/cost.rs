//! What a job costs in units that do not depend on the machine: commands that clients send to Redis,
//! transactions that write to PostgreSQL, and what both write to their logs. From the submission to one look
//! at the result.

use std::net::SocketAddr;
use std::path::Path;
use std::thread;
use std::time::Duration;

use sqlx::{Connection as _, PgConnection};
use test_servers::{Monitor, Postgres, Redis};
use tokio::runtime::Runtime;

use crate::callers::Callers;
use crate::cpu::Meter;
use crate::events::Seen;
use crate::jobs::Contender;
use crate::measuring::client;
use crate::measuring::process::Server;
use crate::measuring::subject::Subject;
use crate::{CONNECTIONS, deployments};

/// For how long jobs are submitted.
const TURN: Duration = Duration::from_millis(500);

/// How long records may be written behind the last answer.
const SETTLING: Duration = Duration::from_millis(500);

/// Counts since the servers were started.
#[derive(Clone, Copy, Default)]
struct Counted {
    redis_log: i64,
    transactions: i64,
    sql_log: i64,
}

/// The stores of a deployment, and what counts for them.
struct Stores<'a> {
    runtime: &'a Runtime,
    redis: Option<(&'a Redis, Monitor)>,
    postgres: PgConnection,
}

/// Measures and prints.
pub(crate) fn measure(runtime: &Runtime, provider: SocketAddr, home: &Path) {
    println!(
        "\na job of one model call, from its submission to one look at its result, whatever the machine"
    );
    println!(
        "  {:<40} {:>9} {:>8} {:>14} {:>12} {:>12} {:>12}",
        "", "under way", "jobs", "Redis commands", "AOF bytes", "SQL writes", "WAL bytes"
    );
    for subject in Subject::all() {
        for has_redis in [true, false] {
            measure_one(runtime, provider, home, &subject, has_redis);
        }
    }
}

fn measure_one(runtime: &Runtime, provider: SocketAddr, home: &Path, subject: &Subject, has_redis: bool) {
    let stores = if has_redis { "Redis and PostgreSQL" } else { "PostgreSQL" };
    let name = &format!("{}, {stores}", subject.name);
    let folder = home.join(format!("cost {name}"));
    std::fs::create_dir(&folder).unwrap();
    let redis = has_redis.then(|| deployments::start_redis(runtime));
    let postgres = runtime.block_on(Postgres::start());
    let url = redis.as_ref().map_or_else(|| "memory://".to_owned(), Redis::url);
    let mut host = deployments::host(subject, provider, &url, &folder);
    let server = Server::start(host.env("DATABASE_URL", postgres.url()));
    let callers = Callers::new();
    let contender = Contender {
        name: name.clone(),
        address: server.address,
        callers: &callers,
        meter: Meter::of([&server.running], None),
        seen: Seen::InAnswer,
    };
    let mut stores = Stores::of(runtime, redis.as_ref(), &postgres);
    // What is done once, such as making tables and loading scripts.
    let _some_are_refused_meanwhile = run(&contender, 1);
    for under_way in CONNECTIONS {
        stores.print(name, under_way, || {
            let (jobs, failures) = run(&contender, under_way);
            assert_eq!(failures, 0, "each job is completed");
            jobs
        });
    }
}

/// How many jobs were done, and how many were not.
fn run(contender: &Contender<'_>, under_way: usize) -> (usize, usize) {
    let turn = client::run(contender.address, under_way, TURN, || contender.on_a_connection());
    #[expect(clippy::disallowed_methods, reason = "what is written behind the answers is to be counted")]
    thread::sleep(SETTLING);
    (turn.times.len(), turn.failures)
}

impl<'a> Stores<'a> {
    fn of(runtime: &'a Runtime, redis: Option<&'a Redis>, postgres: &Postgres) -> Self {
        let redis = redis.map(|redis| (redis, runtime.block_on(redis.monitor())));
        let postgres = runtime.block_on(PgConnection::connect(&postgres.url())).unwrap();
        Self { runtime, redis, postgres }
    }

    /// Prints what the jobs of `run` cost each.
    fn print(&mut self, name: &str, under_way: usize, run: impl FnOnce() -> usize) {
        let before = self.read();
        self.commands();
        let jobs = run();
        let commands = self.commands();
        let after = self.read();
        let each = |count: i64| count as f64 / jobs as f64;
        // The reading itself was a transaction.
        let transactions = after.transactions - before.transactions - 1;
        println!(
            "  {name:<40} {under_way:>9} {jobs:>8} {:>14.2} {:>12.0} {:>12.2} {:>12.0}",
            commands as f64 / jobs as f64,
            each(after.redis_log - before.redis_log),
            each(transactions),
            each(after.sql_log - before.sql_log),
        );
    }

    /// How many commands clients have sent since this was asked last.
    fn commands(&mut self) -> usize {
        let Some((_, monitor)) = &mut self.redis else { return 0 };
        self.runtime.block_on(monitor.commands()).of_clients.len()
    }

    fn read(&mut self) -> Counted {
        let sql = "SELECT txid_current(), (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint";
        let query = sqlx::query_as::<_, (i64, i64)>(sql).fetch_one(&mut self.postgres);
        let (transactions, sql_log) = self.runtime.block_on(query).unwrap();
        let redis_log = self.redis.as_ref().map_or(0, |(redis, _)| aof_size(redis));
        Counted { redis_log, transactions, sql_log }
    }
}

/// How many bytes Redis has in its append-only file.
fn aof_size(redis: &Redis) -> i64 {
    let mut connection = redis::Client::open(redis.url()).unwrap().get_connection().unwrap();
    let info: String = redis::cmd("INFO").arg("persistence").query(&mut connection).unwrap();
    let size = info.lines().find_map(|line| line.strip_prefix("aof_current_size:")?.trim().parse().ok());
    size.expect("Redis has an append-only file")
}
