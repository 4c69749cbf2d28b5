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

use std::io::Write as _;

use acceptance::{Component, Model, Request, Service, Token, asks_for, says};
use reckoning::{Bill, anthropic, openai};
use serde_json::json;
use tokio::runtime::Runtime;

/// Model calls of a run: nine ask for a tool.
const CALLS: usize = 10;

/// Bytes of `AGENT_INSTRUCTIONS`: none, and some pages.
const INSTRUCTIONS: [usize; 2] = [0, 8 << 10];

const TOOLS: [&str; 6] = ["calculator", "text-stats", "unit-convert", "json-query", "csv-query", "regex"];

fn main() {
    let runtime = Runtime::new().unwrap();
    println!("{}", machine::describe());
    println!(
        "| protocol | instructions | run | model calls | input tokens | read from the cache | written to it | billed as without: with |"
    );
    println!("|---|--:|---|--:|--:|--:|--:|--:|");
    runtime.block_on(async {
        for instructions in INSTRUCTIONS {
            measure("Anthropic Messages", Model::anthropic().await, instructions, anthropic).await;
            measure("OpenAI chat completions", Model::openai().await, instructions, openai).await;
        }
    });
}

/// Two runs of one catalog: the second begins with the tools of the first.
async fn measure(protocol: &str, model: Model, instructions: usize, reckon: fn(&[Request]) -> Vec<Bill>) {
    model.always(|request| match request.tool_results().len() {
        called if called + 1 < CALLS => {
            asks_for("calculate", json!({ "expression": format!("{called} * 7") }))
        }
        _ => says("done"),
    });
    let mut told = tempfile::NamedTempFile::new().unwrap();
    told.write_all("Be kind. ".repeat(instructions / 9).as_bytes()).unwrap();
    let mut builder = Service::variant_b().model(&model).tools(TOOLS.map(Component::shipped));
    if instructions > 0 {
        builder = builder.env("AGENT_INSTRUCTIONS", told.path());
    }
    let service = builder.start().await;
    for name in ["ada", "bob"] {
        let user = service.user(Token::of(name).premium());
        let answer = user.agent(&format!("{name} asks: what do {} owe?", "a customer and ".repeat(40))).await;
        assert_eq!(answer.status, 200, "{answer}");
    }
    let bills = reckon(&model.calls());
    assert_eq!(bills.len(), 2 * CALLS);
    for (run, bills) in ["first", "second"].into_iter().zip(bills.chunks(CALLS)) {
        let bill = bills.iter().fold(Bill::default(), |sum, bill| sum.plus(bill));
        println!(
            "| {protocol} | {} KiB | {run} | {CALLS} | {:.0} | {:.0} | {:.0} | 1: {:.2} |",
            instructions >> 10,
            bill.input,
            bill.read,
            bill.written,
            bill.paid / bill.input
        );
    }
    service.stop().await;
}
