//! Jobs with options, and responses of OpenAI's clients in the background, over each kind of queue.

use acceptance::{Model, Token, User, eventually};
use serde_json::{Value, json};

use crate::bad_days::stores::Stores;

/// Stores of each kind, on which Node workers do not work.
async fn stores() -> [Stores; 3] {
    let [embedded, redis] = Stores::of_each_queue().await;
    [embedded, redis, Stores::postgres().await]
}

#[tokio::test]
async fn a_job_runs_with_the_options_of_its_request() {
    for stores in stores().await {
        let model = Model::openai().await;
        model.expects_any_tools().says("42");
        let service = stores.service(&model).env("NODE_WORKERS", "off").start().await;
        let user = service.user(Token::of("u"));
        let options = json!({ "maxTokens": 123, "tools": ["calculate"], "history": [
            { "role": "user", "content": "Count in hex." }, { "role": "assistant", "content": "I will." },
        ] });
        let job = json!({ "query": "What is 6 * 7?", "options": options });
        let submitted = user.post("/api/agent/async", job.to_string()).await;
        assert_eq!(submitted.status, 202, "{submitted}");
        let ended = user.ended_job(submitted.json()["jobId"].as_str().unwrap()).await;
        assert_eq!((&ended["status"], &ended["result"]["output"]), (&json!("completed"), &json!("42")));
        let calls = model.calls();
        assert_eq!((calls.len(), calls[0].max_tokens(), calls[0].tools()), (1, 123, vec!["calculate"]));
        let said = calls[0].body["messages"].as_array().unwrap();
        let said: Vec<_> = said.iter().filter_map(|message| message["content"].as_str()).collect();
        assert_eq!(said[said.len() - 3..], ["Count in hex.", "I will.", "What is 6 * 7?"]);
        let unknown = json!({ "query": "hi", "options": { "tools": ["nope"] } });
        assert_eq!(user.post("/api/agent/async", unknown.to_string()).await.status, 400);
    }
}

/// Reads a response until it has ended.
async fn ended(user: &User, path: &str) -> Value {
    eventually("the response to end", async || {
        let response = user.get(path).await.json();
        let is_open = response["status"] == "queued" || response["status"] == "in_progress";
        (!is_open).then_some(response)
    })
    .await
}

/// The events of a response's stream.
async fn events(user: &User, path: &str) -> Vec<Value> {
    let stream = user.get(path).await;
    assert_eq!(stream.status, 200, "{stream}");
    let data = stream.body.lines().filter_map(|line| line.strip_prefix("data: "));
    data.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).unwrap()).collect()
}

#[tokio::test]
async fn a_response_in_the_background_is_polled_streamed_and_gone_on_from() {
    for stores in stores().await {
        let model = Model::openai().await;
        model
            .asks_for("calculate", json!({ "expression": "6 * 7" }))
            .says("It is 42.")
            .says("Half of it is 21.");
        let builder = stores.service(&model).env("NODE_WORKERS", "off");
        // Looking at a response until it has ended takes many requests.
        let builder = builder.env("RATE_LIMIT_IP", "100000").env("RATE_LIMIT_USER", "100000");
        let service = builder.start().await;
        let user = service.user(Token::of("u"));
        let ask = async |more: Value| {
            let mut body = json!({ "model": "agent", "background": true, "instructions": "Be brief." });
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let answer = user.post("/v1/responses", body.to_string()).await;
            assert_eq!(answer.status, 200, "{answer}");
            answer.json()
        };
        let queued = ask(json!({ "input": "What is 6 * 7?" })).await;
        assert_eq!((&queued["status"], &queued["output"]), (&json!("queued"), &json!([])));
        let path = format!("/v1/responses/{}", queued["id"].as_str().unwrap());
        let done = ended(&user, &path).await;
        assert_eq!(done["status"], "completed", "{done:#}");
        assert_eq!(done.pointer("/output/1/content/0/text"), Some(&json!("It is 42.")), "{done:#}");
        let whole = events(&user, &format!("{path}?stream=true")).await;
        assert_eq!(whole.last().unwrap()["response"]["output"], done["output"]);
        let rest = events(&user, &format!("{path}?stream=true&starting_after=4")).await;
        assert_eq!(rest[..], whole[5..]);

        let second = ask(json!({ "input": "And half of it?", "previous_response_id": done["id"] })).await;
        let path = format!("/v1/responses/{}", second["id"].as_str().unwrap());
        assert_eq!(
            ended(&user, &path).await.pointer("/output/0/content/0/text"),
            Some(&json!("Half of it is 21."))
        );
        let calls = model.calls();
        assert_eq!((calls.len(), calls[2].tool_results().len()), (3, 1), "what was said before is known");

        model.hangs();
        let third = ask(json!({ "input": "And twice of it?" })).await;
        model.was_asked(4).await;
        let path = format!("/v1/responses/{}", third["id"].as_str().unwrap());
        let cancelled = user.post(&format!("{path}/cancel"), "").await;
        assert_eq!((cancelled.status, &cancelled.json()["status"]), (200, &json!("cancelled")));
        assert_eq!(user.get(&path).await.json(), cancelled.json());
    }
}

/// A Node worker would work the query of such a job off without its options.
#[tokio::test]
async fn a_redis_that_node_workers_may_share_has_none_of_them() {
    let model = Model::openai().await;
    let service = Stores::redis().await.service(&model).start().await;
    let user = service.user(Token::of("u"));
    let job = json!({ "query": "hi", "options": { "maxTokens": 100 } });
    let refused = user.post("/api/agent/async", job.to_string()).await;
    assert_eq!(refused.status, 400, "{refused}");
    assert!(refused.body.contains("NODE_WORKERS"), "{refused}");
    let response = json!({ "model": "agent", "input": "hi", "background": true });
    let refused = user.post("/v1/responses", response.to_string()).await;
    assert_eq!(refused.status, 400, "{refused}");
    assert!(refused.body.contains("NODE_WORKERS"), "{refused}");
}
