//! A component that asks in the middle of its calls: twice, and something else each time.

use agent_tool_sdk::{Failure, ask, clock, log};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is to be bought.
#[derive(Debug, Deserialize, JsonSchema)]
struct Thing {
    thing: String,
}

/// What somebody wants to have ordered.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
struct Order {
    /// The colour that somebody wants.
    colour: String,
    /// How many of these somebody wants.
    count: u32,
    /// When the order was begun, in milliseconds since 1970.
    #[serde(default)]
    begun_ms: u64,
}

fn order(Thing { thing }: Thing) -> Result<Order, Failure> {
    let begun_ms = clock::now_ms();
    log::info(&format!("orders {thing}"));
    let colour = ask::ask::<String>(&format!("Which colour of {thing}?"))?;
    let count = ask::ask::<u32>(&format!("How many of the {colour} ones?"))?;
    Ok(Order { colour, count, begun_ms })
}

/// The attempt is not recorded, so the question is another one when the call is made again.
fn order_something_else(Thing { thing }: Thing) -> Result<Order, Failure> {
    let attempt = agent_tool_sdk::context::attempt();
    let colour = ask::ask::<String>(&format!("Attempt {attempt}: which colour of {thing}?"))?;
    Ok(Order { colour, count: 1, begun_ms: 0 })
}

agent_tool_sdk::export! {
    /// Orders a thing, and asks the user which one.
    order(Thing) -> Order;

    /// Orders a thing, and asks another question each time.
    order_something_else(Thing) -> Order;
}
