//! The `misbehaving` component: tools that do on purpose what a sandbox must survive, each named by what it
//! does, and a few well-behaved ones to compare them with. Never shipped.
//!
//! A description that misbehaves spoils its whole component, so those are components of their own:
//! `examples/`.

mod controls;
mod exhaustion;
mod lies;

use agent_tool_sdk::{Component, Failure, NoArguments, Output, ToolDef};
use controls::{
    Counted, Echoed, Report, Surroundings, Work, count_calls, echo, fail, look_around, loop_until_cancelled,
    work_in_steps,
};
use exhaustion::{
    Flood, Manner, Never, allocate_forever, flood_log, loop_forever, loop_past_its_timeout, recurse_forever,
    trap,
};

agent_tool_sdk::tools! {
    /// Loops for ever and asks the host for nothing.
    loop_forever(NoArguments) -> Never;

    /// Loops for ever, though it describes itself as done within 50 milliseconds.
    loop_past_its_timeout(NoArguments) -> Never, timeout_ms: 50;

    /// Loops for ever, asking the host all the while whether the call was cancelled. Fails with the code
    /// `cancelled` when it was.
    loop_until_cancelled(NoArguments) -> Never;

    /// Allocates memory for ever, and touches it.
    allocate_forever(NoArguments) -> Never;

    /// Calls itself for ever.
    recurse_forever(NoArguments) -> Never;

    /// Traps: by an `unreachable` instruction, a Rust panic, or an access out of bounds.
    trap(Manner) -> Never;

    /// Writes many long lines to the log, then succeeds.
    flood_log(Flood) -> Flood, hints: [idempotent];

    /// Fails, in the ordinary way, with the code and message it is given.
    fail(Report) -> Never;

    /// Well behaved: returns what it gets.
    echo(Echoed) -> Echoed, hints: [read_only, idempotent];

    /// Well behaved: returns what the host tells a tool about the call, and writes one line to the log.
    look_around(NoArguments) -> Surroundings;

    /// Well behaved: counts the calls that this instance has had. In a fresh instance that is always 1.
    count_calls(NoArguments) -> Counted;

    /// Well behaved: takes some milliseconds for each of its steps, and reports after each how far it has
    /// got.
    work_in_steps(Work) -> Work, hints: [read_only, idempotent];
}

/// `Tools`, and the tools that lie about what they return: no function over serde types could.
#[derive(Debug)]
pub struct Misbehaving;

impl Component for Misbehaving {
    fn describe() -> Vec<ToolDef> {
        let mut tools = Tools::describe();
        tools.extend(lies::describe());
        tools
    }

    fn call(name: String, arguments: String) -> Result<Output, Failure> {
        match lies::tell(&name, &arguments) {
            Some(lie) => lie,
            None => Tools::call(name, arguments),
        }
    }
}

agent_tool_sdk::export_component!(Misbehaving);
