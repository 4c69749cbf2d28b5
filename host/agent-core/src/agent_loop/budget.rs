//! How much a model call may cost: the arithmetic of `TOKEN_BUDGET_PER_REQUEST`.
//!
//! Nobody but the provider can count tokens exactly, and only afterwards. So what a call will read is taken
//! from what the provider counted for the previous call, and only the text added since is estimated.

use crate::words::{BYTES_PER_TOKEN, Message, ToolCall, Usage, prompt_tokens};

/// The reply that a run keeps room for, so that it can end in words
/// (host/docs/interface/decisions-runs.md#how-a-run-ends).
const CLOSING_REPLY_TOKENS: u64 = 256;

/// A reply shorter than this can hold no answer, and some providers refuse to be asked for one.
pub(crate) const LEAST_REPLY_TOKENS: u64 = 16;

/// Tokens that providers add around every message.
const TOKENS_PER_MESSAGE: u64 = 4;

/// What an image is taken to cost, whatever its size: about the most that it does, since providers make
/// larger ones smaller. Anthropic counts a token for 750 pixels of at most 1.15 million; OpenAI one for each
/// of at most 1,536 patches, or 85 and 170 for each of at most eight tiles (both guides to vision). Not its
/// base64, of which no model reads a letter.
const TOKENS_PER_IMAGE: u64 = 1_600;

/// The most tokens the next reply may have, or nothing when the call does not fit into the budget.
///
/// `used` are the tokens of all calls so far and `input` those the next call will read.
pub(crate) fn reply_allowance(budget: u64, used: u64, input: u64, wanted: Option<u32>) -> Option<u32> {
    let room = budget.checked_sub(used)?.checked_sub(input)?;
    if room < LEAST_REPLY_TOKENS {
        return None;
    }
    let room = u32::try_from(room).unwrap_or(u32::MAX);
    Some(wanted.map_or(room, |wanted| wanted.min(room)))
}

/// Whether a call that reads `input` tokens is the last affordable one: after a reply of 256 tokens the next
/// call, which reads both again, has no room for another 256
/// (host/docs/interface/decisions-runs.md#how-a-run-ends).
pub(crate) fn is_last(budget: u64, used: u64, input: u64) -> bool {
    let this_call = input.saturating_add(CLOSING_REPLY_TOKENS);
    let next_call = this_call.saturating_add(CLOSING_REPLY_TOKENS);
    used.saturating_add(this_call).saturating_add(next_call) > budget
}

/// How many tokens the question may have beside the largest catalog: two or three sentences.
const QUESTION_TOKENS: u64 = 128;

/// Most tokens the tools may add to every model call: half of the budget less what the question and the
/// closing replies need.
///
/// With exactly half of it the first call would always be the last affordable one, which is made without
/// tools: that call and the next one both read the catalog, and each keeps room for a closing reply. So
/// nobody could ever call a tool, and to refuse the tools that do not fit by name is better than to offer all
/// of them in vain.
pub fn most_catalog_tokens(budget: u64) -> u64 {
    (budget.saturating_sub(3 * CLOSING_REPLY_TOKENS) / 2).saturating_sub(QUESTION_TOKENS)
}

/// The least that a run needs whose first call reads `input` tokens: that call, with a reply in words.
pub(crate) fn least_of_run(input: u64) -> u64 {
    input.saturating_add(CLOSING_REPLY_TOKENS)
}

/// The least with which such a run may call a tool before it ends in words: its first call is not
/// [the last](is_last).
pub(crate) fn with_one_tool_call(input: u64) -> u64 {
    input.saturating_mul(2).saturating_add(3 * CLOSING_REPLY_TOKENS)
}

/// The least that a run keeps beside what its next call reads already: for the answer of a child, and for
/// words of its own.
pub(crate) fn least_of_parent() -> u64 {
    2 * CLOSING_REPLY_TOKENS
}

/// How many tokens tool answers may still have when the next call reads `input` tokens without them.
pub(crate) fn answer_room(budget: u64, used: u64, input: u64) -> u64 {
    budget.saturating_sub(used).saturating_sub(input).saturating_sub(CLOSING_REPLY_TOKENS)
}

/// About how many tokens a model reads of a tool's answer.
pub(crate) fn estimate_answer(name: &str, content: &str) -> u64 {
    TOKENS_PER_MESSAGE + ((name.len() + content.len()) as u64).div_ceil(BYTES_PER_TOKEN)
}

/// About how many tokens the first call reads: the tools and the caller's text.
pub(crate) fn estimate_first_input(tool_bytes: u64, messages: &[Message]) -> u64 {
    prompt_tokens(tool_bytes) + estimate_messages(messages)
}

/// About how many tokens the next call reads: what the last one read and wrote, and what came after it.
pub(crate) fn estimate_next_input(last: Usage, since: &[Message]) -> u64 {
    last.total().saturating_add(estimate_messages(since))
}

