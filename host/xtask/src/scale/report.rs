//! What was measured and what the model says, as the tables of `host/docs/evidence/scale.md`.

use std::fmt::Write as _;

use serde_json::Value;

use super::costs::{Costs, Queue};
use super::deployment::{Limit, Load, Servers, total};
use super::simulation::{Network, Outcome, Span, StationOutcome, simulate};

const MIB: f64 = 1_048_576.0;
const DAY: f64 = 86_400.0;

/// Sizes of deployments.
const REPLICAS: [f64; 3] = [10.0, 100.0, 1_000.0];

/// About how many events of one simulation are measured, and for how long in simulated seconds it is at least
/// and at most.
const EVENTS: f64 = 300_000.0;
const SECONDS: (f64, f64) = (2.0, 120.0);

/// How long a network takes to fill, in multiples of what a run waits for its model.
const FILLED_AFTER: f64 = 5.0;

/// What is shown of the costs, by its name in the measured file.
const FIGURES: [(&str, &str); 13] = [
    ("redis_commands", "commands to Redis"),
    ("redis_operations", "operations of Redis, those of its scripts among them"),
    ("redis_us", "processor of Redis, µs"),
    ("redis_in_bytes", "bytes to Redis"),
    ("redis_out_bytes", "bytes from Redis"),
    ("redis_log_bytes", "bytes of Redis' append-only file"),
    ("redis_memory_bytes", "bytes that stay in Redis' memory"),
    ("postgres_transactions", "transactions of PostgreSQL"),
    ("postgres_rows_written", "rows written"),
    ("postgres_rows_read", "rows read by an index"),
    ("postgres_us", "processor of PostgreSQL, µs"),
    ("postgres_wal_bytes", "bytes of its write-ahead log"),
    ("postgres_disk_bytes", "bytes of its tables and indexes"),
];

/// The tables of what was measured.
pub(super) fn of_costs(costs: &Costs) -> String {
    let mut text = format!("Measured by `cargo xtask scale --measure`: {}.\n", costs.origin());
    for queue in Queue::BOTH {
        let mut columns: Vec<(String, &Value)> = Vec::new();
        for (name, alone, together) in costs.table(queue) {
            let name = name.replace('_', " ");
            columns.push((format!("{name}, alone"), alone));
            columns.push((format!("{name}, several at once"), together));
        }
        columns.push(("job under way, a second".to_owned(), costs.per_second(queue, "held")));
        columns.push(("idle replica, a second".to_owned(), costs.per_second(queue, "idle_replica")));
        line(&mut text, format_args!("\nJobs queued in {}:\n", queue.name()));
        let names: Vec<_> = columns.iter().map(|(name, _)| name.as_str()).collect();
        line(&mut text, format_args!("| | {} |", names.join(" | ")));
        line(&mut text, format_args!("|---{}|", "|--:".repeat(columns.len())));
        for (figure, label) in FIGURES {
            let values: Vec<_> = columns.iter().map(|(_, figures)| number(&figures[figure])).collect();
            line(&mut text, format_args!("| {label} | {} |", values.join(" | ")));
        }
    }
    text
}

/// The tables of what the model says, for the same load with either queue.
pub(super) fn of_model(costs: &Costs, load: &Load, seed: u64) -> String {
    let mut text = assumptions(load, seed);
    text.push_str("\n| queue | what | of it for a replica | there is | reached with replicas |\n");
    text.push_str("|---|---|--:|--:|--:|\n");
    for queue in Queue::BOTH {
        let mut limits = Load { queue, ..*load }.limits(costs);
        limits.sort_by(|one, other| first(one).total_cmp(&first(other)));
        for limit in limits {
            let (each, most) = (short(limit.each_replica), short(limit.most));
            let reached = limit.replicas().map_or_else(|| "never".to_owned(), short);
            line(
                &mut text,
                format_args!("| {} | {} | {each} | {most} | {reached} |", queue.name(), limit.what),
            );
        }
    }
    text.push_str(
        "\n| queue | replicas | jobs/s | requests/s | Redis: servers, busy, wait of a command | PostgreSQL: servers, busy, wait of a \
         transaction | Redis: network, log | PostgreSQL: log, tables | connections to Redis, PostgreSQL |\n",
    );
    text.push_str("|---|--:|--:|--:|---|---|---|---|---|\n");
    for queue in Queue::BOTH {
        let load = Load { queue, ..*load };
        for replicas in REPLICAS {
            let (one, needed) = (Servers { redis: 1, postgres: 1 }, load.servers_needed(costs, replicas));
            text.push_str(&row(costs, &load, replicas, one, seed));
            if needed != one {
                text.push_str(&row(costs, &load, replicas, needed, seed));
            }
        }
    }
    text
}

