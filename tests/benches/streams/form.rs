//! How the events of a stream are told apart by the beginnings of their lines: the reader must cost little.

/// What the lines of a stream begin with.
pub(crate) struct Form {
    /// A delta, up to its text.
    pub(crate) delta: &'static [u8],
    /// What a stream has only if it was not cut: the result, or the end of a completion.
    pub(crate) result: &'static [u8],
}

pub(crate) static RUN: Form = Form { delta: br#"data: {"text":""#, result: b"event: run.ended" };

/// Chunks of the provider.
pub(crate) static PROVIDER: Form =
    Form { delta: br#"data: {"choices":[{"index":0,"delta":{"content":""#, result: b"data: [DONE]" };

/// Chunks of the OpenAI front.
pub(crate) static COMPLETION: Form =
    Form { delta: br#"data: {"choices":[{"delta":{"content":""#, result: b"data: [DONE]" };
