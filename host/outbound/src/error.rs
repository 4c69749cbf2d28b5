//! Why there is no connection, or no whole answer on one.

use std::error::Error as StdError;
use std::time::Duration;

use crate::ssrf_guard::ForbiddenAddr;

/// Why there is no connection. The text is for whoever runs the service, and names no host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// None of the host's addresses may be reached; what each of them is.
    #[error("client error (Connect): none of its addresses may be reached")]
    Forbidden(Vec<ForbiddenAddr>),
    /// The name cannot be resolved.
    #[error("client error (Connect): dns error: {0}")]
    NoSuchName(String),
    /// The name cannot be resolved now.
    #[error("client error (Connect): dns error: {0}")]
    Resolve(String),
    /// The name was not resolved in time.
    #[error("client error (Connect): operation timed out")]
    ResolveTimeout(Duration),
    /// Nobody listens there.
    #[error("client error (Connect): tcp connect error: {0}")]
    Refused(String),
    /// No connection could be made.
    #[error("client error (Connect): tcp connect error: {0}")]
    Failed(String),
    /// No connection was made in time.
    #[error("client error (Connect): operation timed out")]
    Timeout(Duration),
    /// The certificate is not valid for the name, or nobody known signed it.
    #[error("client error (Connect): {0}")]
    Certificate(String),
    /// The server speaks no TLS that this host does.
    #[error("client error (Connect): {0}")]
    Tls(String),
}

/// Why there is no whole answer. The text names no host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The address is none of HTTP.
    #[error("that is no address of HTTP")]
    Address,
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The connection broke, or what came on it was not HTTP/1.1.
    #[error("{0}")]
    Broken(String),
    /// The body is larger than its reader takes.
    #[error("the answer is larger than it may be")]
    TooLarge,
}

impl ConnectError {
    /// Whether it took too long.
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::ResolveTimeout(_) | Self::Timeout(_))
    }

    /// What the system or the server said; nothing where that adds nothing.
    pub fn problem(&self) -> Option<&str> {
        match self {
            Self::Forbidden(_) | Self::ResolveTimeout(_) | Self::Timeout(_) => None,
            Self::NoSuchName(problem)
            | Self::Resolve(problem)
            | Self::Refused(problem)
            | Self::Failed(problem)
            | Self::Certificate(problem)
            | Self::Tls(problem) => Some(problem),
        }
    }
}

impl Error {
    /// Whether there was no connection in time.
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::Connect(error) if error.is_timeout())
    }

    /// The innermost cause alone: what the system or the server said.
    pub fn problem(&self) -> String {
        match self {
            Self::Connect(error) => error.problem().map_or_else(|| error.to_string(), str::to_owned),
            Self::Broken(causes) => causes.rsplit(": ").next().unwrap_or(causes).to_owned(),
            Self::Address | Self::TooLarge => self.to_string(),
        }
    }

    /// Of a connection that broke: the error and its causes. A cause that the layer above repeats is left
    /// out.
    pub(crate) fn broken(stage: &str, error: &dyn StdError) -> Self {
        let mut causes = vec![error.to_string()];
        let mut next = error.source();
        while let Some(cause) = next {
            let text = cause.to_string();
            if causes.last().is_none_or(|last| !last.contains(&text)) {
                causes.push(text);
            }
            next = cause.source();
        }
        Self::Broken(format!("{stage}{}", causes.join(": ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Layer {
        text: &'static str,
        source: Option<Box<Layer>>,
    }

    #[test]
    fn an_error_is_described_by_its_causes() {
        let bottom = Layer { text: "reset (os error 104)", source: None };
        let echo = Layer { text: "reading: reset (os error 104)", source: Some(Box::new(bottom)) };
        let top = Layer { text: "connection error", source: Some(Box::new(echo)) };
        let said = Error::broken("sending: ", &top).to_string();
        assert_eq!(said, "sending: connection error: reading: reset (os error 104)");
    }
}
