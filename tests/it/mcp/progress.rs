//! A tool's report comes before its result, also where the report is the last thing that the tool does.

use std::collections::BTreeSet;
use std::process::Stdio;

use acceptance::{Component, Service, within};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

const CALLS: u64 = 104;

/// How many are made at the same time.
const AT_ONCE: u64 = 8;

/// A call of a tool whose one report is the last thing it does. Its token is its id.
fn call(id: u64) -> Value {
    json!({
        "jsonrpc": "2.0", "id": id, "method": "tools/call",
        "params": { "name": "look_around", "arguments": {}, "_meta": { "progressToken": id } },
    })
}

/// Notes what a message is of. Panics at a result that came without its report.
fn note(message: &Value, reported: &mut BTreeSet<u64>, ended: &mut BTreeSet<u64>) {
    if message["method"] == "notifications/progress" {
        let token = message["params"]["progressToken"].as_u64().unwrap();
        assert!(!ended.contains(&token), "after its result: {message}");
        reported.insert(token);
    } else if let Some(id) = message["id"].as_u64() {
        assert_eq!(message["result"]["isError"], false, "{message}");
        assert!(reported.contains(&id), "without its report: {message}");
        ended.insert(id);
    }
}

#[tokio::test]
async fn over_standard_output_each_report_comes_before_its_result() {
    let server = Service::command(&["mcp"]).tools([Component::misbehaving("misbehaving")]).for_others();
    let mut child = server.spawn(Stdio::inherit());
    let (mut input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut lines = BufReader::new(output).lines();
    let hello = "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-06-18\",\
                 \"capabilities\":{},\"clientInfo\":{\"name\":\"test\",\"version\":\"0\"}}}\n\
                 {\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n";
    input.write_all(hello.as_bytes()).await.unwrap();
    let welcome = within("its first answer", lines.next_line()).await.unwrap().unwrap();
    assert!(welcome.contains("protocolVersion"), "{welcome}");
    let (mut reported, mut ended) = (BTreeSet::new(), BTreeSet::new());
    for first in (1..=CALLS).step_by(AT_ONCE as usize) {
        let asked: String = (first..first + AT_ONCE).map(|id| format!("{}\n", call(id))).collect();
        input.write_all(asked.as_bytes()).await.unwrap();
        let before = ended.len();
        while ended.len() < before + AT_ONCE as usize {
            let line = within("its next message", lines.next_line()).await.unwrap().unwrap();
            note(&serde_json::from_str(&line).unwrap(), &mut reported, &mut ended);
        }
    }
    assert_eq!((&reported, ended.len() as u64), (&ended, CALLS));
}
