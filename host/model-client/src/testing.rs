//! What readers of providers' bytes promise, for `host/fuzz`: functions that panic when it is broken.

use std::sync::LazyLock;
use std::time::Instant;

use agent_core::ports::{ModelRequest, ToolChoice};
use agent_core::words::{Catalog, Finish, ModelReply, ReplyRules, ToolSpec};
use serde_json::json;

use crate::Provider;
use crate::http::provider_error::ProviderError;
use crate::negotiation::correction::{SentParameters, correct};
use crate::protocol::provider_profile::ProviderProfile;
use crate::protocol::streamed_reply::StreamedReply;
use crate::protocol::text_tool_calls::extract_calls;

/// How a reply comes, with its bytes.
#[derive(Debug, Clone, Copy)]
pub enum Sent<'a> {
    Whole(&'a [u8]),
    Streamed(&'a [u8]),
}

static TOOLS: LazyLock<Catalog> = LazyLock::new(|| {
    let parameters =
        json!({"type": "object", "properties": {"a": {"type": "number"}, "text": {"type": "string"}}});
    let spec = ToolSpec {
        name: "add".to_owned(),
        description: "Adds.".to_owned(),
        input_schema: parameters,
        is_repeatable: true,
        ..ToolSpec::default()
    };
    Catalog::new(vec![spec], "sha256:tools".to_owned())
});

static RULES: LazyLock<ReplyRules> = LazyLock::new(ReplyRules::default);

fn request() -> ModelRequest<'static> {
    ModelRequest {
        request_id: "r",
        messages: &[],
        tools: &TOOLS,
        tool_choice: ToolChoice::Auto,
        rules: &RULES,
        max_tokens: 100,
        temperature: 0.0,
        deadline: Instant::now(),
        deltas: None,
    }
}

/// A reply is read alike in pieces of any size, and what it costs is no more than providers can mean.
///
/// # Panics
/// When it is not.
pub fn read_reply(provider: &str, sent: Sent<'_>) {
    let Some(provider) = Provider::with_prefix(provider) else { return assert!(!provider.is_empty()) };
    let protocol = provider.protocol();
    let body = match sent {
        Sent::Whole(body) => Some(body.to_vec()),
        Sent::Streamed(stream) => {
            let read = |size: usize| {
                let mut reply = StreamedReply::new(protocol.assembler());
                let text: String = stream.chunks(size.max(1)).map(|piece| reply.push(piece)).collect();
                (text, reply.into_body().map_err(|unreadable| unreadable.detail))
            };
            let whole = read(stream.len());
            for size in [1, 7] {
                assert_eq!(whole, read(size), "in pieces of {size} it is the same");
            }
            whole.1.ok()
        }
    };
    let Some(body) = body else { return };
    let Ok(mut reply) = protocol.read_reply(&body, &request(), "m") else { return };
    extract_calls(&mut reply, &request());
    let names: Vec<_> = reply.tool_calls.iter().map(|call| &call.id).collect();
    let different: std::collections::BTreeSet<_> = names.iter().collect();
    assert_eq!(names.len(), different.len(), "each call has an id of its own: {names:?}");
}

/// The body of a refusal: a profile is corrected in one direction, so corrections come to an end.
///
/// # Panics
/// When they do not.
pub fn read_error(body: &[u8]) {
    let Some(error) = ProviderError::parse(body) else { return };
    let _ = (error.implied_status(), error.is_content_filter(), error.is_cut_off());
    for first in [ProviderProfile::OPENAI, ProviderProfile::OTHER] {
        let (mut profile, mut corrections) = (first, 0);
        let sent = |profile: ProviderProfile| SentParameters {
            tokens: profile.tokens(4_096),
            forbids_calls: true,
            format: true,
            one_call: true,
            stop: true,
        };
        while let Some(corrected) = correct(profile, &error, sent(profile)) {
            assert_ne!(corrected.profile, profile, "a correction corrects something");
            profile = corrected.profile;
            corrections += 1;
            assert!(corrections < 50, "one refusal is not corrected for ever");
        }
    }
}

/// Calls in a text: none is lost or invented when it is looked at again.
///
/// # Panics
/// When one is.
pub fn read_text(text: &str) {
    let mut reply = ModelReply {
        content: text.to_owned(),
        tool_calls: vec![],
        usage: None,
        finish: Finish::Done,
        model: "m".to_owned(),
    };
    extract_calls(&mut reply, &request());
    assert!(reply.content.len() <= text.len(), "what is left is a part of the text");
    if reply.tool_calls.is_empty() {
        assert_eq!(reply.content, text, "a text without calls stays as it is");
    }
    for call in &reply.tool_calls {
        assert!(TOOLS.get(&call.name).is_some() && call.arguments.is_object(), "{call:?}");
    }
}
