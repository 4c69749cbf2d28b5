//! One suite of cases per port. A store runs a suite with one line, which makes a test of every case, or one
//! test of all:
//!
//! ```ignore
//! mod queue {
//!     crate::contract::queue::test_all!(test_each(super::open_queue));
//! }
//! mod queue_of_a_cluster {
//!     crate::contract::queue::test_all!(test_in_turn(super::start, super::open_queue));
//! }
//! ```

use std::any::Any;
use std::sync::Arc;

pub(crate) mod cache;
pub(crate) mod conversations;
pub(crate) mod http_recordings;
pub(crate) mod idempotency;
pub(crate) mod key_value;
pub(crate) mod lease;
pub(crate) mod queue;
pub(crate) mod rates;
pub(crate) mod retention;
pub(crate) mod runs;
pub(crate) mod text;
pub(crate) mod tool_versions;
pub(crate) mod webhooks;

/// An empty store, where the port itself says all that its suite looks at.
pub(crate) struct Bench<S: ?Sized> {
    /// As this process has it.
    pub(crate) store: Arc<S>,
    /// As another process has it; the same where there is none.
    pub(crate) peer: Arc<S>,
    /// What has to live as long as the store: its server, its folder, its tasks.
    pub(crate) _guard: Box<dyn Any + Send + Sync>,
}

impl<S: ?Sized> Bench<S> {
    /// A store of one process.
    pub(crate) fn of_one(store: Arc<S>) -> Self {
        Self { peer: store.clone(), store, _guard: Box::new(()) }
    }
}

/// A test for each of the cases of a suite, each with a bench of its own from `$open`.
macro_rules! test_each {
    ($suite:ident, ($open:path): $($case:ident),+ $(,)?) => { $(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $case() {
            let bench = $open().await;
            test_servers::within(stringify!($case), crate::contract::$suite::$case(&bench)).await;
        }
    )+ };
}
pub(crate) use test_each;

/// One test of all cases of a suite, one after the other, for servers that take long to start: `$start` gives
/// them, or nothing where there are none, and `$open` empties them and gives the bench of a case.
macro_rules! test_in_turn {
    ($suite:ident, ($start:path, $open:path): $($case:ident),+ $(,)?) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn every_case() {
            let Some(servers) = $start().await else { return };
            $(
                let bench = $open(&servers).await;
                let _case = crate::contract::Case(stringify!($case));
                test_servers::within(stringify!($case), crate::contract::$suite::$case(&bench)).await;
                drop(bench);
            )+
        }
    };
}
pub(crate) use test_in_turn;

/// Names the case that fails among others of one test.
pub(crate) struct Case(pub(crate) &'static str);

impl Drop for Case {
    #[expect(clippy::print_stderr, reason = "the panic's own message names the test of all cases")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the case is {}", self.0);
        }
    }
}
