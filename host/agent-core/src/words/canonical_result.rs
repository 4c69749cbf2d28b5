//! The JSON of a result in its canonical form: byte for byte what this program writes for it. The form is
//! recognised in one pass that parses nothing and allocates nothing, so that a kept result can be passed on
//! as bytes.
//!
//! What is accepted is what the result that it parses as is written as, by [`AgentResult`] and in the
//! interface (host/docs/interface/decisions-runs.md#the-result). What is not accepted may still be a result:
//! with its fields in another order, with spaces, with fields that clients are not to read. That has to be
//! parsed and written anew. So a value that somebody else wrote is passed on only where parsing it would make
//! no difference.

use bytes::Bytes;
use json_schema::PRIVATE_NAMES;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Number;

use super::{AgentResult, ToolOutcome, Usage};

/// Deepest nesting of the arguments of a tool call. serde_json reads 128 levels, those around the arguments
/// included; what is deeper than this is left to it.
const MOST_LEVELS: u32 = 64;

/// Longest number that is written: a fraction of 17 digits with sign and exponent.
const LONGEST_NUMBER: usize = 32;

/// The JSON of a completed result that is for everybody, in its canonical form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CanonicalResult(Bytes);

impl CanonicalResult {
    /// Whether these bytes are in the canonical form. They are given back if not.
    pub fn check(json: Bytes) -> Result<Self, Bytes> {
        let is_canonical = std::str::from_utf8(&json).is_ok() && Scanner(&json).result().is_some();
        if is_canonical { Ok(Self(json)) } else { Err(json) }
    }

    /// The object.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The object without its closing brace: a field can be written behind the others.
    pub fn fields(&self) -> &[u8] {
        self.0.strip_suffix(b"}").unwrap_or(&self.0)
    }

    /// The result that it is the JSON of. Does not fail for bytes that were checked.
    pub fn parse(&self) -> serde_json::Result<AgentResult> {
        serde_json::from_slice(&self.0)
    }
}

/// What is left to be read. Each function goes behind what it recognises, or says `None`.
struct Scanner<'a>(&'a [u8]);

