//! The threads that serve connections. Each has a runtime of its own, on which a connection is from its first
//! byte to its last, with the tasks that its requests begin. So a request wakes no other thread: that was a
//! quarter of what a lone one took (`cargo xtask bench lone`).
//!
//! What is not a request's own (jobs, retention, webhooks, the writers of stores) goes on on the runtime
//! beside them. Guests that compute long leave for theirs.

use std::io;
use std::thread;
use std::time::Duration;

use host_setup::program::KEEP_ALIVE;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::time::sleep;

/// How often a thread looks at its clock with nothing to do. Whoever sets a timer that is due before all
/// others has tokio wake the thread, its own as well, by a system call (`write` to an eventfd). A request
/// sets some at half a second, for the answers of stores, so that one is always due sooner.
const TICK: Duration = Duration::from_millis(250);

/// Threads that serve. They end when this is dropped, with whatever still goes on on them.
#[derive(Debug, Default)]
pub struct Cores(Vec<Core>);

#[derive(Debug)]
struct Core {
    runtime: Handle,
    /// Dropped with the core, which ends its thread.
    _running: oneshot::Sender<()>,
}

impl Cores {
    /// Starts that many. Without any, connections are served on the runtime that accepts them.
    pub fn start(count: usize) -> io::Result<Self> {
        (0..count).map(Core::start).collect::<io::Result<_>>().map(Self)
    }

    /// How many places there are for a connection to be served.
    pub(super) fn count(&self) -> usize {
        self.0.len().max(1)
    }

    /// The runtime of one of these places. Has to be called on a runtime.
    pub(super) fn runtime(&self, place: usize) -> Handle {
        self.0.get(place).map_or_else(Handle::current, |core| core.runtime.clone())
    }

    /// The runtimes of all threads.
    pub fn runtimes(&self) -> impl Iterator<Item = Handle> {
        self.0.iter().map(|core| core.runtime.clone())
    }
}

impl Core {
    fn start(number: usize) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().thread_keep_alive(KEEP_ALIVE).build()?;
        let handle = runtime.handle().clone();
        let (running, ended) = oneshot::channel();
        thread::Builder::new().name(format!("serve-{number}")).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    _ended = ended => {}
                    () = tick() => {}
                }
            });
            runtime.shutdown_background();
        })?;
        Ok(Self { runtime: handle, _running: running })
    }
}

async fn tick() {
    loop {
        sleep(TICK).await;
    }
}
