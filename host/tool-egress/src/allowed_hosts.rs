//! What a component may do over HTTP: plain data that the policy is mapped to, and the question it answers.
//!
//! Which requests the policy's rules admit is decided behind [`Authorize`], by the policy. What is checked
//! here is what must hold whatever a rule says.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{HeaderName, Method};
use outbound::{Reach, Scheme};

use crate::secret_scan::{ScanError, Scanner};

/// What one component was granted.
#[derive(Debug)]
pub struct Grant {
    pub(super) digest: Arc<str>,
    pub(super) rules: Arc<dyn Authorize>,
    pub(super) secrets: Vec<Secret>,
    pub(super) limits: RequestLimits,
    pub(super) scanner: Scanner,
}

/// Decides whether a request is admitted.
pub trait Authorize: fmt::Debug + Send + Sync {
    /// Says what the rule that admits the request allows, or why there is none: a sentence for the model,
    /// which may name hosts, methods and paths of the policy.
    fn authorize(&self, request: &RequestLine<'_>) -> Result<Admission, String>;

    /// Is told of a host that has only addresses which the rule does not let requests reach.
    fn forbidden(&self, _host: &str) {}
}

/// What rules are matched against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestLine<'a> {
    pub scheme: Scheme,
    /// In lower case, without a dot at the end. Addresses in their shortest form, IPv6 without brackets.
    pub host: &'a str,
    pub port: u16,
    /// Host and port as a URL has them: IPv6 in brackets, the scheme's own port left away.
    pub authority: &'a str,
    pub method: &'a Method,
    /// As the guest wrote it, percent-encoded, beginning with a slash. Not normalised.
    pub path_and_query: &'a str,
}

/// What the rule says that admits a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admission {
    /// Whether the host may have a private or loopback address.
    pub private: bool,
    /// The scheme that the rule names. Credentials are sent over plain HTTP only if that is what it names.
    pub scheme: Scheme,
    /// Names of the credentials to inject: those of this host.
    pub secrets: Vec<String>,
    /// The path in the form that was compared, without the query. It is sent instead of what the guest wrote,
    /// so that the server cannot read it as another one.
    pub path: Option<String>,
}

/// A credential that the host injects into requests whose [`Admission`] names it. Guests only learn that it
/// exists.
#[derive(Debug, Clone)]
pub struct Secret {
    /// What it is called in messages and in the mark that stands for its value.
    pub name: String,
    /// Absent if it is configured and its source has no value.
    pub value: Option<SecretValue>,
    pub placement: Placement,
}

/// Where a credential is put.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placement {
    /// A header: prefix, then value.
    Header { name: HeaderName, prefix: String },
    /// A parameter of the query, URL-encoded.
    Query { name: String },
    /// Basic authentication: the value is the password.
    Basic { user: String },
}

/// A value that can be sent, and told from other texts when it comes back. It cannot be printed.
#[derive(Debug, Clone)]
pub struct SecretValue(agent_core::secret::Secret);

/// A value that cannot be a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    #[error(
        "the value has {0} bytes, fewer than {min}: so short a text cannot be told from others in what a tool \
         answers. Use a longer credential",
        min = SecretValue::MIN_BYTES
    )]
    TooShort(usize),
    #[error("the value has {0} bytes, more than {max}. Use a shorter credential", max = SecretValue::MAX_BYTES)]
    TooLong(usize),
    #[error("the value begins or ends with white space or holds control characters. Remove them")]
    Characters,
}

/// What one call of a tool may use up, all its requests together, and the longest times of each request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestLimits {
    /// Requests, refused ones included.
    pub requests: u32,
    /// Requests under way at once. Others wait, within the call's deadline.
    pub concurrent_requests: u32,
    /// Bytes sent and received together, heads and bodies, as they are before TLS. Framing (interim
    /// responses, chunk sizes, trailers) is not counted, and has a bound of its own.
    pub bytes: u64,
    pub times: Times,
}

