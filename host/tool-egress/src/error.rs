//! Why a request gave no response, or a response no body.
//!
//! `Display` is for the model: what happened and what it can do, with nothing of the network behind the host.
//! [`EgressError::log_text`] is for the log and for whoever runs the service: addresses, and the line of the
//! policy that would help. No text holds a secret: requests are scanned before anything of them is quoted.
//! [`EgressError::kind`] says which `error-code` of `wasi:http` it is.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use outbound::{ConnectError, ForbiddenAddr, Reach};
use serde::de::IntoDeserializer as _;
use serde::de::value::{Error as NoSuchName, StrDeserializer};
use serde::{Deserialize, Serialize};

/// Why a request gave no response, or a response no body.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EgressError {
    // What the request is.
    #[error("the request was not sent: {0}")]
    InvalidUri(InvalidUri),
    #[error(
        "the request was not sent: the method {0} is not allowed; it would make a tunnel or echo what the host adds"
    )]
    Method(String),
    #[error("the request was not sent: the header {0} is set by the host and must not be set by the tool")]
    Header(String),
    #[error("the request was not sent: it has more than {most} headers, or more than {bytes} bytes of them")]
    HeadersTooLarge { most: usize, bytes: usize },
    #[error("the request was cut off: its Content-Length and the length of its body differ")]
    BodyLength,
    #[error("the request was cut off: the tool gave up its body")]
    BodyAborted,

    // What the policy says.
    #[error("the request was not sent: {0}")]
    Denied(String),
    #[error(
        "the request was not sent: its {place} holds the value of the secret {name:?}, which tools must not have; the \
         host adds it to requests by itself"
    )]
    SecretInRequest { name: String, place: Place },
    #[error(
        "the request was not sent: the {part} is injected from the secret {name:?} and must not be set by the tool"
    )]
    SetByGuest { name: String, part: String },
    #[error(
        "the request was not sent: the secret {name:?}, which belongs into requests to {host}, has no value; whoever \
         runs this service has to provide it"
    )]
    SecretUnresolved { name: String, host: String },
    #[error("the request was not sent: the secret {name:?} cannot be sent as the policy says: {problem}")]
    SecretUnusable { name: String, problem: &'static str },

    // What a call may use up.
    #[error("the request was not sent: this call may make {0} requests, and has made them")]
    TooManyRequests(u32),
    #[error(
        "this call may send and receive {0} bytes over HTTP, and this request is beyond that; ask for less"
    )]
    BytesSpent(u64),
    #[error("the tool call's time was over during the request to {0}")]
    Deadline(String),
    #[error(
        "the request was refused: {0} times this call has sent or met values of secrets where they are not used, as a \
         tool does that guesses at them"
    )]
    TooManySecretsMet(u32),
    #[error("the tool call has ended")]
    CallEnded,

    // The way to the host.
    #[error("{host} cannot be reached: {}", unreachable(.why))]
    Unreachable { host: String, why: ConnectError },

    // What the host answers.
    #[error("{host} did not begin to answer within {within:?}")]
    FirstByteTimeout { host: String, within: Duration },
    #[error("{host} stopped in the middle of its answer for more than {within:?}")]
    BetweenBytesTimeout { host: String, within: Duration },
    #[error("{host} did not finish its answer within {within:?}")]
    TotalTimeout { host: String, within: Duration },
    #[error("the answer of {host} has more headers than are accepted")]
    ResponseHeadTooLarge { host: String },
    #[error(
        "{host} answered with a body encoded as {coding:?}, though none was asked for; it cannot be scanned for \
         secrets and is not handed on"
    )]
    ContentCoding { host: String, coding: String },
    #[error("{host} answered with the transfer coding {coding:?}, which is not accepted")]
    TransferCoding { host: String, coding: String },
    #[error("{host} wants to change the protocol, which is not accepted")]
    Upgrade { host: String },
    #[error("{host} closed the connection before it answered")]
    Terminated { host: String },
    #[error("{host} closed the connection in the middle of its answer")]
    Incomplete { host: String },
    #[error("{host} did not answer in HTTP/1.1")]
    Protocol { host: String, problem: String },

    // What stands in for the network.
    #[error("the request was not sent: {0}")]
    Unanswered(String),
    #[error("the request to {host} failed: {kind}")]
    Answered { host: String, kind: ErrorKind },

    /// The host's own failure.
    #[error("the host could not carry out the request")]
    Host(String),
}

