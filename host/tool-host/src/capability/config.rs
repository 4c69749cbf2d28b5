//! `agent:tool/config`: what the policy says under a key, which is not secret.

use std::sync::Arc;

use tool_grants::Granted;

use super::imports::Imports;
use crate::bindings::agent::tool::config::Host;

pub(super) const IMPORTS: Imports = Imports::Contract("config");

/// What the component is granted in this call; absent when that is nothing.
#[derive(Debug)]
pub(crate) struct ConfigState {
    pub(crate) granted: Option<Arc<Granted>>,
}

impl Host for ConfigState {
    fn get(&mut self, key: String) -> Option<String> {
        self.granted.as_ref()?.config(&key).map(str::to_owned)
    }
}
