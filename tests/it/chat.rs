//! `agent-host chat`, beside a service that runs.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use acceptance::{Component, Ended, Model, Service, Token, eventually, within};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::process::Child;
use tokio::time::timeout;

/// Talks with a service; `lines` are its standard input.
async fn talk(url: &str, arguments: &[&str], lines: &str) -> Ended {
    let arguments = [&["chat", "--url", url][..], arguments].concat();
    Service::command(&arguments).for_others().run_with(lines).await
}

#[tokio::test]
async fn a_conversation_shows_its_calls_and_takes_along_what_was_said() {
    let model = Model::openai().await;
    model.asks_for("calculate", json!({ "expression": "6 * 7" }));
    model.says("forty two").says("eighty\u{1b}[31m four");
    let service = Service::variant_a().model(&model).start().await;
    let url = format!("http://{}", service.address());
    let talked = talk(&url, &[], "6 * 7?\n\nand twice that?\n").await;
    assert_eq!(talked.code, Some(0), "{talked:?}");
    let shown = talked.stdout.as_str();
    let (call, rest) = shown.split_once("· calculate …\n· calculate: ok in ").expect(shown);
    assert_eq!(call, "");
    assert!(rest.ends_with(" ms\nforty two\neighty\\u{1b}[31m four\n"), "{shown}");
    let asked = model.calls();
    let said: Vec<_> = asked.last().unwrap().body["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| &message["content"])
        .collect();
    assert_eq!(said, [&json!("6 * 7?"), &json!("forty two"), &json!("and twice that?")]);
}

#[tokio::test]
async fn events_are_lines_of_json_and_what_is_refused_is_said() {
    let model = Model::saying("hello").await;
    let service = Service::variant_b().model(&model).start().await;
    let url = format!("http://{}", service.address());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    fs::write(&file, format!("{}\n", Token::of("u1"))).unwrap();
    let token_file = file.to_str().unwrap();
    let talked = talk(&url, &["--token-file", token_file, "--json", "hi"], "").await;
    let events: Vec<Value> = talked.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (first, last) = (events.first().unwrap(), events.last().unwrap());
    assert_eq!((&first["event"], &last["event"]), (&json!("run.started"), &json!("run.ended")));
    assert_eq!(last["data"]["output"], "hello");

    fs::write(&file, "no token").unwrap();
    let talked = talk(&url, &["--token-file", token_file, "hi"], "").await;
    assert_eq!((talked.code, talked.stdout.as_str()), (Some(1), ""));
    assert!(talked.stderr.contains("the service answers 403"), "{talked:?}");
    assert!(!talked.stderr.contains("no token"), "a token is not shown: {talked:?}");
    // Variant A is not served there.
    let talked = talk(&url, &["hi"], "").await;
    assert!(talked.stderr.contains("the service answers 404"), "{talked:?}");
}

fn interrupt(chat: &Child) {
    let id = i32::try_from(chat.id().unwrap()).ok().and_then(Pid::from_raw).unwrap();
    kill_process(id, Signal::INT).unwrap();
}

#[tokio::test]
async fn what_a_run_waits_for_is_said_once_and_an_interrupt_cancels_it() {
    let model = Model::openai().await;
    model.asks_for("calculate", json!({ "expression": "6 * 7" }));
    let calculator = Component::shipped("calculator");
    let builder = Service::variant_b().model(&model);
    let builder = builder.granting([(&calculator, "approve = \"always\"\n")]).without_windows();
    let service = builder.start().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    fs::write(&file, Token::of("u1").to_string()).unwrap();
    let url = format!("http://{}", service.address());
    let chat = ["chat", "--url", &url, "--json", "6 * 7?", "--token-file", file.to_str().unwrap()];
    let chat = Service::command(&chat).for_others();
    let mut chat = chat.spawn(Stdio::inherit());
    drop(chat.stdin.take());
    let mut lines = BufReader::new(chat.stdout.take().unwrap()).lines();
    loop {
        let line = within("an event", lines.next_line()).await.unwrap().expect("the run waits");
        let event: Value = serde_json::from_str(&line).unwrap();
        if event["event"] == "run.waiting" {
            assert_eq!(event["data"]["waits"][0]["tool"], "calculate", "{event:#}");
            break;
        }
    }
    // The stream has ended, and the service wants to be asked again in a minute.
    let again = timeout(Duration::from_secs(2), lines.next_line()).await;
    assert!(again.is_err(), "nothing is said again: {again:?}");
    interrupt(&chat);
    let mut last = Value::Null;
    while let Some(line) = within("the end of the run", lines.next_line()).await.unwrap() {
        last = serde_json::from_str(&line).unwrap();
    }
    assert!(last["event"] == "run.ended" || last["event"] == "run.failed", "{last:#}");
    let user = service.user(Token::of("u1"));
    let is_cancelled = async || user.jobs("").await.json()["data"][0]["status"] == "cancelled";
    eventually("the job to be cancelled", async || is_cancelled().await.then_some(())).await;
}

/// A service that takes the question and says nothing.
#[tokio::test]
async fn an_interrupt_ends_a_chat_whose_question_is_not_answered() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let chat = Service::command(&["chat", "--url", &url]).for_others();
    let mut chat = chat.spawn(Stdio::inherit());
    // As a line, so that the chat has waited for an interrupt before, at the line.
    chat.stdin.as_mut().unwrap().write_all(b"hi\n").await.unwrap();
    let (mut connection, _) = within("a connection", silent.accept()).await.unwrap();
    within("the question", connection.read_u8()).await.unwrap();
    interrupt(&chat);
    let ended = within("the chat to end", chat.wait()).await.unwrap();
    assert_eq!(ended.code(), Some(130));
}
