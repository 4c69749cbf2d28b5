//! A writer that never blocks: log entries go into a bounded queue, and a thread of its own writes them.
//!
//! When the reader of the log stalls, the queue fills up and further entries are dropped and counted; the
//! threads that serve go on. `tracing-appender` has such a writer too; its guard prints to standard output
//! when the worker is stuck there, which then blocks the end of the process, so it is not used.
//!
//! Invariants: [`NonBlocking::write_entry`] holds the lock for a copy and never for a system call, and
//! [`NonBlocking::flush`] returns within its time limit.

use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

/// Bytes of entries that wait to be written: seconds of a busy service's log.
pub(super) const CAPACITY: usize = 1 << 20;

/// Entries are written together up to this size. One write of at most `PIPE_BUF` bytes is atomic, so lines of
/// several processes that share a pipe do not mix.
const CHUNK: usize = 4096;

/// The writer thread lets entries gather for this long before it looks for more. While the service is busy,
/// threads that log need not wake it for each entry, which costs more than the entry; a quiet service's entry
/// is written at once.
const GATHER: Duration = Duration::from_millis(2);

/// The pause before writing again to a stream that is in non-blocking mode and takes nothing now.
const WOULD_BLOCK_PAUSE: Duration = Duration::from_millis(10);

/// Takes log entries without ever blocking. Clones share the queue.
#[derive(Debug, Clone)]
pub(super) struct NonBlocking(Arc<Queue>);

#[derive(Debug)]
struct Queue {
    capacity: usize,
    state: Mutex<State>,
    /// Wakes the writer thread: there is something to write.
    filled: Condvar,
    /// Wakes who waits in [`NonBlocking::flush`]: everything is written.
    drained: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Whole entries, each chunk as large as it may be for one write.
    chunks: VecDeque<Vec<u8>>,
    /// Bytes in `chunks`.
    bytes: usize,
    /// The writer thread writes a chunk that it took out of `chunks`, or reports drops.
    busy: bool,
    /// The writer thread waits to be woken by an entry.
    idle: bool,
    /// Entries that were dropped since the process began.
    dropped: u64,
    /// Dropped entries that a log entry has told of.
    reported: u64,
}

impl NonBlocking {
    /// Starts the thread that writes to `stream`. `report` is called on it with the number of entries that
    /// were dropped since the last call, once the reader has taken half of what waited.
    pub(super) fn start(
        stream: impl Write + Send + 'static,
        capacity: usize,
        report: impl Fn(u64) + Send + 'static,
    ) -> io::Result<Self> {
        let queue = Arc::new(Queue {
            capacity,
            state: Mutex::default(),
            filled: Condvar::new(),
            drained: Condvar::new(),
        });
        let writer = queue.clone();
        thread::Builder::new().name("log-writer".to_owned()).spawn(move || writer.run(stream, report))?;
        Ok(Self(queue))
    }

    /// Queues one entry, or drops it when the queue is full.
    pub(super) fn write_entry(&self, entry: &[u8]) {
        let mut state = self.0.state.lock();
        if !state.push(entry, self.0.capacity) {
            state.dropped += 1;
            return;
        }
        let wake = std::mem::take(&mut state.idle);
        drop(state);
        if wake {
            self.0.filled.notify_one();
        }
    }

    /// Waits until everything is written, at most for `limit`. Says whether it is.
    pub(super) fn flush(&self, limit: Duration) -> bool {
        let mut state = self.0.state.lock();
        self.0.drained.wait_while_for(&mut state, |state| !state.is_drained(), limit);
        state.is_drained()
    }

    /// How many entries were dropped since the process began.
    pub(super) fn dropped(&self) -> u64 {
        self.0.state.lock().dropped
    }
}

impl State {
    /// False when there is no room. An entry that is larger than the queue fits while nothing else waits.
    fn push(&mut self, entry: &[u8], capacity: usize) -> bool {
        if self.bytes > 0 && self.bytes + entry.len() > capacity {
            return false;
        }
        self.bytes += entry.len();
        match self.chunks.back_mut() {
            Some(last) if last.len() + entry.len() <= CHUNK => last.extend_from_slice(entry),
            _ => self.chunks.push_back(entry.to_vec()),
        }
        true
    }

