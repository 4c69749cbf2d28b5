//! Server-sent events as model providers and MCP servers send them (WHATWG HTML, section 9.2.6): bytes in,
//! events out. No I/O.

use std::time::Duration;

/// The most events of one stream: many times the tokens that any model can write.
const MOST_EVENTS: usize = 1 << 20;

/// Longest id of an event that is kept, in bytes: it is sent back in a header.
const MOST_ID_BYTES: usize = 1 << 10;

/// One event, without its id, which is where the stream stands ([`Resumption`]).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamEvent {
    /// The `event` field; empty when there is none.
    pub name: String,
    /// `data` fields of the event, joined by line breaks.
    pub data: String,
}

/// How a stream that has ended can be resumed, as its server said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resumption {
    /// The id of the last event, or of one before it when it had none. Empty: the stream cannot be resumed.
    pub last_event_id: String,
    /// How long to wait before.
    pub retry: Option<Duration>,
}

/// An event or a number of events beyond the bounds.
#[derive(Debug, PartialEq, Eq)]
pub struct TooMuch;

/// Reads events from pieces of any size.
#[derive(Debug)]
pub struct EventStreamParser {
    /// Most bytes that are held of an event: its data, and the line that is being read.
    most_bytes: usize,
    line: Vec<u8>,
    /// The last byte was a carriage return, so that a line feed belongs to it.
    after_return: bool,
    has_begun: bool,
    event: StreamEvent,
    has_data: bool,
    /// The id of the event that is being read.
    event_id: Option<String>,
    resumption: Resumption,
    count: usize,
}

impl EventStreamParser {
    /// Holds `most_bytes` of an event at most.
    pub fn new(most_bytes: usize) -> Self {
        Self {
            most_bytes,
            line: Vec::new(),
            after_return: false,
            has_begun: false,
            event: StreamEvent::default(),
            has_data: false,
            event_id: None,
            resumption: Resumption::default(),
            count: 0,
        }
    }

    /// Reads the stream that resumes this one.
    #[must_use]
    pub fn resumed(self) -> Self {
        Self { resumption: self.resumption, ..Self::new(self.most_bytes) }
    }

    /// How the stream can be resumed behind what was read of it.
    pub fn resumption(&self) -> &Resumption {
        &self.resumption
    }

