//! Replies and errors of model providers.

use model_client::testing::{self, Sent};

/// A body of OpenAI, or of a server that imitates it.
pub(crate) fn openai_reply(input: &[u8]) {
    testing::read_reply("openai", Sent::Whole(input));
}

/// A body of Anthropic, or of a server that imitates it.
pub(crate) fn anthropic_reply(input: &[u8]) {
    testing::read_reply("anthropic", Sent::Whole(input));
}

/// A stream of OpenAI, whole and byte by byte.
pub(crate) fn openai_stream(input: &[u8]) {
    testing::read_reply("openai", Sent::Streamed(input));
}

/// A stream of Anthropic, whole and byte by byte.
pub(crate) fn anthropic_stream(input: &[u8]) {
    testing::read_reply("anthropic", Sent::Streamed(input));
}

/// The body of a refusal, and what is done about it.
pub(crate) fn error(input: &[u8]) {
    testing::read_error(input);
}

/// Calls in the text of a reply.
pub(crate) fn text_calls(input: &[u8]) {
    testing::read_text(&String::from_utf8_lossy(input));
}