impl<'a> Scanner<'a> {
    fn result(&mut self) -> Option<()> {
        self.field(r#"{"id":"#)?;
        self.field(r#","output":"#)?;
        // Nothing else is kept.
        self.literal(r#","stopReason":"completed","messages":"#)?;
        self.list(Self::message)?;
        self.literal(r#","usage":{"inputTokens":"#)?;
        let input_tokens = self.number()?;
        self.literal(r#","outputTokens":"#)?;
        let output_tokens = self.number()?;
        self.literal(r#","totalTokens":"#)?;
        let total: u64 = self.number()?;
        self.literal(r#"},"iterations":"#)?;
        let _iterations: u32 = self.number()?;
        self.field(r#","model":"#)?;
        self.literal(r#","toolCalls":"#)?;
        self.list(Self::receipt)?;
        self.literal("}")?;
        let is_total = Usage::of(input_tokens, output_tokens).total() == total;
        (is_total && self.0.is_empty()).then_some(())
    }

    /// Instructions are no part of what clients read, so they are none of the canonical form.
    fn message(&mut self) -> Option<()> {
        self.literal(r#"{"role":""#)?;
        if self.skips(r#"user","content":"#) {
            self.string()?;
        } else if self.skips(r#"assistant","content":"#) {
            self.string()?;
            // No list is written for no calls.
            if self.skips(r#","toolCalls":"#) && self.list(Self::call)? == 0 {
                return None;
            }
        } else {
            self.field(r#"tool","toolCallId":"#)?;
            self.field(r#","name":"#)?;
            self.field(r#","content":"#)?;
        }
        self.literal("}")
    }

    fn call(&mut self) -> Option<()> {
        self.field(r#"{"id":"#)?;
        self.field(r#","name":"#)?;
        self.literal(r#","arguments":"#)?;
        self.value(MOST_LEVELS)?;
        self.literal("}")
    }

    fn receipt(&mut self) -> Option<()> {
        self.field(r#"{"name":"#)?;
        if self.skips(r#","component":"#) {
            self.string()?;
        }
        self.literal(r#","durationMs":"#)?;
        let _duration: f64 = self.number()?;
        self.literal(r#","outcome":"#)?;
        let before = self.0;
        self.string()?;
        let (quoted, _) = before.split_at_checked(before.len() - self.0.len())?;
        let outcome: ToolOutcome = serde_json::from_slice(quoted).ok()?;
        // Such a result is not for everybody.
        if outcome == ToolOutcome::Interrupted {
            return None;
        }
        self.literal("}")
    }

    /// Any JSON, as serde_json writes a value that it has read.
    fn value(&mut self, levels: u32) -> Option<()> {
        let levels = levels.checked_sub(1)?;
        match self.0.first()? {
            b'"' => self.string().map(drop),
            b'{' => self.object(levels),
            b'[' => self.list(|scanner| scanner.value(levels)).map(drop),
            b't' => self.literal("true"),
            b'f' => self.literal("false"),
            b'n' => self.literal("null"),
            _ => self.number::<Number>().map(drop),
        }
    }

    /// Names are written in their order, each once. The order of those with escapes is not that of their
    /// bytes.
    fn object(&mut self, levels: u32) -> Option<()> {
        self.literal("{")?;
        if self.skips("}") {
            return Some(());
        }
        let mut last = None;
        loop {
            let name = self.string()?;
            if name.contains(&b'\\')
                || name.starts_with(PRIVATE_NAMES.as_bytes())
                || last.is_some_and(|last| last >= name)
            {
                return None;
            }
            last = Some(name);
            self.literal(":")?;
            self.value(levels)?;
            if self.skips("}") {
                return Some(());
            }
            self.literal(",")?;
        }
    }

    /// How many items there are.
    fn list(&mut self, item: impl Fn(&mut Self) -> Option<()>) -> Option<usize> {
        self.literal("[")?;
        if self.skips("]") {
            return Some(0);
        }
        let mut items = 0;
        loop {
            item(self)?;
            items += 1;
            if self.skips("]") {
                return Some(items);
            }
            self.literal(",")?;
        }
    }

    /// A number that is written as it stands there: `1.0` and not `1` or `1e0` where it is a fraction.
    fn number<T: DeserializeOwned + Serialize>(&mut self) -> Option<T> {
        let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
        let length = self.0.iter().take_while(|byte| is_part(byte)).count();
        let (text, rest) = self.0.split_at_checked(length)?;
        let number: T = serde_json::from_slice(text).ok()?;
        let mut written = [0; LONGEST_NUMBER];
        let mut room = &mut written[..];
        serde_json::to_writer(&mut room, &number).ok()?;
        let unused = room.len();
        self.0 = rest;
        (written.get(..LONGEST_NUMBER - unused)? == text).then_some(number)
    }

    /// What stands before a string, and the string.
    fn field(&mut self, before: &str) -> Option<&'a [u8]> {
        self.literal(before)?;
        self.string()
    }

    /// The text between its quotes, as it is written: nothing is escaped that need not be, and the rest in
    /// one way only.
    fn string(&mut self) -> Option<&'a [u8]> {
        self.literal("\"")?;
        let (text, mut length) = (self.0, 0);
        loop {
            length += plain_bytes(text.get(length..)?);
            match text.get(length)? {
                b'"' => break,
                b'\\' => length += escape_bytes(text.get(length..)?)?,
                _ => return None,
            }
        }
        self.0 = text.get(length + 1..)?;
        text.get(..length)
    }

    fn literal(&mut self, expected: &str) -> Option<()> {
        self.0 = self.0.strip_prefix(expected.as_bytes())?;
        Some(())
    }

    fn skips(&mut self, expected: &str) -> bool {
        self.literal(expected).is_some()
    }
}

/// How many bytes stand for themselves before one that does not. Whole chunks are looked at first: those
/// loops have no way out, so the compiler makes vector instructions of them.
fn plain_bytes(text: &[u8]) -> usize {
    const CHUNK: usize = 32;
    let is_special = |byte: &u8| *byte < b' ' || *byte == b'"' || *byte == b'\\';
    let has_special = |chunk: &[u8]| chunk.iter().fold(false, |found, byte| found | is_special(byte));
    let chunks = text.chunks_exact(CHUNK).take_while(|chunk| !has_special(chunk)).count() * CHUNK;
    let rest = text.get(chunks..).unwrap_or_default();
    chunks + rest.iter().take_while(|byte| !is_special(byte)).count()
}

/// The length of an escape as serde_json writes it, with its backslash. Control characters without a letter
/// have four digits.
fn escape_bytes(text: &[u8]) -> Option<usize> {
    match text {
        [b'\\', b'"' | b'\\' | b'b' | b'f' | b'n' | b'r' | b't', ..] => Some(2),
        [b'\\', b'u', b'0', b'0', b'0', b'0'..=b'7' | b'b' | b'e' | b'f', ..]
        | [b'\\', b'u', b'0', b'0', b'1', b'0'..=b'9' | b'a'..=b'f', ..] => Some(6),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::words::{Message, StopReason, ToolCall, ToolReceipt};

    fn check(json: &str) -> bool {
        CanonicalResult::check(Bytes::copy_from_slice(json.as_bytes())).is_ok()
    }

    /// What parsing and writing makes of it.
    fn rewritten(json: &[u8]) -> Option<Vec<u8>> {
        let result: AgentResult = serde_json::from_slice(json).ok()?;
        Some(serde_json::to_vec(&result).unwrap())
    }

    fn written_with(messages: Vec<Message>, tool_calls: Vec<ToolReceipt>) -> String {
        let result = AgentResult {
            output: "3".into(),
            usage: Usage::of(210, 18),
            iterations: 2,
            model: "openai/m".into(),
            tool_calls,
            ..crate::testing::result(messages, StopReason::Completed)
        };
        serde_json::to_string(&result).unwrap()
    }

    fn calling(arguments: Value) -> Message {
        let call = ToolCall { id: "call_1".into(), name: "add".into(), arguments };
        Message::Assistant { content: String::new(), tool_calls: vec![call] }
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".{0,40}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 12, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-zé]{0,3}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    fn any_message() -> impl Strategy<Value = Message> {
        let text = r"[\x00-\x30\\é🦀]{0,9}|.{0,80}";
        prop_oneof![
            text.prop_map(|content| Message::User { content: content.as_str().into() }),
            text.prop_map(|content| Message::Assistant { content, tool_calls: vec![] }),
            text.prop_map(|content| Message::Tool { tool_call_id: "1".into(), name: "n".into(), content }),
            any_value().prop_map(calling),
        ]
    }

    fn any_result() -> impl Strategy<Value = String> {
        let receipt =
            (any::<f64>(), prop::option::of("[a-z@:]{0,9}")).prop_map(|(duration_ms, component)| {
                ToolReceipt { component, duration_ms, ..ToolReceipt::new("add", ToolOutcome::Failed) }
            });
        let lists = (prop::collection::vec(any_message(), 0..5), prop::collection::vec(receipt, 0..3));
        lists.prop_map(|(messages, receipts)| written_with(messages, receipts))
    }

    proptest! {
        #[test]
        fn what_this_program_writes_is_canonical(json in any_result()) {
            prop_assert_eq!(rewritten(json.as_bytes()), Some(json.clone().into_bytes()));
            prop_assert!(check(&json), "{}", json);
        }

        /// Whatever is accepted is what parsing and writing makes of it, however it came about.
        #[test]
        fn what_is_canonical_is_what_it_is_written_as(
            json in any_result(),
            changes in prop::collection::vec((any::<prop::sample::Index>(), 0..3_u8, "[ -~]"), 1..4),
        ) {
            let mut bytes = json.into_bytes();
            for (place, change, with) in changes {
                let (place, with) = (place.index(bytes.len()), with.as_bytes()[0]);
                match change {
                    0 => bytes[place] = with,
                    1 => bytes.insert(place, with),
                    _ => {
                        bytes.remove(place);
                    }
                }
            }
            if let Ok(canonical) = CanonicalResult::check(Bytes::from(bytes)) {
                prop_assert_eq!(rewritten(canonical.as_bytes()), Some(canonical.as_bytes().to_vec()));
            }
        }
    }

    #[test]
    fn a_result_that_would_be_written_otherwise_is_not_canonical() {
        let plain = written_with(vec![Message::User { content: "1+2?".into() }], vec![]);
        let add = ToolReceipt { duration_ms: 0.5, ..ToolReceipt::new("add", ToolOutcome::Ok) };
        let arguments = json!({"a": [1, -1, 0.5], "b": {"c": null}});
        let full = written_with(vec![calling(arguments)], vec![add]);
        assert!(check(&plain) && check(&full), "{plain} {full}");
        for (from, to) in [
            // Read the same way, and written differently.
            (r#"{"id""#, r#"{ "id""#),
            (r#"{"id":"run_1","output":"3""#, r#"{"output":"3","id":"run_1""#),
            (r#""output":"3""#, r#""output":"\u0033""#),
            (r#""output":"3""#, r#""output":"\/""#),
            (r#""output":"3""#, r#""output":"\u000a""#),
            (r#""output":"3""#, r#""output":"\u001F""#),
            (r#""totalTokens":228"#, r#""totalTokens":229"#),
            (r#""toolCalls":[]}"#, r#""toolCalls":[],"cached":false}"#),
            (r#""toolCalls":[]}"#, "\"toolCalls\":[]}\n"),
            (r#""durationMs":0.5"#, r#""durationMs":5e-1"#),
            (r#""durationMs":0.5"#, r#""durationMs":1"#),
            (r#","outcome":"ok"}"#, r#","outcome":"ok","detail":{"cause":"for operators"}}"#),
            (r#"{"name":"add","durationMs""#, r#"{"name":"add","component":null,"durationMs""#),
            (r#""arguments":{"a":"#, r#""arguments":{"z":1,"a":"#),
            (r#""arguments":{"a":"#, r#""arguments":{"a":1,"a":"#),
            (r#""arguments":{"a":"#, r#""arguments":{"\u0061":1,"a":"#),
            ("[1,-1,0.5]", "[1,-0,0.5]"),
            ("[1,-1,0.5]", "[1,-1,18446744073709551616]"),
            (r#"{"c":null}"#, r#"{"$serde_json::private::RawValue":"[ 1 ]"}"#),
            (r#""content":"1+2?""#, r#""content":[{"type":"text","text":"1+2?"}]"#),
            // Not for everybody, or not kept by us.
            (r#""outcome":"ok""#, r#""outcome":"interrupted""#),
            (r#""stopReason":"completed""#, r#""stopReason":"max_tokens""#),
            (r#"{"role":"user""#, r#"{"role":"system""#),
            // Not to be read at all.
            (r#""output":"3""#, "\"output\":\"\u{7}\""),
            (r#""output":"3""#, r#""output":3"#),
            (r#""iterations":2"#, r#""iterations":4294967296"#),
            (r#""iterations":2"#, r#""iterations":02"#),
            (r#""outcome":"ok""#, r#""outcome":"fine""#),
            (r#""toolCalls":[]}"#, r#""toolCalls":[]"#),
            (r#""toolCalls":[]}"#, r#""toolCalls":[,]}"#),
            ("[1,-1,0.5]", "[1,-1,1e999]"),
        ] {
            let changed = [&plain, &full].map(|json| json.replacen(from, to, 1));
            assert!(changed[0] != plain || changed[1] != full, "{from} is nowhere");
            for (changed, before) in changed.iter().zip([&plain, &full]) {
                assert_eq!(check(changed), changed == before, "{changed}");
            }
        }
        let nested = |levels| (0..levels).fold(json!({}), |inner, _| json!({ "a": inner }));
        for (levels, is_canonical) in [(63, true), (64, false), (90, false)] {
            assert_eq!(check(&written_with(vec![calling(nested(levels))], vec![])), is_canonical, "{levels}");
        }
        for place in [0, plain.find('3').unwrap(), plain.len() - 1] {
            let mut no_text = plain.clone().into_bytes();
            no_text[place] = 0xff;
            assert!(CanonicalResult::check(no_text.into()).is_err(), "{place}");
        }
    }
}