    fn is_drained(&self) -> bool {
        self.chunks.is_empty() && !self.busy && self.dropped == self.reported
    }

    /// The number of drops to tell of now. It waits for room, or the entry that tells would be dropped as
    /// well.
    fn unreported(&mut self, capacity: usize) -> Option<u64> {
        let count = self.dropped - self.reported;
        (count > 0 && self.bytes <= capacity / 2).then(|| {
            self.reported = self.dropped;
            count
        })
    }
}

impl Queue {
    /// What the writer thread does until the process ends.
    fn run(&self, mut stream: impl Write, report: impl Fn(u64)) {
        // Whether anything was written since the thread last waited for entries to gather.
        let mut has_written = false;
        // Whether a line was written in part, as the disk was full. The next one must not go on with it.
        let mut is_torn = false;
        loop {
            let mut state = self.state.lock();
            state.busy = false;
            if let Some(count) = state.unreported(self.capacity) {
                state.busy = true;
                drop(state);
                report(count);
                continue;
            }
            let Some(chunk) = state.chunks.pop_front() else {
                self.drained.notify_all();
                if std::mem::take(&mut has_written) {
                    drop(state);
                    // Nobody unparks it.
                    thread::park_timeout(GATHER);
                    continue;
                }
                state.idle = true;
                self.filled.wait_while(&mut state, |state| state.chunks.is_empty());
                state.idle = false;
                continue;
            };
            state.bytes -= chunk.len();
            state.busy = true;
            has_written = true;
            drop(state);
            if is_torn {
                is_torn = write_whole(&mut stream, b"\n").is_err();
            }
            if let Err(left) = write_whole(&mut stream, &chunk) {
                // Nobody reads the log any more (`EPIPE`) or it cannot be kept (`ENOSPC`). The service goes
                // on. These drops are not reported in the log: that entry would fail as well, and cause the
                // next one.
                let written = chunk.get(..chunk.len() - left.len()).unwrap_or_default();
                is_torn |= written.last().is_some_and(|byte| *byte != b'\n');
                let lines = left.iter().filter(|byte| **byte == b'\n').count() as u64;
                let mut state = self.state.lock();
                state.dropped += lines;
                state.reported += lines;
            }
        }
    }
}

/// Gives what is left when it cannot be written to its end.
fn write_whole<'a>(stream: &mut impl Write, mut chunk: &'a [u8]) -> Result<(), &'a [u8]> {
    while !chunk.is_empty() {
        match stream.write(chunk) {
            Ok(0) => return Err(chunk),
            Ok(count) => chunk = chunk.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // Somebody who shares the stream has put it into non-blocking mode: a reader that stalls, seen
            // otherwise.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                thread::park_timeout(WOULD_BLOCK_PAUSE)
            }
            Err(_error) => return Err(chunk),
        }
    }
    stream.flush().map_err(|_error| chunk)
}

/// One entry on its way into the queue: formatters write an entry at once.
#[derive(Debug)]
pub(super) struct Entry<'a>(&'a NonBlocking);