/// What a reply is taken to have used when the provider does not say.
pub(crate) fn estimate_usage(input_tokens: u64, reply: &Message) -> Usage {
    Usage::of(input_tokens, estimate_messages(std::slice::from_ref(reply)))
}

pub(crate) fn estimate_messages(messages: &[Message]) -> u64 {
    let tokens = |message: &Message| {
        let texts = bytes_of(message).div_ceil(BYTES_PER_TOKEN);
        TOKENS_PER_MESSAGE + texts + TOKENS_PER_IMAGE * message.images() as u64
    };
    messages.iter().map(tokens).sum()
}

fn bytes_of(message: &Message) -> u64 {
    let bytes = match message {
        Message::System { content } => content.len(),
        Message::User { content } => content.texts().map(str::len).sum(),
        Message::Assistant { content, tool_calls } => {
            content.len() + tool_calls.iter().map(bytes_of_call).sum::<usize>()
        }
        Message::Tool { name, content, .. } => name.len() + content.len(),
    };
    bytes as u64
}

fn bytes_of_call(call: &ToolCall) -> usize {
    call.id.len() + call.name.len() + call.arguments.to_string().len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::{ContentPart, Image, UserContent};

    #[test]
    fn a_reply_gets_what_the_budget_leaves() {
        let cases = [
            // budget, used, input, wanted => allowance
            (10_000, 0, 1_000, None, Some(9_000)),
            (10_000, 0, 1_000, Some(500), Some(500)),
            (10_000, 9_000, 500, Some(5_000), Some(500)),
            (10_000, 9_000, 984, None, Some(16)),
            (10_000, 9_000, 985, None, None),
            (10_000, 9_000, 2_000, None, None),
            (10_000, 12_000, 0, None, None),
            (u64::MAX, 0, 0, None, Some(u32::MAX)),
        ];
        for (budget, used, input, wanted, expected) in cases {
            let got = reply_allowance(budget, used, input, wanted);
            assert_eq!(got, expected, "budget {budget}, used {used}, input {input}, wanted {wanted:?}");
        }
    }

    #[test]
    fn a_call_is_the_last_when_another_one_would_have_no_room_for_words() {
        let cases = [
            // budget, used, input => last
            // 1,000 + 256, and 1,256 + 256 again.
            (2_768, 0, 1_000, false),
            (2_767, 0, 1_000, true),
            (10_000, 7_232, 1_000, false),
            (10_000, 7_233, 1_000, true),
            (10_000, 20_000, 1_000, true),
            (u64::MAX, 0, u64::MAX / 4, false),
            (u64::MAX - 1, 0, u64::MAX, true),
        ];
        for (budget, used, input, expected) in cases {
            assert_eq!(is_last(budget, used, input), expected, "budget {budget}, used {used}, input {input}");
        }
    }

    #[test]
    fn beside_the_largest_catalog_an_ordinary_question_is_not_the_last_call() {
        let cases =
            [(10_000, 4_488), (2_000, 488), (1_024, 0), (1_000, 0), (0, 0), (u64::MAX, u64::MAX / 2 - 512)];
        for (budget, expected) in cases {
            assert_eq!(most_catalog_tokens(budget), expected, "budget {budget}");
        }
        for budget in [1_024, 2_000, 10_000, 1_000_000] {
            let input = most_catalog_tokens(budget) + QUESTION_TOKENS;
            assert!(!is_last(budget, 0, input) && is_last(budget, 0, input + 1), "budget {budget}");
        }
    }

    #[test]
    fn answers_get_what_the_closing_reply_leaves() {
        assert_eq!(answer_room(10_000, 2_000, 3_000), 4_744);
        assert_eq!(answer_room(10_000, 2_000, 8_000), 0);
        assert_eq!(answer_room(10_000, 20_000, 1), 0);
        assert_eq!(estimate_answer("add", "{}"), 6);
    }

    #[test]
    fn an_image_costs_the_same_however_long_its_base64_is() {
        let tokens = |data: &str| {
            let image = Image::new(&format!("data:image/png;base64,{data}"), None).unwrap();
            let text = ContentPart::Text { text: "x".repeat(30) };
            let parts = vec![text, ContentPart::Image(image.clone()), ContentPart::Image(image)];
            estimate_messages(&[Message::User { content: UserContent::of_parts(parts) }])
        };
        assert_eq!([tokens("AAAA"), tokens(&"A".repeat(400_000))], [3_214, 3_214]);
    }

    #[test]
    fn estimates_grow_with_text_and_never_overflow() {
        let text = |n: usize| [Message::User { content: "x".repeat(n).into() }];
        assert_eq!(estimate_first_input(0, &text(0)), 4);
        assert_eq!(estimate_first_input(300, &text(30)), 114);
        let last = Usage::of(u64::MAX, 1);
        assert_eq!(estimate_next_input(last, &text(3)), u64::MAX);
    }
}
