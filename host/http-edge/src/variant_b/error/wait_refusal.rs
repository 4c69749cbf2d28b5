//! Why a wait is not shown or not decided.

use http::StatusCode;
use run_service::loop_driver::RunError;
use run_service::waits::{NotDecided, WaitError};

use super::Error;

/// What a request about a wait is refused for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WaitRefusal {
    #[error("Not found")]
    Unknown,
    #[error("This is for others to decide")]
    NotYours,
    #[error("It was decided by {by} already")]
    Already { by: String },
    #[error("It has expired")]
    Expired,
    #[error("You have decided already: others have to agree")]
    Twice,
    #[error("The run does not wait at this moment: it was cancelled, has ended or is being taken up")]
    NotWaiting,
    #[error("What you were shown is not what is to be decided: read it again, its digest is {digest}")]
    Outdated { digest: String },
    #[error("The call would be another one by now, and is to be decided anew as {id}")]
    Void { id: String },
    #[error("There is no If-Match: send the digest that you were shown, which is the ETag of the wait")]
    NoDigest,
    #[error(
        "If-Match holds the digest that you were shown in double quotes, such as \"sha256:…\": one only, and neither * nor \
         a weak tag"
    )]
    IfMatch,
    #[error("An edit needs arguments, and an answer the answer: no other decision has them")]
    NoArguments,
    #[error("This wait is decided by {0}")]
    OtherDecision(&'static str),
    #[error("What was given {0}")]
    BadArguments(String),
    #[error("Several have to agree on one call: reject it, and say what to change")]
    NotEditable,
}

impl WaitRefusal {
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Unknown => StatusCode::NOT_FOUND,
            Self::NotYours => StatusCode::FORBIDDEN,
            Self::Already { .. } | Self::Expired | Self::Twice | Self::NotWaiting | Self::Void { .. } => {
                StatusCode::CONFLICT
            }
            Self::Outdated { .. } => StatusCode::PRECONDITION_FAILED,
            Self::NoDigest => StatusCode::PRECONDITION_REQUIRED,
            Self::IfMatch
            | Self::NoArguments
            | Self::BadArguments(_)
            | Self::NotEditable
            | Self::OtherDecision(_) => StatusCode::BAD_REQUEST,
        }
    }

    /// Refusals that a decision may be answered with, for the document.
    pub fn documented() -> [Self; 13] {
        let digest = "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824".to_owned();
        [
            Self::Unknown,
            Self::NotYours,
            Self::Already { by: "ada".to_owned() },
            Self::Expired,
            Self::Twice,
            Self::NotWaiting,
            Self::Void { id: "1:37ddff8e-1.0~1".to_owned() },
            Self::Outdated { digest },
            Self::NoDigest,
            Self::IfMatch,
            Self::NoArguments,
            Self::NotEditable,
            Self::OtherDecision("answer or reject"),
        ]
    }
}

impl From<NotDecided> for Error {
    fn from(error: NotDecided) -> Self {
        Self::Wait(match error {
            NotDecided::Unknown => WaitRefusal::Unknown,
            NotDecided::NotYours => WaitRefusal::NotYours,
            NotDecided::Already(decision) => match decision.by {
                Some(by) => WaitRefusal::Already { by },
                None => WaitRefusal::Expired,
            },
            NotDecided::Twice => WaitRefusal::Twice,
            NotDecided::NotWaiting => WaitRefusal::NotWaiting,
            NotDecided::Outdated(wait) => WaitRefusal::Outdated { digest: wait.open.wait.shown.digest() },
            NotDecided::Void(wait) => WaitRefusal::Void { id: wait.id },
            NotDecided::BadArguments(why) => WaitRefusal::BadArguments(why),
            NotDecided::NotEditable => WaitRefusal::NotEditable,
            NotDecided::OtherDecision(which) => WaitRefusal::OtherDecision(which),
            NotDecided::Failed(WaitError::Queue(error)) => return error.into(),
            NotDecided::Failed(WaitError::Journal(error)) => return error.into(),
            NotDecided::Failed(WaitError::Run(error)) => {
                return Self::Invoke(RunError::Driver(error).into());
            }
        })
    }
}
