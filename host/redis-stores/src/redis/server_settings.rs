//! The settings of a Redis server, and what they mean for what is kept there. No I/O.

use agent_core::ports::StoreWarning;

/// The oldest version that BullMQ's scripts and ours work on.
const OLDEST: (u32, u32) = (6, 2);

/// What a Redis server is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RedisUse {
    /// The queue of jobs, beside the cache and the rate windows.
    Queue,
    /// What tools keep.
    ToolValues,
}

/// What a server tells of its settings; absent what it does not.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ServerSettings {
    version: Option<String>,
    /// `standalone`, `cluster` or `sentinel`.
    mode: Option<String>,
    is_replica: bool,
    policy: Option<String>,
    appends: Option<bool>,
    flushes: Option<String>,
    snapshots: Option<bool>,
}

impl ServerSettings {
    /// A section of `INFO`. What `CONFIG GET` told is not replaced.
    pub(super) fn add_info(&mut self, text: &str) {
        for (name, value) in text.lines().filter_map(|line| line.trim().split_once(':')) {
            match name {
                "redis_version" => self.version = Some(value.to_owned()),
                // Valkey calls it the latter.
                "redis_mode" | "server_mode" => self.mode = Some(value.to_owned()),
                "role" => self.is_replica = value == "slave",
                "maxmemory_policy" => self.policy = self.policy.take().or_else(|| Some(value.to_owned())),
                "aof_enabled" => self.appends = self.appends.or(Some(value == "1")),
                _ => {}
            }
        }
    }

    /// A setting of `CONFIG GET`.
    pub(super) fn add_config(&mut self, name: &str, value: &str) {
        match name {
            "maxmemory-policy" => self.policy = Some(value.to_owned()),
            "appendonly" => self.appends = Some(value == "yes"),
            "appendfsync" => self.flushes = Some(value.to_owned()),
            "save" => self.snapshots = Some(!value.is_empty()),
            _ => {}
        }
    }

    /// What weakens the promises of the service, or why the server must not be used.
    pub(super) fn judge(&self, purpose: RedisUse) -> Result<Vec<StoreWarning>, String> {
        let judged = [self.judge_version(purpose), self.judge_policy(purpose)];
        let mut warnings = Vec::new();
        for judged in judged {
            warnings.extend(judged?);
        }
        warnings.extend(self.judge_persistence());
        Ok(warnings)
    }

    /// Whether a server that `redis://` names takes what is to be kept. One that does not answers `PING` all
    /// the same.
    pub(super) fn judge_kind(&self, purpose: RedisUse) -> Result<Option<StoreWarning>, String> {
        let problem = match self.mode.as_deref() {
            Some("cluster") => {
                "REDIS_URL names a node of a cluster as if it were all of Redis, so that most commands are refused: name the \
                 cluster (redis+cluster://host:6379,…)"
            }
            Some("sentinel") => {
                "REDIS_URL names a sentinel, which keeps nothing: name the sentinels with the master that they know \
                 (redis+sentinel://host:26379,…/name)"
            }
            _ if self.is_replica => {
                // It may be the master in a moment: a name can lead from one to the other.
                let problem = "REDIS_URL names a replica, so that whatever is to be written is refused: name its master, or \
                               the sentinels or the cluster that know it";
                return Ok(Some(warning("role", problem.into())));
            }
            _ => return Ok(None),
        };
        match purpose {
            RedisUse::Queue => Err(problem.into()),
            RedisUse::ToolValues => Ok(Some(warning("redis_mode", problem.into()))),
        }
    }

    fn judge_version(&self, purpose: RedisUse) -> Result<Option<StoreWarning>, String> {
        let Some((text, version)) =
            self.version.as_deref().and_then(|text| Some((text, parse_version(text)?)))
        else {
            let problem =
                "Redis does not tell its version, which has to be 6.2 or newer: allow the command INFO";
            return Ok(Some(warning("version", problem.into())));
        };
        if version >= OLDEST {
            return Ok(None);
        }
        let problem = format!("Redis {text} is too old: use 6.2 or newer");
        match purpose {
            RedisUse::Queue => Err(format!("{problem}, which the queue's scripts need (REDIS_URL)")),
            RedisUse::ToolValues => Ok(Some(warning("version", problem))),
        }
    }

    fn judge_policy(&self, purpose: RedisUse) -> Result<Option<StoreWarning>, String> {
        const REMEDY: &str = "set maxmemory-policy to noeviction (in redis.conf, by CONFIG SET, or in the parameters of a \
                              managed Redis)";
        Ok(match (self.policy.as_deref(), purpose) {
            (Some("noeviction"), _) => None,
            (Some(policy), RedisUse::Queue) => {
                return Err(format!(
                    "REDIS_URL names a Redis that evicts keys when its memory is full (maxmemory-policy {policy}), and with \
                     them jobs that were accepted and the leases of those that run: {REMEDY}"
                ));
            }
            (Some(policy), RedisUse::ToolValues) => Some(warning(
                "maxmemory-policy",
                format!("{policy} evicts what tools keep when the memory is full: {REMEDY}"),
            )),
            (None, _) => Some(warning(
                "maxmemory-policy",
                format!(
                    "Redis does not tell whether it evicts what is kept there when its memory is full: {REMEDY}"
                ),
            )),
        })
    }

