//! The well-behaved tools, which a test compares the others with, and the one that fails as a tool should.

use std::sync::atomic::{AtomicU32, Ordering};

use agent_tool_sdk::{Failure, NoArguments, clock, context, log, progress};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::exhaustion::Never;

/// What `echo` gets and returns.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Echoed {
    /// Any JSON value.
    value: Value,
}

pub(crate) fn echo(echoed: Echoed) -> Result<Echoed, Failure> {
    Ok(echoed)
}

/// The failure to fail with.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Report {
    /// The failure's code.
    #[serde(default = "say_unavailable")]
    code: String,
    /// The failure's message.
    message: String,
}

fn say_unavailable() -> String {
    agent_tool_sdk::code::UNAVAILABLE.to_owned()
}

pub(crate) fn fail(report: Report) -> Result<Never, Failure> {
    Err(Failure::new(report.code, report.message))
}

/// What the host tells a tool about its call.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Surroundings {
    request_id: String,
    remaining_ms: u64,
    cancelled: bool,
    now_ms: u64,
    run_id: String,
    call_id: String,
    attempt: u32,
    traceparent: Option<String>,
    somebody_waits: bool,
}

pub(crate) fn look_around(_: NoArguments) -> Result<Surroundings, Failure> {
    let request_id = context::request_id();
    log::write("info", "looked around", &[("request_id", &request_id)]);
    Ok(Surroundings {
        request_id,
        remaining_ms: context::remaining_ms(),
        cancelled: context::cancelled(),
        now_ms: clock::now_ms(),
        run_id: context::run_id(),
        call_id: context::call_id(),
        attempt: context::attempt(),
        traceparent: context::traceparent(),
        somebody_waits: progress::report("looked around", Some(1.0)),
    })
}

/// How many calls an instance has had.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Counted {
    calls: u32,
}

pub(crate) fn count_calls(_: NoArguments) -> Result<Counted, Failure> {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    Ok(Counted { calls: CALLS.fetch_add(1, Ordering::Relaxed) + 1 })
}

/// What is to be done, and what was.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Work {
    /// How many steps there are.
    #[schemars(range(min = 1, max = 4))]
    steps: u32,
    /// How long each takes.
    #[schemars(range(min = 1, max = 200))]
    step_ms: u64,
}

pub(crate) fn work_in_steps(work: Work) -> Result<Work, Failure> {
    for step in 1..=work.steps {
        let end = clock::now_ms().saturating_add(work.step_ms);
        while clock::now_ms() < end {}
        let message = format!("step {step} of {}\u{1b}[31m", work.steps);
        progress::report(&message, Some(f64::from(step) / f64::from(work.steps)));
    }
    Ok(work)
}

pub(crate) fn loop_until_cancelled(_: NoArguments) -> Result<Never, Failure> {
    while !context::cancelled() {}
    Err(Failure::new("cancelled", "the caller has gone"))
}

#[cfg(test)]
mod tests {
    use agent_tool_sdk::NoArguments;

    use super::{count_calls, echo, fail, work_in_steps};

    #[test]
    fn echo_returns_what_it_gets() {
        let echoed = serde_json::from_str(r#"{"value":[1,"two",null]}"#).unwrap();
        assert_eq!(serde_json::to_string(&echo(echoed).unwrap()).unwrap(), r#"{"value":[1,"two",null]}"#);
    }

    #[test]
    fn a_failure_is_unavailable_unless_it_says_otherwise() {
        let failure = fail(serde_json::from_str(r#"{"message":"no"}"#).unwrap()).unwrap_err();
        assert_eq!((failure.code.as_str(), failure.message.as_str()), ("unavailable", "no"));
    }

    #[test]
    fn work_is_reported_step_by_step() {
        work_in_steps(serde_json::from_str(r#"{"steps":2,"step_ms":1}"#).unwrap()).unwrap();
        let shares: Vec<_> =
            agent_tool_sdk::progress::double::take().into_iter().map(|(_, share)| share).collect();
        assert_eq!(shares, [Some(0.5), Some(1.0)]);
    }

    #[test]
    fn calls_are_counted_within_an_instance() {
        let first = count_calls(NoArguments {}).unwrap().calls;
        assert_eq!(count_calls(NoArguments {}).unwrap().calls, first + 1);
    }
}
