//! A deployment of so many replicas: what they ask of the stores, where that ends, and the network of queues
//! that it is.

use std::ops::Range;

use super::costs::{Cost, Costs, Queue};
use super::simulation::{Flow, Network, Service, Step};

/// Jobs that a replica works on at once (host/docs/interface/errors-and-limits.md#limits).
const WORKERS: f64 = 5.0;

/// How busy a server may be: at 70 % customers of M/M/1 already wait 2.3 times as long as they are served.
pub(super) const MOST_BUSY: f64 = 0.7;

/// For how many seconds Redis keeps jobs that have ended (`JOBS_RETENTION_DAYS`, as it comes) and cached
/// results.
const JOBS_KEPT: f64 = 7.0 * 86_400.0;
const RESULTS_KEPT: f64 = 3_600.0;

const GIB: f64 = 1_073_741_824.0;

/// The least number of visits that work is divided into. What is grouped with others takes part in less than
/// one transaction.
const RAREST: f64 = 0.01;

/// Quotients that are whole but for their last bit are whole.
const ROUNDING: f64 = 1e-9;

/// What is asked of each replica, which is assumed and not measured.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) queue: Queue,
    /// Requests per second, and the share of them that the cache answers.
    pub(super) requests: f64,
    pub(super) hits: f64,
    /// Share of a replica's workers that are busy, and how long the model takes for a run, in seconds.
    pub(super) busy_workers: f64,
    pub(super) model_seconds: f64,
    /// Processors of a PostgreSQL server.
    pub(super) postgres_cores: usize,
    /// Memory of a Redis server.
    pub(super) redis_gib: f64,
}

/// The servers of a deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Servers {
    pub(super) redis: usize,
    pub(super) postgres: usize,
}

/// How often something happens in a second, and what it costs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Demand {
    rate: f64,
    cost: Cost,
    /// Whether a model is waited for in between.
    asks_model: bool,
}

/// Something of which there is only so much.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Limit {
    pub(super) what: &'static str,
    pub(super) each_replica: f64,
    pub(super) most: f64,
}

impl Load {
    pub(super) fn jobs(&self) -> f64 {
        WORKERS * self.busy_workers / self.model_seconds
    }

    /// What all replicas ask in a second.
    pub(super) fn demands(&self, costs: &Costs, replicas: f64) -> Vec<Demand> {
        let requests = self.requests * replicas;
        let jobs = self.jobs() * replicas;
        let unit = |name| costs.unit(self.queue, name);
        let demand = |rate, cost, asks_model| Demand { rate, cost, asks_model };
        vec![
            demand(requests * self.hits, unit("hit"), false),
            demand(requests * (1.0 - self.hits), unit("miss"), true),
            demand(jobs, unit("job"), true),
            // Little's law: so many jobs are under way, each a second long in every second.
            demand(jobs * self.model_seconds, costs.held(self.queue), false),
            demand(replicas, costs.idle(self.queue), false),
        ]
    }

    /// What there is only so much of, with one server of each kind.
    pub(super) fn limits(&self, costs: &Costs) -> Vec<Limit> {
        let demands = self.demands(costs, 1.0);
        let limit = |what, each_replica, most| Limit { what, each_replica, most };
        vec![
            limit("Redis: its one thread, busy for 70 %", total(&demands, |cost| cost.redis), MOST_BUSY),
            limit(
                "Redis: connections, as it comes",
                costs.connections(self.queue, Queue::Redis),
                costs.connections_of_server(Queue::Redis),
            ),
            limit("Redis: GiB of memory, with jobs of 7 days", self.memory(costs) / GIB, self.redis_gib),
            limit(
                "PostgreSQL: its processors, busy for 70 %",
                total(&demands, |cost| cost.postgres),
                MOST_BUSY * self.postgres_cores as f64,
            ),
            limit(
                "PostgreSQL: connections, as it comes, without PgBouncer",
                costs.connections(self.queue, Queue::Postgres),
                costs.connections_of_server(Queue::Postgres),
            ),
        ]
    }