/// Where in a request something stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Url,
    Headers,
    Body,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidUri {
    #[error("its URL has no scheme or no host; write the whole URL")]
    NotAbsolute,
    #[error("its URL has a scheme other than https and http")]
    Scheme,
    #[error("its URL holds a user name or a password; the host adds credentials by itself")]
    Userinfo,
    #[error(
        "its URL has a host that is no valid name; write it in lower-case ASCII without a dot at the end"
    )]
    Host,
    #[error(
        "its URL has a number for a host that is no IPv4 address; write four decimal numbers without leading zeros"
    )]
    NumericHost,
    #[error("its URL has an IPv6 address that is not valid; zones are not allowed")]
    Ipv6,
    #[error("its URL has a port that is not valid")]
    Port,
    #[error("its URL has a path that does not begin with a slash")]
    Path,
    #[error("its URL has more than {0} bytes")]
    TooLong(usize),
}

/// The `error-code` of `wasi:http/types` that an error is, by its name there, in lower case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorKind {
    DnsTimeout,
    DnsError,
    DestinationIpProhibited,
    DestinationUnavailable,
    ConnectionRefused,
    ConnectionTerminated,
    ConnectionTimeout,
    ConnectionReadTimeout,
    ConnectionLimitReached,
    TlsProtocolError,
    TlsCertificateError,
    HttpRequestDenied,
    HttpRequestMethodInvalid,
    HttpRequestUriInvalid,
    HttpRequestUriTooLong,
    HttpRequestHeaderSectionSize,
    HttpRequestBodySize,
    HttpResponseIncomplete,
    HttpResponseHeaderSectionSize,
    HttpResponseBodySize,
    HttpResponseTransferCoding,
    HttpResponseContentCoding,
    HttpResponseTimeout,
    HttpUpgradeFailed,
    HttpProtocolError,
    ConfigurationError,
    InternalError,
}

