//! The store that the commands read runs from.

use std::sync::Arc;

use agent_core::ports::RunStore;
use anyhow::bail;

use crate::cli::dev;
use crate::composition;
use crate::config::{ProcessEnv, Stores};

/// The store that the environment names.
pub(super) async fn open() -> anyhow::Result<Arc<dyn RunStore>> {
    let opened = composition::open_existing_stores(&Stores::from_vars(&ProcessEnv)?).await?;
    let Some(runs) = opened.runs else {
        bail!(
            "neither MONGODB_URL nor DATABASE_URL is set, so there is no store to read runs from: set the one that the \
             service has ({})",
            dev::databases(&ProcessEnv)
        );
    };
    Ok(runs.store)
}