impl Write for Entry<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write_entry(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'w> MakeWriter<'w> for NonBlocking {
    type Writer = Entry<'w>;

    fn make_writer(&'w self) -> Entry<'w> {
        Entry(self)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// Far longer than any test waits when all is well.
    const PATIENCE: Duration = Duration::from_secs(20);

    /// A stream whose reader takes one write for each permit, so many bytes of it at most, and passes on what
    /// it took.
    struct Slow {
        permits: Receiver<io::Result<usize>>,
        taken: Sender<String>,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // Without permits left, the reader takes everything.
            let room = self.permits.recv().unwrap_or(Ok(usize::MAX))?.min(bytes.len());
            let _ = self.taken.send(String::from_utf8(bytes[..room].to_vec()).unwrap());
            Ok(room)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    struct Parts {
        log: NonBlocking,
        permits: Sender<io::Result<usize>>,
        taken: Receiver<String>,
        reports: Receiver<u64>,
    }

    fn start(capacity: usize) -> Parts {
        let ((permits, permitted), (sender, taken)) = (channel(), channel());
        let (reporting, reports) = channel();
        let stream = Slow { permits: permitted, taken: sender };
        let report = move |count| reporting.send(count).unwrap();
        Parts { log: NonBlocking::start(stream, capacity, report).unwrap(), permits, taken, reports }
    }

    #[test]
    fn entries_come_out_whole_and_in_order() {
        let Parts { log, permits, taken, reports: _reports } = start(CAPACITY);
        let entries: Vec<_> = (0..1000).map(|n| format!("{n}:{}\n", "x".repeat(n))).collect();
        for entry in &entries {
            log.write_entry(entry.as_bytes());
        }
        drop(permits);
        assert!(log.flush(PATIENCE));
        let writes: Vec<_> = taken.try_iter().collect();
        assert_eq!(writes.concat(), entries.concat());
        assert!(writes.iter().all(|write| write.ends_with('\n') && write.len() <= CHUNK));
        assert!(writes.len() < entries.len() / 2, "entries that wait are written together");
    }

    #[test]
    fn a_reader_that_stalls_costs_entries_and_blocks_nobody() {
        let Parts { log, permits, taken, reports } = start(100);
        for _ in 0..1000 {
            log.write_entry(&[b'\n'; 10]);
        }
        // Ten wait, and the thread may have taken one or more of them to its write.
        let dropped = log.dropped();
        assert!((900..=990).contains(&dropped), "{dropped}");
        assert!(!log.flush(Duration::from_millis(1)), "a flush gives up");
        drop(permits);
        assert_eq!(reports.recv_timeout(PATIENCE), Ok(dropped));
        assert!(log.flush(PATIENCE));
        let bytes: usize = taken.try_iter().map(|write| write.len()).sum();
        assert_eq!(bytes as u64, 10 * (1000 - dropped));
    }

    #[test]
    fn drops_are_told_of_once() {
        let Parts { log, permits, reports, .. } = start(10);
        for _ in 0..100 {
            log.write_entry(b"123456789\n");
        }
        drop(permits);
        assert_eq!(reports.recv_timeout(PATIENCE), Ok(log.dropped()));
        log.write_entry(b"123456789\n");
        assert!(log.flush(PATIENCE));
        assert!(reports.try_recv().is_err());
    }

    #[test]
    fn a_reader_that_is_gone_ends_nothing() {
        let Parts { log, permits, taken, reports: _reports } = start(CAPACITY);
        permits.send(Err(io::ErrorKind::BrokenPipe.into())).unwrap();
        log.write_entry(b"lost\n");
        assert!(log.flush(PATIENCE));
        assert_eq!(log.dropped(), 1);
        drop(permits);
        log.write_entry(b"kept\n");
        assert!(log.flush(PATIENCE));
        assert_eq!(taken.try_iter().collect::<String>(), "kept\n");
    }

    #[test]
    fn a_line_that_a_full_disk_has_torn_ends_before_the_next_one() {
        let Parts { log, permits, taken, reports: _reports } = start(CAPACITY);
        permits.send(Ok(3)).unwrap();
        permits.send(Err(io::ErrorKind::StorageFull.into())).unwrap();
        log.write_entry(b"torn\n");
        assert!(log.flush(PATIENCE));
        assert_eq!(log.dropped(), 1);
        drop(permits);
        log.write_entry(b"whole\n");
        assert!(log.flush(PATIENCE));
        assert_eq!(taken.try_iter().collect::<String>(), "tor\nwhole\n");
    }

    #[test]
    fn an_entry_larger_than_the_queue_is_written_when_nothing_else_waits() {
        let Parts { log, permits, taken, reports: _reports } = start(10);
        drop(permits);
        log.write_entry(b"longer than ten bytes\n");
        assert!(log.flush(PATIENCE));
        assert_eq!(taken.try_iter().collect::<String>(), "longer than ten bytes\n");
    }
}