    /// Bytes that Redis keeps for a replica, once it removes as much as comes.
    fn memory(&self, costs: &Costs) -> f64 {
        let bytes = |unit| costs.unit(self.queue, unit).redis_memory;
        let misses = self.requests * (1.0 - self.hits);
        self.jobs() * bytes("job") * JOBS_KEPT + misses * bytes("miss") * RESULTS_KEPT
    }

    /// As many servers as keep all below [`MOST_BUSY`], connections apart.
    pub(super) fn servers_needed(&self, costs: &Costs, replicas: f64) -> Servers {
        let demands = self.demands(costs, replicas);
        let needed = |busy: f64| servers(busy / MOST_BUSY);
        Servers {
            redis: needed(total(&demands, |cost| cost.redis)),
            postgres: needed(total(&demands, |cost| cost.postgres) / self.postgres_cores as f64),
        }
    }

    /// The stores as queues: Redis is one server, PostgreSQL one for each processor, and the model a delay.
    pub(super) fn network(&self, costs: &Costs, replicas: f64, servers: Servers) -> Network {
        let redis = 0..servers.redis;
        let postgres = servers.redis..servers.redis + servers.postgres;
        let model = postgres.end..postgres.end + 1;
        let mut stations = vec![Some(1); servers.redis];
        stations.extend(vec![Some(self.postgres_cores); servers.postgres]);
        stations.push(None);
        let asked = Step { stations: model, service: Service::Exponential(self.model_seconds) };
        let flows = self.demands(costs, replicas).into_iter().flat_map(|demand| {
            let Cost { commands, transactions, .. } = demand.cost;
            // A script takes as long every time; a transaction waits for others now and then.
            let on_redis = visits(&redis, commands, demand.cost.redis, Service::Constant);
            let on_postgres = visits(&postgres, transactions, demand.cost.postgres, Service::Exponential);
            demand.flows(&on_redis, &on_postgres, &asked)
        });
        Network { stations, flows: flows.collect() }
    }
}

impl Demand {
    /// One flow through everything where a model is asked: all but one command of Redis come before that, and
    /// the run is written before the last one. Otherwise what happens on Redis and in PostgreSQL has nothing
    /// to do with each other, and may happen less than once each.
    fn flows(self, redis: &Visits, postgres: &Visits, asked: &Step) -> Vec<Flow> {
        if !self.asks_model {
            return [redis, postgres].into_iter().map(|visits| visits.flow(self.rate)).collect();
        }
        let (mut before, mut writing) = (redis.steps(), postgres.steps());
        let last = before.pop();
        let mut steps = before;
        steps.push(asked.clone());
        steps.append(&mut writing);
        steps.extend(last);
        vec![Flow { rate: self.rate, steps }]
    }
}

/// How often stations of a kind are visited for one thing, and how long each visit takes in seconds.
struct Visits {
    stations: Range<usize>,
    number: f64,
    each: f64,
    service: fn(f64) -> Service,
}

fn visits(stations: &Range<usize>, number: f64, seconds: f64, service: fn(f64) -> Service) -> Visits {
    // Work that was counted without a visit comes in few long ones.
    let number = if seconds > 0.0 { number.max(RAREST) } else { 0.0 };
    let each = if number > 0.0 { seconds / number } else { 0.0 };
    Visits { stations: stations.clone(), number, each, service }
}

impl Visits {
    /// As many whole visits as come nearest, and at least one, that take as long together.
    fn steps(&self) -> Vec<Step> {
        if self.each <= 0.0 {
            return Vec::new();
        }
        let whole = self.number.round().max(1.0);
        // A few: it is how often one request or job asks a store.
        vec![self.step(self.each * self.number / whole); whole as usize]
    }

    /// Visits of their own, as often as there are any.
    fn flow(&self, rate: f64) -> Flow {
        Flow { rate: rate * self.number, steps: vec![self.step(self.each)] }
    }

    fn step(&self, seconds: f64) -> Step {
        Step { stations: self.stations.clone(), service: (self.service)(seconds) }
    }
}

impl Limit {
    /// With how many replicas it is reached; none when nothing of it is used.
    pub(super) fn replicas(&self) -> Option<f64> {
        (self.each_replica > 0.0).then(|| (self.most / self.each_replica + ROUNDING).floor())
    }
}

