//! What a child process says: messages on its standard output, a line each, and complaints on its standard
//! error.
//!
//! Whoever waits for the one reads the other too, and so does whoever writes: a child that waits until
//! somebody reads its output reads no input meanwhile. Between exchanges nobody reads, and the pipes are the
//! bound. What a child complained of before it ended is read to its end: it says why.

use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use json_schema::text_sanitizer::printable;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::timeout;
use tool_egress::Scanner;

use crate::error::McpError;
use crate::message::MOST_BYTES;

/// Lines of the standard error that are logged of one exchange, and bytes of each.
const LOGGED_LINES: u32 = 20;
const LOGGED_BYTES: usize = 500;

/// Longest line that is logged at all: secrets are looked for in whole lines.
const LINE_BYTES: usize = 16 << 10;

/// Bytes of the standard output that are read at once.
const READ_BYTES: usize = 8 << 10;

/// How long the standard error of a child that has ended is read: what it started may hold that open.
const HEARD_OUT: Duration = Duration::from_millis(200);

/// Most blank bytes before a message.
const MOST_BLANK_BYTES: usize = 64 << 10;

/// Both outputs of a child.
#[derive(Debug)]
pub(crate) struct Output<O, E> {
    /// The server's name, for the log.
    server: String,
    stdout: O,
    stderr: Option<E>,
    /// What was read of the standard output and not taken yet.
    read: BytesMut,
    /// The first bytes of `read` that are known to hold no end of a line.
    searched: usize,
    complaints: Complaints,
}

/// The standard error of a server, as far as it goes to the log.
#[derive(Debug, Default)]
struct Complaints {
    line: Vec<u8>,
    logged: u32,
}

impl<O: AsyncRead + Unpin, E: AsyncRead + Unpin> Output<O, E> {
    pub(crate) fn new(server: String, stdout: O, stderr: Option<E>) -> Self {
        let (read, complaints) = (BytesMut::new(), Complaints::default());
        Self { server, stdout, stderr, read, searched: 0, complaints }
    }

    /// Another exchange begins, and some complaints are logged again.
    pub(crate) fn begin_exchange(&mut self) {
        self.complaints.logged = 0;
    }

    /// The next line that is not blank, without blanks before it.
    pub(crate) async fn line(&mut self, scanner: &Scanner) -> Result<BytesMut, McpError> {
        let mut blank = 0;
        loop {
            // Lines that were read together are taken without waiting: other tasks run in between.
            tokio::task::consume_budget().await;
            blank += self.skip_blank();
            if blank > MOST_BLANK_BYTES {
                return Err(McpError::TooMuch(format!("more than {MOST_BLANK_BYTES} blank bytes")));
            }
            if let Some(line) = self.take_line() {
                return Ok(line);
            }
            if self.read.len() > MOST_BYTES {
                return Err(McpError::TooMuch(format!("a message of more than {MOST_BYTES} bytes")));
            }
            self.read_some(scanner).await?;
        }
    }

    /// Writes to the standard input, and reads what the child says until it has taken all.
    pub(crate) async fn write(
        &mut self,
        stdin: &mut (impl AsyncWrite + Unpin),
        scanner: &Scanner,
        mut bytes: &[u8],
    ) -> Result<(), McpError> {
        let died = |error: std::io::Error| McpError::Died(error.to_string());
        while !bytes.is_empty() {
            if self.read.len() > MOST_BYTES {
                let text = format!("more than {MOST_BYTES} bytes before it read what it was sent");
                return Err(McpError::TooMuch(text));
            }
            tokio::select! {
                biased;
                written = stdin.write(bytes) => match written.map_err(died)? {
                    0 => return Err(McpError::Died("it reads no more".into())),
                    written => bytes = bytes.get(written..).unwrap_or_default(),
                },
                heard = self.read_some(scanner) => heard?,
            }
        }
        stdin.flush().await.map_err(died)
    }

    /// Drops the blank bytes that come next, and says how many there were.
    fn skip_blank(&mut self) -> usize {
        let blank = self.read.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        self.read.advance(blank);
        self.searched = self.searched.saturating_sub(blank);
        blank
    }

    /// The line that was read, if its end was.
    fn take_line(&mut self) -> Option<BytesMut> {
        let unsearched = self.read.get(self.searched..).unwrap_or_default();
        let Some(at) = unsearched.iter().position(|byte| *byte == b'\n') else {
            self.searched = self.read.len();
            return None;
        };
        let end = std::mem::take(&mut self.searched) + at + 1;
        Some(self.read.split_to(end))
    }

    /// Reads what there is next of either output. Dropping the future loses nothing.
    async fn read_some(&mut self, scanner: &Scanner) -> Result<(), McpError> {
        let mut complaint = [0; 512];
        self.read.reserve(READ_BYTES);
        let Self { server, stdout, stderr, read, complaints, .. } = self;
        let ended = tokio::select! {
            got = stdout.read_buf(read) => match got {
                Ok(0) => "it ended".to_owned(),
                Ok(_) => return Ok(()),
                Err(error) => error.to_string(),
            },
            bytes = complaint_of(stderr.as_mut(), &mut complaint) => {
                match bytes {
                    0 => *stderr = None,
                    bytes => complaints.push(server, scanner, complaint.get(..bytes).unwrap_or_default()),
                }
                return Ok(());
            }
        };
        self.hear_out(scanner).await;
        Err(McpError::Died(ended))
    }

