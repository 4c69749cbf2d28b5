//! The `code-eval` component: the tool `run_code`, which runs a script that may call the run's other tools as
//! functions. One model call does what took ten.
//!
//! The language is JavaScript as boa runs it. `script` reads the code and finds what its answer is; `engine`
//! runs it; `tools` is the object of that name in the script, in front of the host's `toolbox`; `console` is
//! the other one; `json` brings values in and out, and `show` puts them as somebody reads them; `realm` sets
//! what scripts see of the world; `report` says why there is no answer, with the words that `syntax` and
//! `errors` have for what is wrong.
//!
//! What the description leaves out, because each word of it is paid for in every model call:
//!
//! * The code is the body of an async function: `return` and `await` work at its top level. Without a
//!   `return`, the answer is the value of the last expression, in the branches of a last `if` or `try` too. A
//!   promise is awaited, and a function is called.
//! * Calls of tools return at once, so `Promise.all` over them works and is sequential. A failed call throws
//!   a `ToolError` with `tool`, `code` and `message`.
//! * Values leave as `JSON.stringify` has it: what is undefined, a function or a symbol is left out, NaN and
//!   infinities are null. But a `Map` becomes an object, a `Set` an array, a `BigInt` its decimal digits as a
//!   string, an `Error` its text, and a settled promise its value. What contains itself is refused.
//! * `Math.random` is seeded with the call's id: a call that is made again draws the same numbers. `Date` is
//!   the host's clock, in UTC. There are no timers, modules, `Intl`, `Temporal`, `Atomics`,
//!   `SharedArrayBuffer`.

mod console;
mod engine;
mod errors;
mod globals;
mod json;
mod limits;
mod realm;
mod rejections;
mod report;
mod script;
mod show;
mod syntax;
#[cfg(test)]
mod tests;
mod text;
mod toolbox;
mod tools;

use std::rc::Rc;

use agent_tool_sdk::Failure;
use schemars::JsonSchema;
use serde::Deserialize;

use engine::Answer;

/// What to run.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Question {
    /// For example: const all = tools.list_items({}).items; all.filter(i => tools.get_stock({id: i.id}).count
    /// < 5)
    code: String,
}

fn run_code(Question { code }: Question) -> Result<Answer, Failure> {
    engine::run(&code, Rc::new(toolbox::RunTools))
}

agent_tool_sdk::export! {
    /// Runs JavaScript that can call your other tools: `tools.NAME({…})` returns that tool's answer or
    /// throws. Use it to do in one step what would take several calls: to loop, filter and combine answers,
    /// and return only what is needed. The value of the last expression, or of `return`, is the result. No
    /// network, files, timers or imports.
    run_code(Question) -> Answer;
}
