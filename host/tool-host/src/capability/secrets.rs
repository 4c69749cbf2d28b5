//! `agent:tool/secrets`: whether there is a secret of a name. Its value never gets to a guest: the host puts
//! it into requests.

use std::sync::Arc;

use tool_grants::Granted;

use super::imports::Imports;
use crate::bindings::agent::tool::secrets::Host;

pub(super) const IMPORTS: Imports = Imports::Contract("secrets");

/// What the component is granted in this call; absent when that is nothing.
#[derive(Debug)]
pub(crate) struct SecretsState {
    pub(crate) granted: Option<Arc<Granted>>,
}

impl Host for SecretsState {
    fn exists(&mut self, name: String) -> bool {
        self.granted.as_ref().is_some_and(|granted| granted.has_secret(&name))
    }
}
