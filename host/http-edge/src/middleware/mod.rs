//! Middlewares, one file each. In which order requests meet them is written down in `stack.rs`, and for those
//! under `/api/` and `/admin/` in `variant_b/api_stack.rs`.

pub(crate) mod annotate;
pub mod client_address;
pub(crate) mod compression;
pub(crate) mod cors;
pub(crate) mod guard;
pub(crate) mod idempotency;
pub(crate) mod log_text;
pub(crate) mod panic_guard;
pub mod refusals;
pub mod request_id;
pub(crate) mod request_log;
mod server_span;
