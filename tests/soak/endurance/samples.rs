//! What is measured, from outside: the kernel's figures of each replica, and the sizes of the stores.

use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

use acceptance::{Postgres, Redis, Service};
use sqlx::{Connection as _, PgConnection};
use tokio::time::{Instant, sleep_until};

use super::slope::per_hour;

const MIB: f64 = 1_048_576.0;

/// One figure over time.
#[derive(Debug, Clone)]
pub(super) struct Series {
    pub(super) name: String,
    pub(super) unit: &'static str,
    /// Seconds since the beginning, and the figure.
    pub(super) points: Vec<(f64, f64)>,
}

/// Measures replicas and stores, these past the proxies.
pub(super) struct Sampler {
    processes: Vec<u32>,
    redis: redis::Client,
    postgres: PgConnection,
}

impl Sampler {
    pub(super) async fn new(replicas: &[Service; 2], redis: &Redis, postgres: &Postgres) -> Self {
        let postgres = PgConnection::connect(&postgres.url()).await.expect("a connection to PostgreSQL");
        let redis = redis::Client::open(redis.url()).expect("an address of Redis");
        Self { processes: replicas.iter().map(Service::id).collect(), redis, postgres }
    }

    /// A sample now and after each of these intervals.
    pub(super) async fn sample_until(mut self, end: Instant, every: Duration) -> Vec<Series> {
        let began = Instant::now();
        let mut series: Vec<Series> = Vec::new();
        let mut next = began;
        while next < end {
            sleep_until(next).await;
            let at = began.elapsed().as_secs_f64();
            for (place, (name, unit, value)) in self.sample().await.into_iter().enumerate() {
                if place == series.len() {
                    series.push(Series { name, unit, points: Vec::new() });
                }
                series[place].points.push((at, value));
            }
            next += every;
        }
        series
    }

    async fn sample(&mut self) -> Vec<(String, &'static str, f64)> {
        let mut figures = Vec::new();
        for (number, id) in self.processes.iter().enumerate() {
            let replica = number + 1;
            figures.push((format!("replica {replica}: resident memory"), "MiB", resident(*id)));
            figures.push((format!("replica {replica}: open descriptors"), "", descriptors(*id)));
        }
        let sql = "SELECT pg_database_size(current_database())";
        let size: i64 = sqlx::query_scalar(sql).fetch_one(&mut self.postgres).await.expect("a size");
        figures.push(("PostgreSQL: size of the database".to_owned(), "MiB", size as f64 / MIB));
        figures.push(("Redis: memory of its data".to_owned(), "MiB", self.memory_of_redis() / MIB));
        figures
    }

    fn memory_of_redis(&self) -> f64 {
        let mut connection = self.redis.get_connection().expect("a connection to Redis");
        let info: String =
            redis::cmd("INFO").arg("memory").query(&mut connection).expect("an answer of Redis");
        let used = info.lines().find_map(|line| line.strip_prefix("used_memory_dataset:"));
        used.and_then(|used| used.trim().parse().ok()).expect("what the data takes")
    }
}

fn resident(process: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("a process that runs");
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"));
    kib.and_then(|kib| kib.parse::<f64>().ok()).expect("its memory") / 1024.0
}

fn descriptors(process: u32) -> f64 {
    fs::read_dir(format!("/proc/{process}/fd")).expect("a process that runs").count() as f64
}

/// First, last, least and most of each figure, and how it grows.
pub(super) fn table(series: &[Series]) -> String {
    let mut table =
        "| measured | first | last | least | most | slope per hour |\n|---|--:|--:|--:|--:|--:|\n".to_owned();
    for Series { name, unit, points } in series {
        let values = || points.iter().map(|point| point.1);
        let (least, most) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
        let [first, last] = [points.first(), points.last()].map(|point| point.map_or(0.0, |point| point.1));
        let slope = per_hour(points).map_or_else(|| "–".to_owned(), |slope| format!("{slope:+.2} {unit}"));
        // Writing to a string cannot fail.
        let _ = writeln!(
            table,
            "| {name} | {first:.1} {unit} | {last:.1} {unit} | {least:.1} {unit} | {most:.1} {unit} | {slope} |"
        );
    }
    table
}
