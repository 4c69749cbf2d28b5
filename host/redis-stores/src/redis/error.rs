//! Why a query to Redis failed, in words that hold no address and no secret.

use std::time::Duration;

use redis::{ErrorKind, RedisError};

/// Why a query failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum QueryError {
    /// The query was not sent: Redis failed a moment ago, and nobody has to wait to learn that again.
    #[error("Redis did not answer a moment ago")]
    CircuitOpen,
    /// The answer took too long.
    #[error("no answer from Redis within {} ms", .0.as_millis())]
    Timeout(Duration),
    /// There is no connection, or it broke.
    #[error("the connection to Redis failed: {0}")]
    Disconnected(String),
    /// A node of a cluster says that the keys are another node's. Nothing was carried out.
    #[error("the keys have moved to another node of the cluster")]
    Moved {
        /// Where they are: `host:port`, or `:port` at the host that was asked.
        to: String,
    },
    /// Redis answered that it would not.
    #[error("Redis refused ({code}{})", why(.code))]
    Refused {
        /// Redis' code of the error.
        code: String,
        /// Redis will refuse an equal query again: the query does not fit what is stored. Otherwise the error
        /// may be a state of the server that passes, such as full memory.
        is_final: bool,
    },
}

/// What an operator is told beside a code that says little.
fn why(code: &str) -> &'static str {
    match code {
        "BUSY" => ": it is busy with a script",
        "LOADING" => ": it is reading its data",
        "MISCONF" => ": it cannot write to its disk, and takes nothing until it can",
        "NOAUTH" => ": it wants a password, and REDIS_URL has none",
        "NOPERM" => ": the user of REDIS_URL may not use a command or a key",
        "OOM" => ": its memory is full",
        _ => "",
    }
}

/// Codes that Redis before version 7 hides in the text of a script's error, and that are about the server.
const STATES_OF_THE_SERVER: [&str; 8] =
    ["BUSY", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "MISCONF", "NOREPLICAS", "OOM", "READONLY"];

impl QueryError {
    /// Whether Redis itself is out of reach, and not only this query a bad one.
    pub(crate) fn means_down(&self) -> bool {
        matches!(self, Self::Timeout(_) | Self::Disconnected(_))
    }

    /// Whether a node says that it is cut off from most of its cluster, or that some slots are nobody's: then
    /// others may have its slots.
    pub(crate) fn is_of_cluster_state(&self) -> bool {
        matches!(self, Self::Refused { code, .. } if code == "CLUSTERDOWN")
    }

    /// Whether it is of no use to send the same query again.
    pub(crate) fn is_final(&self) -> bool {
        matches!(self, Self::Refused { is_final: true, .. })
    }
}

impl From<RedisError> for QueryError {
    /// Only kinds and codes are kept: texts of errors can quote keys, values and addresses.
    fn from(error: RedisError) -> Self {
        tracing::debug!(error = %error, "a query to Redis failed");
        match error.kind() {
            ErrorKind::AuthenticationFailed => Self::Disconnected("it does not accept the password".into()),
            ErrorKind::Io if error.is_connection_refusal() => Self::Disconnected("connection refused".into()),
            ErrorKind::Io if error.is_timeout() => Self::Disconnected("timed out".into()),
            ErrorKind::Io if error.is_connection_dropped() => Self::Disconnected("connection lost".into()),
            // A name that is not found, a certificate that is not trusted: the log says which.
            ErrorKind::Io => Self::Disconnected("it could not be made or secured".into()),
            kind => match error.code() {
                // What was the writable server is a copy by now: another connection finds the new one.
                Some("READONLY") => Self::Disconnected("it became read-only".into()),
                // The server is cut off from its replicas, of which one may be the writable server by now.
                Some("NOREPLICAS") => Self::Disconnected("it is cut off from its replicas".into()),
                Some("ERR") if is_read_only(error.detail().unwrap_or_default()) => {
                    Self::Disconnected("it became read-only".into())
                }
                Some("MOVED") => {
                    Self::Moved { to: error.redirect_node().map(|(to, _)| to.to_owned()).unwrap_or_default() }
                }
                Some(code) => {
                    let is_final = is_final(code, error.detail().unwrap_or_default());
                    Self::Refused { code: code.to_owned(), is_final }
                }
                None => Self::Refused { code: format!("{kind:?}"), is_final: false },
            },
        }
    }
}

/// Whether Redis before version 7 says of a script that the server is a copy.
fn is_read_only(detail: &str) -> bool {
    detail.contains("script") && detail.contains("-READONLY")
}

/// Whether an error is about what is stored: a key of another type, or a script that could not do with it
/// what it does.
fn is_final(code: &str, detail: &str) -> bool {
    let mut words = detail.split(|letter: char| !letter.is_ascii_alphanumeric());
    match code {
        "WRONGTYPE" => true,
        // What the user may not do is the operator's to change, and says so in words only.
        "ERR" if detail.contains("user executing the script") => false,
        "ERR" => detail.contains("script") && !words.any(|word| STATES_OF_THE_SERVER.contains(&word)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_of_redis_does_not_make_it_count_as_down() {
        let refused = RedisError::from((ErrorKind::Extension, "WRONGTYPE", "of key secret".into()));
        let error = QueryError::from(refused);
        assert!(!error.means_down() && !error.to_string().contains("secret"), "{error}");
        let lost = RedisError::from(std::io::Error::from(std::io::ErrorKind::BrokenPipe));
        assert!(QueryError::from(lost).means_down());
    }

    #[test]
    fn a_refusal_says_more_than_its_code() {
        for (code, said) in [
            ("NOAUTH", "Redis refused (NOAUTH: it wants a password, and REDIS_URL has none)"),
            ("OOM", "Redis refused (OOM: its memory is full)"),
            ("WRONGTYPE", "Redis refused (WRONGTYPE)"),
        ] {
            let refused = redis::make_extension_error(code.to_owned(), None);
            assert_eq!(QueryError::from(refused).to_string(), said);
        }
    }

    #[test]
    fn a_server_that_is_the_master_no_longer_or_may_be_none_is_left() {
        for code in ["READONLY", "NOREPLICAS"] {
            let refused = redis::make_extension_error(code.to_owned(), None);
            assert!(QueryError::from(refused).means_down(), "{code}");
        }
    }

    #[test]
    fn an_old_server_says_in_words_that_it_became_a_copy() {
        let script =
            "Error running script (call to f_1f): @user_script:9: -READONLY You can't write against a copy";
        assert!(is_read_only(script));
        assert!(!is_read_only(
            "Error running script (call to f_1f): @user_script:9: -OOM command not allowed"
        ));
    }

    #[test]
    fn only_what_is_about_the_stored_data_is_refused_for_good() {
        for (code, detail, expected) in [
            ("WRONGTYPE", "Operation against a key holding the wrong kind of value", true),
            ("ERR", "user_script:9: attempt to compare nil with number script: 1f, on @user_script:9.", true),
            ("ERR", "Error running script (call to f_1f): @user_script:9: -WRONGTYPE Operation", true),
            ("ERR", "Error running script (call to f_1f): @user_script:9: -OOM command not allowed", false),
            ("ERR", "max number of clients reached", false),
            (
                "OOM",
                "command not allowed when used memory > 'maxmemory'. script: 1f, on @user_script:9.",
                false,
            ),
            ("NOPERM", "this user has no permissions", false),
            ("ERR", "The user executing the script can't run this command or subcommand script: 1f", false),
        ] {
            assert_eq!(is_final(code, detail), expected, "{code} {detail}");
        }
    }
}