/// What all demands come to in a second.
pub(super) fn total(demands: &[Demand], of: impl Fn(&Cost) -> f64) -> f64 {
    demands.iter().map(|demand| demand.rate * of(&demand.cost)).sum()
}

/// A whole number of servers, and at least one.
fn servers(needed: f64) -> usize {
    (needed - ROUNDING).ceil().max(1.0) as usize
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn costs() -> Costs {
        let figures = |commands: f64, redis: f64, transactions: f64, postgres: f64| {
            json!({ "redis_commands": commands, "redis_us": redis, "redis_memory_bytes": 1_024.0,
                    "postgres_transactions": transactions, "postgres_us": postgres })
        };
        let unit = |figures: serde_json::Value| json!({ "alone": figures, "together": figures });
        let of_queue = json!({
            "units": {
                "hit": unit(figures(1.0, 20.0, 0.0, 0.0)),
                "miss": unit(figures(2.0, 40.0, 0.25, 100.0)),
                "job": unit(figures(4.0, 400.0, 2.0, 500.0)),
            },
            "held": figures(1.0, 50.0, 0.0, 0.0),
            "idle_replica": figures(2.0, 100.0, 0.5, 10.0),
            "connections": { "redis": 4, "postgres": 10 },
        });
        let stores = json!({ "redis_connections": 10_000, "postgres_connections": 97 });
        Costs::of(json!({ "redis": of_queue, "postgres": of_queue, "stores": stores }))
    }

    const LOAD: Load = Load {
        queue: Queue::Redis,
        requests: 10.0,
        hits: 0.5,
        busy_workers: 0.8,
        model_seconds: 2.0,
        postgres_cores: 2,
        redis_gib: 16.0,
    };

    /// Hits 5, misses 5 and jobs 2 a second, 4 of them under way: 100 + 200 + 800 + 200 + 100 µs of Redis a
    /// second. 1 KiB each of the jobs of a week and the misses of an hour is 1.17 GiB.
    #[test]
    fn a_replicas_demand_is_what_each_thing_costs_times_how_often_it_happens() {
        let demands = LOAD.demands(&costs(), 1.0);
        assert!((total(&demands, |cost| cost.redis) - 1_400e-6).abs() < 1e-9);
        assert!((total(&demands, |cost| cost.postgres) - 1_510e-6).abs() < 1e-9);
        let limits = LOAD.limits(&costs());
        let replicas: Vec<_> = limits.iter().map(|limit| limit.replicas().unwrap()).collect();
        assert_eq!(replicas, [500.0, 2_500.0, 13.0, 927.0, 9.0]);
        let needed = LOAD.servers_needed(&costs(), 1_000.0);
        assert_eq!(needed, Servers { redis: 2, postgres: 2 });
        assert_eq!(LOAD.servers_needed(&costs(), 1.0), Servers { redis: 1, postgres: 1 });
    }

    /// What the stations are offered in the simulation is what the arithmetic says.
    #[test]
    fn the_network_has_the_demand_of_the_replicas() {
        let servers = Servers { redis: 2, postgres: 1 };
        let network = LOAD.network(&costs(), 100.0, servers);
        assert_eq!(network.stations, [Some(1), Some(1), Some(2), None]);
        let offered = |station: usize| -> f64 {
            let steps = network.flows.iter().flat_map(|flow| flow.steps.iter().map(|step| (flow.rate, step)));
            let there = steps.filter(|(_, step)| step.stations.contains(&station));
            there
                .map(|(rate, step)| match step.service {
                    Service::Constant(mean) | Service::Exponential(mean) => {
                        rate * mean / step.stations.len() as f64
                    }
                })
                .sum()
        };
        for (station, seconds) in [(0, 0.07), (1, 0.07), (2, 0.151), (3, 1_400.0)] {
            assert!((offered(station) - seconds).abs() < 1e-6, "{station}: {}", offered(station));
        }
        // A job's end is the last thing that it asks of Redis, after its run was written.
        let job = &network.flows.iter().max_by_key(|flow| flow.steps.len()).unwrap().steps;
        let places: Vec<_> = job.iter().map(|step| step.stations.start).collect();
        assert_eq!(places, [0, 0, 0, 3, 2, 2, 0]);
    }
}
