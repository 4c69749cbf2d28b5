//! How the service is reached.

use std::net::IpAddr;
use std::time::Duration;

use http_edge::{Origins, RateLimit, RateLimits, Settings};
use run_service::shutdown::Shutdown;

use super::problem::Problem;
use super::reader::{Reader, Reported};
use super::setting::{HOUR, MIB, Setting, bytes, millis, milliseconds, number, settings, special};
use crate::serve::timeouts::{LAST_PHASES, Timeouts};

settings! {
    /// The address to listen on.
    HOST = special("an IP address or a host name").or("0.0.0.0");
    /// The port to listen on; 0 takes any free one, and the log says which.
    PORT = number(0, 65_535).or_number(|| 3000);
    /// Most bytes a request body may have.
    MAX_BODY_BYTES = bytes(1, 100 * MIB).or_number(|| Settings::default().max_body_bytes as u64);
    /// How long a client may take to send a request body. Well below SHUTDOWN_TIMEOUT_MS.
    BODY_TIMEOUT_MS = milliseconds(1, HOUR).or_number(|| millis(Settings::default().body_time_limit));
    /// How many proxies stand in front of the service and append to X-Forwarded-For. 0 believes none of it.
    TRUST_PROXY = number(0, 32).or_number(|| Settings::default().trusted_proxies as u64);
    /// Most connections at once; when all are taken, a new one closes the one that has been idle for longest.
    MAX_CONNECTIONS = number(1, 1_000_000).or_derived("half of what the limit on open files leaves, at most 10000");
    /// Threads that serve connections, each connection on one of them. 0 serves them on the threads that all
    /// other work is done on, too.
    SERVING_THREADS = number(0, 1_024).or_derived("one for each processor");
    /// Most WebSockets of clients of OpenAI at once; 0 has none. They are no part of MAX_CONNECTIONS.
    MAX_WEBSOCKETS = number(0, 100_000).or_number(|| Settings::default().max_websockets as u64);
    /// The origins, separated by commas, whose pages may call from a browser. Pages of other origins are
    /// refused. A listener on a loopback address answers under their host names as well.
    CORS_ORIGINS = special("origins such as https://app.example or http://localhost:5173, separated by commas");
    /// Most requests of one address to /mcp and what is under /api/, /admin/ and /v1/ within its window;
    /// reading jobs counts.
    RATE_LIMIT_IP = number(1, 1_000_000_000).or_number(|| RateLimits::default().address.requests);
    /// How many seconds the window of an address is long.
    RATE_LIMIT_IP_WINDOW_S = number(1, 86_400).or_number(|| RateLimits::default().address.period.as_secs());
    /// Most requests of one user within their window.
    RATE_LIMIT_USER = number(1, 1_000_000_000).or_number(|| RateLimits::default().user.requests);
    /// The same for users whose token has the tier premium.
    RATE_LIMIT_PREMIUM = number(1, 1_000_000_000).or_number(|| RateLimits::default().premium_requests);
    /// How many seconds the window of a user is long.
    RATE_LIMIT_USER_WINDOW_S = number(1, 86_400).or_number(|| RateLimits::default().user.period.as_secs());
    /// How long connections are still accepted after a signal to stop, while readiness is already denied.
    SHUTDOWN_DRAIN_MS = milliseconds(0, 29_000).or_number(|| 0);
    /// How long after a signal to stop the process ends, whatever is still under way. Connections are cut off
    /// 2 s before. Give the deployment's own grace period some seconds more. At least a second more than
    /// SHUTDOWN_DRAIN_MS.
    SHUTDOWN_TIMEOUT_MS = milliseconds(1_000, HOUR).or_number(|| millis(Timeouts::default().force));
    /// How long a connection is kept open after an answer for the next request. Longer than what stands in
    /// front keeps it.
    KEEP_ALIVE_MS = milliseconds(1_000, HOUR).or_number(|| millis(Timeouts::default().next_request));
}

/// How the service is reached.
#[derive(Debug, Clone)]
pub struct Http {
    /// An IP address, or a name that is resolved when the socket is bound (`HOST`).
    pub host: String,
    /// 0 for any free one (`PORT`).
    pub port: u16,
    /// Most bytes of a request body (`MAX_BODY_BYTES`).
    pub max_body_bytes: usize,
    /// How long a client may take to send a body (`BODY_TIMEOUT_MS`).
    pub body_timeout: Duration,
    /// How many proxies are believed (`TRUST_PROXY`).
    pub trusted_proxies: usize,
    /// Most connections at once, if it is set (`MAX_CONNECTIONS`).
    pub max_connections: Option<usize>,
    /// How many threads serve connections, if it is set (`SERVING_THREADS`).
    pub serving_threads: Option<usize>,
    /// Most WebSockets at once (`MAX_WEBSOCKETS`).
    pub max_websockets: usize,
    /// Whose pages may call from a browser (`CORS_ORIGINS`).
    pub origins: Origins,
    /// How often one may call (`RATE_LIMIT_…`).
    pub rates: RateLimits,
    /// How long clients and a shutdown may take (`SHUTDOWN_DRAIN_MS`, `SHUTDOWN_TIMEOUT_MS`,
    /// `KEEP_ALIVE_MS`).
    pub timeouts: Timeouts,
}

