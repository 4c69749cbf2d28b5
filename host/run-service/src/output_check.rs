//! Outputs that a caller wants as JSON, held against the schema that the caller sends.
//!
//! Schema and output are programs and data of strangers. So both are read beside the threads that serve, two
//! of each at a time in the whole process, within steps, memory and a time of their own.

use std::time::{Duration, Instant};

use agent_core::words::OutputFormat;
use json_schema::{Fuel, MemoryBudget, Misfit, Schema, SchemaBudget};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// How long one check may compute: some thousand times what a check of usual size takes.
const CHECK_WITHIN: Duration = Duration::from_secs(1);

/// How many outputs are checked at once, each within a run's deadline.
static OUTPUTS: Semaphore = Semaphore::const_new(2);

/// How many schemas are read at once before their runs begin. That takes some milliseconds, and is not to
/// wait for outputs of others: no deadline has begun.
static SCHEMAS: Semaphore = Semaphore::const_new(2);

/// Says what is wrong with the schema of a format, as the end of a sentence about it.
pub async fn check_schema(format: &OutputFormat) -> Result<(), String> {
    let Some(schema) = &format.schema else { return Ok(()) };
    let text = schema.to_string();
    beside_the_serving(&SCHEMAS, move || read(&text).map(drop)).await
}

/// What is wrong with an output, as a sentence; nothing of one that has the format.
pub(crate) async fn fault(format: &OutputFormat, output: &str) -> Option<String> {
    let (schema, output) = (format.schema.as_ref().map(ToString::to_string), output.to_owned());
    beside_the_serving(&OUTPUTS, move || check(schema.as_deref(), &output)).await.err()
}

/// `work` where it keeps nobody waiting. It goes on when the caller leaves, and keeps its place until its
/// end.
async fn beside_the_serving<T: Send + 'static>(
    permits: &'static Semaphore,
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let permit = permits.acquire().await;
    let done = spawn_blocking(move || {
        let _permit = permit;
        work()
    });
    done.await.unwrap_or_else(|_stopped| Err("could not be checked: the service is stopping.".to_owned()))
}

fn read(schema: &str) -> Result<Schema, String> {
    Schema::read(schema, &mut SchemaBudget::until(Instant::now() + CHECK_WITHIN).recursive())
}

fn check(schema: Option<&str>, output: &str) -> Result<(), String> {
    let value = MemoryBudget::default().read(output.as_bytes());
    let value = value.map_err(|error| format!("The reply is not JSON: {error}."))?;
    let Some(schema) = schema else {
        return if value.is_object() { Ok(()) } else { Err("The reply is not a JSON object.".to_owned()) };
    };
    let schema = read(schema).map_err(|problem| format!("The schema of the output {problem}."))?;
    let mut fuel = Fuel::until(Instant::now() + CHECK_WITHIN);
    schema.check(&value, "the reply", &mut fuel).map_err(|misfit| match misfit {
        Misfit::Wrong(problems) => format!("The reply does not match the schema of the output: {problems}."),
        Misfit::TooCostly => "The reply is too large to be held against the schema of the output.".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn format(schema: Option<Value>) -> OutputFormat {
        OutputFormat { name: "sum".into(), schema }
    }

    #[tokio::test]
    async fn a_schema_is_read_while_as_many_outputs_are_checked_as_may_be() {
        let _checked = OUTPUTS.acquire_many(2).await.unwrap();
        assert_eq!(check_schema(&format(Some(json!({"type": "object"})))).await, Ok(()));
    }

    #[tokio::test]
    async fn an_output_is_json_of_its_schema() {
        let sum = json!({"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]});
        for (schema, output, expected) in [
            (Some(sum.clone()), r#"{"sum": 3}"#, None),
            (Some(sum.clone()), "{}", Some("The reply does not match the schema of the output: ")),
            (Some(sum), "It is 3.", Some("The reply is not JSON: ")),
            (None, r#"{"any": []}"#, None),
            (None, "[]", Some("The reply is not a JSON object.")),
        ] {
            let fault = fault(&format(schema), output).await;
            let is_expected = match (&fault, expected) {
                (Some(fault), Some(beginning)) => fault.starts_with(beginning) && fault.ends_with('.'),
                (fault, expected) => fault.is_none() && expected.is_none(),
            };
            assert!(is_expected, "{output}: {fault:?}");
        }
    }

    #[tokio::test]
    async fn a_schema_may_refer_to_itself_for_parts_of_the_output() {
        let node = json!({"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
            "required": ["next"], "additionalProperties": false});
        let list = json!({"type": "object", "properties": {"list": {"$ref": "#/$defs/node"}}, "$defs": {"node": node}});
        assert_eq!(check_schema(&format(Some(list.clone()))).await, Ok(()));
        let nested =
            |levels: usize| format!("{{\"list\":{}null{}}}", "{\"next\":".repeat(levels), "}".repeat(levels));
        assert_eq!(fault(&format(Some(list.clone())), &nested(40)).await, None);
        let wrong = fault(&format(Some(list.clone())), &nested(40).replace("null", "1")).await.unwrap();
        assert!(wrong.contains("does not match"), "{wrong}");
        let deep = fault(&format(Some(list)), &nested(110)).await.unwrap();
        assert!(deep.contains("too large"), "{deep}");
        // Two ways at each level: what is followed doubles until the budget is used up.
        let way = json!({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]});
        let costly = format(Some(json!({"anyOf": [way, way]})));
        assert_eq!(check_schema(&costly).await, Ok(()));
        let output = format!("{}{}{}", "{\"a\":".repeat(60), "1", "}".repeat(60));
        let fault = fault(&costly, &output).await.unwrap();
        assert!(fault.contains("too large"), "{fault}");
        for endless in [
            json!({"$ref": "#"}),
            json!({"allOf": [{"$ref": "#"}]}),
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/b"}]}, "b": {"not": {"$ref": "#/$defs/a"}}}}),
            json!({"properties": {"a": {"$ref": "#/properties/a"}}}),
        ] {
            let why = check_schema(&format(Some(endless.clone()))).await;
            assert!(why.is_err_and(|why| why.contains("without going on to a part")), "{endless}");
        }
    }

    #[tokio::test]
    async fn a_schema_that_is_none_or_that_computes_for_ever_is_refused() {
        assert_eq!(check_schema(&format(None)).await, Ok(()));
        assert_eq!(check_schema(&format(Some(json!({"type": "object"})))).await, Ok(()));
        for schema in [json!({"type": "nothing"}), json!({"pattern": "("}), json!([])] {
            assert!(check_schema(&format(Some(schema.clone()))).await.is_err(), "{schema}");
        }
        let forms: Vec<_> = (0..900).map(|n| json!({ "const": n })).collect();
        let costly = json!({"items": {"anyOf": forms}});
        let output = Value::from(vec![899; 60_000]).to_string();
        let fault = fault(&format(Some(costly)), &output).await.unwrap();
        assert!(fault.contains("too large"), "{fault}");
    }
}
