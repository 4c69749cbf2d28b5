//! A component that keeps values and is told the user: what its tests need of both, and tools that fail now
//! and then, which only a value that outlives the call can make them do.

use agent_tool_sdk::{Failure, NoArguments, context, key_value};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What to keep.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
struct Kept {
    /// Under which key.
    key: String,
    /// What; absent to read it.
    value: Option<String>,
}

fn keep(Kept { key, value }: Kept) -> Result<Kept, Failure> {
    if let Some(value) = &value {
        key_value::set(&key, value.as_bytes(), None)?;
    }
    let kept = key_value::get(&key)?;
    Ok(Kept { key, value: kept.map(|value| String::from_utf8_lossy(&value).into_owned()) })
}

/// The user as the host names one.
#[derive(Debug, Serialize, JsonSchema)]
struct User {
    user: Option<String>,
}

fn who(_: NoArguments) -> Result<User, Failure> {
    Ok(User { user: context::user() })
}

/// How often to fail.
#[derive(Debug, Deserialize, JsonSchema)]
struct Failures {
    /// Counted under this key.
    key: String,
    /// The first calls that fail.
    first: i64,
    /// Whether they crash instead of saying that they cannot.
    #[serde(default)]
    crash: bool,
}

/// Which call it was, from 1.
#[derive(Debug, Serialize, JsonSchema)]
struct Made {
    call: i64,
}

fn fail_first(Failures { key, first, crash }: Failures) -> Result<Made, Failure> {
    let call = key_value::add(&key, 1)?;
    if call > first {
        return Ok(Made { call });
    }
    assert!(!crash, "this is call {call} of {first} that crash");
    Err(Failure::unavailable("not now").with_meta("retry-after-ms", "1"))
}

fn fail_first_read_only(failures: Failures) -> Result<Made, Failure> {
    fail_first(failures)
}

fn fail_first_idempotent(failures: Failures) -> Result<Made, Failure> {
    fail_first(failures)
}

fn fail_first_destructive(failures: Failures) -> Result<Made, Failure> {
    fail_first(failures)
}

agent_tool_sdk::export! {
    /// Keeps a value.
    keep(Kept) -> Kept;

    /// Says who the user is.
    who(NoArguments) -> User, hints: [read_only];

    /// Fails at first.
    fail_first(Failures) -> Made;

    /// Fails at first, and says that it changes nothing.
    fail_first_read_only(Failures) -> Made, hints: [read_only];

    /// Fails at first, and says that it may be called again.
    fail_first_idempotent(Failures) -> Made, hints: [idempotent];

    /// Fails at first, and destroys something.
    fail_first_destructive(Failures) -> Made, hints: [idempotent, destructive];
}
