//! What tells the process to stop.

use std::future::ready;
use std::task::Poll;
use std::{fmt, io, mem};

use futures::{Stream, StreamExt as _, stream};
use tokio::signal::unix::{self, SignalKind};

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

/// `SIGHUP` counts as the first signal only, because it is no wish to hurry: a closed terminal may hang up
/// twice, by the kernel and by the shell, and the end of a login sends both `SIGHUP` and `SIGTERM`, in any
/// order. So the first `SIGTERM` behind a hang-up is no second signal either.
fn listen(hears_hang_up: bool) -> io::Result<impl Stream<Item = Signal> + Unpin> {
    let mut terminate = unix::signal(SignalKind::terminate())?;
    let mut interrupt = unix::signal(SignalKind::interrupt())?;
    let mut hang_up = hears_hang_up.then(|| unix::signal(SignalKind::hangup())).transpose()?;
    let signals = stream::poll_fn(move |context| {
        let signal = if terminate.poll_recv(context).is_ready() {
            Signal::Terminate
        } else if interrupt.poll_recv(context).is_ready() {
            Signal::Interrupt
        } else if hang_up.as_mut().is_some_and(|hang_up| hang_up.poll_recv(context).is_ready()) {
            Signal::HangUp
        } else {
            return Poll::Pending;
        };
        // The handler stays installed, so that a later one does not end the process.
        hang_up = None;
        Poll::Ready(Some(signal))
    });
    let mut is_hung_up = false;
    Ok(signals.filter(move |signal| {
        let was_hung_up = mem::replace(&mut is_hung_up, *signal == Signal::HangUp);
        ready(!(was_hung_up && *signal == Signal::Terminate))
    }))
}

/// A sandbox may hide `/proc`; then a closed terminal ends the service.
#[cfg(target_os = "linux")]
fn is_hang_up_ignored() -> bool {
    /// `SIGHUP` among the signals that a process ignores, as the kernel shows them.
    const HANG_UP_BIT: u64 = 1;

    let status = procfs::process::Process::myself().and_then(|process| process.status());
    status.is_ok_and(|status| status.sigign & HANG_UP_BIT != 0)
}

/// Other systems have no such file: a closed terminal ends the service.
#[cfg(not(target_os = "linux"))]
fn is_hang_up_ignored() -> bool {
    false
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
    use futures::FutureExt as _;
    use rustix::process::{Signal as Sent, getpid, kill_process};

    use super::*;

    /// One test, because each signal reaches all listeners of the process.
    #[tokio::test]
    async fn signals_are_told_apart_and_a_closed_terminal_is_never_a_wish_to_hurry() {
        let send = |signals: &[Sent]| signals.iter().for_each(|sent| kill_process(getpid(), *sent).unwrap());
        let mut signals = listen(true).unwrap();
        for (sent, signal, name) in [
            (&[Sent::TERM][..], Signal::Terminate, "SIGTERM"),
            (&[Sent::HUP, Sent::INT], Signal::Interrupt, "SIGINT"),
        ] {
            send(sent);
            assert_eq!(signals.next().await, Some(signal));
            assert_eq!(signal.to_string(), name);
        }
        // Where another thread takes a signal, the last SIGHUP may come now: it is awaited anyhow.
        let mut signals = listen(true).unwrap();
        send(&[Sent::HUP]);
        assert_eq!(signals.next().await, Some(Signal::HangUp));
        assert_eq!(Signal::HangUp.to_string(), "SIGHUP");
        // The first SIGTERM is of the same wish, the second one is not.
        let mut terminate = unix::signal(SignalKind::terminate()).unwrap();
        send(&[Sent::TERM]);
        assert_eq!(terminate.recv().await, Some(()));
        assert_eq!(signals.next().now_or_never(), None);
        send(&[Sent::HUP, Sent::TERM]);
        assert_eq!(signals.next().await, Some(Signal::Terminate));
        assert_eq!(signals.next().now_or_never(), None);
    }
}
