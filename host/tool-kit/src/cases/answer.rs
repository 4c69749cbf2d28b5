//! One `[[case.answer]]`: what a question of the tool is answered with.

use super::node::{Kind, Node, Problems};
use super::read::Table;
use crate::people::{AnswerLine, Reply};

/// Reads a line; what is wrong is reported.
pub(super) fn read(node: &Node, problems: &mut Problems) -> Option<AnswerLine> {
    let mut table = Table::open(node, "a [[case.answer]]", problems)?;
    let question = table.text("question", problems);
    let value = table.take("value").map(Node::to_json);
    let rejected = table.take("rejected");
    table.refuse_others(problems);
    let reply = match (value, rejected) {
        (Some(value), None) => Reply::Value(value),
        (None, Some(Node { kind: Kind::Scalar(serde_json::Value::Bool(true)), .. })) => Reply::Rejected,
        _ => {
            let text = "a [[case.answer]] has either a value, as value = \"blue\", or rejected = true";
            problems.report(node.line, text);
            return None;
        }
    };
    Some(AnswerLine { line: Some(node.line), question, reply })
}
