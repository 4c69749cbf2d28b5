//! Limits of a reply: a provider can write any number, and any number of calls, into a few bytes.

use super::UnreadableReply;

/// The most tool calls of one reply. Models make a handful at once; each becomes an id, a message of the
/// conversation and a call of a tool.
const MOST_CALLS: usize = 128;

/// The most tokens that one reply can have cost, of either kind. The largest contexts are some millions;
/// without a bound the counters that such numbers are added to would overflow.
const MOST_TOKENS: u64 = 10_000_000;

/// Refuses a reply with more than [`MOST_CALLS`] tool calls. Called before the calls are converted, so that a
/// reply full of them costs little.
pub(crate) fn check_calls(count: usize) -> Result<(), UnreadableReply> {
    if count > MOST_CALLS {
        return Err(UnreadableReply::invalid(&format!("it holds more than {MOST_CALLS} tool calls")));
    }
    Ok(())
}

/// A number of tokens as a provider counts them, at most [`MOST_TOKENS`].
pub(crate) fn cap_tokens(counted: u64) -> u64 {
    counted.min(MOST_TOKENS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_too_many_calls_are_refused() {
        assert!(check_calls(0).is_ok() && check_calls(128).is_ok());
        assert_eq!(check_calls(129).unwrap_err().detail, "it holds more than 128 tool calls");
    }

    #[test]
    fn implausible_numbers_of_tokens_are_cut() {
        assert_eq!(
            [0, 10_000_000, 10_000_001, u64::MAX].map(cap_tokens),
            [0, 10_000_000, 10_000_000, 10_000_000]
        );
    }
}
