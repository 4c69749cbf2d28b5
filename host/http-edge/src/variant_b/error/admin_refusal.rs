//! What the admin API refuses by itself. Nothing of the request is quoted, so that the client and the log
//! read the same.

use http::header::{ACCEPT, ACCEPT_ENCODING};
use http::{HeaderName, HeaderValue, StatusCode};

/// What a request for the admin API can be refused for, beside what is wrong with every other request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdminRefusal {
    #[error(
        "The name of a component is that of its file without .wasm: 1 to 64 of A-Z, a-z, 0-9, '.', '_' and '-', and \
         neither '.' nor '..'"
    )]
    Name,
    #[error("If-Match holds revisions as the ETag of the component has them, such as \"7\", or *")]
    IfMatch,
    #[error(
        "If-Match names no revision: send the one that you have read, which is the ETag of \
         GET /admin/tools/{{name}}"
    )]
    NoRevision,
    #[error("The component is at revision {revision}: read it again and decide anew")]
    Changed { revision: u64 },
    #[error("There is no component of that name, so it has no revision that If-Match could name")]
    NeverThere,
    #[error("Agent-Tool-Signature holds the bytes of <name>.wasm.sig in base64, at most 1024 of them")]
    Signature,
    #[error("A component is sent as application/wasm or application/octet-stream")]
    ContentType,
    #[error("A component is sent as it is, without a content coding")]
    ContentCoding,
    #[error("A component is sent as a whole, without Content-Range")]
    Part,
    #[error("The body is empty: send the bytes of the component")]
    Empty,
    #[error("Two uploads are under way already")]
    Busy,
}

impl AdminRefusal {
    /// The status that it is answered with.
    pub(in crate::variant_b) fn status(&self) -> StatusCode {
        match self {
            Self::Name | Self::IfMatch | Self::Signature | Self::Part | Self::Empty => {
                StatusCode::BAD_REQUEST
            }
            Self::NoRevision => StatusCode::PRECONDITION_REQUIRED,
            Self::Changed { .. } | Self::NeverThere => StatusCode::PRECONDITION_FAILED,
            Self::ContentType | Self::ContentCoding => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Busy => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// What would have been accepted instead (RFC 9110, section 15.5.16).
    pub(in crate::variant_b) fn header(&self) -> Option<(HeaderName, HeaderValue)> {
        match self {
            Self::ContentType => {
                Some((ACCEPT, HeaderValue::from_static("application/wasm, application/octet-stream")))
            }
            Self::ContentCoding => Some((ACCEPT_ENCODING, HeaderValue::from_static("identity"))),
            Self::Name
            | Self::IfMatch
            | Self::NoRevision
            | Self::Changed { .. }
            | Self::NeverThere
            | Self::Signature
            | Self::Part
            | Self::Empty
            | Self::Busy => None,
        }
    }
}
