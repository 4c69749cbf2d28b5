//! `POST /agent/invoke`: that the budget reaches the run, and that many runs at once are each their own. How
//! a run goes on and what ends it is tested in `host/agent-core/src/agent_loop`.

use acceptance::{Model, Service, Task, asks_for, order};
use serde_json::{Value, json};

#[tokio::test]
async fn a_run_whose_budget_allows_for_one_more_call_ends_in_words() {
    let model = Model::openai().await;
    // 3,200 of 8,000 are used, and the next call reads those 3,200 again: a third one would not fit.
    model.plays(asks_for("calculate", json!({ "expression": "1 + 1" })).using(3_000, 200)).says("It is 2.");
    let service = Service::variant_a().model(&model).env("TOKEN_BUDGET_PER_REQUEST", "8000").start().await;
    let result = service.result_of("1 + 1").await;
    assert_eq!((&result["stopReason"], &result["output"]), (&json!("token_budget"), &json!("It is 2.")));
    let calls = model.calls();
    assert_eq!((calls[0].tool_choice(), calls[1].tool_choice()), (None, Some("none")));
    assert_eq!(calls[1].tools(), calls[0].tools());
}

#[tokio::test]
async fn a_hundred_runs_at_once_get_each_their_own_result() {
    let model = Model::obeying().await;
    let service = Service::variant_a().model(&model).start().await;
    let runs = (0..100).map(|n| {
        let caller = service.caller();
        let call = order("calculate", &json!({ "expression": format!("{n} * 7") }));
        (n, Task::begin(async move { caller.result_of(&call).await }))
    });
    for (n, run) in runs.collect::<Vec<_>>() {
        let result = run.ended().await;
        let output: Value = serde_json::from_str(result["output"].as_str().unwrap()).unwrap();
        assert_eq!(output["value"], (n * 7).to_string());
    }
}
