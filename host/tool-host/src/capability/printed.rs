//! What a WASI guest prints on its standard output and error: lines of the tool's log, within their bounds.

use parking_lot::Mutex;
use std::sync::Arc;

use bytes::Bytes;
use tokio::io::AsyncWrite;
use wasmtime_wasi::async_trait;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};

use super::log::LogState;

/// Bytes that a guest may write at once.
const CHUNK: usize = 64 << 10;

/// Most bytes of a line that are looked at. More than is shown of one: a secret that lies over the end of
/// what is shown is found as a whole, and a secret has up to 8 KiB.
const LINE_BYTES: usize = 16 << 10;

/// One of the two streams. Clones write to the same one.
#[derive(Debug, Clone)]
pub(super) struct PrintedLines(Arc<Mutex<Printed>>);

#[derive(Debug)]
struct Printed {
    log: LogState,
    level: &'static str,
    stream: &'static str,
    /// The beginning of the line that is being printed, at most [`LINE_BYTES`].
    line: Vec<u8>,
}

impl PrintedLines {
    /// Lines of `level` that name the `stream`.
    pub(super) fn new(log: LogState, level: &'static str, stream: &'static str) -> Self {
        Self(Arc::new(Mutex::new(Printed { log, level, stream, line: Vec::new() })))
    }
}

impl Printed {
    fn print(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, ends) = part.strip_suffix(b"\n").map_or((part, false), |text| (text, true));
            let room = LINE_BYTES.saturating_sub(self.line.len());
            self.line.extend_from_slice(text.get(..room).unwrap_or(text));
            if ends {
                self.end_line();
            }
        }
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end_matches('\r');
        if !text.is_empty() {
            self.log.write_line(self.level, text, &[("stream".to_owned(), self.stream.to_owned())]);
        }
    }
}

impl Drop for Printed {
    /// The last line may have no end.
    fn drop(&mut self) {
        self.end_line();
    }
}

impl IsTerminal for PrintedLines {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for PrintedLines {
    /// Of WASI 0.3, which is not linked.
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(tokio::io::sink())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

#[async_trait]
impl Pollable for PrintedLines {
    /// Always: a line that is too much is dropped and counted, so nobody has to wait.
    async fn ready(&mut self) {}
}

impl OutputStream for PrintedLines {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.0.lock().print(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(CHUNK)
    }
}
