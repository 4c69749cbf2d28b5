//! HTTP of guests without the network: what a request and its outcome are as values, who records them, and
//! who answers instead of the servers.
//!
//! [`HttpMode`] is what a tool host is started with. Under [`HttpMode::Answers`] a request goes through the
//! same rules as always (grant, target, limits, the scan for secrets), and then nothing is resolved and
//! nothing connected: `answered` asks an [`HttpAnswers`]. Under [`HttpMode::Network`] a [`HttpRecorder`] may
//! be told of every exchange when it has ended; `recording` makes what it is told.
//!
//! No value of a secret is in a record: credentials are injected after it was made, and what comes back is
//! scanned before. What does not belong here: where records are kept, and which one answers a request.

pub(crate) mod recording;

use std::fmt;
use std::sync::Arc;

use boxed_async::boxed_async;

/// Most bytes of one body that are in a record. What is beyond is left away, and the record says so.
pub const MOST_BODY_BYTES: usize = 64 * 1024;

/// A request as the guest made it, after it was admitted: what the host adds is not in it.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpRequestRecord {
    /// In upper case.
    pub method: String,
    /// Absolute, with the path in the form that the rules admitted.
    pub url: String,
    /// Names in lower case, in the order of the message. A value that is no text is read as UTF-8 with
    /// replacements.
    pub headers: Vec<(String, String)>,
    /// The first [`MOST_BODY_BYTES`] of the body.
    pub body: Vec<u8>,
    /// Whether the body was longer, or was not sent to its end.
    pub body_cut: bool,
}

/// What came of a request that was admitted.
#[derive(Clone, PartialEq, Eq)]
pub enum HttpOutcome {
    Response {
        status: u16,
        /// Names in lower case. Those that frame the message or speak of the connection are not in it.
        headers: Vec<(String, String)>,
        /// What the guest was given of the body, at most [`MOST_BODY_BYTES`].
        body: Vec<u8>,
        /// Whether there was more: it was too long, the guest stopped reading, or the server did not finish.
        /// A guest that reads beyond it is told that the answer is incomplete.
        cut: bool,
    },
    /// None: the name of the `error-code` of `wasi:http`, like `connection-refused`.
    Failed(String),
}

/// The call of a tool that a request belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallKey<'a> {
    pub run_id: &'a str,
    /// The call's id within the run.
    pub call_id: &'a str,
}

/// Answers the requests of guests instead of the network.
#[boxed_async]
pub trait HttpAnswers: Send + Sync {
    /// What comes of the request. `Err`: there is no answer for it; the guest's request is refused, and it
    /// and the receipt are told this text.
    async fn answer(&self, call: CallKey<'_>, request: &HttpRequestRecord) -> Result<HttpOutcome, String>;
}

/// Is told of every request that was admitted, when it has ended.
pub trait HttpRecorder: Send + Sync {
    /// Must not block: it is called where requests are carried out. The headers `Authorization`, `Cookie`,
    /// `Set-Cookie` and `Proxy-Authorization` are not in what it is given.
    fn record(&self, call: CallKey<'_>, request: HttpRequestRecord, outcome: HttpOutcome);
}

/// Where the requests of guests go.
#[derive(Clone)]
pub enum HttpMode {
    /// To their servers.
    Network {
        /// Is told of every exchange.
        recorder: Option<Arc<dyn HttpRecorder>>,
    },
    /// Nowhere: they are answered by this.
    Answers(Arc<dyn HttpAnswers>),
}

impl Default for HttpMode {
    fn default() -> Self {
        Self::Network { recorder: None }
    }
}

impl fmt::Debug for HttpMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Network { recorder: None } => "Network",
            Self::Network { recorder: Some(_) } => "Network, recorded",
            Self::Answers(_) => "Answers",
        })
    }
}

/// Without headers and bodies: they may hold what a log should not.
impl fmt::Debug for HttpRequestRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { method, url, body, body_cut, .. } = self;
        write!(f, "{method} {url}, {} bytes of body, cut: {body_cut}", body.len())
    }
}

impl fmt::Debug for HttpOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Response { status, body, cut, .. } => {
                write!(f, "status {status}, {} bytes of body, cut: {cut}", body.len())
            }
            Self::Failed(code) => f.write_str(code),
        }
    }
}