impl Http {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Reported> {
        let origins = reader.optional(&CORS_ORIGINS, |list| Origins::parse(list).ok());
        read_all!(Self {
            host: reader.value(&HOST, parse_host),
            port: reader.number(&PORT),
            max_body_bytes: reader.number(&MAX_BODY_BYTES),
            body_timeout: reader.duration(&BODY_TIMEOUT_MS),
            trusted_proxies: reader.number(&TRUST_PROXY),
            max_connections: reader.optional_number(&MAX_CONNECTIONS),
            serving_threads: reader.optional_number(&SERVING_THREADS),
            max_websockets: reader.number(&MAX_WEBSOCKETS),
            origins: origins.map(Option::unwrap_or_default),
            rates: read_rates(reader),
            timeouts: read_timeouts(reader),
        })
    }

    /// Warns where runs that take up to `limit` are refused although connections are still accepted: who
    /// sends them has not heard yet that the service stops, which is what the drain is for.
    pub(super) fn warn_of_refused_runs(&self, limit: Duration, reader: &mut Reader<'_>) {
        let drain = self.timeouts.drain;
        let least = drain + Shutdown::least_left(limit);
        let refused = least.saturating_sub(self.timeouts.requests_end()).min(drain);
        if refused.is_zero() {
            return;
        }
        // Connections are cut off and requests end at most so long before the process does.
        let enough = least + LAST_PHASES;
        reader.warn(&format!(
            "runs that come in the last {} ms of SHUTDOWN_DRAIN_MS are refused, as less than half of \
             AGENT_TIMEOUT_MS is left then: set SHUTDOWN_TIMEOUT_MS to {}, and the deployment's grace \
             period to more",
            refused.as_millis(),
            enough.as_millis()
        ));
    }
}

fn read_timeouts(reader: &mut Reader<'_>) -> Result<Timeouts, Reported> {
    let drain = reader.duration(&SHUTDOWN_DRAIN_MS);
    let force = reader.duration(&SHUTDOWN_TIMEOUT_MS);
    let next_request = reader.duration(&KEEP_ALIVE_MS);
    let (drain, force, next_request) = (drain?, force?, next_request?);
    if drain + Duration::from_secs(1) > force {
        return Err(reader.report(Problem::not_a_second_after(
            &SHUTDOWN_TIMEOUT_MS,
            force,
            &SHUTDOWN_DRAIN_MS,
        )));
    }
    Ok(Timeouts { drain, force, next_request, ..Timeouts::default() })
}

fn read_rates(reader: &mut Reader<'_>) -> Result<RateLimits, Reported> {
    let mut period = |setting: &Setting| reader.number(setting).map(Duration::from_secs);
    let (of_addresses, of_users) = (period(&RATE_LIMIT_IP_WINDOW_S), period(&RATE_LIMIT_USER_WINDOW_S));
    let address = reader.number(&RATE_LIMIT_IP);
    let user = reader.number(&RATE_LIMIT_USER);
    let premium_requests = reader.number(&RATE_LIMIT_PREMIUM);
    Ok(RateLimits {
        address: RateLimit { requests: address?, period: of_addresses? },
        user: RateLimit { requests: user?, period: of_users? },
        premium_requests: premium_requests?,
    })
}

/// An address as `(host, port)` can be bound: an IPv6 address has no brackets, a name has no port.
fn parse_host(text: &str) -> Option<String> {
    let is_name = text.len() <= 253
        && text.split('.').all(|label| {
            let inside = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
            (1..=63).contains(&label.len()) && label.bytes().all(inside)
        });
    (is_name || text.parse::<IpAddr>().is_ok()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::config::Config;

    #[test]
    fn a_drain_in_which_runs_are_refused_is_a_warning_that_says_what_is_enough() {
        let warnings = |drain: &str, force: &str, limit: &str| {
            let vars = BTreeMap::from([
                ("LLM_API_KEY", "sk-1"),
                ("SHUTDOWN_DRAIN_MS", drain),
                ("SHUTDOWN_TIMEOUT_MS", force),
                ("AGENT_TIMEOUT_MS", limit),
            ]);
            Config::from_vars(&vars).unwrap().warnings
        };
        for (drain, force, limit, refused) in [
            ("0", "30000", "300000", None),
            ("5000", "30000", "30000", None),
            ("11000", "30000", "30000", None),
            ("15000", "30000", "30000", Some(("4000", "34000"))),
            ("5000", "30000", "300000", Some(("5000", "159000"))),
        ] {
            let found = warnings(drain, force, limit);
            let Some((last, enough)) = refused else {
                assert_eq!(found, [""; 0], "{drain} {force} {limit}");
                continue;
            };
            let begins = format!("runs that come in the last {last} ms of SHUTDOWN_DRAIN_MS are refused");
            assert!(found.len() == 1 && found[0].starts_with(&begins), "{found:?}");
            assert!(found[0].contains(&format!("set SHUTDOWN_TIMEOUT_MS to {enough}, ")), "{found:?}");
            assert_eq!(warnings(drain, enough, limit), [""; 0], "it is enough");
        }
    }

    #[test]
    fn hosts_are_addresses_or_names() {
        for (text, usable) in [
            ("0.0.0.0", true),
            ("::", true),
            ("::1", true),
            ("localhost", true),
            ("my_host-1.example.org", true),
            ("[::1]", false),
            ("localhost:3000", false),
            ("http://localhost", false),
            ("a..b", false),
            ("a b", false),
            ("", false),
        ] {
            assert_eq!(parse_host(text).is_some(), usable, "{text:?}");
        }
    }
}
