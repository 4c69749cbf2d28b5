//! Server-sent events as MCP servers answer with them: the data of each, bounded.

use std::collections::VecDeque;

use super::error::McpError;
use super::message::MOST_BYTES;

/// Reads a stream of events piece by piece. Ids, names and retry times are left out: nothing is resumed.
#[derive(Debug, Default)]
pub(super) struct Events {
    line: Vec<u8>,
    data: Option<Vec<u8>>,
    ready: VecDeque<Vec<u8>>,
}

impl Events {
    /// Takes in a piece.
    pub(super) fn push(&mut self, piece: &[u8]) -> Result<(), McpError> {
        let mut rest = piece;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (line, after) = rest.split_at(end);
            self.line.extend_from_slice(line);
            rest = after.get(1..).unwrap_or_default();
            self.end_line();
            self.check()?;
        }
        self.line.extend_from_slice(rest);
        self.check()
    }

    /// The data of the next event that is whole.
    pub(super) fn next(&mut self) -> Option<Vec<u8>> {
        self.ready.pop_front()
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let line = line.strip_suffix(b"\r").unwrap_or(&line);
        if line.is_empty() {
            self.ready.extend(self.data.take().filter(|data| !data.is_empty()));
            return;
        }
        let Some(value) = line.strip_prefix(b"data:") else { return };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match &mut self.data {
            Some(data) => {
                data.push(b'\n');
                data.extend_from_slice(value);
            }
            None => self.data = Some(value.to_vec()),
        }
    }

    fn check(&self) -> Result<(), McpError> {
        let held = self.line.len() + self.data.as_ref().map_or(0, Vec::len);
        if held > MOST_BYTES {
            return Err(McpError::TooMuch(format!("an event of more than {MOST_BYTES} bytes")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_wherever_the_pieces_end() {
        let stream =
            b": hello\r\nid: 1\r\nevent: message\r\ndata: {\"a\":\r\ndata: 1}\r\n\r\ndata:\n\ndata:x\n\n";
        for size in [1, 2, 7, stream.len()] {
            let mut events = Events::default();
            let mut found = vec![];
            for piece in stream.chunks(size) {
                events.push(piece).unwrap();
                found.extend(std::iter::from_fn(|| events.next()));
            }
            assert_eq!(found, [b"{\"a\":\n1}".to_vec(), b"x".to_vec()], "pieces of {size}");
        }
    }

    #[test]
    fn an_event_without_an_end_is_given_up() {
        let mut events = Events::default();
        let piece = [b'x'; 64 << 10];
        let ended = (0..=MOST_BYTES / piece.len()).map(|_| events.push(&piece)).find(Result::is_err);
        assert!(matches!(ended, Some(Err(McpError::TooMuch(_)))), "{ended:?}");
        let mut events = Events::default();
        let line = [&b"data: "[..], &piece, b"\n"].concat();
        let ended = (0..=MOST_BYTES / piece.len()).map(|_| events.push(&line)).find(Result::is_err);
        assert!(matches!(ended, Some(Err(McpError::TooMuch(_)))), "{ended:?}");
    }
}
