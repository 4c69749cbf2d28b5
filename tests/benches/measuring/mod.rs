//! What every bench of the service measures with: a load generator, processes whose memory can be read, an
//! instant provider. What is measured, and what it is compared with, is each bench's own.

pub(crate) mod client;
pub(crate) mod machine;
pub(crate) mod process;
pub(crate) mod provider;