    /// The events that end within these bytes.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<StreamEvent>, TooMuch> {
        let mut events = Vec::new();
        for byte in bytes {
            let belongs_to_return = std::mem::take(&mut self.after_return) && *byte == b'\n';
            match byte {
                b'\n' if belongs_to_return => {}
                b'\n' | b'\r' => {
                    self.after_return = *byte == b'\r';
                    self.end_line(&mut events)?;
                }
                _ if self.line.len() + self.event.data.len() >= self.most_bytes => return Err(TooMuch),
                other => self.line.push(*other),
            }
        }
        Ok(events)
    }

    /// The event before the end of the body, which some servers do not end with an empty line.
    pub fn end(&mut self) -> Result<Option<StreamEvent>, TooMuch> {
        let mut events = Vec::new();
        if !self.line.is_empty() {
            self.end_line(&mut events)?;
        }
        self.end_line(&mut events)?;
        Ok(events.pop())
    }

    fn end_line(&mut self, events: &mut Vec<StreamEvent>) -> Result<(), TooMuch> {
        let line = std::mem::take(&mut self.line);
        let mut line = &*line;
        if !std::mem::replace(&mut self.has_begun, true) {
            line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
        }
        if line.is_empty() {
            // An event without data has an id as well.
            if let Some(id) = self.event_id.take() {
                self.resumption.last_event_id = id;
            }
            if std::mem::take(&mut self.has_data) {
                self.count += 1;
                if self.count > MOST_EVENTS {
                    return Err(TooMuch);
                }
                events.push(std::mem::take(&mut self.event));
            } else {
                self.event = StreamEvent::default();
            }
            return Ok(());
        }
        let colon = line.iter().position(|byte| *byte == b':');
        let (field, value) = match colon {
            Some(colon) => line.split_at(colon),
            None => (line, &[][..]),
        };
        let value = value.strip_prefix(b":").unwrap_or(value);
        let value = String::from_utf8_lossy(value.strip_prefix(b" ").unwrap_or(value));
        match field {
            b"event" => self.event.name = value.into_owned(),
            b"data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.event.data.push('\n');
                }
                if self.event.data.len() + value.len() > self.most_bytes {
                    return Err(TooMuch);
                }
                self.event.data.push_str(&value);
            }
            b"id" if value.contains('\0') => {}
            b"id" if value.len() > MOST_ID_BYTES => self.event_id = Some(String::new()),
            b"id" => self.event_id = Some(value.into_owned()),
            b"retry" if value.bytes().all(|byte| byte.is_ascii_digit()) => {
                let retry = value.parse().ok().map(Duration::from_millis);
                self.resumption.retry = retry.or(self.resumption.retry);
            }
            // Comments (an empty field) and what is not needed.
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST_BYTES: usize = 1 << 20;

    fn parse(text: &str) -> Vec<(String, String)> {
        let mut parser = EventStreamParser::new(MOST_BYTES);
        let mut events = parser.push(text.as_bytes()).unwrap();
        events.extend(parser.end().unwrap());
        events.into_iter().map(|event| (event.name, event.data)).collect()
    }

    fn event(name: &str, data: &str) -> (String, String) {
        (name.into(), data.into())
    }

    #[test]
    fn events_are_read_in_every_form() {
        for (text, expected) in [
            ("data: a\n\n", vec![event("", "a")]),
            ("data:a\r\n\r\ndata:  b\r\r", vec![event("", "a"), event("", " b")]),
            ("\u{feff}data: a\n\n", vec![event("", "a")]),
            (": hi\n\nevent: ping\n\nevent: x\nid: 7\ndata: a\ndata: b\n\n", vec![event("x", "a\nb")]),
            ("data\n\n", vec![event("", "")]),
            ("data: not ended", vec![event("", "not ended")]),
            ("event: nothing\n\n", vec![]),
            ("", vec![]),
        ] {
            assert_eq!(parse(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_stream_is_resumed_behind_the_last_event_that_was_whole() {
        let long = format!("id: {}\ndata: a\n\n", "x".repeat(MOST_ID_BYTES + 1));
        for (text, id, retry) in [
            ("data: a\n\n", "", None),
            ("id: 1\nretry: 50\ndata:\n\n", "1", Some(50)),
            ("id: 1\n\n", "1", None),
            ("id: 1\ndata: a\n\ndata: b\n\n", "1", None),
            ("id: 1\ndata: a\n\nid: 2\ndata: b\n", "1", None),
            ("id: 1\ndata: a\n\nid\ndata: b\n\n", "", None),
            ("id: 1\ndata: a\n\nid: \0\ndata: b\n\n", "1", None),
            ("retry: 50\nretry: 5s\nretry:\nretry: 99999999999999999999\n", "", Some(50)),
            (long.as_str(), "", None),
        ] {
            let mut parser = EventStreamParser::new(MOST_BYTES);
            parser.push(text.as_bytes()).unwrap();
            let retry = retry.map(Duration::from_millis);
            let resumption = Resumption { last_event_id: id.into(), retry };
            assert_eq!(parser.resumption(), &resumption, "{text:?}");
            // What is not whole of it is nothing to the stream that resumes it.
            parser.push(b"data: half").unwrap();
            let mut parser = parser.resumed();
            assert_eq!(parser.push(b"data: c\n\n").unwrap()[0].data, "c");
            assert_eq!(parser.resumption(), &resumption, "{text:?}");
        }
    }

    #[test]
    fn a_line_without_end_is_given_up() {
        let mut parser = EventStreamParser::new(MOST_BYTES);
        let chunk = vec![b'x'; 1 << 16];
        let pushed: Result<Vec<_>, _> = (0..17).map(|_| parser.push(&chunk)).collect();
        assert_eq!(pushed.unwrap_err(), TooMuch);
        let mut parser = EventStreamParser::new(MOST_BYTES);
        let line = format!("data: {}\n", "x".repeat(1 << 16));
        let pushed: Result<Vec<_>, _> = (0..17).map(|_| parser.push(line.as_bytes())).collect();
        assert_eq!(pushed.unwrap_err(), TooMuch);
    }
}
