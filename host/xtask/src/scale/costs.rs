//! Reads what was measured: `host/scale.json`, as `tests/scale/` writes it.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};
use serde_json::Value;

/// Where it is in the repository.
pub(super) const FILE: &str = "host/scale.json";

/// The figures that the model reads: those that a pass of its own counts, and those that stores say of
/// themselves.
const COUNTED: [&str; 1] = ["redis_commands"];
const MEASURED: [&str; 4] = ["redis_us", "redis_memory_bytes", "postgres_transactions", "postgres_us"];

/// Where jobs are queued. Runs are in PostgreSQL with both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Queue {
    Redis,
    Postgres,
}

/// All that was measured.
#[derive(Debug, Clone)]
pub(super) struct Costs(Value);

/// What one thing costs the stores.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cost {
    /// Commands that clients send to Redis, and how long its main thread works on all of them, in seconds.
    pub(super) commands: f64,
    pub(super) redis: f64,
    /// Transactions of PostgreSQL, and how long its processes work on all of them, in seconds.
    pub(super) transactions: f64,
    pub(super) postgres: f64,
    /// Bytes: over Redis' network, into its append-only file, those that stay in its memory, into
    /// PostgreSQL's log and its tables.
    pub(super) redis_network: f64,
    pub(super) redis_log: f64,
    pub(super) redis_memory: f64,
    pub(super) wal: f64,
    pub(super) disk: f64,
}

impl Queue {
    pub(super) const BOTH: [Self; 2] = [Self::Redis, Self::Postgres];

    fn key(self) -> &'static str {
        match self {
            Self::Redis => "redis",
            Self::Postgres => "postgres",
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Redis => "Redis",
            Self::Postgres => "PostgreSQL",
        }
    }
}

impl Costs {
    pub(super) fn read(repository: &Path) -> anyhow::Result<Self> {
        let path = repository.join(FILE);
        let text = fs::read_to_string(&path)
            .with_context(|| format!("there is no {FILE}: `cargo xtask scale --measure` writes it"))?;
        let costs = Self(serde_json::from_str(&text).with_context(|| format!("reading {FILE}"))?);
        costs.check().with_context(|| format!("{FILE} is of another release: measure again"))?;
        Ok(costs)
    }

    #[cfg(test)]
    pub(super) fn of(value: Value) -> Self {
        Self(value)
    }

    /// What one unit costs while others are under way. What a request costs was measured with the queue on
    /// Redis only.
    pub(super) fn unit(&self, queue: Queue, unit: &str) -> Cost {
        let of_queue = &self.0[queue.key()]["units"][unit];
        let figures = if of_queue.is_null() { &self.0["redis"]["units"][unit] } else { of_queue };
        Cost::read(&figures["together"])
    }

    /// What a job costs in a second in which its worker waits for the model. Commands are not counted there:
    /// one renews its lease each second.
    pub(super) fn held(&self, queue: Queue) -> Cost {
        let held = Cost::read(&self.0[queue.key()]["held"]);
        match queue {
            Queue::Redis => Cost { commands: 1.0, ..held },
            Queue::Postgres => held,
        }
    }

    /// What a replica that does nothing costs in a second, beside others.
    pub(super) fn idle(&self, queue: Queue) -> Cost {
        Cost::read(&self.0[queue.key()]["idle_replica"])
    }

    /// How many connections a replica under load has to a store.
    pub(super) fn connections(&self, queue: Queue, store: Queue) -> f64 {
        self.0[queue.key()]["connections"][store.key()].as_f64().unwrap_or(0.0)
    }

    /// How many connections a store takes with the settings that it comes with.
    pub(super) fn connections_of_server(&self, store: Queue) -> f64 {
        self.0["stores"][format!("{}_connections", store.key())].as_f64().unwrap_or(0.0)
    }

    /// The units of a queue, and the figures of each: one at a time, and several at once.
    pub(super) fn table(&self, queue: Queue) -> Vec<(&str, &Value, &Value)> {
        let units = self.0[queue.key()]["units"].as_object().into_iter().flatten();
        units.map(|(name, figures)| (name.as_str(), &figures["alone"], &figures["together"])).collect()
    }

    /// Figures of a replica that do not belong to a unit: `idle_replica`, `held`.
    pub(super) fn per_second(&self, queue: Queue, what: &str) -> &Value {
        &self.0[queue.key()][what]
    }

    /// How and where it was measured.
    pub(super) fn origin(&self) -> String {
        let text = |value: &Value| value.as_str().unwrap_or("unknown").to_owned();
        let stores = &self.0["stores"];
        format!(
            "{} of each, one at a time and {} at once, with Redis {} and PostgreSQL {}, on: {}",
            self.0["each"],
            self.0["lanes"],
            text(&stores["redis"]),
            text(&stores["postgres"]),
            text(&self.0["machine"])
        )
    }

    /// Whether all is there that the model reads.
    fn check(&self) -> anyhow::Result<()> {
        let units: [(Queue, &[&str]); 2] =
            [(Queue::Redis, &["miss", "hit", "job"]), (Queue::Postgres, &["job"])];
        for (queue, units) in units {
            let of_queue = &self.0[queue.key()];
            for unit in units {
                complete(&of_queue["units"][unit]["together"], unit, &COUNTED)?;
            }
            complete(&of_queue["held"], "held", &[])?;
            complete(&of_queue["idle_replica"], "idle_replica", &COUNTED)?;
        }
        for store in Queue::BOTH {
            let limit = self.connections_of_server(store);
            if limit < 1.0 {
                bail!("there are no connections of {}", store.name());
            }
        }
        Ok(())
    }
}

/// Whether all figures that stores say of themselves are there, and those that are counted.
fn complete(figures: &Value, what: &str, counted: &[&str]) -> anyhow::Result<()> {
    for name in MEASURED.iter().chain(counted) {
        if figures[*name].as_f64().is_none() {
            bail!("{what} has no {name}");
        }
    }
    Ok(())
}

impl Cost {
    /// What is measured as less than nothing is the noise of what was taken off.
    fn read(figures: &Value) -> Self {
        let figure = |name: &str| figures[name].as_f64().unwrap_or(0.0).max(0.0);
        Self {
            commands: figure("redis_commands"),
            redis: figure("redis_us") / 1e6,
            transactions: figure("postgres_transactions"),
            postgres: figure("postgres_us") / 1e6,
            redis_network: figure("redis_in_bytes") + figure("redis_out_bytes"),
            redis_log: figure("redis_log_bytes"),
            redis_memory: figure("redis_memory_bytes"),
            wal: figure("postgres_wal_bytes"),
            disk: figure("postgres_disk_bytes"),
        }
    }
}