    fn judge_persistence(&self) -> Option<StoreWarning> {
        let (setting, problem) = match (self.appends, self.flushes.as_deref()) {
            (Some(true), Some("always")) => return None,
            (Some(true), Some("everysec")) => (
                "appendfsync",
                "everysec: when Redis' machine fails, up to the last second of what was accepted is lost; set appendfsync \
                 to always to lose nothing",
            ),
            (Some(true), Some(_)) => (
                "appendfsync",
                "no: when Redis' machine fails, what its system had not written yet is lost, often half a minute of what \
                 was accepted; set appendfsync to always, or to everysec to lose a second at most",
            ),
            (Some(true), None) => (
                "appendfsync",
                "Redis does not tell how often it flushes its append-only file: with always nothing is lost when its \
                 machine fails, with everysec up to a second",
            ),
            (Some(false), _) if self.snapshots == Some(true) => (
                "appendonly",
                "no: when Redis ends unexpectedly, what was accepted since its last snapshot is lost; set appendonly to \
                 yes and appendfsync to always",
            ),
            (Some(false), _) if self.snapshots == Some(false) => (
                "appendonly",
                "no, and no snapshots either: when Redis ends, everything that was accepted is lost; set appendonly to yes \
                 and appendfsync to always",
            ),
            (Some(false), _) => (
                "appendonly",
                "no: when Redis ends unexpectedly, what was accepted is lost, or all since its last snapshot; set \
                 appendonly to yes and appendfsync to always",
            ),
            (None, _) => (
                "appendonly",
                "Redis does not tell whether it writes what was accepted to its disk: set appendonly to yes and appendfsync \
                 to always, and allow the command INFO",
            ),
        };
        Some(warning(setting, problem.into()))
    }
}

fn warning(setting: &'static str, problem: String) -> StoreWarning {
    StoreWarning { store: "redis", setting, problem }
}

/// The first two numbers of `7.0.15`.
fn parse_version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split('.').map_while(|number| number.parse().ok());
    Some((numbers.next()?, numbers.next().unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(info: &str, config: &[(&str, &str)]) -> ServerSettings {
        let mut settings = ServerSettings::default();
        settings.add_info(info);
        for (name, value) in config {
            settings.add_config(name, value);
        }
        settings
    }

    const INFO: &str = "# Server\r\nredis_version:7.0.15\r\nmaxmemory_policy:noeviction\r\naof_enabled:1\r\n";

    #[test]
    fn each_setting_that_weakens_a_promise_is_named() {
        for (info, config, expected) in [
            (INFO, &[("appendfsync", "always")][..], vec![]),
            (INFO, &[("appendfsync", "everysec")], vec!["appendfsync"]),
            (INFO, &[("appendfsync", "no")], vec!["appendfsync"]),
            (INFO, &[], vec!["appendfsync"]),
            (INFO, &[("appendonly", "no"), ("save", "")], vec!["appendonly"]),
            (INFO, &[("appendonly", "no"), ("save", "3600 1")], vec!["appendonly"]),
            ("redis_version:6.2.0", &[], vec!["maxmemory-policy", "appendonly"]),
            (
                "",
                &[("maxmemory-policy", "noeviction"), ("appendonly", "yes")],
                vec!["version", "appendfsync"],
            ),
            ("", &[], vec!["version", "maxmemory-policy", "appendonly"]),
        ] {
            let warnings = settings(info, config).judge(RedisUse::Queue).unwrap();
            let named: Vec<_> = warnings.iter().map(|warning| warning.setting).collect();
            assert_eq!(named, expected, "{info} {config:?}");
        }
    }

    #[test]
    fn behind_the_queue_nothing_is_evicted_and_no_script_is_unknown() {
        for policy in ["allkeys-lru", "allkeys-random", "volatile-lru", "volatile-ttl"] {
            let evicting = settings(INFO, &[("maxmemory-policy", policy)]);
            let problem = evicting.judge(RedisUse::Queue).unwrap_err();
            assert!(
                problem.contains(policy) && problem.contains("set maxmemory-policy to noeviction"),
                "{problem}"
            );
            assert_eq!(evicting.judge(RedisUse::ToolValues).unwrap()[0].setting, "maxmemory-policy");
        }
        for (version, fits) in [("6.0.16", false), ("6.2.0", true), ("7.0.15", true), ("10.0", true)] {
            let settings = settings(&INFO.replace("7.0.15", version), &[]);
            assert_eq!(settings.judge(RedisUse::Queue).is_ok(), fits, "{version}");
            assert!(settings.judge(RedisUse::ToolValues).is_ok(), "{version}");
        }
    }

    #[test]
    fn a_single_address_names_a_server_that_takes_what_is_kept() {
        let judged = |info: &str, purpose| {
            let judged = settings(info, &[]).judge_kind(purpose);
            judged.map(|warning| warning.map(|warning| warning.setting))
        };
        for info in [INFO, "redis_mode:standalone\r\nrole:master\r\n", "server_mode:standalone\r\n"] {
            assert_eq!(judged(info, RedisUse::Queue), Ok(None), "{info}");
        }
        assert_eq!(judged("redis_mode:standalone\r\nrole:slave\r\n", RedisUse::Queue), Ok(Some("role")));
        for (info, remedy) in [
            ("redis_mode:cluster\r\nrole:master\r\n", "redis+cluster://"),
            ("server_mode:cluster\r\nrole:slave\r\n", "redis+cluster://"),
            ("redis_mode:sentinel\r\n", "redis+sentinel://"),
        ] {
            let problem = judged(info, RedisUse::Queue).unwrap_err();
            assert!(problem.contains(remedy), "{problem}");
            assert_eq!(judged(info, RedisUse::ToolValues), Ok(Some("redis_mode")), "{info}");
        }
    }
}
