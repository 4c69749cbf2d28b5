//! The way out of guests: their HTTP requests, under a grant, over the crate `outbound`.
//!
//! One [`Egress`] serves all calls. Each call of a tool gets a [`Call`] for its grant and deadline, sends
//! requests with it and reads its `Receipt` at the end. Types are those of `http` and `http-body`, so that
//! `wasi:http` is an adapter; nothing here knows WebAssembly, and the policy is behind [`Authorize`].
//!
//! What holds for every request:
//! - It is made to a checked address: names are resolved once, every address is judged, and the connection
//!   goes to one that passed (the crate `outbound`). No redirect is followed and no proxy asked.
//! - A guest never has a credential: it is added after the guest's own request was found free of secrets
//!   (`request/inject.rs`), and its value is replaced in whatever comes back (`secret_scan`).
//! - It ends: at the call's deadline, at one of its own times, when its bytes are spent, or when nobody waits
//!   for it any more (`budget`, `exchange`, `body`). Dropping the response or the call closes the connection.
//! - Its I/O is never done where guests compute: there, it is done on the runtime given to [`Egress::new`]
//!   (`exchange`).
//! - Its errors say what happened and what to do, and hold no secret (`error`).
//!
//! What answers may be something else than the network (`answers`, `exchange/answered.rs`), and what passes
//! may be recorded (`answers/recording.rs`).
//!
//! In reading order: `allowed_hosts`, `client`, `request`, `exchange`, then what they use.

mod allowed_hosts;
mod answers;
mod body;
mod budget;
mod client;
mod error;
mod exchange;
mod receipt;
mod request;
mod secret_scan;
mod state;
mod target;
#[cfg(test)]
mod tests;

pub use allowed_hosts::{
    Admission, Authorize, Grant, Placement, RequestLimits, RequestLine, Secret, SecretValue, Times,
};
pub use answers::{
    CallKey, HttpAnswers, HttpMode, HttpOutcome, HttpRecorder, HttpRequestRecord, MOST_BODY_BYTES,
};
pub use body::ResponseBody;
pub use client::{Call, Egress, EgressBounds};
pub use error::{EgressError, ErrorKind};
pub use receipt::{HostReceipt, Receipt};
pub use secret_scan::Scanner;
