//! Processor time, which says where a request's time goes on a machine whose cores everybody shares: no more
//! requests are answered in a second than there is processor time for all who take part in one.

use std::ops::{Add, Sub};
use std::time::Duration;

use test_servers::Redis;

use crate::measuring::process::{Running, processor_time};

/// Whose time is metered.
pub(crate) struct Meter {
    processes: Vec<u32>,
    redis: Option<String>,
}

/// What was spent, from the start of each process on or between two readings.
#[derive(Clone, Copy, Default)]
pub(crate) struct Spent {
    pub(crate) service: Duration,
    pub(crate) redis: Duration,
    /// By the load generator and the provider, which are threads of this process.
    pub(crate) load: Duration,
}

impl Meter {
    pub(crate) fn of<'a>(service: impl IntoIterator<Item = &'a Running>, redis: Option<&Redis>) -> Self {
        let processes = service.into_iter().map(|process| process.0.id()).collect();
        Self { processes, redis: redis.map(Redis::url) }
    }

    pub(crate) fn read(&self) -> Spent {
        let service = self.processes.iter().copied().map(of_process).sum();
        let redis = self.redis.as_deref().map_or(Duration::ZERO, of_redis);
        Spent { service, redis, load: of_process(std::process::id()) }
    }
}

fn of_process(id: u32) -> Duration {
    processor_time(id).expect("it is measured while it runs")
}

fn of_redis(url: &str) -> Duration {
    let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
    let info: String = redis::cmd("INFO").arg("cpu").query(&mut connection).unwrap();
    let seconds = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.parse::<f64>().ok());
    Duration::from_secs_f64(seconds("used_cpu_user:").unwrap() + seconds("used_cpu_sys:").unwrap())
}

impl Sub for Spent {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            service: self.service.saturating_sub(earlier.service),
            redis: self.redis.saturating_sub(earlier.redis),
            load: self.load.saturating_sub(earlier.load),
        }
    }
}

impl Add for Spent {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            service: self.service + other.service,
            redis: self.redis + other.redis,
            load: self.load + other.load,
        }
    }
}
