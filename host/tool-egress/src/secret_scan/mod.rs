//! Finds the values of secrets in what passes, and replaces them by a mark: `[secret NAME]`.
//!
//! A [`Scanner`] holds every form of every value (`forms` lists them) in one automaton. Texts and headers are
//! scanned whole; bodies as a [`ScanStream`], which holds back the end of a chunk while it may be the
//! beginning of a value, and small chunks until there are enough of them: what it gives in all is what one
//! chunk would have given, however the body is split.
//!
//! It finds what a server or a guest repeats by accident or through a common encoding. Who transforms a value
//! on purpose is not found; against that, guests are never given values, and requests go to hosts of the
//! policy only.

mod forms;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, AhoCorasickKind, Input, MatchKind};
use bytes::Bytes;

/// Most bytes of all forms of all secrets of one grant. An automaton takes some tens of bytes for each.
const MAX_PATTERN_BYTES: usize = 1024 * 1024;

/// How often a byte of a body is searched at most, beside the first time, however small the chunks are.
const SEARCHES_OF_A_BYTE: usize = 8;

/// Looks for the secrets of one grant.
#[derive(Clone, Default)]
pub struct Scanner(Option<Arc<Automaton>>);

/// The values are too long or too many to look for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the secrets cannot be looked for: their automaton would be too large. Use fewer or shorter secrets")]
pub struct ScanError;

/// Scans a body chunk by chunk.
#[derive(Debug)]
pub(crate) struct ScanStream {
    scanner: Scanner,
    /// The end of what was pushed, while it may be the beginning of a value, and what was pushed since it was
    /// searched.
    held: Vec<u8>,
    searched: usize,
    /// How often each value was found, by the place of its secret in the automaton's names.
    matches: Vec<u64>,
    first: Option<String>,
}

struct Automaton {
    search: AhoCorasick,
    /// For each pattern the place of its secret in `names`.
    owners: Vec<usize>,
    names: Vec<String>,
    /// Bytes of the longest pattern.
    longest: usize,
}

impl Scanner {
    /// Looks for values, given with the names of their secrets.
    pub fn new<'a>(secrets: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, ScanError> {
        let (mut patterns, mut owners, mut names) = (vec![], vec![], vec![]);
        for (name, value) in secrets {
            for form in forms::of(value) {
                patterns.push(form);
                owners.push(names.len());
            }
            names.push(name.to_owned());
        }
        if patterns.is_empty() {
            return Ok(Self(None));
        }
        if patterns.iter().map(Vec::len).sum::<usize>() > MAX_PATTERN_BYTES {
            return Err(ScanError);
        }
        let search = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            // By itself it takes a DFA for few patterns, however long: a hundred megabytes for a long value.
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(&patterns)
            .map_err(|_| ScanError)?;
        let longest = patterns.iter().map(Vec::len).max().unwrap_or_default();
        Ok(Self(Some(Arc::new(Automaton { search, owners, names, longest }))))
    }

    /// Whether there is nothing to look for.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The name of a secret whose value is in it.
    pub fn find(&self, haystack: &[u8]) -> Option<&str> {
        let automaton = self.0.as_ref()?;
        let found = automaton.search.find(haystack)?;
        Some(automaton.name(found.pattern().as_usize()))
    }

    /// The text with marks for values.
    pub fn scan_text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.scan_bytes(text.as_bytes()) {
            (Cow::Borrowed(_), _) => Cow::Borrowed(text),
            // Values are text, so what is left between them is text, too.
            (Cow::Owned(scanned), _) => Cow::Owned(String::from_utf8_lossy(&scanned).into_owned()),
        }
    }

    /// The bytes with marks for values, and how many there were.
    pub fn scan_bytes<'a>(&self, bytes: &'a [u8]) -> (Cow<'a, [u8]>, u64) {
        let (scanned, found) = self.scan_whole(bytes);
        (scanned, found.map_or(0, |stream| stream.matches()))
    }

    /// The bytes with marks for values, and the stream that has found some.
    pub(super) fn scan_whole<'a>(&self, bytes: &'a [u8]) -> (Cow<'a, [u8]>, Option<ScanStream>) {
        if self.find(bytes).is_none() {
            return (Cow::Borrowed(bytes), None);
        }
        let mut stream = self.stream();
        let mut scanned = stream.push(Bytes::copy_from_slice(bytes)).to_vec();
        scanned.extend_from_slice(&stream.finish());
        (Cow::Owned(scanned), Some(stream))
    }

    pub(crate) fn stream(&self) -> ScanStream {
        ScanStream { scanner: self.clone(), held: Vec::new(), searched: 0, matches: Vec::new(), first: None }
    }
}

