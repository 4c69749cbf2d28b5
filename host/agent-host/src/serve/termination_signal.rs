//! What tells the process to stop.

use std::task::Poll;
use std::{fmt, io};

use futures::{Stream, stream};
use tokio::signal::unix::{self, SignalKind};

/// A wish to have the process stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// `SIGTERM`: an orchestrator's.
    Terminate,
    /// `SIGINT`: Ctrl-C at a terminal.
    Interrupt,
}

/// All such signals from now on. Until it is called they end the process at once.
pub fn signals() -> io::Result<impl Stream<Item = Signal> + Unpin> {
    let mut terminate = unix::signal(SignalKind::terminate())?;
    let mut interrupt = unix::signal(SignalKind::interrupt())?;
    Ok(stream::poll_fn(move |context| {
        if terminate.poll_recv(context).is_ready() {
            return Poll::Ready(Some(Signal::Terminate));
        }
        interrupt.poll_recv(context).map(|_| Some(Signal::Interrupt))
    }))
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Terminate => "SIGTERM",
            Self::Interrupt => "SIGINT",
        })
    }
}
