//! Providers that refuse a tool, or the conversation.

use std::sync::Arc;

use agent_core::ports::{Model, ModelError, ModelRequest, ToolChoice};
use agent_core::words::{Catalog, Finish, OutputFormat, ReplyRules, ToolSpec, Usage};
use serde_json::{Value, json};

use crate::call::{anthropic, ask, both, model, openai, request, retrying, scripted};
use crate::provider::{Answer, Request, ScriptedProvider};

const SCHEMA: &str = "JSON schema conversion failed: Unrecognized schema";

fn catalog(description: &str) -> Catalog {
    let tool = |name: &str| ToolSpec {
        name: name.into(),
        description: description.into(),
        input_schema: json!({ "type": "object", "properties": {} }),
        ..ToolSpec::default()
    };
    Catalog::new(["add", "calculate", "json_query", "text_stats"].map(tool).into(), description.into())
}

/// The names of the tools that a request shows.
fn shown(request: &Request) -> Vec<String> {
    let tools = request.body["tools"].as_array().into_iter().flatten();
    let name = |tool: &Value| tool["name"].as_str().or(tool["function"]["name"].as_str()).unwrap().to_owned();
    tools.map(name).collect()
}

#[tokio::test]
async fn a_refusal_that_names_a_tool_costs_that_tool_for_a_while_and_not_the_service() {
    let tools = catalog("d");
    let mended = catalog("mended");
    for (protocol, words) in [
        (openai(), "Invalid schema for function 'json_query': array schema missing items."),
        (anthropic(), "tools.2.custom.input_schema: not supported"),
    ] {
        let refusal = Answer::error(400, words);
        let reply = Answer::reply(protocol, "3");
        let script = [refusal, reply.clone(), reply.clone(), reply];
        let (provider, model) = scripted(protocol, script).await;
        for tools in [&tools, &tools, &mended] {
            assert_eq!(model.complete(ModelRequest { tools, ..request() }).await.unwrap().content, "3");
        }
        assert_eq!(model.refused_tools(), 1);
        let seen: Vec<_> = provider.requests().iter().map(|request| shown(request).len()).collect();
        // Another version of the tool is another try.
        assert_eq!(seen, [4, 3, 3, 4]);
        assert_eq!(shown(&provider.requests()[1]), ["add", "calculate", "text_stats"]);
    }
}

#[tokio::test]
async fn a_refusal_that_names_no_tool_is_narrowed_down_and_what_that_cost_is_counted() {
    let tools = catalog("d");
    for protocol in both() {
        let (refusal, reply) = (Answer::error(400, SCHEMA), Answer::reply(protocol, "3"));
        // All; none; the first half; the third; the others.
        let script = [&refusal, &reply, &reply, &refusal, &reply].map(Clone::clone);
        let (provider, model) = scripted(protocol, script).await;
        let answer = model.complete(ModelRequest { tools: &tools, ..request() }).await.unwrap();
        assert_eq!(answer.usage, Some(Usage::of(9, 12)));
        let requests = provider.requests();
        assert_eq!(shown(&requests[4]), ["add", "calculate", "text_stats"]);
        let limits: Vec<_> = requests.iter().map(|sent| sent.body["max_tokens"].as_u64().unwrap()).collect();
        assert_eq!(limits, [100, 16, 16, 16, 100]);
        assert_eq!(model.refused_tools(), 1);
    }
}

#[tokio::test]
async fn a_tool_that_is_not_shown_is_not_demanded_either() {
    let tools = catalog("d");
    for protocol in both() {
        let (refusal, reply) = (Answer::error(400, SCHEMA), Answer::reply(protocol, "3"));
        // All; none; the first half; the third; the others. Then without the one that is refused.
        let script = [&refusal, &reply, &reply, &refusal, &reply, &reply].map(Clone::clone);
        let (provider, model) = scripted(protocol, script).await;
        for name in ["text_stats", "json_query"] {
            let tool_choice = ToolChoice::Tool(name);
            let request = ModelRequest { tools: &tools, tool_choice, ..request() };
            assert_eq!(model.complete(request).await.unwrap().content, "3");
        }
        let requests = provider.requests();
        let demanded: Vec<_> = requests.iter().map(|sent| sent.body["tool_choice"].is_object()).collect();
        assert_eq!(demanded, [true, false, false, false, true, false]);
        assert_eq!(shown(&requests[5]), ["add", "calculate", "text_stats"]);
    }
}

