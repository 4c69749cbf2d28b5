//! Sends webhooks of jobs as the Standard Webhooks specification has it: one `POST` of JSON with the headers
//! `webhook-id`, `webhook-timestamp` and `webhook-signature`, and `traceparent` when the job was submitted in
//! a trace.
//!
//! The address is a stranger's: no connection is made to one that is not public, unless the operator names
//! its host, and none is kept. Of an answer only its head is read. Which attempts are made, and when, is the
//! business of `run_service::webhooks`.

mod signature;
mod slow_hosts;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use agent_core::ports::WebhookSender;
use agent_core::ports::webhooks::{WebhookMessage, WebhookReply};
use agent_core::trace;
use boxed_async::boxed_async;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use outbound::{Client, ConnectError, Origin, PoolBounds, Reach, Request, Tls, TlsError};
use tokio::time::timeout;
use url::{Host, Url};

pub(crate) use signature::{SigningKeys, WebhookSecret};
use slow_hosts::SlowHosts;

/// How long connecting may take, and how long a delivery may take in all: what Standard Webhooks asks of
/// senders.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const TIMEOUT: Duration = Duration::from_secs(20);

/// How long a delivery may take to a host that did not answer the last ones of its user in time.
const TIMEOUT_OF_SLOW: Duration = Duration::from_secs(5);

/// Sends webhooks over HTTP.
pub(crate) struct HttpWebhooks {
    client: Client,
    keys: SigningKeys,
    private: PrivateHosts,
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
            // A URL may have such a host: a pattern would be taken for a name that nobody has.
            Err(_no_address) if host.contains('*') => None,
            Err(_no_address) => Host::parse(host).ok().map(|host| host.to_string()),
        };
        // Also as they stand in URLs: an IPv6 address in brackets, a name with the dot of the root.
        let hosts = text.split(',').map(|host| host.trim().trim_matches(['[', ']']).trim_end_matches('.'));
        hosts.map(read).collect::<Option<_>>().map(Self)
    }

    fn names(&self, host: &str) -> bool {
        let host = host.strip_suffix('.').unwrap_or(host);
        self.0.iter().any(|named| named.eq_ignore_ascii_case(host))
    }
}

impl HttpWebhooks {
    /// Connects to nothing yet.
    pub(crate) fn new(secret: &WebhookSecret, private: PrivateHosts) -> Result<Self, TlsError> {
        let client = Client::new(Some(Tls::system()?), CONNECT_TIMEOUT, PoolBounds::NONE);
        Ok(Self { client, keys: SigningKeys::of(secret), private, slow: SlowHosts::default() })
    }

    async fn post(&self, user_id: &str, url: &str, message: &WebhookMessage) -> Result<WebhookReply, String> {
        // The URL was checked when it was submitted. The settings may be others now.
        let (url, reach) = self.read(url).map_err(str::to_owned)?;
        let now = SystemTime::now();
        let key = (user_id.to_owned(), url.authority().to_owned());
        let limit = if self.slow.holds(&key) { TIMEOUT_OF_SLOW } else { TIMEOUT };
        let request =
            Request { reach, ..Request::post(url, self.headers(message, now)?, message.body.clone()) };
        // Receivers are named by strangers: names of one user that hang delay nobody else's webhooks.
        let client = self.client.on_behalf_of(user_id);
        let sent = timeout(limit, client.send(request)).await;
        let sent = sent.unwrap_or(Err(ConnectError::Timeout(limit).into()));
        if let Some(timed_out) = says_whether_slow(sent.as_ref().err()) {
            self.slow.note(key, timed_out);
        }
        let response = sent.map_err(|error| describe(&error, limit))?;
        let retry_after = response.headers().get(RETRY_AFTER);
        // The response's body is not needed: dropping the response closes the connection.
        Ok(WebhookReply {
            outcome: Ok(response.status().as_u16()),
            retry_after: retry_after.and_then(|value| read_retry_after(value.to_str().ok()?, now)),
        })
    }

    fn headers(&self, message: &WebhookMessage, now: SystemTime) -> Result<HeaderMap, String> {
        let timestamp = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let signature = self.keys.sign(&message.id, timestamp, &message.body);
        let mut fields = vec![
            (CONTENT_TYPE, "application/json".to_owned()),
            (HeaderName::from_static("webhook-id"), message.id.clone()),
            (HeaderName::from_static("webhook-timestamp"), timestamp.to_string()),
            (HeaderName::from_static("webhook-signature"), signature),
        ];
        let trace = trace::current().map(|context| context.to_string());
        fields.extend(trace.map(|context| (HeaderName::from_static("traceparent"), context)));
        let field = |(name, value): (HeaderName, String)| match HeaderValue::try_from(value) {
            Ok(value) => Ok((name, value)),
            Err(_unfit) => Err(format!("the header {name} cannot be sent")),
        };
        fields.into_iter().map(field).collect()
    }

    /// The address, and how far requests to it may reach.
    fn read(&self, url: &str) -> Result<(Url, Reach), &'static str> {
        let url = Url::parse(url).map_err(|_error| "Invalid url")?;
        let host = url.host().ok_or("The url names no host")?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err("The url must not hold a user or a password");
        }
        let is_private = self.private.names(host.to_string().trim_matches(['[', ']']));
        if url.scheme() != "https" && !(url.scheme() == "http" && is_private) {
            return Err("The url must begin with https://");
        }
        let reach = if is_private { Reach::Private } else { Reach::Public };
        let origin = Origin::of(&url).ok_or("The url names no host")?;
        let forbidden = "The url's address is not public, and the operator has not allowed it";
        origin.check_literal(reach).map_err(|_error| forbidden)?;
        Ok((url, reach))
    }
}

#[boxed_async]
impl WebhookSender for HttpWebhooks {
    fn check(&self, url: &str) -> Result<(), &'static str> {
        self.read(url).map(drop)
    }

    async fn send(&self, user_id: &str, url: &str, message: &WebhookMessage) -> WebhookReply {
        let reply = self.post(user_id, url, message).await;
        reply.unwrap_or_else(|error| WebhookReply { outcome: Err(error), retry_after: None })
    }

    fn public_key(&self) -> &str {
        self.keys.public()
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

/// Whether a delivery that ended so says that its host is slow. One whose name was not looked up in time says
/// nothing: other names of its user may have taken their lookups.
fn says_whether_slow(failed: Option<&outbound::Error>) -> Option<bool> {
    match failed {
        Some(outbound::Error::Connect(ConnectError::ResolveTimeout(_))) => None,
        failed => Some(failed.is_some_and(outbound::Error::is_timeout)),
    }
}

/// What went wrong, for the job's owner: the innermost cause says most, and addresses of ours are in none.
fn describe(error: &outbound::Error, limit: Duration) -> String {
    let problem = match error {
        error if error.is_timeout() => return format!("no answer within {} s", limit.as_secs()),
        outbound::Error::Connect(ConnectError::Forbidden(_)) => {
            "its addresses are not public, and WEBHOOK_PRIVATE_HOSTS does not name it".to_owned()
        }
        error => error.problem(),
    };
    format!("the receiver could not be reached: {problem}")
}
