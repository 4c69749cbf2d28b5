//! What can go wrong between this host and an MCP server.

use json_schema::text_sanitizer::printable;

use tool_egress::{EgressError, Scanner};

/// Bytes of a server's own text that are kept of an error.
const TEXT_BYTES: usize = 2 << 10;

/// Why a server's tools are not known.
#[derive(Debug)]
pub enum LookError {
    /// The server did not list them, and why in a few words; the log says more.
    Unavailable(&'static str),
    /// What it listed cannot be served, and why.
    Tools(String),
}

/// Why an exchange gave no answer. The text is for the log and for the model. The server may have written
/// parts of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum McpError {
    /// Nothing was sent, or nobody was there.
    #[error("the MCP server cannot be reached: {0}")]
    Unreachable(String),
    /// The connection ended before the answer.
    #[error("the MCP server went away before it answered ({0}); whether the call had an effect is not known")]
    Died(String),
    /// The server knows the session no longer. What was asked was not done.
    #[error("the MCP server has ended the session")]
    SessionGone,
    /// The server answered with an error of the protocol.
    #[error("the MCP server refused the request ({code}): {message}")]
    Refused { code: i64, message: String },
    /// What the server said is not of the protocol.
    #[error("the MCP server does not keep to the protocol: {0}")]
    Protocol(String),
    /// The server said more than it may.
    #[error("the MCP server said more than it may: {0}")]
    TooMuch(String),
    /// The server asked for things that it does not get, again and again.
    #[error("the MCP server asks for what it does not get ({0}) instead of answering")]
    Asks(&'static str),
}

impl McpError {
    pub(crate) fn protocol(problem: impl Into<String>) -> Self {
        Self::Protocol(problem.into())
    }

    /// With what the server wrote searched for secrets, and then cut and made printable: half a secret is not
    /// found. What is wrong with a message repeats the whole of it if it is a JSON string.
    pub(crate) fn cleaned(self, scanner: &Scanner) -> Self {
        let cleaned = |text: &str| printable(&scanner.scan_text(text), TEXT_BYTES);
        match self {
            Self::Refused { code, message } => Self::Refused { code, message: cleaned(&message) },
            Self::Protocol(problem) => Self::Protocol(cleaned(&problem)),
            Self::Unreachable(problem) => Self::Unreachable(cleaned(&problem)),
            error => error,
        }
    }

    /// What is said of it where anybody may read it: nothing that the server or the network said.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Unreachable(_) | Self::SessionGone => "cannot be reached",
            Self::Died(_) => "went away before it answered",
            Self::Refused { .. } => "refuses to list its tools",
            Self::Protocol(_) => "does not keep to the protocol",
            Self::TooMuch(_) => "says more than it may",
            Self::Asks(_) => "asks for what it does not get",
        }
    }
}

/// What was not sent was refused by the policy or reached nobody; after that the request may have been
/// carried out.
impl From<EgressError> for McpError {
    fn from(error: EgressError) -> Self {
        let text = error.to_string();
        match error {
            EgressError::Unreachable { .. } => Self::Unreachable(text),
            refusal if refusal.is_refusal() => Self::Unreachable(text),
            EgressError::BytesSpent(_) | EgressError::ResponseHeadTooLarge { .. } => Self::TooMuch(text),
            _ => Self::Died(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use outbound::ConnectError;

    use super::*;

    #[test]
    fn what_a_server_wrote_is_said_without_secrets_and_control_characters_and_is_cut() {
        let scanner = Scanner::new([("key", "abc-12345678")]).unwrap();
        let wrote = format!("abc-12345678\u{1b}{}", "x".repeat(2 * TEXT_BYTES));
        for error in [
            McpError::Refused { code: 1, message: wrote.clone() },
            McpError::Protocol(wrote.clone()),
            McpError::Unreachable(wrote.clone()),
        ] {
            let text = error.cleaned(&scanner).to_string();
            assert!(text.contains("[secret key]\\u{1b}xx") && text.len() < 2 * TEXT_BYTES, "{text}");
        }
    }

    #[test]
    fn what_may_have_been_carried_out_is_not_said_to_be_out_of_reach() {
        let (host, problem) = (|| "example.org".to_owned(), || "x".to_owned());
        let unreachable = |why| EgressError::Unreachable { host: host(), why };
        for (error, expected) in [
            (EgressError::Denied(problem()), "cannot be reached"),
            (EgressError::TooManyRequests(16), "cannot be reached"),
            (unreachable(ConnectError::Forbidden(vec![])), "cannot be reached"),
            (unreachable(ConnectError::Resolve(problem())), "cannot be reached"),
            (unreachable(ConnectError::Refused(problem())), "cannot be reached"),
            (unreachable(ConnectError::Tls(problem())), "cannot be reached"),
            (EgressError::BytesSpent(1), "says more than it may"),
            (EgressError::Terminated { host: host() }, "went away before it answered"),
            (EgressError::Deadline(host()), "went away before it answered"),
            (EgressError::Protocol { host: host(), problem: problem() }, "went away before it answered"),
            (EgressError::ContentCoding { host: host(), coding: problem() }, "went away before it answered"),
            (EgressError::Upgrade { host: host() }, "went away before it answered"),
            (EgressError::BodyLength, "went away before it answered"),
            (EgressError::Host(problem()), "went away before it answered"),
        ] {
            let text = error.to_string();
            assert_eq!(McpError::from(error).kind(), expected, "{text}");
        }
    }
}
