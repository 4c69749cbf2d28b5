//! Cases that are mutated from a corpus: a strategy of proptest, so that one that fails is shrunk to few
//! changes at early places.
//!
//! Beside bits, bytes and ranges, whole words of other entries move: a word ends where letters and digits do,
//! so the keywords of a format meet at new places without a list of them. Nesting and repeating find what is
//! bounded by depth or number.

use std::fmt;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

/// Most bytes of a case. What is bounded by more has tests of its own.
const MOST_BYTES: usize = 64 << 10;

/// Most changes of one case.
const MOST_CHANGES: usize = 6;

/// Texts that readers of numbers, names and lengths trip over.
const EDGES: [&str; 18] = [
    "0",
    "-1",
    "1e400",
    "18446744073709551615",
    "18446744073709551616",
    "4294967295",
    "9007199254740993",
    "9223372036854775807",
    "0.1",
    "-0",
    "null",
    "\\u0000",
    "\\ud800",
    "\u{feff}",
    "\u{202e}",
    "é",
    "\r\n",
    "\"",
];

/// An input of a target, shown with what is no ASCII escaped.
#[derive(Clone, PartialEq, Eq)]
pub struct Input(pub Vec<u8>);

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

/// A change of bytes at places that are shares of their length.
#[derive(Debug, Clone)]
enum Change {
    Flip {
        at: Index,
        bit: u8,
    },
    Put {
        at: Index,
        byte: u8,
    },
    Insert {
        at: Index,
        bytes: Vec<u8>,
    },
    Edge {
        at: Index,
        edge: Index,
    },
    Cut {
        from: Index,
        to: Index,
    },
    Repeat {
        from: Index,
        to: Index,
        times: usize,
    },
    /// A word of another entry takes a word's place.
    Word {
        at: Index,
        other: Index,
        from: Index,
    },
    /// The end of another entry, in place of the end.
    Cross {
        at: Index,
        other: Index,
        from: Index,
    },
}

fn change() -> impl Strategy<Value = Change> {
    let at = any::<Index>;
    prop_oneof![
        2 => (at(), 0_u8..8).prop_map(|(at, bit)| Change::Flip { at, bit }),
        2 => (at(), any::<u8>()).prop_map(|(at, byte)| Change::Put { at, byte }),
        1 => (at(), vec(any::<u8>(), 1..8)).prop_map(|(at, bytes)| Change::Insert { at, bytes }),
        3 => (at(), at()).prop_map(|(at, edge)| Change::Edge { at, edge }),
        2 => (at(), at()).prop_map(|(from, to)| Change::Cut { from, to }),
        2 => (at(), at(), prop_oneof![4 => 1_usize..4, 1 => 100_usize..2_000])
            .prop_map(|(from, to, times)| Change::Repeat { from, to, times }),
        4 => (at(), at(), at()).prop_map(|(at, other, from)| Change::Word { at, other, from }),
        1 => (at(), at(), at()).prop_map(|(at, other, from)| Change::Cross { at, other, from }),
    ]
}

/// Entries of this corpus, changed. An empty corpus has one entry without bytes.
pub fn mutated(corpus: Vec<Vec<u8>>) -> impl Strategy<Value = Input> {
    let corpus: Arc<Vec<_>> = Arc::new(if corpus.is_empty() { vec![vec![]] } else { corpus });
    (any::<Index>(), vec(change(), 0..=MOST_CHANGES)).prop_map(move |(entry, changes)| {
        let mut bytes = entry.get(&corpus).clone();
        for change in &changes {
            apply(change, &mut bytes, &corpus);
            bytes.truncate(MOST_BYTES);
        }
        Input(bytes)
    })
}

fn apply(change: &Change, bytes: &mut Vec<u8>, corpus: &[Vec<u8>]) {
    let length = bytes.len();
    let place = |at: &Index| at.index(length + 1);
    let range = |from: &Index, to: &Index| {
        let (from, to) = (place(from), place(to));
        from.min(to)..from.max(to)
    };
    match change {
        Change::Flip { at, bit } => {
            if let Some(byte) = bytes.get_mut(place(at)) {
                *byte ^= 1 << bit;
            }
        }
        Change::Put { at, byte: put } => {
            if let Some(byte) = bytes.get_mut(place(at)) {
                *byte = *put;
            }
        }
        Change::Insert { at, bytes: inserted } => {
            let at = place(at);
            bytes.splice(at..at, inserted.iter().copied());
        }
        Change::Edge { at, edge } => {
            let range = word(bytes, place(at));
            bytes.splice(range, edge.get(&EDGES).bytes());
        }
        Change::Cut { from, to } => drop(bytes.drain(range(from, to))),
        Change::Repeat { from, to, times } => {
            let range = range(from, to);
            let most = MOST_BYTES / range.len().max(1);
            let repeated = bytes.get(range.clone()).unwrap_or_default().repeat((*times).min(most));
            bytes.splice(range.end..range.end, repeated);
        }
        Change::Word { at, other, from } => {
            let range = word(bytes, place(at));
            let other = other.get(corpus);
            let taken = word(other, from.index(other.len() + 1));
            bytes.splice(range, other.get(taken).unwrap_or_default().iter().copied());
        }
        Change::Cross { at, other, from } => {
            bytes.truncate(place(at));
            let other = other.get(corpus);
            bytes.extend(other.get(from.index(other.len() + 1)..).unwrap_or_default());
        }
    }
}

/// The letters and digits around a place, or the one byte there that is neither.
fn word(bytes: &[u8], at: usize) -> std::ops::Range<usize> {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let (before, behind) = bytes.split_at(at.min(bytes.len()));
    let from = before.len() - before.iter().rev().take_while(|byte| is_part(byte)).count();
    let to = before.len() + behind.iter().take_while(|byte| is_part(byte)).count();
    if from < to { from..to } else { from..(from + 1).min(bytes.len()) }
}
