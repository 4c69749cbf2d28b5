//! Conversations with the demo model.

use super::*;
use crate::scripted;

fn tool(name: &str, property: &str, required: bool) -> ToolSpec {
    let required = if required { json!([property]) } else { json!([]) };
    let input_schema = json!({"type": "object", "properties": {property: {}}, "required": required});
    ToolSpec { name: name.into(), input_schema, ..ToolSpec::default() }
}

fn toolbox() -> Catalog {
    let tools = vec![
        tool("calculate", "expression", true),
        tool("current_time", "time_zone", false),
        tool("text_stats", "text", true),
        tool("fetch", "url", true),
    ];
    Catalog::new(tools, "d".into())
}

fn user(text: &str) -> Message {
    Message::User { content: text.into() }
}

async fn reply(messages: &[Message], tools: &Catalog) -> ModelReply {
    let request = ModelRequest { messages, tools, max_tokens: 1000, ..scripted::request() };
    DemoModel.complete(request).await.unwrap()
}

async fn calls(text: &str, tools: &Catalog) -> Vec<(String, Value)> {
    let reply = reply(&[user(text)], tools).await;
    reply.tool_calls.into_iter().map(|call| (call.name, call.arguments)).collect()
}

#[tokio::test]
async fn an_intent_becomes_a_call_and_its_result_the_answer() {
    let asked = reply(&[user("What is 2 + 2?")], &toolbox()).await;
    let call = ToolCall {
        id: "demo_1_0".into(),
        name: "calculate".into(),
        arguments: json!({"expression": "2 + 2"}),
    };
    assert_eq!((asked.content.as_str(), &asked.tool_calls), ("", &vec![call.clone()]));
    assert!(asked.usage.unwrap().input_tokens > 0 && asked.usage.unwrap().output_tokens > 0);
    let messages = [
        user("What is 2 + 2?"),
        Message::Assistant { content: String::new(), tool_calls: vec![call] },
        Message::Tool { tool_call_id: "demo_1_0".into(), name: "calculate".into(), content: "4".into() },
    ];
    let answered = reply(&messages, &toolbox()).await;
    assert_eq!(
        (answered.content.as_str(), answered.tool_calls.len()),
        ("[demo model] calculate returned 4", 0)
    );
    assert_eq!((answered.finish, answered.model.as_str()), (Finish::Done, "demo/rules"));
}

#[tokio::test]
async fn two_intents_are_two_calls() {
    assert_eq!(
        calls("1+1, and the time in Tokyo?", &toolbox()).await,
        [
            ("calculate".into(), json!({"expression": "1+1"})),
            ("current_time".into(), json!({"time_zone": "Asia/Tokyo"})),
        ]
    );
    assert_eq!(calls("What time is it?", &toolbox()).await, [("current_time".into(), json!({}))]);
}

#[tokio::test]
async fn any_tool_is_called_when_the_call_is_written_out() {
    let fetch = ("fetch".to_owned(), json!({"url": "https://example.com", "times": 2}));
    let text = r#"call fetch {"url": "https://example.com", "times": 2}"#;
    assert_eq!(calls(text, &toolbox()).await, [fetch]);
    // What the arguments hold is not read as an intent.
    let time = r#"call fetch {"url": "what time is 1+1"}"#;
    assert_eq!(calls(time, &toolbox()).await.len(), 1);
    assert_eq!(calls("call current_time", &toolbox()).await, [("current_time".into(), json!({}))]);
    for text in ["call me at 2+2", "call calculate for 2+2"] {
        assert_eq!(
            calls(text, &toolbox()).await,
            [("calculate".into(), json!({"expression": "2+2"}))],
            "{text}"
        );
    }
}

#[tokio::test]
async fn a_written_call_that_cannot_be_made_is_answered_with_why() {
    let said = async |text: &str| reply(&[user(text)], &toolbox()).await.content;
    insta::assert_snapshot!(said("call fetch {\"url\": }").await, @"[demo model] What follows call fetch is no JSON object: expected value at line 1 column 9.");
    insta::assert_snapshot!(said("call fetch [1]").await, @"[demo model] What follows call fetch is no JSON object: invalid type: sequence, expected a map at line 1 column 0.");
    insta::assert_snapshot!(said("call fetsch {}").await, @"[demo model] There is no tool fetsch. The tools are: calculate, current_time, fetch and text_stats.");
}

#[tokio::test]
async fn arguments_have_the_names_that_the_tool_gives_them() {
    let renamed =
        |property, required| Catalog::new(vec![tool("current_time", property, required)], "d".into());
    for (property, required, expected) in [
        ("timezone", false, json!({})),
        ("timezone", true, json!({"timezone": "UTC"})),
        ("where", true, json!({"where": "UTC"})),
    ] {
        assert_eq!(calls("time?", &renamed(property, required)).await[0].1, expected);
    }
}

#[tokio::test]
async fn without_the_tool_it_says_what_it_can_do() {
    let none = reply(&[user("2+2")], &Catalog::default()).await.content;
    insta::assert_snapshot!(none, @"[demo model] I am a handful of rules in the place of a language model. None of the tools that my rules know is installed. LLM_MODEL and LLM_API_KEY put a real model in my place.");
    let joke = reply(&[user("Tell me a joke")], &toolbox()).await.content;
    insta::assert_snapshot!(joke, @r#"[demo model] I am a handful of rules in the place of a language model. Ask me for arithmetic ("What is 12 * (3 + 4)?"), the time ("What time is it in Tokyo?") and statistics of a text ("Count the words in: to be or not to be"). I make any call that is written out, arguments as JSON: call fetch {…}. LLM_MODEL and LLM_API_KEY put a real model in my place."#);
    reply(&[], &Catalog::default()).await;
}

#[tokio::test]
async fn it_writes_no_more_than_it_may() {
    let (messages, tools) = ([user("hello")], toolbox());
    let request = ModelRequest { messages: &messages, tools: &tools, max_tokens: 5, ..scripted::request() };
    let reply = DemoModel.complete(request).await.unwrap();
    assert_eq!((reply.content.as_str(), reply.finish), ("[demo model] I am a ", Finish::Length));
    assert_eq!(reply.usage.unwrap().output_tokens, 5);
}
