//! A person's answer in the middle of a call, for components that the operator's policy grants it (`ask =
//! true`).
//!
//! Nobody holds a call that waits: it ends at [`ask`], and when somebody has answered it is made again from
//! its beginning, where [`ask`] returns the answer at once. So what stands before it is done again: act
//! behind the last question, or under [`crate::context::call_id`], which stays the same. What the call did by
//! [`crate::toolbox`] is not done again, and it sees the same clock and the same random numbers.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::Failure;
use crate::describe::schema_of_answer;

#[cfg(target_arch = "wasm32")]
use crate::bindings::since_0_1_2::agent::tool::ask as host;
#[cfg(not(target_arch = "wasm32"))]
use double as host;

/// The codes of failures that the contract names for this interface, beside `invalid-arguments` and `denied`.
pub mod code {
    /// Somebody does not want to answer, or nobody did in time.
    pub const REJECTED: &str = "rejected";
}

/// Asks the user and reads the answer as a `T`, whose JSON Schema the answer is held against.
///
/// # Errors
/// What [`code`] lists, and `denied` where nobody can be asked.
pub fn ask<T: DeserializeOwned + JsonSchema>(question: &str) -> Result<T, Failure> {
    let answer = ask_json(question, Some(&schema_of_answer::<T>()))?;
    serde_json::from_str(&answer).map_err(|problem| {
        Failure::new("failed", format!("the answer is another one than was asked for: {problem}"))
    })
}

/// Asks the user and returns the JSON text of the answer, which the JSON Schema allows if there is one.
///
/// # Errors
/// As [`ask`].
pub fn ask_json(question: &str, answer_schema: Option<&str>) -> Result<String, Failure> {
    host::ask(question, answer_schema).map_err(|fault| Failure::new(fault.code, fault.message))
}

/// A native test's people: what they answer, on its own thread.
#[cfg(not(target_arch = "wasm32"))]
pub mod double {
    use std::cell::RefCell;
    use std::collections::VecDeque;

    use serde_json::Value;

    use crate::bindings::since_0_1_2::agent::tool::ask::Fault;

    thread_local! {
        static ANSWERS: RefCell<VecDeque<Value>> = const { RefCell::new(VecDeque::new()) };
        static ASKED: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    }

    /// Answers the next question that has no answer yet. A question beyond those is rejected.
    pub fn answer(value: Value) {
        ANSWERS.with_borrow_mut(|answers| answers.push_back(value));
    }

    /// The questions that were asked so far.
    #[must_use]
    pub fn asked() -> Vec<String> {
        ASKED.with_borrow(Clone::clone)
    }

    pub(super) fn ask(question: &str, _answer_schema: Option<&str>) -> Result<String, Fault> {
        ASKED.with_borrow_mut(|asked| asked.push(question.to_owned()));
        let answer = ANSWERS.with_borrow_mut(VecDeque::pop_front);
        answer.map(|answer| answer.to_string()).ok_or_else(|| Fault {
            code: super::code::REJECTED.to_owned(),
            message: "nobody answered".to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{ask, ask_json, double};

    #[test]
    fn questions_are_answered_in_order_and_read_as_what_was_asked_for() {
        double::answer(json!("blue"));
        double::answer(json!(3));
        double::answer(json!("three"));
        assert_eq!(ask::<String>("Which colour?"), Ok("blue".to_owned()));
        assert_eq!(ask_json("How many?", None), Ok("3".to_owned()));
        assert_eq!(ask::<u32>("How many?").unwrap_err().code, "failed");
        assert_eq!(ask::<bool>("Really?").unwrap_err().code, "rejected");
        assert_eq!(double::asked().len(), 4);
    }
}