/// Some providers tell that the few tokens of a probe did not suffice as an error. It is no refusal and no
/// answer.
#[tokio::test]
async fn a_probe_that_is_cut_off_with_an_error_is_not_the_answer() {
    let tools = catalog("d");
    let cut = "Could not finish the message because max_tokens or model output limit was reached.";
    let (refusal, reply) = (Answer::error(400, SCHEMA), Answer::reply(openai(), "3"));
    for cut in [Answer::error(400, cut), failed_call("<function=add")] {
        // All; none; the first half; the third; the others.
        let script = [&refusal, &cut, &cut, &refusal, &reply].map(Clone::clone);
        let (provider, model) = scripted(openai(), script).await;
        let answer = model.complete(ModelRequest { tools: &tools, ..request() }).await.unwrap();
        assert_eq!((answer.content.as_str(), answer.finish), ("3", Finish::Done));
        assert_eq!(shown(&provider.requests()[4]), ["add", "calculate", "text_stats"]);
    }
}

/// A catalog with functions of a caller beside the tools.
fn with_functions(own: &Arc<Catalog>, names: &[String]) -> Catalog {
    let function = |name: &String| Arc::new(ToolSpec { name: name.clone(), ..ToolSpec::default() });
    let tools = own.tools().iter().cloned().chain(names.iter().map(function)).collect();
    Catalog::derived(own, tools, names.concat())
}

/// Callers name their functions, so what was learnt of them would grow with each new name.
#[tokio::test]
async fn a_refused_function_of_a_caller_ends_the_call_by_name_and_is_not_remembered() {
    let own = Arc::new(catalog("d"));
    for protocol in both() {
        for number in 0..3 {
            let name = format!("renamed_{number}");
            let tools = with_functions(&own, std::slice::from_ref(&name));
            let refusal = Answer::error(400, &format!("Invalid schema for function '{name}': no items."));
            let reply = Answer::reply(protocol, "3");
            let (provider, model) = scripted(protocol, [refusal, reply.clone(), reply]).await;
            let error = model.complete(ModelRequest { tools: &tools, ..request() }).await.unwrap_err();
            let ModelError::RefusedFunctions { functions, detail, .. } = &error else { panic!("{error}") };
            assert_eq!(*functions, [name]);
            assert!(detail.contains("no items"), "{detail}");
            assert_eq!(model.refused_tools(), 0);
            // Others are served with all tools.
            model.complete(ModelRequest { tools: &own, ..request() }).await.unwrap();
            let requests = provider.requests();
            assert_eq!(requests.iter().map(|request| shown(request).len()).collect::<Vec<_>>(), [5, 4, 4]);
            // The reply to the request without it is thrown away, so it is short.
            assert_eq!(requests[1].body["max_tokens"], 16);
        }
    }
}

/// A search that gives up takes all tools for refused, which is right for no caller but this one.
#[tokio::test]
async fn functions_without_end_that_are_refused_take_no_tool_from_others() {
    let own = Arc::new(catalog("d"));
    let names: Vec<_> = (0..40).map(|number| format!("bad_{number:02}")).collect();
    let tools = with_functions(&own, &names);
    let refusals = names
        .iter()
        .take(13)
        .map(|name| Answer::error(400, &format!("Invalid schema for function '{name}'")));
    let reply = Answer::reply(openai(), "3");
    let script: Vec<_> = refusals.chain([reply.clone(), reply]).collect();
    let (provider, model) = scripted(openai(), script).await;
    let error = model.complete(ModelRequest { tools: &tools, ..request() }).await.unwrap_err();
    let ModelError::RefusedFunctions { functions, .. } = &error else { panic!("{error}") };
    assert!(functions.contains(&"bad_00".into()) && !functions.contains(&"add".into()), "{error}");
    assert_eq!(model.refused_tools(), 0);
    model.complete(ModelRequest { tools: &own, ..request() }).await.unwrap();
    assert_eq!(shown(provider.requests().last().unwrap()).len(), 4);
}