fn assumptions(load: &Load, seed: u64) -> String {
    let Load { requests, hits, busy_workers, model_seconds, postgres_cores, redis_gib, .. } = load;
    format!(
        "Simulated by `cargo xtask scale --requests {requests} --hits {hits} --busy-workers {busy_workers} --model-seconds \
         {model_seconds} --postgres-cores {postgres_cores} --redis-gib {redis_gib} --seed {seed}` from the costs above, with several \
         at once. Assumed and not measured: each replica answers {requests} requests a second, {:.0} % of them from the cache. Its five workers are busy for \
         {:.0} % of the time; a run waits {model_seconds} s for its model; a PostgreSQL server has {postgres_cores} processors, a Redis \
         server {redis_gib} GiB of memory. Jobs that have ended stay there for 7 days, cached results for an hour.\n",
        hits * 100.0,
        busy_workers * 100.0
    )
}

/// One deployment: simulated, and multiplied where nothing has to be simulated.
fn row(costs: &Costs, load: &Load, replicas: f64, servers: Servers, seed: u64) -> String {
    let network = load.network(costs, replicas, servers);
    let outcome = simulate(&network, span(&network, load.model_seconds), seed);
    let demands = load.demands(costs, replicas);
    let redis_busy = total(&demands, |cost| cost.redis) / servers.redis as f64;
    let postgres_busy =
        total(&demands, |cost| cost.postgres) / (servers.postgres * load.postgres_cores) as f64;
    let per_second =
        |of: fn(&super::costs::Cost) -> f64| format!("{} MiB/s", short(total(&demands, of) / MIB));
    let tables = total(&demands, |cost| cost.disk) * DAY / MIB / 1024.0;
    let connections = |store| short(replicas * costs.connections(load.queue, store));
    format!(
        "| {} | {} | {} | {} | {} | {} | {}, {} | {}, {} GiB/day | {}, {} |\n",
        load.queue.name(),
        short(replicas),
        short(load.jobs() * replicas),
        short(load.requests * replicas),
        queueing(servers.redis, redis_busy, &of_stations(&outcome, 0, servers.redis)),
        queueing(servers.postgres, postgres_busy, &of_stations(&outcome, servers.redis, servers.postgres)),
        per_second(|cost| cost.redis_network),
        per_second(|cost| cost.redis_log),
        per_second(|cost| cost.wal),
        short(tables),
        connections(Queue::Redis),
        connections(Queue::Postgres),
    )
}

/// As long as it takes for the network to fill, and then for enough events.
fn span(network: &Network, model_seconds: f64) -> Span {
    let events: f64 = network.flows.iter().map(|flow| flow.rate * (flow.steps.len() + 1) as f64).sum();
    let measured = (EVENTS / events.max(1.0)).clamp(SECONDS.0, SECONDS.1);
    Span { warm_up: FILLED_AFTER * model_seconds, measured }
}

fn of_stations(outcome: &Outcome, from: usize, number: usize) -> Vec<&StationOutcome> {
    outcome.stations.iter().skip(from).take(number).collect()
}

/// How long is waited on the mean, and in the 99th percentile of the worst of these stations. What is offered
/// more than its servers can do has no such time: it grows for as long as that lasts.
fn queueing(servers: usize, busy: f64, stations: &[&StationOutcome]) -> String {
    let percent = busy * 100.0;
    if busy >= 1.0 {
        let waiting: usize = stations.iter().map(|station| station.still_waiting).sum();
        return format!("{servers}, {percent:.0} %: cannot keep up, {waiting} wait at the end");
    }
    let served: usize = stations.iter().map(|station| station.served).sum();
    let waited: f64 = stations.iter().map(|station| station.mean_wait * station.served as f64).sum();
    let mean = waited / served.max(1) as f64 * 1e3;
    let worst = stations.iter().map(|station| station.p99_wait).fold(0.0, f64::max) * 1e3;
    format!("{servers}, {percent:.0} %, {mean:.2} ms, p99 {worst:.2} ms")
}

fn first(limit: &Limit) -> f64 {
    limit.replicas().unwrap_or(f64::INFINITY)
}

fn number(value: &Value) -> String {
    value.as_f64().map_or_else(|| "–".to_owned(), |value| short(value.max(0.0)))
}

/// Three digits or so, which is what such a number is worth.
fn short(value: f64) -> String {
    if value >= 100.0 || value.fract().abs() < 1e-9 {
        format!("{value:.0}")
    } else if value >= 1.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.4}")
    }
}

fn line(text: &mut String, of: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{of}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn station(mean_wait: f64, served: usize) -> StationOutcome {
        let (p99_wait, utilisation, mean_number) = (mean_wait * 4.0, 0.5, 1.0);
        StationOutcome { served, mean_wait, p99_wait, utilisation, mean_number, still_waiting: 7 }
    }

    #[test]
    fn the_wait_of_several_servers_is_their_customers_mean_and_the_worst_ones_percentile() {
        let (one, other) = (station(0.001, 100), station(0.002, 300));
        assert_eq!(queueing(2, 0.5, &[&one, &other]), "2, 50 %, 1.75 ms, p99 8.00 ms");
        assert_eq!(queueing(2, 1.2, &[&one, &other]), "2, 120 %: cannot keep up, 14 wait at the end");
    }

    #[test]
    fn numbers_have_the_digits_that_they_are_worth() {
        let shown = [1_234.4, 10.0, 12.34, 0.01234, 0.0].map(short);
        assert_eq!(shown, ["1234", "10", "12.3", "0.0123", "0"]);
    }
}
