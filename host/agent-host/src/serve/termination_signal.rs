//! What tells the process to stop.

use std::task::Poll;
use std::{fmt, io};

use futures::{Stream, stream};
use procfs::process::Process;
use tokio::signal::unix::{self, SignalKind};

/// `SIGHUP` among the signals that a process ignores, as the kernel shows them.
const HANG_UP_BIT: u64 = 1;

/// A wish to have the process stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// `SIGTERM`: an orchestrator's.
    Terminate,
    /// `SIGINT`: Ctrl-C at a terminal.
    Interrupt,
    /// `SIGHUP`: the terminal was closed that the process was started in.
    HangUp,
}

/// All such signals from now on. Until it is called they end the process at once. `SIGHUP` stays ignored
/// where the process was started so, as `nohup` does: the service outlives the terminal.
pub fn signals() -> io::Result<impl Stream<Item = Signal> + Unpin> {
    listen(!is_hang_up_ignored())
}

/// A closed terminal may hang up twice, by the kernel and by the shell: the second time is no wish to hurry.
fn listen(hears_hang_up: bool) -> io::Result<impl Stream<Item = Signal> + Unpin> {
    let mut terminate = unix::signal(SignalKind::terminate())?;
    let mut interrupt = unix::signal(SignalKind::interrupt())?;
    let mut hang_up = hears_hang_up.then(|| unix::signal(SignalKind::hangup())).transpose()?;
    Ok(stream::poll_fn(move |context| {
        if terminate.poll_recv(context).is_ready() {
            return Poll::Ready(Some(Signal::Terminate));
        }
        if interrupt.poll_recv(context).is_ready() {
            return Poll::Ready(Some(Signal::Interrupt));
        }
        if hang_up.as_mut().is_some_and(|hang_up| hang_up.poll_recv(context).is_ready()) {
            hang_up = None;
            return Poll::Ready(Some(Signal::HangUp));
        }
        Poll::Pending
    }))
}

/// A sandbox may hide `/proc`; then a closed terminal ends the service.
fn is_hang_up_ignored() -> bool {
    let status = Process::myself().and_then(|process| process.status());
    status.is_ok_and(|status| status.sigign & HANG_UP_BIT != 0)
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Terminate => "SIGTERM",
            Self::Interrupt => "SIGINT",
            Self::HangUp => "SIGHUP",
        })
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt as _, StreamExt as _};
    use rustix::process::{Signal as Sent, getpid, kill_process};

    use super::*;

    #[tokio::test]
    async fn a_closed_terminal_is_one_wish_to_stop_however_often_it_hangs_up() {
        let mut signals = listen(true).unwrap();
        kill_process(getpid(), Sent::HUP).unwrap();
        assert_eq!(signals.next().await, Some(Signal::HangUp));
        for sent in [Sent::HUP, Sent::TERM] {
            kill_process(getpid(), sent).unwrap();
        }
        assert_eq!(signals.next().await, Some(Signal::Terminate));
        assert_eq!(signals.next().now_or_never(), None);
    }
}
