//! JSON-RPC as MCP uses it: what is sent, and what a received message means to whoever waits for one answer.

use json_schema::{MemoryBudget, ReadError};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::error::McpError;
use crate::progress::Reports;

/// The version of the protocol that is offered, and those that are spoken.
pub(crate) const VERSION: &str = "2025-11-25";
pub(crate) const VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// Most bytes of one message: an answer of a MiB, escaped.
pub(crate) const MOST_BYTES: usize = 2 << 20;

/// Most messages that are read before the answer to one request, beside reports that it asked for.
const MOST_MESSAGES: u32 = 1_000;

/// Most bytes of these together.
const MOST_BYTES_TOGETHER: usize = 8 << 20;

/// How often a server is told that it does not get what it asks for, before it is given up.
const MOST_REFUSALS: u32 = 4;

/// A message, with its parts as they were written: most of what a server may send is not for whoever waits,
/// and is not made into values.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default, deserialize_with = "as_written")]
    method: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "as_written")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "as_written")]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "as_written")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "as_written")]
    error: Option<&'a RawValue>,
}

/// A part that is there, `null` included.
fn as_written<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// Makes values of a part, within the memory of one message. They are dropped before anything else is waited
/// for, so there are those of one message on each thread that serves. Servers in JavaScript and Python escape
/// half a surrogate pair where they cut a text within a character.
fn value_of(part: &RawValue) -> Result<Value, McpError> {
    MemoryBudget::default().read_loosely(part.get().as_bytes()).map_err(|error| match error {
        ReadError::Json(error) => not_json(&error),
        ReadError::TooLarge { .. } => McpError::TooMuch(error.to_string()),
    })
}

fn not_json(error: &serde_json::Error) -> McpError {
    McpError::protocol(format!("a message is not JSON: {error}"))
}

/// The wait for the answer to one request.
#[derive(Debug)]
pub(crate) struct Exchange<'a> {
    pub(crate) id: u64,
    /// Where reports on its progress go, if it asked for any.
    reports: Option<Reports<'a>>,
    messages: u32,
    bytes: usize,
    refusals: u32,
    /// Whether the server said that its tools changed.
    pub(crate) tools_changed: bool,
}

/// What a message is to whoever waits.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The result.
    Answer(Value),
    /// The server has to be answered with this before it goes on.
    Reply(String),
    /// Something else.
    GoOn,
}

/// A request. With `asks_for_reports` the server may report on its progress, under the request's number.
pub(crate) fn request(id: u64, method: &str, params: &Value, asks_for_reports: bool) -> String {
    let mut params = params.clone();
    if let (Some(fields), true) = (params.as_object_mut(), asks_for_reports) {
        fields.insert("_meta".to_owned(), json!({ "progressToken": id }));
    }
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
}

/// A notification without parameters.
pub(crate) fn notification(method: &str) -> String {
    json!({ "jsonrpc": "2.0", "method": method }).to_string()
}

/// Tells a server that nobody waits any more for the answer to a request.
pub(crate) fn cancelled(id: u64) -> String {
    let params = json!({ "requestId": id, "reason": "the call was given up" });
    json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }).to_string()
}

/// What a client says of itself first. It can do nothing for a server, and says so.
pub(crate) fn initialize() -> Value {
    json!({
        "protocolVersion": VERSION,
        "capabilities": {},
        "clientInfo": { "name": "agent-host", "version": env!("CARGO_PKG_VERSION") },
    })
}

impl<'a> Exchange<'a> {
    pub(crate) fn new(id: u64, reports: Option<Reports<'a>>) -> Self {
        Self { id, reports, messages: 0, bytes: 0, refusals: 0, tools_changed: false }
    }

