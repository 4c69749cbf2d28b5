//! Sends webhooks of jobs as the Standard Webhooks specification has it: one `POST` of JSON with the headers `webhook-id`,
//! `webhook-timestamp` and `webhook-signature`, and `traceparent` when the job was submitted in a trace.
//!
//! The address is a stranger's. Every address of a name is checked when it is connected to, and nothing is resolved again in
//! between (`tool_host::may_reach`); no redirect is followed, no proxy asked, no connection kept, and of an answer only
//! its head is read. Which attempts are made, and when, is the core's (`agent_core::webhooks`).

mod signature;
mod slow_hosts;
#[cfg(test)]
mod tests;

use std::error::Error;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use agent_core::ports::WebhookSender;
use agent_core::ports::webhooks::{WebhookMessage, WebhookReply};
use agent_core::trace;
use async_trait::async_trait;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{CONTENT_TYPE, RETRY_AFTER};
use reqwest::{Client, redirect};
use tokio::net::lookup_host;
use url::{Host, Url};

pub(crate) use signature::{SigningKeys, WebhookSecret};
use slow_hosts::SlowHosts;

/// How long connecting may take, and how long a delivery may take in all: what Standard Webhooks asks of senders.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const TIMEOUT: Duration = Duration::from_secs(20);

/// How long a delivery may take to a host that did not answer the last ones in time.
const TIMEOUT_OF_SLOW: Duration = Duration::from_secs(5);

/// Most addresses of a name that are tried.
const MOST_ADDRESSES: usize = 8;

/// Sends webhooks over HTTP.
pub(crate) struct HttpWebhooks {
    client: Client,
    keys: SigningKeys,
    private: Arc<PrivateHosts>,
    slow: SlowHosts,
}

/// The receivers that may be on private addresses (`WEBHOOK_PRIVATE_HOSTS`), in lower case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PrivateHosts(Vec<String>);

impl PrivateHosts {
    /// A list of host names and addresses, separated by commas.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let read = |host: &str| match host.parse::<IpAddr>() {
            Ok(address) => Some(address.to_string()),
            Err(_no_address) => Host::parse(host).ok().map(|host| host.to_string()),
        };
        text.split(',').map(|host| read(host.trim())).collect::<Option<_>>().map(Self)
    }

    fn names(&self, host: &str) -> bool {
        let host = host.strip_suffix('.').unwrap_or(host);
        self.0.iter().any(|named| named.eq_ignore_ascii_case(host))
    }
}

impl HttpWebhooks {
    /// Connects to nothing yet.
    pub(crate) fn new(secret: &WebhookSecret, private: PrivateHosts) -> Result<Self, reqwest::Error> {
        let private = Arc::new(private);
        let client = Client::builder()
            .user_agent(concat!("agent-host/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            // A kept connection would be one to an address that a name had before.
            .pool_max_idle_per_host(0)
            .redirect(redirect::Policy::none())
            .no_proxy()
            .http1_only()
            .dns_resolver(Arc::new(CheckedResolver(private.clone())))
            .build()?;
        Ok(Self { client, keys: SigningKeys::of(secret), private, slow: SlowHosts::default() })
    }

    async fn post(&self, url: &str, message: &WebhookMessage) -> Result<WebhookReply, String> {
        // It was checked when it was submitted. The settings may be others now.
        self.check(url).map_err(str::to_owned)?;
        let now = SystemTime::now();
        let timestamp = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let host = Url::parse(url).map(|url| url.authority().to_owned()).unwrap_or_default();
        let limit = if self.slow.holds(&host) { TIMEOUT_OF_SLOW } else { TIMEOUT };
        let sending = self
            .client
            .post(url)
            .timeout(limit)
            .header(CONTENT_TYPE, "application/json")
            .header("webhook-id", &message.id)
            .header("webhook-timestamp", timestamp)
            .header("webhook-signature", self.keys.sign(&message.id, timestamp, &message.body))
            .body(message.body.clone());
        let sending = match trace::current() {
            Some(context) => sending.header("traceparent", context.to_string()),
            None => sending,
        };
        let sent = sending.send().await;
        self.slow.note(&host, sent.as_ref().is_err_and(reqwest::Error::is_timeout));
        let response = sent.map_err(|error| describe(&error, limit))?;
        let retry_after = response.headers().get(RETRY_AFTER);
        // Its body is nobody's concern: dropping the response closes the connection.
        Ok(WebhookReply {
            outcome: Ok(response.status().as_u16()),
            retry_after: retry_after.and_then(|value| read_retry_after(value.to_str().ok()?, now)),
        })
    }
}

#[async_trait]
impl WebhookSender for HttpWebhooks {
    fn check(&self, url: &str) -> Result<(), &'static str> {
        let url = Url::parse(url).map_err(|_error| "Invalid url")?;
        let host = url.host().ok_or("The url names no host")?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err("The url must not hold a user or a password");
        }
        let is_private = self.private.names(host.to_string().trim_matches(['[', ']']));
        if url.scheme() != "https" && !(url.scheme() == "http" && is_private) {
            return Err("The url must begin with https://");
        }
        let address = match host {
            Host::Domain(_) => return Ok(()),
            Host::Ipv4(address) => IpAddr::V4(address),
            Host::Ipv6(address) => IpAddr::V6(address),
        };
        match tool_host::may_reach(address, is_private) {
            true => Ok(()),
            false => Err("The url's address is not public, and the operator has not allowed it"),
        }
    }

    async fn send(&self, url: &str, message: &WebhookMessage) -> WebhookReply {
        let reply = self.post(url, message).await;
        reply.unwrap_or_else(|error| WebhookReply { outcome: Err(error), retry_after: None })
    }

    fn public_key(&self) -> &str {
        self.keys.public()
    }
}

/// Resolves names for the connections of [`HttpWebhooks`], which go to nothing but what it gives.
struct CheckedResolver(Arc<PrivateHosts>);

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let private = self.0.clone();
        Box::pin(async move {
            let may_be_private = private.names(name.as_str());
            let found: Vec<SocketAddr> =
                lookup_host((name.as_str(), 0)).await?.take(MOST_ADDRESSES).collect();
            let allowed = allowed(&found, may_be_private)?;
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

/// Those that may be connected to; an error when there are none.
fn allowed(found: &[SocketAddr], may_be_private: bool) -> Result<Vec<SocketAddr>, io::Error> {
    let is_allowed = |found: &&SocketAddr| tool_host::may_reach(found.ip(), may_be_private);
    let allowed: Vec<_> = found.iter().filter(is_allowed).copied().collect();
    match allowed.is_empty() {
        true => {
            Err(io::Error::other("its addresses are not public, and WEBHOOK_PRIVATE_HOSTS does not name it"))
        }
        false => Ok(allowed),
    }
}

/// Seconds, or a date.
fn read_retry_after(text: &str, now: SystemTime) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

/// What went wrong, for the job's owner: the innermost cause says most, and addresses of ours are in none.
fn describe(error: &reqwest::Error, limit: Duration) -> String {
    if error.is_timeout() {
        return format!("no answer within {} s", limit.as_secs());
    }
    let mut innermost: &dyn Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    format!("the receiver could not be reached: {innermost}")
}

impl std::fmt::Debug for HttpWebhooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpWebhooks").field("private", &self.private).finish_non_exhaustive()
    }
}
