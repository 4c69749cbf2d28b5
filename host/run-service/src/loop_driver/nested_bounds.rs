//! What bounds the calls that a tool makes of other tools and the questions that it asks, in a run and
//! outside of runs, and the answers to those that are refused.

use agent_core::agent_loop::refusal;
use std::time::{Duration, Instant};

use agent_core::ports::{DENIED, LIMIT_EXCEEDED, Question, WaitTerms};
use agent_core::words::{
    Deciders, OnExpiry, ShownCall, ToolCall, ToolHints, ToolOutcome, ToolReceipt, ToolReturn, WaitKind, cut,
    may_be_journaled,
};
use json_schema::{MemoryBudget, Schema, SchemaBudget};
use serde_json::{Map, Value};

/// Most calls that one call may make of other tools: several times what a task in one script takes, and few
/// enough that the whole journal of a call can be read by a person.
pub(crate) const MOST_OF_A_CALL: u32 = 64;

/// Most bytes of arguments as a tool wrote them. They are read and hashed on the service's own threads.
const ARGUMENTS_BYTES: usize = 256 << 10;

/// Most bytes of a name as a tool wrote it. Those of tools are shorter.
const NAME_BYTES: usize = 100;

/// Most bytes of a question: a person reads it.
const QUESTION_BYTES: usize = 4 << 10;

/// How long somebody has to answer one, and how long reading the schema of the answer may take: that is done
/// on the thread that serves.
const ANSWER_WITHIN: Duration = Duration::from_secs(24 * 60 * 60);
const SCHEMA_TIME: Duration = Duration::from_millis(20);

/// A name as a tool wrote it, not longer than names are.
pub(crate) fn shortened(name: &str) -> String {
    let mut name = name.to_owned();
    cut(&mut name, NAME_BYTES);
    name
}

/// The call that a tool wants to be made, or the answer to one that is not read.
pub(crate) fn read(id: String, name: String, arguments: &str) -> Result<ToolCall, ToolReturn> {
    if arguments.len() > ARGUMENTS_BYTES {
        let content = format!("Error: the arguments are too long: at most {ARGUMENTS_BYTES} bytes are read.");
        return Err(ToolReturn { content, receipt: ToolReceipt::new(&name, ToolOutcome::InvalidArguments) });
    }
    Ok(ToolCall::from_text(id, name, arguments.to_owned(), &mut MemoryBudget::default()))
}

/// The question of a tool of that name, numbered and shown like a call.
pub(crate) fn question(name: String, question: Question<'_>) -> ToolCall {
    let mut arguments = Map::new();
    arguments.insert("question".to_owned(), question.text.into());
    if let Some(schema) = question.schema {
        let text = || Value::String(schema.to_owned());
        let read = MemoryBudget::default().read(schema.as_bytes());
        arguments.insert("schema".to_owned(), read.unwrap_or_else(|_not_json| text()));
    }
    ToolCall { id: String::new(), name, arguments: Value::Object(arguments) }
}

/// The schema of the answer to a question, read, or what is wrong with either: whoever decides is to be able
/// to read the one and to meet the other.
pub(crate) fn read_question(text: &str, schema: Option<&str>) -> Result<Option<Value>, String> {
    if text.trim().is_empty() || text.len() > QUESTION_BYTES {
        return Err(format!("a question has 1 to {QUESTION_BYTES} bytes: this one has {}", text.len()));
    }
    let read = |text: &str| Schema::read(text, &mut SchemaBudget::until(Instant::now() + SCHEMA_TIME));
    let answer = schema.map(read).transpose();
    let answer = answer.map_err(|problem| format!("the schema of the answer {problem}"))?;
    let schema = answer.map(|schema| schema.text);
    if schema.as_ref().is_some_and(|schema| !may_be_journaled(schema)) {
        return Err("the schema of the answer is nested too deeply".to_owned());
    }
    Ok(schema)
}

/// On which terms a question is answered, or the answer to one that nobody is asked. `call` is the question
/// as it is shown.
pub(crate) fn terms(
    call: &ToolCall,
    question: Question<'_>,
    hints: ToolHints,
) -> Result<WaitTerms, ToolReturn> {
    let wrong = |content: String| {
        let receipt = ToolReceipt::new(&call.name, ToolOutcome::InvalidArguments);
        ToolReturn { content, receipt }
    };
    let answer = read_question(question.text, question.schema);
    let answer = answer.map_err(|problem| wrong(format!("Error: {problem}.")))?;
    Ok(WaitTerms {
        kind: WaitKind::Question,
        shown: ShownCall {
            tool: call.name.clone(),
            arguments: call.arguments.clone(),
            component: question.component.to_owned(),
            policy: String::new(),
            hints,
        },
        answer,
        deciders: Deciders::default(),
        within: ANSWER_WITHIN,
        on_expiry: OnExpiry::Reject,
    })
}

/// The answer to a question where nobody can be asked.
pub(crate) fn nobody_to_ask(call: &ToolCall) -> ToolReturn {
    let why = "this tool asks somebody in the middle of its call, and nobody could be asked here: have a run of \
               a user's job or request call it";
    refused(call, DENIED, why)
}

/// The answer to a call of a tool that calls tools itself.
pub(crate) fn calls_tools_itself(call: &ToolCall) -> ToolReturn {
    refused(call, DENIED, "a tool that calls tools is not called by another one")
}

/// The answer to one call too many. `bounds` says what there may be.
pub(crate) fn one_too_many(name: String, bounds: &str) -> ToolReturn {
    let call = ToolCall { id: String::new(), name, arguments: Value::Object(Map::new()) };
    refused(&call, LIMIT_EXCEEDED, &format!("there are too many calls of tools by tools: {bounds}"))
}

fn refused(call: &ToolCall, code: &str, why: &str) -> ToolReturn {
    let mut refusal = refusal::not_run(call, why);
    refusal.receipt.detail_mut().code = Some(code.to_owned());
    refusal
}
