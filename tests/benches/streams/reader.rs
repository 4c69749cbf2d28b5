//! A connection on which streams are read, one after the other.
//!
//! Lines are looked at without undoing the chunks around them: every chunk that is read here holds whole
//! lines.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::form::Form;
use crate::provider;
use crate::script::STAMP;

pub(crate) struct Reader {
    socket: TcpStream,
    buffer: Vec<u8>,
    /// Where the next line begins.
    next: usize,
}

/// What was read of a stream.
#[derive(Default)]
pub(crate) struct Seen {
    /// Events with a delta.
    pub(crate) deltas: usize,
    /// How long their text is.
    pub(crate) text: usize,
    /// From the write of the provider's first byte to the first event with a delta.
    pub(crate) first: Option<Duration>,
    pub(crate) has_result: bool,
    /// What was said in its place.
    pub(crate) remark: Option<String>,
}

impl Reader {
    pub(crate) async fn open(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).await.unwrap();
        socket.set_nodelay(true).unwrap();
        Self { socket, buffer: Vec::with_capacity(16 << 10), next: 0 }
    }

    /// Asks for a stream and reads it to its end.
    pub(crate) async fn follow(&mut self, request: &[u8], form: &Form, seen: &mut Seen) -> io::Result<()> {
        self.socket.write_all(request).await?;
        self.finish(seen, form).await
    }

    /// Asks for a stream and reads its first delta.
    pub(crate) async fn begin(&mut self, request: &[u8], form: &Form) -> io::Result<Seen> {
        self.socket.write_all(request).await?;
        let mut seen = Seen::default();
        while seen.deltas == 0 {
            if !self.read(&mut seen, form).await? {
                break;
            }
        }
        Ok(seen)
    }

    /// Reads what is left of a stream.
    pub(crate) async fn finish(&mut self, seen: &mut Seen, form: &Form) -> io::Result<()> {
        while self.read(seen, form).await? {}
        Ok(())
    }

    /// Asks for something small, and reads the answer.
    pub(crate) async fn ask(&mut self, request: &[u8]) -> io::Result<()> {
        self.socket.write_all(request).await?;
        let mut length = 0;
        loop {
            let line = self.line().await?;
            let line = std::str::from_utf8(&self.buffer[line]).unwrap().trim_end().to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line.is_empty() {
                break;
            }
        }
        while self.buffer.len() < self.next + length {
            self.receive().await?;
        }
        self.next += length;
        Ok(())
    }

    /// Reads a line. False when it was the last one.
    async fn read(&mut self, seen: &mut Seen, form: &Form) -> io::Result<bool> {
        let line = self.line().await?;
        let line = &self.buffer[line];
        if let Some(text) = line.strip_prefix(form.delta) {
            seen.take(text);
        } else if line.starts_with(form.result) {
            seen.has_result = true;
        } else if line == b"0\r" {
            // The end of the body, and the empty line after it.
            self.line().await?;
            return Ok(false);
        } else if line.starts_with(b"HTTP/1.1 ") && !line.starts_with(b"HTTP/1.1 200 ") {
            return Err(io::Error::other(String::from_utf8_lossy(line).into_owned()));
        } else if line.starts_with(b"event: run.failed")
            || line.starts_with(b": ") && line != b": heartbeat"
            || line.starts_with(b"data: {\"body\"")
            || line.starts_with(b"data: {\"error\"")
        {
            seen.remark = Some(String::from_utf8_lossy(line).into_owned());
        }
        Ok(true)
    }

    /// Where the next line is, until the next one is asked for.
    async fn line(&mut self) -> io::Result<Range<usize>> {
        let mut searched = self.next;
        loop {
            if let Some(at) = self.buffer[searched..].iter().position(|byte| *byte == b'\n') {
                let line = self.next..searched + at;
                self.next = line.end + 1;
                return Ok(line);
            }
            self.buffer.drain(..self.next);
            self.next = 0;
            searched = self.buffer.len();
            self.receive().await?;
        }
    }

    async fn receive(&mut self) -> io::Result<()> {
        self.buffer.reserve(8 << 10);
        match self.socket.read_buf(&mut self.buffer).await? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

impl Seen {
    /// Takes a delta: its text, and what follows it on the line. The first one of a completion is empty.
    fn take(&mut self, text: &[u8]) {
        let length = text.iter().position(|byte| *byte == b'"').unwrap_or(text.len());
        if length == 0 {
            return;
        }
        if self.deltas == 0 {
            self.first = text.get(..STAMP).and_then(provider::since);
        }
        self.deltas += 1;
        self.text += length;
    }
}
