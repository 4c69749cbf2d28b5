//! Why Redis gave no answer, in words that hold no address and no secret.

use std::time::Duration;

use redis::{ErrorKind, RedisError};

/// Why a question was not answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    /// It failed a moment ago, and nobody has to wait to learn it again.
    #[error("Redis did not answer a moment ago")]
    Down,
    /// It took too long.
    #[error("no answer from Redis within {} ms", .0.as_millis())]
    Late(Duration),
    /// There is no connection, or it broke.
    #[error("the connection to Redis failed: {0}")]
    Broken(String),
    /// It answered that it would not.
    #[error("Redis refused ({0})")]
    Refused(String),
}

impl Failure {
    /// Whether Redis itself is out of reach, and not only this question a bad one.
    pub(crate) fn means_down(&self) -> bool {
        matches!(self, Self::Late(_) | Self::Broken(_))
    }
}

impl From<RedisError> for Failure {
    /// Only kinds and codes are kept: texts of errors can quote keys, values and addresses.
    fn from(error: RedisError) -> Self {
        tracing::debug!(error = %error, "Redis did not do it");
        match error.kind() {
            ErrorKind::AuthenticationFailed => Self::Broken("it does not accept the password".into()),
            ErrorKind::Io if error.is_connection_refusal() => Self::Broken("connection refused".into()),
            ErrorKind::Io if error.is_timeout() => Self::Broken("timed out".into()),
            ErrorKind::Io if error.is_connection_dropped() => Self::Broken("connection lost".into()),
            // A name that is not found, a certificate that is not trusted: the log says which.
            ErrorKind::Io => Self::Broken("it could not be made or secured".into()),
            kind => match error.code() {
                // What was the writable server is a copy by now: another connection finds the new one.
                Some("READONLY") => Self::Broken("it became read-only".into()),
                Some(code) => Self::Refused(code.to_owned()),
                None => Self::Refused(format!("{kind:?}")),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_of_redis_does_not_make_it_count_as_down() {
        let refused = RedisError::from((ErrorKind::Extension, "WRONGTYPE", "of key secret".into()));
        let failure = Failure::from(refused);
        assert!(!failure.means_down() && !failure.to_string().contains("secret"), "{failure}");
        let lost = RedisError::from(std::io::Error::from(std::io::ErrorKind::BrokenPipe));
        assert!(Failure::from(lost).means_down());
    }
}
