//! JSON of strangers, schemas, events and journals.

use std::sync::Arc;
use std::time::{Duration, Instant};

use agent_core::agent_loop::Run;
use agent_core::event_stream::EventStreamParser;
use agent_core::journal_format;
use agent_core::ports::Question;
use agent_core::words::{Catalog, Event, ToolCall, ToolOutcome};
use json_schema::{Fuel, MemoryBudget, PRIVATE_NAMES, ReadError, Schema, SchemaBudget};
use run_service::testing::read_nested;
use serde_json::Value;
use tool_versions::verdicts::answer::{ComparedAnswer, agree};

use super::parts;

/// What values of a case may take, so that cases reach the bound.
const ROOM: usize = 256 << 10;

/// What is read is what serde_json reads, is read back as it was, and takes no more than it may.
pub(crate) fn text(input: &[u8]) {
    let read = MemoryBudget::new(ROOM).read(input);
    let plain = serde_json::from_slice::<Value>(input);
    match read {
        Ok(value) => {
            let memory = size(&value);
            assert!(memory <= ROOM + input.len(), "its values take {memory} bytes beside their texts");
            let written = value.to_string();
            let again = MemoryBudget::default().read(written.as_bytes());
            assert_eq!(again.ok().as_ref(), Some(&value), "it is read back as it was");
            assert_eq!(plain.ok(), Some(value), "serde_json reads the same");
        }
        Err(ReadError::Json(error)) => {
            let (ours, theirs) = (error.to_string(), plain.err().map(|error| error.to_string()));
            // serde_json reads what stands below names of its own in another way.
            if !ours.contains(PRIVATE_NAMES) {
                assert_eq!(theirs, Some(ours), "serde_json refuses it as well");
            }
        }
        Err(ReadError::TooLarge { most }) => assert_eq!(most, ROOM),
    }
}

/// Memory that elements and members take at least, the texts apart.
fn size(value: &Value) -> usize {
    match value {
        Value::Array(parts) => parts.iter().map(|part| size_of::<Value>() + size(part)).sum(),
        Value::Object(members) => {
            members.values().map(|part| size_of::<(String, Value)>() + size(part)).sum()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// A schema and a value: both are read and checked on their meters, and twice the same comes of it.
pub(crate) fn schema(input: &[u8]) {
    let [schema, value] = parts(input).map(String::from_utf8_lossy);
    let mut recursive = SchemaBudget::until(deadline()).recursive();
    let read = Schema::read(&schema, &mut recursive);
    if Schema::read(&schema, &mut SchemaBudget::until(deadline())).is_ok() {
        assert!(read.is_ok(), "a schema that may be read otherwise may be when it may recur");
    }
    let (Ok(schema), Ok(value)) = (read, MemoryBudget::default().read(value.as_bytes())) else { return };
    let check = || schema.check(&value, "it", &mut Fuel::inline());
    let misfit = check();
    assert_eq!(misfit, check(), "the same comes of it twice");
    let text = schema.text.to_string();
    let again = Schema::read(&text, &mut SchemaBudget::until(deadline()).recursive());
    assert!(again.is_ok_and(|again| again.text == schema.text), "its own text is the same schema");
}

/// Arguments of a nested call, a question, and the schema of its answer.
pub(crate) fn nested_calls(input: &[u8]) {
    let [arguments, text, schema] = parts(input).map(String::from_utf8_lossy);
    let schema = (!schema.is_empty()).then_some(&*schema);
    read_nested(&arguments, Question { component: "ask@sha256:1", text: &text, schema });
}

/// Longer than any work of a case may take: its steps are its bound.
fn deadline() -> Instant {
    Instant::now() + Duration::from_mins(10)
}

/// Events are the same in pieces of any size, and an event holds no more bytes than it may.
pub(crate) fn events(input: &[u8]) {
    const MOST: usize = 1 << 10;
    let read = |size: usize| {
        let mut parser = EventStreamParser::new(MOST);
        let mut events = vec![];
        for piece in input.chunks(size.max(1)) {
            events.extend(parser.push(piece)?);
        }
        events.extend(parser.end()?);
        Ok::<_, agent_core::event_stream::TooMuch>(events)
    };
    let whole = read(input.len());
    for size in [1, 7] {
        assert_eq!(whole, read(size), "in pieces of {size} it is the same");
    }
    for event in whole.into_iter().flatten() {
        assert!(event.data.len() <= MOST + 1, "an event of {} bytes", event.data.len());
    }
}

/// A line is an event. What is read is written and read back, and a journal of any events is folded or
/// refused.
pub(crate) fn journal(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let mut events: Vec<Event> = vec![];
    for (number, line) in (0_u64..).zip(text.lines().take(100)) {
        let Ok(event) = journal_format::decode("run_1", number, line) else { continue };
        let Ok(written) = journal_format::encode(&event) else { continue };
        let again = journal_format::decode("run_1", number, &written);
        assert_eq!(again.as_ref(), Ok(&event), "it is read back as it was: {written}");
        events.push(event);
    }
    for from in [0, 1] {
        let events = || events.iter().skip(from).cloned();
        if let Ok((run, _step)) = Run::resume(events(), Arc::new(Catalog::default())) {
            drop(run.so_far());
        }
        if let Ok(run) = Run::waiting(events()) {
            let _ = (run.waits().count(), run.usage(), run.iterations());
        }
    }
}

/// Arguments are an object that is written and read back, or the text as it came.
pub(crate) fn arguments(input: &[u8]) {
    let text = String::from_utf8_lossy(input).into_owned();
    let read = |text: &str| {
        let memory = &mut MemoryBudget::new(ROOM);
        ToolCall::from_text("1".into(), "add".into(), text.to_owned(), memory)
    };
    let call = read(&text);
    match &call.arguments {
        Value::Object(_) => {
            let again = read(&call.arguments.to_string());
            assert_eq!(again, call, "it is read back as it was");
            assert_eq!(again.arguments_digest(), call.arguments_digest());
        }
        Value::String(kept) => assert_eq!(*kept, text),
        other => panic_with(&format!("arguments are an object or a text: {other}")),
    }
}

#[expect(clippy::panic, reason = "a promise is broken")]
fn panic_with(problem: &str) -> ! {
    panic!("{problem}")
}

/// Two answers: each is the same as itself, and either way around they agree or do not.
pub(crate) fn compared(input: &[u8]) {
    let [old, new] = parts(input).map(String::from_utf8_lossy);
    let of = |content| ComparedAnswer { outcome: ToolOutcome::Ok, content };
    assert_eq!(agree(of(&old), of(&old)), Some(true));
    assert_eq!(agree(of(&old), of(&new)), agree(of(&new), of(&old)));
}
