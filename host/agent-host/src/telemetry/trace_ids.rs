//! Which trace and span a log entry belongs to.

use std::sync::{Arc, OnceLock};

use agent_core::trace::{self, TraceContext};
use tracing::dispatcher::WeakDispatch;
use tracing::{Dispatch, Event, Subscriber};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, Registry};

/// Finds the context of an entry, in spans that the log itself does not show as well. It is a layer because
/// that is how it learns of the registry; clones know the same one.
#[derive(Debug, Clone, Default)]
pub(super) struct TraceIds(Arc<OnceLock<WeakDispatch>>);

impl TraceIds {
    /// The context of the span that the entry was made in.
    pub(super) fn of(&self, event: &Event<'_>) -> Option<TraceContext> {
        let dispatch = self.0.get()?.upgrade()?;
        let registry = dispatch.downcast_ref::<Registry>()?;
        match event.parent() {
            Some(parent) => trace::nearest(registry, parent),
            None => trace::nearest(registry, registry.current_span().id()?),
        }
    }
}

impl<S: Subscriber + for<'s> LookupSpan<'s>> Layer<S> for TraceIds {
    fn on_register_dispatch(&self, dispatch: &Dispatch) {
        let _only_once = self.0.set(dispatch.downgrade());
    }
}