    pub(crate) fn take_in(&mut self, bytes: &[u8]) -> Result<Next, McpError> {
        self.messages += 1;
        self.bytes = self.bytes.saturating_add(bytes.len());
        if self.messages > MOST_MESSAGES || self.bytes > MOST_BYTES_TOGETHER {
            return Err(McpError::TooMuch(format!("{} messages before its answer", self.messages)));
        }
        let message: Envelope<'_> = serde_json::from_slice(bytes).map_err(|error| not_json(&error))?;
        let method: Option<String> = message.method.and_then(|it| serde_json::from_str(it.get()).ok());
        let id = message.id.map(value_of).transpose()?;
        match (method.as_deref(), id) {
            (Some(method), Some(id)) if id.is_string() || id.is_number() => self.answer_request(method, &id),
            (Some("notifications/tools/list_changed"), _) => {
                self.tools_changed = true;
                Ok(Next::GoOn)
            }
            (Some("notifications/progress"), _) => {
                if let (Some(reports), Some(params)) = (&self.reports, message.params) {
                    reports.hand_on(self.id, &value_of(params)?);
                    // Whoever asks for reports gets as many as there are: their bytes bound them.
                    self.messages -= 1;
                }
                Ok(Next::GoOn)
            }
            (Some(_), _) => Ok(Next::GoOn),
            (None, Some(id)) if id.as_u64() == Some(self.id) => answer(&message),
            // Of a request that was given up, or of nobody's.
            (None, Some(_)) => Ok(Next::GoOn),
            (None, None) => Err(McpError::protocol("a message is neither a request nor an answer")),
        }
    }

    /// A server may ask whether somebody is there, and nothing else.
    fn answer_request(&mut self, method: &str, id: &Value) -> Result<Next, McpError> {
        if method == "ping" {
            return Ok(Next::Reply(json!({ "jsonrpc": "2.0", "id": id, "result": {} }).to_string()));
        }
        self.refusals += 1;
        let known = ["sampling/createMessage", "elicitation/create", "roots/list"];
        let asked = known.into_iter().find(|known| *known == method).unwrap_or("something else");
        if self.refusals > MOST_REFUSALS {
            return Err(McpError::Asks(asked));
        }
        tracing::debug!(asked, "an MCP server asks for what it does not get");
        let error = json!({ "code": -32601, "message": "this client does nothing for servers" });
        Ok(Next::Reply(json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string()))
    }
}

fn answer(message: &Envelope<'_>) -> Result<Next, McpError> {
    // Some servers write the one of both that is not there as null.
    if let Some(error) = message.error.filter(|error| error.get() != "null") {
        let error = value_of(error)?;
        let text = error.get("message").and_then(Value::as_str).unwrap_or_default();
        let code = error.get("code").and_then(Value::as_i64).unwrap_or_default();
        return Err(McpError::Refused { code, message: text.to_owned() });
    }
    match message.result.map(value_of).transpose()? {
        Some(result @ Value::Object(_)) => Ok(Next::Answer(result)),
        _ => Err(McpError::protocol("an answer has no result")),
    }
}

#[cfg(test)]
mod tests {
    use agent_core::testing::TestProgress;

    use super::*;
    use tool_egress::Scanner;

    fn taken(exchange: &mut Exchange<'_>, message: &Value) -> Result<Next, McpError> {
        exchange.take_in(message.to_string().as_bytes())
    }

