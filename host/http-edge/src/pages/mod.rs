//! What belongs to no variant: pages for people, the metrics, and the answer to an unknown path.
//!
//! - `index`: the front page. `docs/`: the documentation, at `/docs`. `console/`: what administrators see.
//! - `metrics`: what scrapers read. `fallback`: paths and methods that there are not.
//! - `static_text`: texts that do not change while the process lives.

#[cfg(feature = "console")]
pub(crate) mod console;
pub(crate) mod docs;
pub(crate) mod fallback;
pub(crate) mod index;
pub(crate) mod metrics;
pub(crate) mod static_text;
