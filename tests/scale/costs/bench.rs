//! A service on private stores, and the measuring.

use std::sync::atomic::{AtomicUsize, Ordering};

use acceptance::{Model, Postgres, Redis, Service, says};
use futures::future::join_all;
use serde_json::{Value, json};
use sqlx::{Connection as _, PgConnection};
use tokio::time::{Instant, sleep};

use super::counters::{Counters, Figures, divided};
use super::units::Unit;
use super::{Order, Queue};

/// Jobs that a process works on at once (host/docs/interface/errors-and-limits.md#limits).
const WORKERS: usize = 5;

/// How many units are watched command by command: the watching costs Redis more than what is watched.
const MOST_WATCHED: usize = 48;

/// Runs of each unit before any is counted: scripts are loaded, connections opened.
const WARM_UP: usize = 32;

/// The stores, and replicas on them.
pub(super) struct Bench {
    order: Order,
    /// Gone before what they use.
    replicas: Vec<Service>,
    model: Model,
    counters: Counters,
    redis: Redis,
    _postgres: Postgres,
    /// Numbers that no unit has had.
    next: AtomicUsize,
}

impl Bench {
    pub(super) async fn start(queue: Queue, replicas: usize, order: Order) -> Self {
        let (redis, postgres) = start_stores().await;
        let model = Model::openai().await;
        model.adds_or_hears();
        let mut services = Vec::new();
        for _ in 0..replicas {
            let service = Service::variant_b().model(&model).postgres(&postgres).without_windows();
            // Time for jobs that are held.
            let service = service.env("AGENT_TIMEOUT_MS", "300000");
            let service = if queue == Queue::Redis { service.redis(&redis) } else { service };
            services.push(service.start().await);
        }
        let counters = Counters::of(&redis, &postgres).await;
        let next = AtomicUsize::new(0);
        Self { order, redis, _postgres: postgres, counters, model, replicas: services, next }
    }

    /// What the replicas cost in a second in which they do nothing.
    pub(super) async fn idle(&mut self) -> Figures {
        sleep(self.order.reported_after).await;
        let before = self.counters.read().await;
        sleep(self.order.lasting.max(self.order.reported_after)).await;
        let (figures, seconds) = self.counters.read().await.since(&before, &Figures::new());
        let mut figures = divided(figures, seconds);
        let began = Instant::now();
        let commands = self.watched_commands(sleep(self.order.lasting)).await;
        figures.insert("redis_commands", commands / began.elapsed().as_secs_f64());
        figures
    }

    /// What one unit costs when so many are under way at once.
    pub(super) async fn cost(&mut self, unit: Unit, lanes: usize, idle: &Figures) -> Figures {
        self.carry_out(unit, WARM_UP, lanes).await;
        sleep(self.order.reported_after).await;
        let before = self.counters.read().await;
        self.carry_out(unit, self.order.units, lanes).await;
        sleep(self.order.reported_after).await;
        let (figures, _) = self.counters.read().await.since(&before, idle);
        let mut figures = divided(figures, self.order.units as f64);

        let (watched, began) = (self.order.units.min(MOST_WATCHED), Instant::now());
        let commands = self.watched_commands(self.carry_out(unit, watched, lanes)).await;
        let idle_commands = idle.get("redis_commands").unwrap_or(&0.0) * began.elapsed().as_secs_f64();
        figures.insert("redis_commands", (commands - idle_commands) / watched as f64);
        figures
    }

    /// What one job costs in a second in which its worker waits for the model.
    pub(super) async fn held(&mut self, idle: &Figures) -> Figures {
        let asked = self.model.calls().len();
        let gates: Vec<_> = (0..WORKERS).map(|_| self.model.holds(says("heard at last"))).collect();
        let ended = {
            let (service, first) = (&self.replicas[0], self.next.fetch_add(WORKERS, Ordering::Relaxed));
            join_all((first..first + WORKERS).map(|number| Unit::Job.carry_out(service, number)))
        };
        let (model, counters, order) = (&self.model, &mut self.counters, self.order);
        let counted = async {
            model.was_asked(asked + WORKERS).await;
            sleep(order.reported_after).await;
            let before = counters.read().await;
            sleep(order.lasting.max(order.reported_after)).await;
            let (figures, seconds) = counters.read().await.since(&before, idle);
            gates.into_iter().for_each(acceptance::Gate::open);
            divided(figures, seconds * WORKERS as f64)
        };
        let (figures, _) = tokio::join!(counted, ended);
        figures
    }

    pub(super) async fn connections(&mut self) -> Figures {
        self.counters.connections().await
    }

    async fn carry_out(&self, unit: Unit, units: usize, lanes: usize) {
        let first = self.next.fetch_add(units, Ordering::Relaxed);
        let service = &self.replicas[0];
        let lane = |lane: usize| async move {
            for number in (first + lane..first + units).step_by(lanes) {
                unit.carry_out(service, number).await;
            }
        };
        join_all((0..lanes).map(lane)).await;
    }

    /// How many commands clients send meanwhile, the scripts' own apart.
    async fn watched_commands(&self, meanwhile: impl Future<Output = ()>) -> f64 {
        let mut monitor = self.redis.monitor().await;
        monitor.commands().await;
        meanwhile.await;
        monitor.commands().await.of_clients.len() as f64
    }
}

/// Servers as they are run in production: Redis flushes its log once a second, PostgreSQL at every commit.
async fn start_stores() -> (Redis, Postgres) {
    tokio::join!(
        Redis::start_with(&["--appendfsync", "everysec", "--maxmemory-policy", "noeviction"]),
        Postgres::start_with(&["fsync=on", "synchronous_commit=on"])
    )
}

/// The servers' versions, and the limits on connections that they come with.
pub(super) async fn versions() -> Value {
    let (redis, postgres) = start_stores().await;
    let mut postgres = PgConnection::connect(&postgres.url()).await.expect("a connection to PostgreSQL");
    let (version, connections): (String, i32) = sqlx::query_as(
        "SELECT current_setting('server_version'), current_setting('max_connections')::int \
         - current_setting('superuser_reserved_connections')::int",
    )
    .fetch_one(&mut postgres)
    .await
    .expect("the settings of PostgreSQL");
    let client = redis::Client::open(redis.url()).expect("an address of Redis");
    let mut connection = client.get_connection().expect("a connection to Redis");
    let info: String = redis::cmd("INFO").query(&mut connection).expect("an answer of Redis");
    let of_redis = |name: &str| {
        let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.unwrap_or_default().trim().to_owned()
    };
    json!({
        "redis": of_redis("redis_version"),
        "redis_connections": of_redis("maxclients").parse::<u32>().expect("a number of connections"),
        "postgres": version,
        "postgres_connections": connections,
    })
}
