//! What is promised of a state that a client brings back and of what its user has answered, for `host/fuzz`.

use std::time::Duration;

use agent_core::words::{Principal, Verdict};
use rmcp::model::CallToolRequestParams;
use serde_json::{Value, json};

use crate::forms;
use crate::request_state::{RequestStates, ShownWait};

/// A state that was put together of a sealed one and something else is opened only if it is the sealed one,
/// and by nobody but its caller.
///
/// # Panics
/// When it is, or when an answer is read as another one than its JSON says.
pub fn open_state(text: &str) {
    let response = json!({ "action": "accept", "content": { "answer": text } });
    if let Ok(verdict) = forms::verdict(&forms::question(Some(json!({}))), &response) {
        let expected = text.parse::<Value>().ok().map(|answer| Verdict::Answer { answer });
        assert_eq!(verdict, expected, "what is no JSON is no answer");
    }

    let states = RequestStates::new([7; 32]);
    let (caller, other) = (Principal::user("u1"), Principal::user("u2"));
    let call = CallToolRequestParams::new("pay");
    let shown = ShownWait { wait: "wait_1".to_owned(), digest: "sha256:1".to_owned() };
    let sealed = states.seal(&caller, &call, &shown, Duration::from_mins(1));
    assert_eq!(states.open(&caller, &call, &sealed), Some(shown), "what was sealed is opened");
    assert_eq!(states.open(&other, &call, &sealed), None, "by its caller alone");
    let at = sealed.char_indices().map(|(at, _)| at).nth(text.len() % sealed.len()).unwrap_or_default();
    let (begin, end) = sealed.split_at(at);
    for forged in
        [text.to_owned(), format!("{begin}{text}"), format!("{text}{end}"), format!("{begin}{text}{end}")]
    {
        assert!(forged == sealed || states.open(&caller, &call, &forged).is_none(), "{forged:?}");
    }
}
