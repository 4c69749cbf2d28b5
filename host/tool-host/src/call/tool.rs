//! A tool that can be called.

use std::sync::Arc;

use crate::component::Component;
use crate::definition::Definition;

/// A tool and the component that has it.
pub(crate) struct Tool {
    pub(crate) component: Arc<Component>,
    pub(crate) definition: Arc<Definition>,
    pub(crate) name: Arc<str>,
}
