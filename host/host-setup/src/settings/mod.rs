//! Settings: what both programs read of the environment, and what the server's other settings are declared
//! with.
//!
//! 1. [`value_type`]: what a setting may hold. [`setting`]: one setting. [`problem`]: what is said when it is
//!    wrong. [`process_env`]: where values come from; only [`ProcessEnv`] reads the environment of the
//!    process.
//! 2. [`context`]: the variants that are served and the environment, which other settings depend on.
//! 3. [`reader`]: how a setting becomes a value or a problem. [`number`], [`http_url`]: values of several
//!    concerns.
//! 4. [`log`], [`token_budget`], [`tools`], [`stores`]: a file per concern that both programs have. A default
//!    that another crate owns is that crate's constant. The concerns of the server alone are in
//!    `agent-host/src/config`.
//!
//! What does not belong here: opening, connecting or checking anything that a variable names.

pub mod context;
pub mod http_url;
pub mod log;
pub mod number;
pub mod problem;
pub mod process_env;
pub mod reader;
pub mod setting;
pub mod stores;
pub mod token_budget;
pub mod tools;
pub mod value_type;

pub use log::Log;
pub use problem::Problems;
pub use process_env::{EnvVars, ProcessEnv};
pub use stores::Stores;
pub use tools::Tools;
