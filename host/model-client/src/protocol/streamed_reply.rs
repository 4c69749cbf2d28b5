//! A streamed reply, put together into the body that a response without streaming would have had, so that
//! both are read by the same rules. No I/O.

use agent_core::event_stream::{EventStreamParser, StreamEvent, TooMuch};

use super::UnreadableReply;

/// The most bytes of an event. Providers send a few words in each.
const MOST_EVENT_BYTES: usize = 1 << 20;

/// The most bytes of a reply's text and arguments together.
const MOST_BYTES: usize = 16 << 20;

/// What an event of a reply says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// More text.
    Text(String),
    /// More of something else, of so many bytes.
    Other(usize),
    /// Nothing follows.
    End,
    /// The provider failed: a body that says how.
    Error(Vec<u8>),
}

/// Puts the events of one reply together.
pub(crate) trait ReplyAssembler: Send {
    fn take(&mut self, event: &StreamEvent) -> Result<Part, UnreadableReply>;

    /// Whether the provider has said why the reply ends: then only its usage may follow.
    fn is_whole(&self) -> bool;

    /// The body. None when the reply is not [whole](Self::is_whole): then it may be half of one.
    fn into_body(self: Box<Self>) -> Option<Vec<u8>>;
}

/// Reads a reply from the bytes of a stream.
pub(crate) struct StreamedReply {
    parser: EventStreamParser,
    assembler: Box<dyn ReplyAssembler>,
    bytes: usize,
    state: State,
}

enum State {
    Reading,
    Ended,
    /// The provider failed.
    Error(Vec<u8>),
    Unreadable(UnreadableReply),
}

impl StreamedReply {
    /// A reply of that protocol.
    pub(crate) fn new(assembler: Box<dyn ReplyAssembler>) -> Self {
        Self { parser: EventStreamParser::new(MOST_EVENT_BYTES), assembler, bytes: 0, state: State::Reading }
    }

    /// Takes bytes, and gives the text in them.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> String {
        let (mut text, was_whole) = (String::new(), self.is_whole());
        match self.parser.push(bytes) {
            Ok(events) => self.take_all(&events, &mut text),
            Err(TooMuch) => self.stop(State::Unreadable(too_large()), was_whole),
        }
        text
    }

    /// Whether nothing that follows would be read.
    pub(crate) fn is_over(&self) -> bool {
        !matches!(self.state, State::Reading)
    }

    /// Whether the reply can be taken as it is, although its usage may still follow.
    pub(crate) fn is_whole(&self) -> bool {
        matches!(self.state, State::Reading | State::Ended) && self.assembler.is_whole()
    }

    /// The body that a response without streaming would have had, or that of the provider's error.
    pub(crate) fn into_body(mut self) -> Result<Vec<u8>, UnreadableReply> {
        if let State::Reading = self.state {
            let was_whole = self.is_whole();
            match self.parser.end() {
                Ok(event) => self.take_all(event.as_slice(), &mut String::new()),
                Err(TooMuch) => self.stop(State::Unreadable(too_large()), was_whole),
            }
        }
        match self.state {
            State::Error(body) => Ok(body),
            State::Unreadable(unreadable) => Err(unreadable),
            State::Reading | State::Ended => self.assembler.into_body().ok_or_else(|| UnreadableReply {
                truncated: true,
                ..UnreadableReply::empty("the stream ended without a finish reason")
            }),
        }
    }

    fn take_all(&mut self, events: &[StreamEvent], text: &mut String) {
        for event in events {
            if self.is_over() {
                return;
            }
            let was_whole = self.is_whole();
            match self.assembler.take(event) {
                Ok(Part::Text(more)) => {
                    self.bytes += more.len();
                    text.push_str(&more);
                }
                Ok(Part::Other(bytes)) => self.bytes += bytes,
                Ok(Part::End) => self.stop(State::Ended, was_whole),
                Ok(Part::Error(body)) => self.stop(State::Error(body), was_whole),
                Err(unreadable) => self.stop(State::Unreadable(unreadable), was_whole),
            }
            if self.bytes > MOST_BYTES {
                self.stop(State::Unreadable(too_large()), was_whole);
            }
        }
    }

    /// Nothing more is read. What comes behind a whole reply spoils it in no way, be it half an event of a
    /// connection that broke, an error or no JSON: the reply was paid for, and does without it.
    fn stop(&mut self, state: State, was_whole: bool) {
        self.state = if was_whole { State::Ended } else { state };
    }
}

fn too_large() -> UnreadableReply {
    UnreadableReply::invalid("it is larger than any reply can be")
}

#[cfg(test)]
mod tests;
