//! What every bench of the service measures with: a load generator, processes whose memory can be read, an
//! instant provider, the binaries to measure. What is measured of them is each bench's own.

pub(crate) mod client;
pub(crate) mod machine;
pub(crate) mod process;
pub(crate) mod provider;
#[allow(dead_code, reason = "not every bench runs other commands or compiles anew")]
pub(crate) mod subject;
