//! A tool that can be called.

use std::sync::Arc;

use crate::component::Component;
use crate::definition::Definition;
use crate::policy::Policy;

/// A tool and the component that has it.
pub(crate) struct Tool {
    pub(crate) component: Arc<Component>,
    pub(crate) definition: Arc<Definition>,
    pub(crate) name: Arc<str>,
    /// What was in force when its set was made: a run is never allowed more.
    pub(crate) policy: Arc<Policy>,
}

impl Tool {
    /// Whether its answers may be kept: it says so, and nothing that it could ask may answer otherwise next time.
    pub(crate) fn is_pure(&self) -> bool {
        self.definition.is_pure && self.component.computes_only
    }
}