/// What is looked for.
#[cfg(test)]
pub(super) fn forms_of(value: &str) -> impl IntoIterator<Item = Vec<u8>> {
    forms::of(value)
}

impl ScanStream {
    /// Takes the next chunk, and gives what can be handed on.
    pub(crate) fn push(&mut self, chunk: Bytes) -> Bytes {
        let Some(automaton) = self.scanner.0.clone() else { return chunk };
        let buffer = if self.held.is_empty() {
            chunk
        } else {
            self.held.extend_from_slice(&chunk);
            // What is held is searched again with what follows it, so that waits until it is worth it: a
            // stranger chooses how small chunks are. How long it waits depends on lengths alone, as the rest
            // does.
            if self.held.len() - self.searched < automaton.longest / SEARCHES_OF_A_BYTE {
                return Bytes::new();
            }
            Bytes::from(std::mem::take(&mut self.held))
        };
        let (scanned, kept) = self.scan(&automaton, &buffer, false);
        // A copy: the few bytes must not keep the whole buffer.
        (self.held, self.searched) = (kept.to_vec(), kept.len());
        scanned
    }

    /// Gives what was held back.
    pub(crate) fn finish(&mut self) -> Bytes {
        let held = Bytes::from(std::mem::take(&mut self.held));
        let Some(automaton) = self.scanner.0.clone() else { return held };
        self.scan(&automaton, &held, true).0
    }

    /// How many bytes are held back.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held.len()
    }

    /// How many values were replaced so far.
    pub(crate) fn matches(&self) -> u64 {
        self.matches_beside(&[])
    }

    /// How many values were replaced so far of other secrets than these.
    pub(super) fn matches_beside(&self, used: &[String]) -> u64 {
        let names = self.scanner.0.as_ref().map_or(&[][..], |automaton| &automaton.names);
        let others = names.iter().zip(&self.matches).filter(|(name, _)| !used.contains(name));
        others.fold(0, |sum, (_, times)| sum.saturating_add(*times))
    }

    /// The name of the first secret that was found.
    pub(crate) fn first_match(&self) -> Option<&str> {
        self.first.as_deref()
    }

    /// What is decided, and what is not. A place is undecided if the longest pattern would not end within the
    /// buffer when it began there: then a value may begin there, or a longer one than was found.
    fn scan(&mut self, automaton: &Automaton, buffer: &Bytes, at_end: bool) -> (Bytes, Bytes) {
        let undecided =
            |from: usize| if at_end { buffer.len() } else { automaton.first_undecided(buffer, from) };
        let (mut written, mut position, mut end) = (Vec::new(), 0, undecided(0));
        while let Some(found) = automaton.search.find(Input::new(buffer).range(position..)) {
            if found.start() >= end {
                break;
            }
            let pattern = found.pattern().as_usize();
            let name = automaton.name(pattern);
            written.extend_from_slice(buffer.get(position..found.start()).unwrap_or_default());
            written.extend_from_slice(format!("[secret {name}]").as_bytes());
            self.matches.resize(automaton.names.len(), 0);
            if let Some(times) = automaton.owners.get(pattern).and_then(|owner| self.matches.get_mut(*owner))
            {
                *times = times.saturating_add(1);
            }
            self.first.get_or_insert_with(|| name.to_owned());
            position = found.end();
            if position > end {
                end = undecided(position);
            }
        }
        let kept = buffer.slice(end..);
        if written.is_empty() && position == 0 {
            return (buffer.slice(..end), kept);
        }
        written.extend_from_slice(buffer.get(position..end).unwrap_or_default());
        (Bytes::from(written), kept)
    }
}

impl Automaton {
    fn name(&self, pattern: usize) -> &str {
        self.owners.get(pattern).and_then(|owner| self.names.get(*owner)).map_or("", String::as_str)
    }

    /// The first place, from the given one on, where a pattern could begin that the buffer does not hold
    /// whole. It depends on lengths alone and not on what the bytes are: when a chunk came would else tell a
    /// guest whether it begins like a secret, byte by byte.
    fn first_undecided(&self, buffer: &[u8], from: usize) -> usize {
        from.max(buffer.len().saturating_sub(self.longest.saturating_sub(1))).min(buffer.len())
    }
}

impl fmt::Debug for Scanner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.as_ref().map_or(&[][..], |automaton| &automaton.names);
        f.debug_tuple("Scanner").field(&names).finish()
    }
}
