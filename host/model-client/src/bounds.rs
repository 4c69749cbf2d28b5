//! What of a reply is believed. A provider can write any number, and any number of calls, into a few bytes.

use crate::provider::Unreadable;

/// The most tool calls of one reply. Models that ask for several things at once ask for a handful; every
/// call here becomes an id, a message of the conversation and a run of a tool.
const MOST_CALLS: usize = 128;

/// The most tokens that one reply can have cost, of either kind. The largest contexts are some millions; a
/// number without bound would overflow the counters that such numbers are added to.
const MOST_TOKENS: u64 = 10_000_000;

/// Refuses a reply with more tool calls than can be meant. To be asked before the calls are converted, so
/// that as many as fit into the largest reply cost little.
pub(crate) fn calls(count: usize) -> Result<(), Unreadable> {
    if count > MOST_CALLS {
        return Err(Unreadable::because(&format!("it holds more than {MOST_CALLS} tool calls")));
    }
    Ok(())
}

/// A number of tokens as a provider counts them, or the most that is plausible.
pub(crate) fn tokens(counted: u64) -> u64 {
    counted.min(MOST_TOKENS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_too_many_calls_are_refused() {
        assert!(calls(0).is_ok() && calls(128).is_ok());
        assert_eq!(calls(129).unwrap_err().detail, "it holds more than 128 tool calls");
    }

    #[test]
    fn implausible_numbers_of_tokens_are_cut() {
        assert_eq!(
            [0, 10_000_000, 10_000_001, u64::MAX].map(tokens),
            [0, 10_000_000, 10_000_000, 10_000_000]
        );
    }
}
