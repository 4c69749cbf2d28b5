//! The state of Variant B's handlers and middlewares.

use std::sync::Arc;

use crate::dependencies::{RouteState, VariantB};

/// Shared by all of them.
pub type Shared = Arc<RouteState<VariantB>>;