#[tokio::test]
async fn a_server_that_takes_no_tools_is_asked_without() {
    let tools = catalog("d");
    let refusal = Answer::error(400, "registry.ollama.ai/library/gemma does not support tools");
    let reply = Answer::reply(openai(), "3");
    let (provider, model) = scripted(openai(), [refusal, reply.clone(), reply]).await;
    for _ in 0..2 {
        model.complete(ModelRequest { tools: &tools, ..request() }).await.unwrap();
    }
    assert!(provider.requests()[1..].iter().all(|request| request.body.get("tools").is_none()));
}

#[tokio::test]
async fn a_refusal_that_is_not_about_the_tools_stays_one_and_teaches_nothing() {
    for protocol in both() {
        // The refusal mentions a schema, but without tools the request is refused as well.
        let script = [Answer::error(400, SCHEMA), Answer::error(400, SCHEMA), Answer::reply(protocol, "3")];
        let provider = ScriptedProvider::start(protocol, script).await;
        let model = retrying(protocol, &provider);
        let error = ask(&model).await.unwrap_err();
        assert!(matches!(error, ModelError::Refused { .. }), "{error}");
        ask(&model).await.unwrap();
        assert_eq!(shown(&provider.requests()[2]), ["add"]);
    }
}

#[tokio::test]
async fn a_bound_of_the_moment_is_kept_for_one_request_only() {
    let refusal = Answer::error(400, "max_tokens: only 64 left right now");
    let reply = Answer::reply(openai(), "3");
    let (provider, model) = scripted(openai(), [refusal, reply.clone(), reply]).await;
    ask(&model).await.unwrap();
    ask(&model).await.unwrap();
    let sent: Vec<_> = provider.requests().iter().map(|sent| sent.body["max_tokens"].clone()).collect();
    assert_eq!(sent, [100, 64, 100]);
}

#[tokio::test]
async fn a_filter_or_a_limit_that_is_told_as_an_error_is_a_reply() {
    let filtered =
        r#"{"error":{"message":"The prompt was filtered.","param":"prompt","code":"content_filter"}}"#;
    let cut = "Could not finish the message because max_tokens or model output limit was reached.";
    for (answer, content, finish) in [
        (Answer::text(400, filtered), "The prompt was filtered.", Finish::ContentFilter),
        (Answer::error(400, cut), "", Finish::Length),
    ] {
        let provider = ScriptedProvider::start(openai(), [answer]).await;
        let reply = ask(&model(openai(), &provider)).await.unwrap();
        assert_eq!((reply.content.as_str(), reply.finish), (content, finish));
    }
}

#[tokio::test]
async fn a_call_that_stands_in_the_text_is_made_unless_none_is_wanted() {
    use agent_core::ports::ToolChoice;
    for protocol in both() {
        let said = r#"Well. <tool_call>{"name":"add","arguments":{"a":1}}</tool_call>"#;
        let script = vec![Answer::reply(protocol, said); 2];
        let (_provider, model) = scripted(protocol, script).await;
        let reply = ask(&model).await.unwrap();
        assert_eq!(reply.content, "Well.");
        let [call] = reply.tool_calls.as_slice() else { panic!("{:?}", reply.tool_calls) };
        assert_eq!((call.name.as_str(), &call.arguments), ("add", &json!({ "a": 1 })));
        let last = model.complete(ModelRequest { tool_choice: ToolChoice::None, ..request() }).await.unwrap();
        assert_eq!((last.content.as_str(), last.tool_calls), (said, vec![]));
    }
}

/// Groq's refusal of what its model wrote.
fn failed_call(wrote: &str) -> Answer {
    let message = "Failed to call a function. Please adjust your prompt. See 'failed_generation'.";
    let error = json!({"message": message, "type": "invalid_request_error", "code": "tool_use_failed",
                       "failed_generation": wrote});
    Answer::text(400, &json!({ "error": error }).to_string())
}

#[tokio::test]
async fn a_call_that_a_provider_could_not_read_is_made_if_it_can_be_read_here() {
    for wrote in [r#"<function=add{"a": 1}</function>"#, r#"{"name": "add", "arguments": {"a": 1}}"#] {
        let (provider, model) = scripted(openai(), [failed_call(wrote)]).await;
        let reply = ask(&model).await.unwrap();
        let [call] = reply.tool_calls.as_slice() else { panic!("{:?}", reply.tool_calls) };
        assert_eq!((call.name.as_str(), &call.arguments), ("add", &json!({ "a": 1 })));
        assert_eq!((reply.content.as_str(), provider.requests().len()), ("", 1));
    }
}