    #[test]
    fn the_answer_is_found_among_what_else_is_said() {
        let mut exchange = Exchange::new(7, None);
        for other in [
            json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "data": "hello" } }),
            json!({ "jsonrpc": "2.0", "id": 6, "result": {} }),
            json!({ "jsonrpc": "2.0", "id": "7", "result": {} }),
        ] {
            assert_eq!(taken(&mut exchange, &other), Ok(Next::GoOn), "{other}");
        }
        assert!(!exchange.tools_changed);
        let changed = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
        assert_eq!(taken(&mut exchange, &changed), Ok(Next::GoOn));
        assert!(exchange.tools_changed);
        let answer = json!({ "jsonrpc": "2.0", "id": 7, "result": { "a": 1 } });
        assert_eq!(taken(&mut exchange, &answer), Ok(Next::Answer(json!({ "a": 1 }))));
        let answer = json!({ "jsonrpc": "2.0", "id": 7, "result": { "a": 1 }, "error": null });
        assert_eq!(taken(&mut exchange, &answer), Ok(Next::Answer(json!({ "a": 1 }))));
        let error = json!({ "jsonrpc": "2.0", "id": 7, "error": { "code": -32602, "message": "no\u{1b}" } });
        let refused = McpError::Refused { code: -32602, message: "no\u{1b}".into() };
        assert_eq!(taken(&mut exchange, &error), Err(refused));
    }

    #[test]
    fn a_text_that_was_cut_within_a_character_is_no_reason_to_refuse_an_answer() {
        let answer = br#"{"jsonrpc":"2.0","id":1,"result":{"a":"cut \ud83d"}}"#;
        let taken = Exchange::new(1, None).take_in(answer);
        assert_eq!(taken, Ok(Next::Answer(json!({ "a": "cut \u{fffd}" }))));
    }

    #[test]
    fn whatever_a_server_asks_for_is_refused_and_not_for_ever() {
        let mut exchange = Exchange::new(1, None);
        let ping = json!({ "jsonrpc": "2.0", "id": "p", "method": "ping" });
        let Ok(Next::Reply(pong)) = taken(&mut exchange, &ping) else { panic!("a ping is answered") };
        let pong: Value = serde_json::from_str(&pong).unwrap();
        assert_eq!(pong, json!({ "jsonrpc": "2.0", "id": "p", "result": {} }));
        for method in ["sampling/createMessage", "elicitation/create", "roots/list", "x"] {
            let asked = json!({ "jsonrpc": "2.0", "id": 9, "method": method, "params": {} });
            let Ok(Next::Reply(refusal)) = taken(&mut exchange, &asked) else { panic!("{method}") };
            let refusal: Value = serde_json::from_str(&refusal).unwrap();
            assert_eq!((&refusal["id"], &refusal["error"]["code"]), (&json!(9), &json!(-32601)), "{method}");
        }
        let asked = json!({ "jsonrpc": "2.0", "id": 9, "method": "sampling/createMessage" });
        assert_eq!(taken(&mut exchange, &asked), Err(McpError::Asks("sampling/createMessage")));
    }

    #[test]
    fn reports_that_were_asked_for_are_bounded_by_their_bytes() {
        let (latest, sink) = TestProgress::shared();
        let scanner = Scanner::new([("key", "abc-12345678")]).unwrap();
        let mut exchange = Exchange::new(1, Some(Reports { sink: &sink, scanner: &scanner }));
        let report = |message: &str| {
            let params = json!({ "progressToken": 1, "progress": 1, "message": message });
            json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params })
        };
        let short = report("a");
        assert!((0..=MOST_MESSAGES).all(|_| matches!(taken(&mut exchange, &short), Ok(Next::GoOn))));
        assert!(latest.take().is_some());
        let long = report(&"a".repeat(MOST_BYTES / 2));
        let ended = (0..=8).map(|_| taken(&mut exchange, &long)).find(Result::is_err);
        assert!(matches!(ended, Some(Err(McpError::TooMuch(_)))), "{ended:?}");
    }

    #[test]
    fn an_answer_whose_values_would_take_too_much_memory_is_refused_and_what_is_not_awaited_is_not_read() {
        let dense = format!("[{}0]", r#"{"":0},"#.repeat(MOST_BYTES / 8));
        let answer = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{dense}}}"#);
        let ended = Exchange::new(1, None).take_in(answer.as_bytes());
        assert!(matches!(ended, Err(McpError::TooMuch(_))), "{ended:?}");
        for other in ["\"id\":2,\"result\"", "\"method\":\"notifications/message\",\"params\""] {
            let message = format!("{{{other}:{dense}}}");
            assert_eq!(Exchange::new(1, None).take_in(message.as_bytes()), Ok(Next::GoOn));
        }
    }

    #[test]
    fn what_is_wrong_with_a_message_repeats_little_of_it_and_no_secret() {
        let scanner = Scanner::new([("key", "abc-12345678")]).unwrap();
        for more in [0, MOST_BYTES / 2] {
            let message = format!("\"abc\\u002d12345678{}\"", "x".repeat(more));
            let error = Exchange::new(1, None).take_in(message.as_bytes()).unwrap_err();
            let text = error.cleaned(&scanner).to_string();
            assert!(text.contains("[secret key]") && !text.contains("abc-"), "{text}");
            assert!(text.len() < 4 << 10, "{} bytes", text.len());
        }
    }

    #[test]
    fn what_is_no_message_or_one_of_too_many_ends_the_wait() {
        for bad in ["", "no", "[]", "{}", "1", r#"{"id":1}"#, r#"{"id":1,"result":5}"#] {
            let ended = Exchange::new(1, None).take_in(bad.as_bytes());
            assert!(matches!(ended, Err(McpError::Protocol(_))), "{bad}: {ended:?}");
        }
        let mut exchange = Exchange::new(1, None);
        let note = json!({ "jsonrpc": "2.0", "method": "notifications/progress" });
        let ended = (0..=MOST_MESSAGES).map(|_| taken(&mut exchange, &note)).find(Result::is_err);
        assert!(matches!(ended, Some(Err(McpError::TooMuch(_)))), "{ended:?}");
    }
}
