//! Scripts as models write them, over tools that are not real.

mod answers;
mod bounds;
mod failures;
mod round_trip;
mod tools;
mod world;

use std::cell::RefCell;
use std::rc::Rc;

use agent_tool_sdk::Failure;
use serde_json::Value;

use crate::engine;
use crate::toolbox::{ToolFailure, Tools};

type Respond = Box<dyn Fn(&Value) -> Result<Value, (&'static str, &'static str)>>;

/// Tools made of closures, which remember how they were called.
#[derive(Default)]
struct Fakes {
    tools: Vec<(&'static str, Respond)>,
    calls: RefCell<Vec<(String, Value)>>,
}

impl Fakes {
    fn with(
        mut self,
        name: &'static str,
        respond: impl Fn(&Value) -> Result<Value, (&'static str, &'static str)> + 'static,
    ) -> Self {
        self.tools.push((name, Box::new(respond)));
        self
    }
}

impl Tools for Fakes {
    fn call(&self, name: &str, arguments: &str) -> Result<String, ToolFailure> {
        let arguments: Value = serde_json::from_str(arguments).expect("arguments are JSON");
        assert!(arguments.is_object(), "arguments are an object");
        self.calls.borrow_mut().push((name.to_owned(), arguments.clone()));
        let (_, respond) =
            self.tools.iter().find(|(known, _)| *known == name).expect("only known tools are called");
        match respond(&arguments) {
            Ok(answer) => Ok(answer.to_string()),
            Err((code, message)) => Err(ToolFailure { code: code.to_owned(), message: message.to_owned() }),
        }
    }

    fn names(&self) -> Vec<String> {
        self.tools.iter().map(|(name, _)| (*name).to_owned()).collect()
    }
}

/// Runs a script over tools; what the host would see.
fn run_with(tools: &Rc<Fakes>, code: &str) -> Result<Value, Failure> {
    let answer = engine::run(code, Rc::clone(tools) as Rc<dyn Tools>)?;
    Ok(serde_json::to_value(answer).unwrap())
}

/// The result of a script without tools.
fn result_of(code: &str) -> Value {
    match run_with(&Rc::default(), code) {
        Ok(answer) => answer["result"].clone(),
        Err(failure) => panic!("{code}: {}: {}", failure.code, failure.message),
    }
}

/// The failure of a script without tools.
fn failure_of(code: &str) -> Failure {
    match run_with(&Rc::default(), code) {
        Ok(answer) => panic!("{code} has the answer {answer}"),
        Err(failure) => failure,
    }
}

/// What a script without tools writes to its console.
fn log_of(code: &str) -> Vec<String> {
    let answer = run_with(&Rc::default(), code).unwrap();
    serde_json::from_value(answer["log"].clone()).unwrap()
}