#[tokio::test]
async fn a_model_whose_call_nobody_can_read_is_asked_twice_more_and_its_tools_stay() {
    let failed = failed_call("<function=add");
    let reply = Answer::reply(openai(), "3");
    let script = [&failed, &failed, &reply, &failed, &failed, &failed].map(Clone::clone);
    let (provider, model) = scripted(openai(), script).await;
    assert_eq!(ask(&model).await.unwrap().content, "3");
    let error = ask(&model).await.unwrap_err();
    assert!(matches!(error, ModelError::Refused { .. }), "{error}");
    assert_eq!((provider.requests().len(), model.refused_tools()), (6, 0));
}

#[tokio::test]
async fn a_call_that_was_not_allowed_is_a_reply_without_words() {
    let (_provider, model) = scripted(openai(), [failed_call(r#"{"name": "add", "arguments": {}}"#)]).await;
    let reply = model.complete(ModelRequest { tool_choice: ToolChoice::None, ..request() }).await.unwrap();
    assert_eq!((reply.content.as_str(), reply.tool_calls, reply.finish), ("", vec![], Finish::Done));
}

#[tokio::test]
async fn a_provider_that_knows_no_formats_is_told_in_words_from_then_on() {
    let output = Some(OutputFormat { name: "sum".into(), schema: Some(json!({"type": "object"})) });
    let rules = ReplyRules { output, ..ReplyRules::default() };
    for (protocol, parameter, words) in [
        (openai(), "response_format", "response_format is not supported by this model"),
        (anthropic(), "output_config", "output_config: Extra inputs are not permitted"),
    ] {
        let reply = Answer::reply(protocol, "```json\n{\"sum\": 3}\n```");
        let script = [Answer::error(400, words), reply.clone(), reply];
        let (provider, model) = scripted(protocol, script).await;
        for _ in 0..2 {
            let request = ModelRequest { rules: &rules, tool_choice: ToolChoice::None, ..request() };
            assert_eq!(model.complete(request).await.unwrap().content, r#"{"sum": 3}"#);
        }
        let asked: Vec<_> =
            provider.requests().iter().map(|request| request.body[parameter].is_object()).collect();
        assert_eq!(asked, [true, false, false]);
    }
}

#[tokio::test]
async fn a_schema_that_a_provider_refuses_is_put_in_words_for_its_caller_alone() {
    let rules = |name: &str| {
        let output = Some(OutputFormat { name: name.into(), schema: Some(json!({"type": "object"})) });
        ReplyRules { output, ..ReplyRules::default() }
    };
    let words = "Invalid schema for response_format 'odd': 'oneOf' is not permitted.";
    let reply = Answer::reply(openai(), "{}");
    let script = [Answer::error(400, words), reply.clone(), reply];
    let (provider, model) = scripted(openai(), script).await;
    for name in ["odd", "plain"] {
        let rules = rules(name);
        let request = ModelRequest { rules: &rules, tool_choice: ToolChoice::None, ..request() };
        assert_eq!(model.complete(request).await.unwrap().content, "{}");
    }
    let asked: Vec<_> =
        provider.requests().iter().map(|request| request.body["response_format"].is_object()).collect();
    assert_eq!(asked, [true, false, true]);
}

/// OpenAI's newer models reason by default, and take tools in chat completions only while they do not.
#[tokio::test]
async fn a_model_that_takes_no_tools_while_it_reasons_is_told_not_to_when_it_is_shown_any() {
    let words = "Function tools with reasoning_effort are not supported for gpt-5.6-sol in \
                 /v1/chat/completions. To use function tools, use /v1/responses or set reasoning_effort to \
                 'none'.";
    let refusal = json!({"error": {"message": words, "param": "reasoning_effort", "code": null}});
    let reply = Answer::reply(openai(), "3");
    let script = [Answer::text(400, &refusal.to_string()), reply.clone(), reply.clone(), reply];
    let (provider, model) = scripted(openai(), script).await;
    ask(&model).await.unwrap();
    ask(&model).await.unwrap();
    model.complete(ModelRequest { tools: &Catalog::default(), ..request() }).await.unwrap();
    let sent = provider.requests();
    let efforts: Vec<_> = sent.iter().map(|request| request.body["reasoning_effort"].as_str()).collect();
    assert_eq!(efforts, [None, Some("none"), Some("none"), None]);
    assert_eq!(sent.iter().map(|request| shown(request).len()).collect::<Vec<_>>(), [1, 1, 1, 0]);
}

/// Gemini writes errors as a list. Its refusal names a tool, which is no reason to do without it.
#[tokio::test]
async fn a_provider_that_wants_back_what_the_model_thought_costs_no_tool() {
    let words = "Function call is missing a thought_signature in functionCall parts. This is required for \
                 tools to work correctly. Additional data, function call `default_api:add` , position 2.";
    let refusal = json!([{"error": {"code": 400, "message": words, "status": "INVALID_ARGUMENT"}}]);
    let reply = Answer::reply(openai(), "3");
    let script = [Answer::text(400, &refusal.to_string()), reply.clone(), reply];
    let (provider, model) = scripted(openai(), script).await;
    ask(&model).await.unwrap();
    ask(&model).await.unwrap();
    assert_eq!(model.refused_tools(), 0);
    let sent = provider.requests();
    let is_signed = |request: &Request| {
        request.body.pointer("/messages/1/tool_calls/0/extra_content/google/thought_signature").is_some()
    };
    assert_eq!(sent.iter().map(is_signed).collect::<Vec<_>>(), [false, true, true]);
}

/// A gateway may have another model by now, or several providers by turns.
#[tokio::test]
async fn what_was_wanted_of_thoughts_is_left_out_again_where_it_is_refused_and_not_for_ever() {
    for (wanted, refused, place, exchanges) in [
        (
            "Function tools with reasoning_effort are not supported for gpt-5.6.",
            "Unsupported value: 'reasoning_effort' does not support 'none'.",
            "/reasoning_effort",
            10,
        ),
        (
            "Missing `reasoning_content` field in the assistant message at index 1.",
            "property 'reasoning_content' is unsupported",
            "/messages/1/reasoning_content",
            7,
        ),
    ] {
        let [wanted, refused] = [wanted, refused].map(|words| Answer::error(400, words));
        let reply = Answer::reply(openai(), "3");
        let script =
            [&wanted, &reply, &refused, &reply, &wanted, &refused, &wanted, &refused, &wanted, &refused];
        let (provider, model) =
            scripted(openai(), script.map(Clone::clone).into_iter().take(exchanges)).await;
        ask(&model).await.unwrap();
        ask(&model).await.unwrap();
        let error = ask(&model).await.unwrap_err();
        assert!(matches!(error, ModelError::Refused { .. }), "{error}");
        let sent = provider.requests();
        let is_there = |request: &Request| request.body.pointer(place).is_some();
        let expected = [false, true, true, false, false, true, false, true, false, true];
        assert_eq!(sent.iter().map(is_there).collect::<Vec<_>>(), expected[..exchanges]);
    }
}

#[tokio::test]
async fn a_demand_for_a_call_that_a_provider_refuses_is_dropped_and_takes_no_tool_from_others() {
    let tools = catalog("d");
    for (protocol, status, words) in [
        (openai(), 400, "The tool_choice parameter does not support being set to required in thinking mode"),
        (openai(), 404, "No endpoints found that support the provided 'tool_choice' value."),
        (anthropic(), 400, "tool_choice: type \"tool\" and \"any\" are not supported for this model."),
    ] {
        for tool_choice in [ToolChoice::Required, ToolChoice::Tool("add")] {
            let script = [Answer::error(status, words), Answer::reply(protocol, "3")];
            let (provider, model) = scripted(protocol, script).await;
            let request = ModelRequest { tools: &tools, tool_choice, ..request() };
            assert_eq!(model.complete(request).await.unwrap().content, "3");
            assert_eq!(model.refused_tools(), 0);
            let sent = provider.requests();
            let demands: Vec<_> = sent.iter().map(|sent| !sent.body["tool_choice"].is_null()).collect();
            assert_eq!(demands, [true, false]);
            assert_eq!(shown(&sent[1]).len(), 4);
        }
    }
}