impl EgressError {
    /// Which `error-code` of `wasi:http` it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::InvalidUri(InvalidUri::TooLong(_)) => ErrorKind::HttpRequestUriTooLong,
            Self::InvalidUri(_) => ErrorKind::HttpRequestUriInvalid,
            Self::Method(_) => ErrorKind::HttpRequestMethodInvalid,
            Self::Header(_)
            | Self::Denied(_)
            | Self::Unanswered(_)
            | Self::SecretInRequest { .. }
            | Self::SetByGuest { .. }
            | Self::TooManySecretsMet(_) => ErrorKind::HttpRequestDenied,
            Self::Answered { kind, .. } => *kind,
            Self::HeadersTooLarge { .. } => ErrorKind::HttpRequestHeaderSectionSize,
            Self::BodyLength | Self::BodyAborted => ErrorKind::HttpRequestBodySize,
            Self::SecretUnresolved { .. } | Self::SecretUnusable { .. } => ErrorKind::ConfigurationError,
            Self::TooManyRequests(_) => ErrorKind::ConnectionLimitReached,
            Self::BytesSpent(_) => ErrorKind::HttpResponseBodySize,
            Self::Deadline(_) | Self::FirstByteTimeout { .. } | Self::TotalTimeout { .. } => {
                ErrorKind::HttpResponseTimeout
            }
            Self::CallEnded | Self::Terminated { .. } => ErrorKind::ConnectionTerminated,
            Self::Unreachable { why, .. } => match why {
                ConnectError::Forbidden(_) | ConnectError::NoSuchName(_) => {
                    ErrorKind::DestinationIpProhibited
                }
                ConnectError::Resolve(_) => ErrorKind::DnsError,
                ConnectError::ResolveTimeout(_) => ErrorKind::DnsTimeout,
                ConnectError::Refused(_) => ErrorKind::ConnectionRefused,
                ConnectError::Failed(_) => ErrorKind::DestinationUnavailable,
                ConnectError::Timeout(_) => ErrorKind::ConnectionTimeout,
                ConnectError::Certificate(_) => ErrorKind::TlsCertificateError,
                ConnectError::Tls(_) => ErrorKind::TlsProtocolError,
            },
            Self::BetweenBytesTimeout { .. } => ErrorKind::ConnectionReadTimeout,
            Self::ResponseHeadTooLarge { .. } => ErrorKind::HttpResponseHeaderSectionSize,
            Self::ContentCoding { .. } => ErrorKind::HttpResponseContentCoding,
            Self::TransferCoding { .. } => ErrorKind::HttpResponseTransferCoding,
            Self::Upgrade { .. } => ErrorKind::HttpUpgradeFailed,
            Self::Incomplete { .. } => ErrorKind::HttpResponseIncomplete,
            Self::Protocol { .. } => ErrorKind::HttpProtocolError,
            Self::Host(_) => ErrorKind::InternalError,
        }
    }

    /// What the log says, for whoever runs the service.
    pub fn log_text(&self) -> String {
        match self {
            Self::Unreachable { host, why: ConnectError::Forbidden(addresses) } => forbidden(host, addresses),
            Self::SecretUnresolved { name, host } => format!(
                "the secret {name:?} is configured for {host} and has no value: set the environment variable or write \
                 the file that its line in the policy names"
            ),
            Self::Unreachable { host, why: ConnectError::NoSuchName(problem) } => {
                format!("the host {host} cannot be reached: its name cannot be resolved: {problem}")
            }
            Self::Unreachable { why, .. } => {
                why.problem().map_or_else(|| self.to_string(), |problem| format!("{self}: {problem}"))
            }
            Self::Protocol { problem, .. } | Self::Host(problem) => format!("{self}: {problem}"),
            other => other.to_string(),
        }
    }

    /// Whether the request was refused before anything of it left the host.
    pub fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::InvalidUri(_)
                | Self::Method(_)
                | Self::Header(_)
                | Self::HeadersTooLarge { .. }
                | Self::Denied(_)
                | Self::Unanswered(_)
                | Self::SecretInRequest { .. }
                | Self::SetByGuest { .. }
                | Self::SecretUnresolved { .. }
                | Self::SecretUnusable { .. }
                | Self::TooManyRequests(_)
                | Self::Unreachable { why: ConnectError::Forbidden(_) | ConnectError::NoSuchName(_), .. }
        )
    }
}

/// What a guest is told of a host without a connection. The first two read the same: a guest must not learn
/// which names of the operator's network there are.
fn unreachable(why: &ConnectError) -> Cow<'static, str> {
    match why {
        ConnectError::Forbidden(_) | ConnectError::NoSuchName(_) => {
            "it has no address that tools may reach; check the name".into()
        }
        ConnectError::Resolve(_) => "its name cannot be resolved now".into(),
        ConnectError::ResolveTimeout(within) => format!("its name was not resolved within {within:?}").into(),
        ConnectError::Refused(_) => "the connection was refused".into(),
        ConnectError::Failed(_) => "no connection could be made".into(),
        ConnectError::Timeout(within) => format!("no connection was made within {within:?}").into(),
        ConnectError::Certificate(_) => {
            "its certificate is not valid for this name, or nobody known signed it".into()
        }
        ConnectError::Tls(_) => "it speaks no TLS that this host does".into(),
    }
}

/// What the log says of a host that has no other addresses.
fn forbidden(host: &str, addresses: &[ForbiddenAddr]) -> String {
    let listed = addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let advice = if addresses.iter().any(|one| one.class.is_within(Reach::Private)) {
        "if it is meant to be reached, add `private = true` to the component's http line for this host, or to the [[mcp]]"
    } else {
        "no line of the policy allows such addresses"
    };
    format!("the host {host} has only addresses that the tool may not reach: {listed}; {advice}")
}

impl ErrorKind {
    pub fn from_name(name: &str) -> Option<Self> {
        let name: StrDeserializer<'_, NoSuchName> = name.into_deserializer();
        Self::deserialize(name).ok()
    }
}

/// Writes the error's name in `wasi:http`.
impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Url => "URL",
            Self::Headers => "headers",
            Self::Body => "body",
        })
    }
}
