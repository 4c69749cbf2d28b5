//! What every bench of the service measures with: a load generator and the requests that it sends, processes
//! whose memory and processor time can be read, an instant provider, the binaries to measure. What is
//! measured of them is each bench's own.
#![allow(dead_code, reason = "no bench uses all of it")]

pub(crate) mod client;
pub(crate) mod machine;
pub(crate) mod process;
pub(crate) mod provider;
pub(crate) mod request;
pub(crate) mod subject;
