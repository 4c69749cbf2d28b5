//! The parent of the spans that begin on this thread, as a future has it whenever it is polled.
//!
//! A span of `tracing` could carry it as well; entering one and finding it again is a look into the registry
//! at every poll, which cost more than all that is recorded. Here it is a swap.

use std::cell::RefCell;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use super::context::{TraceContext, TraceState};

/// The span that others are within: one of this process, or a caller's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parent {
    /// The span that what begins is within.
    pub context: TraceContext,
    /// What tracing systems say of its trace.
    pub state: Option<TraceState>,
    /// Whether another process began it, so that its sampling is nothing that was decided here.
    pub is_remote: bool,
}

impl Parent {
    /// The span of a caller in another process.
    pub fn remote(context: TraceContext, state: Option<TraceState>) -> Self {
        Self { context, state, is_remote: true }
    }
}

thread_local! {
    static CURRENT: RefCell<Option<Parent>> = const { RefCell::new(None) };
}

/// The parent of what begins here, if there is one.
pub fn parent() -> Option<Parent> {
    CURRENT.with_borrow(Clone::clone)
}

/// The context of the span in which this is called.
pub fn current() -> Option<TraceContext> {
    CURRENT.with_borrow(|current| current.as_ref().map(|parent| parent.context))
}

/// The state that goes with the [`current`] context.
pub fn current_state() -> Option<TraceState> {
    CURRENT.with_borrow(|current| current.as_ref()?.state.clone())
}

/// Calls `act` with that parent. With none, the one that there is holds on.
pub fn within<T>(parent: Option<&Parent>, act: impl FnOnce() -> T) -> T {
    let mut parent = parent.cloned();
    let _entered = Entered::begin(parent.is_some().then_some(&mut parent));
    act()
}

/// Swaps the thread's parent for another one, and back when it is dropped.
struct Entered<'a>(Option<&'a mut Option<Parent>>);

impl<'a> Entered<'a> {
    fn begin(parent: Option<&'a mut Option<Parent>>) -> Self {
        let mut entered = Self(parent);
        entered.swap();
        entered
    }

    fn swap(&mut self) {
        if let Some(other) = &mut self.0 {
            CURRENT.with_borrow_mut(|current| mem::swap(current, other));
        }
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.swap();
    }
}

pin_project! {
    /// A future that is polled and dropped with a [`Parent`].
    #[derive(Debug)]
    pub struct Within<F> {
        // Present until it is dropped.
        #[pin]
        inner: Option<F>,
        parent: Option<Parent>,
        // Whether the parent of whoever polls is replaced.
        replaces: bool,
    }

    impl<F> PinnedDrop for Within<F> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            let _entered = Entered::begin(this.replaces.then_some(this.parent));
            this.inner.set(None);
        }
    }
}

impl<F: Future> Future for Within<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let _entered = Entered::begin(this.replaces.then_some(this.parent));
        this.inner.as_pin_mut().map_or(Poll::Pending, |inner| inner.poll(cx))
    }
}

/// Gives futures the parent of what begins in them.
pub trait InTrace: Future + Sized {
    /// Has all that begins in this future be within `parent`; without one, within that of whoever polls.
    fn in_trace(self, parent: Option<Parent>) -> Within<Self> {
        Within { inner: Some(self), replaces: parent.is_some(), parent }
    }

    /// For futures that another task polls: what begins in this one is within the parent of here, if there is
    /// one, and never within that of whoever polls.
    fn in_current_trace(self) -> Within<Self> {
        Within { inner: Some(self), replaces: true, parent: parent() }
    }
}

impl<F: Future> InTrace for F {}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn remote(span_id: u64) -> Parent {
        let state = TraceState::parse(std::iter::once("a=1"));
        Parent::remote(TraceContext { trace_id: 1, span_id, sampled: true }, state)
    }

    #[test]
    fn a_parent_holds_for_all_within_it_and_no_longer() {
        let seen = || current().map(|context| context.span_id);
        let (outer, inner) = (remote(1), remote(2));
        assert_eq!((seen(), current_state()), (None, None));
        within(Some(&outer), || {
            assert_eq!((seen(), current_state()), (Some(1), outer.state.clone()));
            assert_eq!(within(Some(&inner), seen), Some(2));
            assert_eq!(within(None, seen), Some(1));
        });
        assert_eq!(seen(), None);
    }

    #[test]
    fn a_future_is_polled_and_dropped_with_its_parent() {
        struct Dropped<'a>(&'a RefCell<Vec<Option<u64>>>);
        impl Drop for Dropped<'_> {
            fn drop(&mut self) {
                self.0.borrow_mut().push(current().map(|context| context.span_id));
            }
        }
        let seen = RefCell::new(Vec::new());
        let mut waiting = Box::pin(
            async {
                let _dropped = Dropped(&seen);
                futures::future::pending::<()>().await;
            }
            .in_trace(Some(remote(3))),
        );
        assert!((&mut waiting).now_or_never().is_none());
        assert_eq!(current(), None);
        drop(waiting);
        let carried = within(Some(&remote(4)), || async { current() }.in_current_trace());
        assert_eq!(carried.now_or_never().unwrap().map(|context| context.span_id), Some(4));
        let without = async { current() }.in_current_trace();
        assert_eq!(within(Some(&remote(4)), || without.now_or_never().unwrap()), None);
        assert_eq!((seen.into_inner(), current()), (vec![Some(3)], None));
    }
}
