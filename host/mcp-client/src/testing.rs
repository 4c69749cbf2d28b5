//! What is promised of what MCP servers send, for `host/fuzz`: functions that panic when it is broken.

use std::collections::BTreeSet;

use agent_core::testing::TestProgress;
use futures::FutureExt as _;
use serde_json::Value;
use tokio::io::Empty;
use tool_egress::Scanner;

use crate::answer::McpAnswer;
use crate::connection::child_output::Output;
use crate::message::{Exchange, Next};
use crate::progress::Reports;
use crate::tool_list::{ToolList, write};

/// The number of the request that is waited for.
const REQUEST: u64 = 1;

fn is_json(text: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

/// Messages until the answer is among them: it is JSON, and so is what the server is answered.
///
/// # Panics
/// When it is not.
pub fn take_in_messages<'a>(messages: impl IntoIterator<Item = &'a [u8]>) {
    let (_, sink) = TestProgress::shared();
    let scanner = Scanner::new([("key", "abc-12345678")]);
    let Ok(scanner) = &scanner else { return assert!(scanner.is_ok(), "the key of these tests is one") };
    let mut exchange = Exchange::new(REQUEST, Some(Reports { sink: &sink, scanner }));
    for message in messages {
        match exchange.take_in(message) {
            Ok(Next::GoOn) => {}
            Ok(Next::Reply(reply)) => assert!(is_json(&reply), "{reply}"),
            Ok(Next::Answer(result)) => {
                if let Ok(McpAnswer::Value(value)) = McpAnswer::read(&result) {
                    assert!(is_json(&value), "the value of an answer is JSON: {value}");
                }
                return;
            }
            Err(error) => return assert!(!error.to_string().is_empty()),
        }
    }
}

/// A list in its canonical form is the same when its tools are listed again, and what is read of it are the
/// tools that are allowed.
///
/// # Panics
/// When it is not.
pub fn list_tools<'a>(listed: &[String], allowed: impl IntoIterator<Item = &'a str>) {
    let allow: BTreeSet<String> = allowed.into_iter().map(str::to_owned).collect();
    let Ok(written) = write(listed, &allow) else { return };
    assert!(ToolList::is_one(&written), "{}", String::from_utf8_lossy(&written));
    let tools = serde_json::from_slice::<Value>(&written).unwrap_or_default();
    let tools = tools.get("tools").and_then(Value::as_array).cloned().unwrap_or_default();
    let again: Vec<_> = tools.iter().map(Value::to_string).collect();
    assert_eq!(write(&again, &allow).as_ref(), Ok(&written), "equal lists have equal texts");
    if let Ok(list) = ToolList::read(&written, "docs", &allow) {
        assert_eq!(list.tools().count(), tools.len(), "every tool that is allowed is read");
        for (name, tool) in list.tools() {
            assert!(list.get(name) == Some(tool) && allow.contains(&tool.name), "{name}");
        }
    }
}

/// Lines of a child process: together they are its output without what is blank between them.
///
/// # Panics
/// When they are not.
pub fn read_output(stdout: &[u8]) {
    let mut output: Output<_, Empty> = Output::new("docs".to_owned(), stdout, None);
    let (scanner, mut lines) = (Scanner::default(), Vec::new());
    // Bytes that are there are read without waiting.
    while let Some(Ok(line)) = output.line(&scanner).now_or_never() {
        assert!(line.ends_with(b"\n") && !line.starts_with(b"\n"), "{:?}", line.escape_ascii().to_string());
        lines.push(line);
    }
    let whole = stdout.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let expected = stdout.get(..whole).unwrap_or_default().split_inclusive(|byte| *byte == b'\n');
    let expected: Vec<_> = expected.map(<[u8]>::trim_ascii_start).filter(|line| !line.is_empty()).collect();
    let is_beginning = expected.iter().zip(&lines).all(|(expected, line)| *expected == line.as_ref());
    assert!(is_beginning && lines.len() <= expected.len(), "{lines:?}");
}
