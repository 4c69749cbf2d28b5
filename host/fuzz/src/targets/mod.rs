//! What is promised of each parser, as functions that panic when it is broken.
//!
//! Parsers that their crates keep to themselves are reached by the `testing` modules of these crates, where
//! the promises stand beside them.

pub(crate) mod components;
pub(crate) mod crates;
pub(crate) mod edge;
pub(crate) mod json;
pub(crate) mod served;
pub(crate) mod socket;

/// The parts of an input between lines that say `====`.
pub(crate) fn parts<const N: usize>(input: &[u8]) -> [&[u8]; N] {
    let mut rest = input;
    std::array::from_fn(|_| {
        let mark = b"\n====\n";
        let at = rest.windows(mark.len()).position(|window| window == mark);
        let (part, behind) = match at {
            Some(at) => (rest.get(..at), rest.get(at + mark.len()..)),
            None => (Some(rest), None),
        };
        rest = behind.unwrap_or_default();
        part.unwrap_or_default()
    })
}
