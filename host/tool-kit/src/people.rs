//! What the questions of a tool under test are answered with (`agent:tool/ask`), in their order.

use std::collections::VecDeque;
use std::time::Instant;

use json_schema::{Fuel, Misfit, Schema, SchemaBudget};
use serde_json::Value;

/// The answer to one question of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct AnswerLine {
    /// Where it stands in the case file; absent when the command line has it.
    pub line: Option<usize>,
    /// A part of the question that it is the answer to; any question without it.
    pub question: Option<String>,
    pub reply: Reply,
}

/// What somebody who is asked says.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    Value(Value),
    /// Somebody does not want to answer.
    Rejected,
}

/// Somebody who answers the questions of one call.
#[derive(Debug, Default)]
pub struct People {
    left: VecDeque<AnswerLine>,
    problems: Vec<String>,
}

impl People {
    pub fn new(lines: &[AnswerLine]) -> Self {
        Self { left: lines.iter().cloned().collect(), problems: Vec::new() }
    }

    /// The answer to a question as JSON text; nothing where it is rejected. A question without an answer is
    /// rejected, and noted among the problems. The schema of the answer is read until `deadline`.
    pub fn answer(&mut self, question: &str, schema: Option<&str>, deadline: Instant) -> Option<String> {
        let is_meant =
            |line: &&AnswerLine| line.question.as_deref().is_none_or(|part| question.contains(part));
        let quoted = Value::from(question);
        let is_answered = self.left.front().filter(is_meant).is_some();
        let line = if is_answered { self.left.pop_front() } else { None };
        let Some(line) = line else {
            let next = self.left.front().and_then(|line| line.question.as_deref());
            let next = next.map(|next| format!(", and the next answer is to {}", Value::from(next)));
            self.problems.push(format!(
                "it asked {quoted}, which no answer is for{}: add [[case.answer]] with question = {quoted} and value = …, \
                 or rejected = true; or pass --answer with JSON",
                next.unwrap_or_default()
            ));
            return None;
        };
        let Reply::Value(value) = line.reply else { return None };
        if let Some(why) = schema.and_then(|schema| misfit(schema, &value, deadline)) {
            self.problems.push(format!("it asked {quoted}, and the answer {value} {why}"));
            return None;
        }
        Some(value.to_string())
    }

    /// What went otherwise than the lines of the case say.
    pub fn problems(&self) -> Vec<String> {
        let unused = self.left.iter().filter_map(|line| line.line);
        let unused =
            unused.map(|line| format!("the [[case.answer]] of line {line} is to no question that it asked"));
        self.problems.iter().cloned().chain(unused).collect()
    }
}

/// Why an answer is none that the schema allows.
fn misfit(schema: &str, value: &Value, deadline: Instant) -> Option<String> {
    let schema = match Schema::read(schema, &mut SchemaBudget::until(deadline)) {
        Ok(schema) => schema,
        Err(why) => return Some(format!("cannot be checked: the schema of the question {why}")),
    };
    match schema.check(value, "it", &mut Fuel::inline()) {
        Ok(()) => None,
        Err(Misfit::Wrong(why)) => Some(format!("is none that the question allows: {why}")),
        Err(Misfit::TooCostly) => Some("costs too much to check".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn line(question: Option<&str>, reply: Reply) -> AnswerLine {
        AnswerLine { line: Some(7), question: question.map(str::to_owned), reply }
    }

    #[test]
    fn questions_are_answered_in_order_and_what_is_not_says_what_to_add() {
        let deadline = Instant::now() + std::time::Duration::from_secs(9);
        let mut people = People::new(&[
            line(Some("colour"), Reply::Value(json!("blue"))),
            line(None, Reply::Rejected),
            line(None, Reply::Value(json!("three"))),
            line(Some("When"), Reply::Value(json!(1))),
            line(None, Reply::Value(json!(2))),
        ]);
        assert_eq!(
            people.answer("Which colour?", Some(r#"{"type":"string"}"#), deadline),
            Some("\"blue\"".to_owned())
        );
        assert_eq!(people.answer("Really?", None, deadline), None);
        assert!(
            people.problems().iter().all(|problem| problem.contains("line 7")),
            "{:?}",
            people.problems()
        );
        assert_eq!(people.answer("How many?", Some(r#"{"type":"integer"}"#), deadline), None);
        assert_eq!(people.answer("Where?", None, deadline), None);
        let problems = people.problems();
        assert!(
            problems[0].contains(r#"the answer "three" is none that the question allows"#),
            "{problems:?}"
        );
        assert!(problems[1].contains(r#"the next answer is to "When""#), "{problems:?}");
        assert!(problems[1].contains(r#"add [[case.answer]] with question = "Where?""#), "{problems:?}");
        assert_eq!(problems.len(), 4, "two are left: {problems:?}");
    }
}
