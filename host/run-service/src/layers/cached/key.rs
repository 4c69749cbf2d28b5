//! What makes two questions the same.

use agent_core::ports::cache::NAMESPACE;
use agent_core::words::Options;
use sha2::{Digest, Sha256};

/// What answers, as far as it decides what is answered.
#[derive(Debug, Clone)]
pub struct Answerer {
    /// `provider/model` that runs ask.
    pub model: String,
    /// Digest of the deployment's instructions, if there are any ([`Answerer::new`]).
    instructions: Option<String>,
    /// Whether runs have the tools to wait with.
    pub(super) has_wait_tools: bool,
}

impl Answerer {
    /// An answerer that asks `model` under these instructions.
    pub fn new(model: String, instructions: Option<&str>) -> Self {
        let digest = instructions.map(|text| format!("sha256:{:x}", Sha256::digest(text)));
        Self { model, instructions: digest, has_wait_tools: false }
    }

    /// Sets whether runs have the tools to wait with, which their callers may choose like others.
    #[must_use]
    pub fn with_wait_tools(self, has_wait_tools: bool) -> Self {
        Self { has_wait_tools, ..self }
    }
}

/// `agent:` and the hex SHA-256 of everything that an answer depends on
/// (host/docs/interface/decisions-http.md#the-cache). `tools` is the digest of the tools that the run is to
/// have: the caller's, without those that were not chosen.
pub(super) fn of(query: &str, options: &Options, by: &Answerer, tools: &str, grants: &str) -> String {
    let mut hash = Sha256::new();
    let mut part = |bytes: &[u8]| {
        // With its length before it, no part can be read as the end of another.
        hash.update((bytes.len() as u64).to_be_bytes());
        hash.update(bytes);
    };
    part(query.as_bytes());
    // An option that was not given is an empty part, which no given one is.
    part(&options.max_tokens.map_or(vec![], |most| most.to_be_bytes().to_vec()));
    part(&options.temperature.map_or(vec![], |degree| degree.to_be_bytes().to_vec()));
    part(by.model.as_bytes());
    part(tools.as_bytes());
    // Absent for the ungranted, so that the keys of results which are kept already stay what they are.
    if !grants.is_empty() {
        part(grants.as_bytes());
    }
    // Absent for the same reason. Their names stand before them: none is a digest of grants.
    if let Some(instructions) = &by.instructions {
        part(b"instructions");
        part(instructions.as_bytes());
    }
    if !options.history.is_empty() {
        part(b"history");
        // Messages can always be written.
        part(&serde_json::to_vec(&options.history).unwrap_or_default());
    }
    if !options.functions.is_empty() {
        part(b"functions");
        part(&serde_json::to_vec(&options.functions).unwrap_or_default());
    }
    if !options.rules.are_none() {
        part(b"rules");
        part(&serde_json::to_vec(&options.rules).unwrap_or_default());
    }
    format!("{NAMESPACE}{:x}", hash.finalize())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use agent_core::words::{
        ClientFunction, ContentPart, Image, ImageDetail, Message, ReplyRules, UserContent,
    };

    use super::*;

    #[test]
    fn a_key_differs_with_every_part_and_with_nothing_else() {
        let none = &Options::default();
        let options = |max_tokens, temperature| Options { max_tokens, temperature, ..Options::default() };
        let user = |content: &str| Message::User { content: content.into() };
        let said = |content: &str| Message::Assistant { content: content.into(), tool_calls: vec![] };
        let shows = |data: &str, detail| {
            let image = Image::new(&format!("data:image/png;base64,{data}"), detail).unwrap();
            let parts = vec![ContentPart::Text { text: "a".into() }, ContentPart::Image(image)];
            Message::User { content: UserContent::of_parts(parts) }
        };
        let function = ClientFunction {
            name: "f".into(),
            description: String::new(),
            parameters: serde_json::json!({}),
        };
        let with_function = Options { functions: vec![function], ..Options::default() };
        let rules = ReplyRules { one_call: true, ..ReplyRules::default() };
        let with_rules = Options { rules, ..Options::default() };
        let after = |history: &[Message]| Options { history: history.to_vec(), ..Options::default() };
        let questions = [
            ("q", none, "m", "t", ""),
            ("q2", none, "m", "t", ""),
            ("q", &options(Some(100), None), "m", "t", ""),
            ("q", &options(None, Some(0.0)), "m", "t", ""),
            ("q", &options(Some(100), Some(0.0)), "m", "t", ""),
            ("q", &options(Some(100), Some(0.5)), "m", "t", ""),
            ("q", none, "m2", "t", ""),
            ("q", none, "m", "t2", ""),
            // Parts that would be the same if they were only put together.
            ("qm", none, "", "t", ""),
            ("q", none, "mt", "", ""),
            ("", none, "qm", "t", ""),
            ("q", none, "m", "t", "g"),
            ("q", none, "m", "t", "g2"),
            ("q", &after(&[user("a")]), "m", "t", ""),
            ("q", &after(&[said("a")]), "m", "t", ""),
            ("q", &after(&[user("a"), said("b")]), "m", "t", ""),
            ("q", &after(&[user("a"), said("b")]), "m", "t", "g"),
            ("q", &after(&[said("b"), user("a")]), "m", "t", ""),
            ("q", &with_function, "m", "t", ""),
            ("q", &with_rules, "m", "t", ""),
            ("", &after(&[user("a\n[image image/png, 3 bytes]")]), "m", "t", ""),
            ("", &after(&[shows("AAAA", None)]), "m", "t", ""),
            ("", &after(&[shows("AAAB", None)]), "m", "t", ""),
            ("", &after(&[shows("AAAA", Some(ImageDetail::Low))]), "m", "t", ""),
        ];
        let mut keys = HashSet::new();
        for instructions in [None, Some("be kind"), Some("be brief")] {
            let by = |model: &str| Answerer::new(model.into(), instructions);
            keys.extend(questions.iter().map(|(q, o, m, t, g)| of(q, o, &by(m), t, g)));
        }
        assert_eq!(keys.len(), 3 * questions.len());
        let by = &Answerer::new("m".into(), None);
        assert_eq!(of("q", none, by, "t", ""), of("q", none, by, "t", ""));
        let key = of("q", none, by, "t", "");
        // What is kept by older versions is found.
        let after_a = "agent:b475bbdead5ca400828dea0dca3e9b94e759fd4003cd7bd7308e2e340dd1a5cb";
        assert_eq!(key, "agent:f32a8dc8a807963b3babf24852706d85d307115737e33d6c6c551fa576003699");
        assert_eq!(of("q", &after(&[user("a")]), by, "t", ""), after_a);
        let digest = key.strip_prefix("agent:").unwrap();
        assert!(digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()), "{key}");
    }
}