/// Longest times of one request. The call's deadline ends all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// To resolve the host's name.
    pub resolve: Duration,
    /// To connect, over all addresses, TLS included.
    pub connect: Duration,
    /// From the end of the request to the head of the response.
    pub(crate) first_byte: Duration,
    /// Between two pieces of the response's body. Not counted while nobody reads.
    pub(crate) between_bytes: Duration,
    /// From the connection to the last byte.
    pub total: Duration,
}

impl Grant {
    /// `digest` is that of the component and of everything the grant says. Connections are shared by calls
    /// under the same digest only, so a grant that was narrowed uses none that an earlier one opened.
    pub fn new(
        digest: Arc<str>,
        rules: Arc<dyn Authorize>,
        secrets: Vec<Secret>,
        limits: RequestLimits,
    ) -> Result<Self, ScanError> {
        let scanner = Scanner::new(secrets.iter().filter_map(Secret::named_value))?;
        Ok(Self { digest, rules, secrets, limits, scanner })
    }

    /// For what else the component says: outputs, errors, log lines.
    pub fn scanner(&self) -> &Scanner {
        &self.scanner
    }
}

impl Secret {
    fn named_value(&self) -> Option<(&str, &str)> {
        Some((&self.name, self.value.as_ref()?.expose()))
    }
}

impl Placement {
    /// Whether both cannot be in one request.
    pub(super) fn same_place(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Query { name: one }, Self::Query { name: other }) => one == other,
            (one, other) => one.header().is_some() && one.header() == other.header(),
        }
    }

    fn header(&self) -> Option<&HeaderName> {
        match self {
            Self::Header { name, .. } => Some(name),
            Self::Basic { .. } => Some(&AUTHORIZATION),
            Self::Query { .. } => None,
        }
    }
}

impl Admission {
    pub(super) fn reach(&self) -> Reach {
        if self.private { Reach::Private } else { Reach::Public }
    }
}

impl SecretValue {
    /// Shortest value. A shorter one would stand in texts by chance, and what is left of it in base64 is too
    /// short to be found.
    pub(crate) const MIN_BYTES: usize = 8;

    /// Longest value: more than any header takes. It bounds the automaton that looks for it.
    pub(crate) const MAX_BYTES: usize = 8 * 1024;

    pub fn new(secret: agent_core::secret::Secret) -> Result<Self, SecretError> {
        let value = secret.expose();
        if value.len() < Self::MIN_BYTES {
            Err(SecretError::TooShort(value.len()))
        } else if value.len() > Self::MAX_BYTES {
            Err(SecretError::TooLong(value.len()))
        } else if value.trim() != value || value.chars().any(char::is_control) {
            Err(SecretError::Characters)
        } else {
            Ok(Self(secret))
        }
    }

    pub(super) fn expose(&self) -> &str {
        self.0.expose()
    }
}

/// The numbers of the service are the policy's.
#[cfg(test)]
impl Default for RequestLimits {
    fn default() -> Self {
        Self { requests: 10, concurrent_requests: 4, bytes: 1024 * 1024, times: Times::default() }
    }
}

impl Default for Times {
    fn default() -> Self {
        Self {
            resolve: Duration::from_secs(5),
            connect: Duration::from_secs(5),
            first_byte: Duration::from_secs(30),
            between_bytes: Duration::from_secs(10),
            total: Duration::from_secs(60),
        }
    }
}

impl Times {
    /// The times, or the guest's where those are shorter.
    pub fn shortened(
        self,
        connect: Option<Duration>,
        first_byte: Option<Duration>,
        between_bytes: Option<Duration>,
    ) -> Self {
        let shorter = |own: Duration, asked: Option<Duration>| asked.map_or(own, |asked| asked.min(own));
        Self {
            connect: shorter(self.connect, connect),
            first_byte: shorter(self.first_byte, first_byte),
            between_bytes: shorter(self.between_bytes, between_bytes),
            ..self
        }
    }

    /// The times, or where those are shorter the time of a call, which ends the request in any case.
    #[must_use]
    pub fn lengthened(self, call: Duration) -> Self {
        Self {
            first_byte: self.first_byte.max(call),
            between_bytes: self.between_bytes.max(call),
            total: self.total.max(call),
            ..self
        }
    }
}
