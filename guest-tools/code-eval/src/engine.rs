//! Running a script: from its code to its answer, or to a failure that says what to mend.
//!
//! Nothing here counts time or memory: the host does, and interrupts. What the host could only answer with a
//! trap is bounded here: how deep calls nest, and how long an answer is.

use std::path::Path;
use std::rc::Rc;

use agent_tool_sdk::Failure;
use boa_engine::builtins::promise::PromiseState;
use boa_engine::object::builtins::JsPromise;
use boa_engine::{Context, JsError, JsValue, Script, Source};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::console::Console;
use crate::json::{self, Refusal};
use crate::realm;
use crate::rejections::Rejections;
use crate::report::{self, Problem};
use crate::script::{self, SCRIPT};
use crate::syntax;
use crate::toolbox::Tools;
use crate::tools::Calls;

/// The longest answer, in bytes of JSON: it is a model that has to read it.
const MOST_RESULT_BYTES: usize = 128 << 10;

/// Says that the script answered nothing, for which a missing `return` is the usual reason.
const NOTHING: &str = "the script has no value: end it with an expression or `return`";

/// What came of it.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Answer {
    /// The script's value.
    #[schemars(with = "serde_json::Value")]
    result: Box<RawValue>,
    /// What it wrote to the console.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    log: Vec<String>,
    /// Present when there is neither a value nor a log.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'static str>,
}

/// Runs a script over these tools.
pub(crate) fn run(code: &str, tools: Rc<dyn Tools>) -> Result<Answer, Failure> {
    let mut context = realm::build(tools).map_err(|error| report::engine_fault(&error))?;
    let text = script::wrap(code, context.interner_mut())?;
    let source = Source::from_bytes(&text).with_path(Path::new(SCRIPT));
    let script =
        Script::parse(source, None, &mut context).map_err(|error| syntax::failure_of_wrapped(&error))?;
    let (result, is_nothing) =
        evaluate(&script, &mut context).map_err(|problem| report::failure(problem, &mut context))?;
    let log = Console::take(&mut context);
    let hint = (is_nothing && log.is_empty()).then_some(NOTHING);
    Ok(Answer { result, log, hint })
}

/// The script's value as JSON, and whether it is none.
fn evaluate(script: &Script, context: &mut Context) -> Result<(Box<RawValue>, bool), Problem> {
    let promise = script.evaluate(context)?;
    let mut value = settle(&promise, context)?;
    // `async () => {…}` is how some have learned to write scripts.
    if let Some(function) = value.as_callable() {
        let tools = Calls::object(context);
        let promise = function.call(&JsValue::undefined(), &[tools], context)?;
        value = settle(&promise, context)?;
    }
    let json = json::write(&value, MOST_RESULT_BYTES, context).map_err(Problem::Unanswerable)?;
    let json = RawValue::from_string(json).map_err(|problem| {
        Problem::Unanswerable(Refusal::Invalid(format!("it cannot be put as JSON: {problem}")))
    })?;
    Ok((json, value.is_undefined()))
}

/// Runs whatever waits until nothing does, then takes the value out of a promise.
fn settle(value: &JsValue, context: &mut Context) -> Result<JsValue, Problem> {
    let promise = JsPromise::resolve(value.clone(), context)?;
    context.run_jobs()?;
    match promise.state() {
        PromiseState::Fulfilled(value) => Ok(value),
        PromiseState::Rejected(reason) => {
            Rejections::remove(&promise.into(), context);
            Err(Problem::Thrown(JsError::from_opaque(reason)))
        }
        PromiseState::Pending => Err(Problem::NeverSettles),
    }
}
