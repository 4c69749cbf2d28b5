//! `cargo xtask bench caching`: the input tokens that a run of ten model calls is billed for, with and
//! without what providers keep of earlier requests. The requests are those of the service; what of them is
//! kept and what that costs is reckoned here by the rules that the two providers publish.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::panic,
    reason = "it prints and fails like a test"
)]

#[path = "../measuring/machine.rs"]
mod machine;
mod reckoning;

use acceptance::{Component, Model, Request, Service, Token, asks_for, says};
use reckoning::{Bill, anthropic, openai};
use serde_json::json;
use tokio::runtime::Runtime;

/// Model calls of a run: nine ask for a tool.
const CALLS: usize = 10;

const TOOLS: [&str; 6] = ["calculator", "text-stats", "unit-convert", "json-query", "csv-query", "regex"];

fn main() {
    let runtime = Runtime::new().unwrap();
    println!("{}", machine::describe());
    println!(
        "| protocol | run | model calls | input tokens | read from the cache | written to it | billed as without: with |"
    );
    println!("|---|---|--:|--:|--:|--:|--:|");
    runtime.block_on(async {
        measure("Anthropic Messages", Model::anthropic().await, anthropic).await;
        measure("OpenAI chat completions", Model::openai().await, openai).await;
    });
}

/// Two runs of one catalog: the second begins with the tools of the first.
async fn measure(protocol: &str, model: Model, reckon: fn(&[Request]) -> Vec<Bill>) {
    model.always(|request| match request.tool_results().len() {
        called if called + 1 < CALLS => {
            asks_for("calculate", json!({ "expression": format!("{called} * 7") }))
        }
        _ => says("done"),
    });
    let service = Service::variant_b().model(&model).tools(TOOLS.map(Component::shipped)).start().await;
    for user in ["ada", "bob"] {
        let user = service.user(Token::of(user).premium());
        let answer =
            user.agent(&format!("What does {} owe, month by month?", "a customer ".repeat(100))).await;
        assert_eq!(answer.status, 200, "{answer}");
    }
    let bills = reckon(&model.calls());
    assert_eq!(bills.len(), 2 * CALLS);
    for (run, bills) in ["first", "second"].into_iter().zip(bills.chunks(CALLS)) {
        let bill = bills.iter().fold(Bill::default(), |sum, bill| sum.plus(bill));
        println!(
            "| {protocol} | {run} | {CALLS} | {:.0} | {:.0} | {:.0} | 1: {:.2} |",
            bill.input,
            bill.read,
            bill.written,
            bill.paid / bill.input
        );
    }
    service.stop().await;
}