    /// Logs the rest of what a child has complained of, its last line with or without an end.
    async fn hear_out(&mut self, scanner: &Scanner) {
        let Self { server, stderr, complaints, .. } = self;
        if stderr.is_some() {
            let rest = async {
                let mut complaint = [0; 512];
                loop {
                    match complaint_of(stderr.as_mut(), &mut complaint).await {
                        0 => return,
                        bytes => complaints.push(server, scanner, complaint.get(..bytes).unwrap_or_default()),
                    }
                }
            };
            // silent-ok: as much as came in that time is logged.
            let _ = timeout(HEARD_OUT, rest).await;
        }
        complaints.log(server, scanner);
    }
}

/// Bytes that were read of the standard error; 0 at its end. Without one it waits for ever.
async fn complaint_of(stderr: Option<&mut (impl AsyncRead + Unpin)>, into: &mut [u8]) -> usize {
    match stderr {
        // silent-ok: what cannot be read has ended.
        Some(stderr) => stderr.read(into).await.unwrap_or(0),
        None => std::future::pending().await,
    }
}

impl Complaints {
    fn push(&mut self, server: &str, scanner: &Scanner, piece: &[u8]) {
        for byte in piece {
            if *byte == b'\n' {
                self.log(server, scanner);
            } else if self.line.len() <= LINE_BYTES {
                self.line.push(*byte);
            }
        }
    }

    fn log(&mut self, server: &str, scanner: &Scanner) {
        let line = std::mem::take(&mut self.line);
        if self.logged >= LOGGED_LINES || line.is_empty() {
            return;
        }
        self.logged += 1;
        if line.len() > LINE_BYTES {
            tracing::info!(
                server,
                "an MCP server wrote a line to its standard error that is too long to be logged"
            );
        } else {
            let text = String::from_utf8_lossy(&line);
            let said = printable(&scanner.scan_text(text.trim_end()), LOGGED_BYTES);
            tracing::info!(server, said, "an MCP server wrote to its standard error");
        }
        if self.logged == LOGGED_LINES {
            tracing::info!(server, "it may have written more, which is not logged");
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{Empty, duplex, empty};

    use super::*;

    /// The lines of an output, as texts, until it is given up or ends.
    async fn lines(stdout: &[u8]) -> (Vec<String>, McpError) {
        let mut output: Output<_, Empty> = Output::new("docs".into(), stdout, None);
        let mut lines = vec![];
        loop {
            match output.line(&Scanner::default()).await {
                Ok(line) => lines.push(String::from_utf8_lossy(&line).into_owned()),
                Err(error) => return (lines, error),
            }
        }
    }

    #[tokio::test]
    async fn blank_lines_are_skipped_and_not_for_ever() {
        let ended = McpError::Died("it ended".into());
        let (found, error) = lines(b"\n \r\n{\"a\": 1}\n\n\t{}\n{").await;
        assert_eq!(found, ["{\"a\": 1}\n", "{}\n"]);
        assert_eq!(error, ended);
        let padded = |blanks: usize| [&b"\n".repeat(blanks)[..], b"{}\n"].concat();
        assert_eq!(lines(&padded(MOST_BLANK_BYTES)).await, (vec!["{}\n".to_owned()], ended));
        let (found, error) = lines(&padded(MOST_BLANK_BYTES + 1)).await;
        assert!(found.is_empty() && matches!(error, McpError::TooMuch(_)), "{found:?}: {error}");
        let (_, error) = lines(&vec![b'x'; 2 * MOST_BYTES]).await;
        assert!(matches!(error, McpError::TooMuch(_)), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_child_complains_of_before_it_ends_is_logged_to_its_last_line() {
        let ended = McpError::Died("it ended".into());
        let complaints = [&[b'x'; 600][..], b"\nlast"].concat();
        let mut output = Output::new("docs".into(), &b""[..], Some(&complaints[..]));
        assert_eq!(output.line(&Scanner::default()).await.unwrap_err(), ended);
        assert_eq!((output.complaints.logged, output.complaints.line.len()), (2, 0));

        let (_held_open, stderr) = duplex(64);
        let mut output = Output::new("docs".into(), &b""[..], Some(stderr));
        assert_eq!(output.line(&Scanner::default()).await.unwrap_err(), ended);
    }

    #[tokio::test]
    async fn a_child_that_reads_only_what_follows_its_own_words_gets_its_message() {
        let (mut child_out, stdout) = duplex(64);
        let (mut child_err, stderr) = duplex(64);
        let (mut stdin, mut child_in) = duplex(64);
        let mut output = Output::new("docs".into(), stdout, Some(stderr));
        let scanner = Scanner::default();
        let message = [b'm'; 1000];
        let child = async {
            child_err.write_all(&[b'e'; 5000]).await.unwrap();
            child_out.write_all(&[b'o'; 5000]).await.unwrap();
            child_out.write_all(b"\n").await.unwrap();
            let mut read = vec![0; message.len()];
            child_in.read_exact(&mut read).await.unwrap();
            read
        };
        let (sent, read) = tokio::join!(output.write(&mut stdin, &scanner, &message), child);
        assert_eq!((sent, read), (Ok(()), message.to_vec()));
        assert_eq!(output.line(&scanner).await.unwrap().len(), 5001);

        let (mut stdin, _child_in) = duplex(64);
        let mut flood = Output::new("docs".into(), tokio::io::repeat(b'x'), Some(empty()));
        let sent = flood.write(&mut stdin, &scanner, &message).await;
        assert!(matches!(sent, Err(McpError::TooMuch(_))), "{sent:?}");
    }
}
